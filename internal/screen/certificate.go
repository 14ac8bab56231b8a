package screen

import (
	"fmt"
	"io"

	"signalbox/internal/certification"
	"signalbox/internal/coord"
)

// maxKernel is what is shown of a kernel's name: its release, not its build.
const maxKernel = 30

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
		fmt.Fprintf(w, "  tier %s, Landlock %d, uid %d, kernel %s\n", cert.Facts.Tier, cert.Facts.LandlockABI, cert.Facts.UID, OneLine(cert.Facts.Kernel, maxKernel))
		for _, f := range cert.Facts.Files {
			sum := "  sha256 " + Short(f.SHA256)
			fmt.Fprintf(w, "  %s %s%s\n", f.Role, s.place(f.Path, len("   ")+len(f.Role)+len(sum)), sum)
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
		fmt.Fprintf(w, "  %d denied, %d private, %d work, %d permitted, %d broken, %d not proven\n", counts[coord.ProbeDenied], counts[coord.ProbePrivate],
			counts[coord.ProbeWorks], counts[coord.ProbePermitted], counts[coord.ProbeBroken], counts[coord.ProbeNotProven])
		if len(rows) > 0 {
			s.Rows(w, []string{"  probe", "verdict", "outside", "inside", "tries to"}, rows)
		}
	}
}

// place is a path; on a terminal the end of it, as far as there is room in the
// line after taken columns.
func (s *Screen) place(path string, taken int) string {
	r := []rune(OneLine(path, coord.MaxPath))
	if room := max(s.Width-taken, minLast); s.TTY && len(r) > room {
		return "…" + string(r[len(r)-room+1:])
	}
	return string(r)
}
