package screen

import (
	"fmt"
	"io"

	"signalbox/internal/coord"
	"signalbox/internal/synthesis"
)

// Tasks writes the states of a job and of its tasks.
func (s *Screen) Tasks(w io.Writer, j coord.Job, tasks []coord.Task) {
	st := s.Styles(s.TTY)
	fmt.Fprintf(w, "\n%s", st.Mark(string(j.State)))
	if j.Grant != nil {
		fmt.Fprintf(w, "  approved by %s (%s, %s) %s", j.Grant.By.Name, j.Grant.By.Door, j.Grant.By.Presence, Ago(j.Grant.At.Wall))
	}
	fmt.Fprintln(w)
	for _, t := range tasks {
		fmt.Fprintf(w, "  %s  %s  %s", st.Mark(string(t.State)), t.Key, t.Agent)
		if t.Reason != "" {
			fmt.Fprintf(w, "  (%s)", OneLine(t.Reason, coord.MaxReason))
		}
		fmt.Fprintln(w)
	}
}

// Explanation writes what is known of an attempt, what is not, and what can be
// done.
func (s *Screen) Explanation(w io.Writer, e synthesis.Explanation) {
	st := s.Styles(s.TTY)
	t := e.Attempt
	fmt.Fprintf(w, "%s  %s  task %s, attempt %d, agent %s\n", st.Bold.Render(string(t.ID)), st.Mark(string(t.State)), t.Key, t.Number, t.Agent)
	fmt.Fprint(w, Indent(Wrap(Clean(e.Why), s.Width-4), "  "))
	section := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s\n", st.Bold.Render(title))
		for _, l := range lines {
			fmt.Fprint(w, "  - "+Hanging(Clean(l), 4, s.Width-2))
		}
	}
	section("Known", e.Known)
	section("Not known", e.NotKnown)
	var evidence []string
	for _, v := range e.Evidence {
		evidence = append(evidence, fmt.Sprintf("%s  %s: %s", v.At.Wall.Local().Format("15:04:05"), v.Source, v.Fact))
	}
	section("Evidence", evidence)
	section("What you can do", e.NextSteps)
}
