package screen

import (
	"fmt"
	"io"
	"strings"

	"signalbox/internal/certification"
	"signalbox/internal/coord"
)

// maxKernel is what is shown of a kernel's name: its release, not its build.
const maxKernel = 30

// maxAgent leaves room in the line for until when its certificate holds.
const maxAgent = 40

// Certificates writes each certificate: whether it holds, of what, on what it
// stands, and which probes speak against it; all of them if the table is asked
// for, as whoever checks a machine wants it. A person wants the verdict, which a
// hundred lines push off the screen.
func (s *Screen) Certificates(w io.Writer, list []certification.Standing, table bool) {
	st := s.on(w)
	for i, one := range list {
		if i > 0 {
			fmt.Fprintln(w)
		}
		cert := one.Certificate
		mark := st.Good.Render("holds until " + cert.Issued.Wall.Add(coord.CertificateTTL).Local().Format("15:04"))
		if one.Void != "" {
			mark = st.Bad.Render("does not hold: " + OneLine(one.Void, coord.MaxReason))
		}
		of := "sandbox"
		if cert.Facts.Agent != "" {
			of = fmt.Sprintf("agent %s, revision %d", OneLine(string(cert.Facts.Agent), maxAgent), cert.Facts.Revision)
		}
		fmt.Fprintf(w, "%s: %s\n  %s  %s\n", st.Bold.Render(of), mark, cert.ID, Ago(cert.Issued.Wall))
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
		fmt.Fprintf(w, "  %s\n", tally(counts))
		if len(rows) > 0 {
			s.Rows(w, []string{"  probe", "verdict", "outside", "inside", "tries to"}, rows)
		}
	}
}

// tally counts the verdicts that there are, and says what the last one means:
// "not proven" alone sounds like a failure.
func tally(counts map[coord.ProbeVerdict]int) string {
	var out []string
	for _, v := range []struct {
		verdict coord.ProbeVerdict
		words   string
	}{
		{coord.ProbeDenied, "denied"},
		{coord.ProbePrivate, "private"},
		{coord.ProbeWorks, "work"},
		{coord.ProbePermitted, "permitted"},
		{coord.ProbeBroken, "broken"},
		{coord.ProbeNotProven, "not proven (outside they fail, too)"},
	} {
		if n := counts[v.verdict]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, v.words))
		}
	}
	return strings.Join(out, ", ")
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
