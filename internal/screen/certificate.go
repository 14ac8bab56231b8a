package screen

import (
	"fmt"
	"io"

	"signalbox/internal/certification"
	"signalbox/internal/coord"
)

// Certificates writes each certificate, with its whole table if that is asked
// for.
func (s *Screen) Certificates(w io.Writer, list []certification.Standing, table bool) {
	st := s.on(w)
	for i, one := range list {
		if i > 0 {
			fmt.Fprintln(w)
		}
		cert := one.Certificate
		mark := st.Good.Render("holds")
		if one.Void != "" {
			mark = st.Bad.Render("does not hold: " + OneLine(one.Void, coord.MaxReason))
		}
		fmt.Fprintf(w, "%s  %s, %s\n", st.Bold.Render(string(cert.ID)), Ago(cert.Issued.Wall), mark)
		fmt.Fprintf(w, "  tier %s, Landlock %d, uid %d, kernel %s\n", cert.Facts.Tier, cert.Facts.LandlockABI, cert.Facts.UID, OneLine(cert.Facts.Kernel, coord.MaxTitle))
		for _, f := range cert.Facts.Files {
			fmt.Fprintf(w, "  %s %s  sha256 %s\n", f.Role, OneLine(f.Path, coord.MaxPath), Short(f.SHA256))
		}
		counts := map[coord.ProbeVerdict]int{}
		var rows [][]string
		for _, p := range cert.Probes {
			counts[p.Verdict]++
			verdict := string(p.Verdict)
			if p.Accepted {
				verdict += " (documented)"
			}
			if table || !p.Holds() {
				rows = append(rows, []string{"  " + OneLine(p.Name, coord.MaxTitle), verdict, p.Outside, p.Inside, OneLine(p.Attempts, coord.MaxTitle)})
			}
		}
		fmt.Fprintf(w, "  %d denied, %d private, %d work as they must, %d permitted, %d broken, %d not proven\n", counts[coord.ProbeDenied], counts[coord.ProbePrivate],
			counts[coord.ProbeWorks], counts[coord.ProbePermitted], counts[coord.ProbeBroken], counts[coord.ProbeNotProven])
		if len(rows) > 0 {
			s.Rows(w, []string{"  probe", "verdict", "outside", "inside", "tries to"}, rows)
		}
	}
}
