package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"signalbox/internal/coord"
)

// mark is a state's sign: shape and word tell it, colour only helps.
func (st styles) mark(state string) string {
	sign, style := "·", st.dim
	switch state {
	case "completed", "approved", "delivered", "ready_auth":
		sign, style = "✔", st.good
	case "running", "working", "accepted", "sending", "preparing", "ready":
		sign, style = "▶", st.busy
	case "waiting", "open", "needs_attention", "draft":
		sign, style = "■", st.bad
	case "unknown":
		sign, style = "◆", st.odd
	case "failed", "rejected", "denied", "not_sent", "skipped", "expired":
		sign, style = "✖", st.bad
	case "cancelled", "withdrawn":
		sign, style = "○", st.dim
	}
	return style.Render(sign + " " + strings.ReplaceAll(state, "_", " "))
}

// ago is a span for people.
func ago(t time.Time) string {
	switch d := time.Since(t); {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	default:
		return t.Local().Format(time.DateOnly)
	}
}

func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
}

func short(digest string) string {
	if len(digest) > 12 {
		return digest[:12]
	}
	return digest
}

// steps groups a plan's tasks by how many tasks must come before: those of one
// step can run together.
func steps(p coord.Plan) [][]coord.PlanTask {
	depth := map[string]int{}
	var depthOf func(t coord.PlanTask) int
	depthOf = func(t coord.PlanTask) int {
		if d, ok := depth[t.Key]; ok {
			return d
		}
		d := 0
		for _, need := range t.Needs {
			if i := slices.IndexFunc(p.Tasks, func(o coord.PlanTask) bool { return o.Key == need }); i >= 0 {
				d = max(d, depthOf(p.Tasks[i])+1)
			}
		}
		depth[t.Key] = d
		return d
	}
	var out [][]coord.PlanTask
	for _, t := range p.Tasks {
		d := depthOf(t)
		for len(out) <= d {
			out = append(out, nil)
		}
		out[d] = append(out[d], t)
	}
	return out
}

// review writes a frozen plan as one screen: what will run, who runs it, with
// which program, and what it is not kept from.
func (s *screen) review(w io.Writer, j coord.Job) {
	st := s.styles(s.asks || s.tty)
	fmt.Fprintf(w, "%s  %s\n", st.bold.Render(fmt.Sprintf("Job %d", j.Number)), clean(j.Title))
	fmt.Fprintf(w, "%s\n\n", st.dim.Render("deadline "+j.Deadline.String()+limits(j.Limits)))
	for i, step := range steps(j.Plan) {
		for n, t := range step {
			label := "   "
			if n == 0 {
				label = fmt.Sprintf("%2d ", i+1)
			}
			fmt.Fprintf(w, "%s%s %s  %s  %s%s\n", label, track(n, len(step)), st.bold.Render(t.Key), t.Agent, operations(t.Operations), needs(t))
			if t.Workspace != "" {
				fmt.Fprintf(w, "      in %s\n", clean(t.Workspace))
			}
			for _, in := range t.Inputs {
				fmt.Fprintf(w, "      with the result of %s by %s (sha256 %s)\n", in.Key, in.Agent, short(in.SHA256))
			}
			fmt.Fprint(w, indent(wrap(clean(t.Instruction), s.width-8), "      "))
		}
	}
	if j.Frozen == nil {
		return
	}
	fmt.Fprintln(w)
	seen := map[coord.AgentID]bool{}
	for _, t := range j.Frozen.Tasks {
		if seen[t.Agent] {
			continue
		}
		seen[t.Agent] = true
		fmt.Fprintf(w, "%s  %s, revision %d, on %s\n", st.bold.Render(string(t.Agent)), t.Config.Route, t.Revision, t.Host)
		fmt.Fprint(w, st.dim.Render(indent(oneLine(t.Config.Executable+" "+strings.Join(t.Config.Args, " "), s.width-8), "      ")))
		for _, f := range t.Identity.Files {
			fmt.Fprintf(w, "      %s %s  sha256 %s\n", f.Role, filepath.Base(f.Path), short(f.SHA256))
		}
	}
	for _, warning := range j.Frozen.Warnings {
		fmt.Fprintf(w, "%s %s\n", st.busy.Render("!"), clean(warning))
	}
	fmt.Fprintf(w, "\n%s\n", st.dim.Render("digest "+j.Frozen.Digest))
}

// track draws the line beside the tasks of one step.
func track(n, of int) string {
	switch {
	case of == 1:
		return "●─"
	case n == 0:
		return "●┬"
	case n == of-1:
		return " └"
	default:
		return " ├"
	}
}

func operations(ops []coord.Operation) string {
	var out []string
	for _, o := range ops {
		out = append(out, string(o))
	}
	return strings.Join(out, "+")
}

func needs(t coord.PlanTask) string {
	if len(t.Needs) == 0 {
		return ""
	}
	return "  after " + strings.Join(t.Needs, ", ")
}

func limits(l coord.Limits) string {
	if l.Tokens == 0 {
		return ""
	}
	return fmt.Sprintf(", at most %d tokens", l.Tokens)
}

// wrap breaks lines at width characters between words.
func wrap(text string, width int) string {
	return lipgloss.Wrap(text, max(width, 20), " ")
}

// request writes a request whole: what is asked, by whom, the options, and the
// three facts.
func (s *screen) request(w io.Writer, r coord.Request) {
	st := s.styles(s.tty || s.asks)
	fmt.Fprintf(w, "%s  %s  %s asks: %s\n", st.bold.Render(fmt.Sprintf("r%d", r.Number)), st.mark(string(r.Decision)), r.Agent, clean(r.Content.Title))
	fmt.Fprintf(w, "     task %s, %s, %s\n", r.Key, r.Kind, ago(r.Opened.Wall))
	if r.Content.Tool != "" {
		fmt.Fprintf(w, "     tool %s\n", clean(r.Content.Tool))
	}
	if r.Content.Detail != "" {
		fmt.Fprint(w, indent(clean(r.Content.Detail), "     │ "))
	}
	if r.Content.Cut {
		fmt.Fprintln(w, "     the content is longer than can be shown, so it can only be denied")
	}
	for _, o := range r.Options {
		fmt.Fprintf(w, "     option %s: %s (%s)\n", clean(o.ID), clean(o.Name), strings.ReplaceAll(string(o.Kind), "_", " "))
	}
	if d := r.Decided; d != nil {
		fmt.Fprintf(w, "     %s %s", r.Decision, ago(d.At.Wall))
		if d.By.Name != "" {
			fmt.Fprintf(w, " by %s (%s, %s)", d.By.Name, d.By.Door, d.By.Presence)
		}
		if d.Reason != "" {
			fmt.Fprintf(w, ": %s", clean(d.Reason))
		}
		fmt.Fprintln(w)
		fmt.Fprintf(w, "     answer %s", r.Delivery)
		if r.Delivered != "" {
			fmt.Fprintf(w, ": %s", clean(r.Delivered))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "     %s\n", st.dim.Render("digest "+short(r.Digest)))
}

// result writes a job's result with every statement attributed.
func (s *screen) result(w io.Writer, r coord.Result) {
	st := s.styles(s.tty)
	fmt.Fprintf(w, "%s  %s  %s\n", st.bold.Render(fmt.Sprintf("Job %d", r.Number)), st.mark(string(r.State)), clean(r.Title))
	for _, t := range r.Tasks {
		fmt.Fprintf(w, "\n%s  %s  %s", st.bold.Render(t.Key), st.mark(string(t.State)), t.Agent)
		if t.Reason != "" {
			fmt.Fprintf(w, "  (%s)", clean(t.Reason))
		}
		fmt.Fprintln(w)
		switch {
		case t.Statement != nil:
			by := "agent " + string(t.Statement.Agent) + " said"
			if t.Statement.By == "operator" {
				by = "the operator stated"
			}
			fmt.Fprintf(w, "  %s (%s, sha256 %s):\n", by, size(t.Statement.Bytes), short(t.Statement.SHA256))
			fmt.Fprint(w, indent(wrap(clean(t.Statement.Text), s.width-6), "  │ "))
			if t.Statement.Cut {
				fmt.Fprintln(w, "  (cut here; the artifact has it whole, as far as it was kept)")
			}
		case t.Partial != "":
			fmt.Fprintf(w, "  agent %s wrote, without coming to an end:\n", t.Agent)
			fmt.Fprint(w, indent(wrap(clean(t.Partial), s.width-6), "  │ "))
		}
		if t.Receipt != nil {
			fmt.Fprintf(w, "  %s\n", st.dim.Render("receipt "+clean(t.Receipt.Reference)+" ("+t.Receipt.Kind+")"))
		}
		for _, a := range t.Artifacts {
			fmt.Fprintf(w, "  %s\n", st.dim.Render(fmt.Sprintf("artifact %s  %s  sha256 %s  %s", clean(a.Name), size(a.Size), short(a.SHA256), a.Origin)))
		}
		for _, q := range t.Requests {
			fmt.Fprintf(w, "  %s\n", st.dim.Render(fmt.Sprintf("request r%d %s, answer %s: %s", q.Number, q.Decision, q.Delivery, oneLine(q.Content.Title, 60))))
		}
		if n := t.Usage.Tokens(); n > 0 {
			fmt.Fprintf(w, "  %s\n", st.dim.Render(fmt.Sprintf("%d tokens, as the %s told", n, t.Usage.Source)))
		}
	}
}
