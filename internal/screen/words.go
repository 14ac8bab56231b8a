package screen

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/coord"
)

// Mark is a state's sign: shape and word tell it, colour only helps.
func (st Styles) Mark(state string) string {
	sign, style := "·", st.Dim
	switch state {
	case "completed", "approved", "answered", "landed", "applied", "passed":
		sign, style = "✔", st.Good
	case "running", "working", "accepted", "sending", "preparing", "ready", "landing", "applying":
		sign, style = "▶", st.Busy
	case "waiting", "open", "needs_attention", "draft":
		sign, style = "■", st.Bad
	case "unknown":
		sign, style = "◆", st.Odd
	case "failed", "rejected", "denied", "not_sent", "skipped", "expired",
		"partial", "stale", "diverged", "foreign", "timed_out", "output_limit", "refused":
		sign, style = "✖", st.Bad
	case "cancelled", "withdrawn", "discarded", "left_out", "void":
		sign, style = "○", st.Dim
	}
	return style.Render(sign + " " + strings.ReplaceAll(state, "_", " "))
}

// Steps groups a plan's tasks by how many tasks must come before: those of one
// step can run together.
func Steps(p coord.Plan) [][]coord.PlanTask {
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

// on gives the styles for a stream. What is still being put together goes to
// the data stream.
func (s *Screen) on(w io.Writer) Styles {
	if _, ok := w.(*strings.Builder); ok {
		return s.Styles(s.TTY)
	}
	return s.Styles(IsTerminal(w))
}

// Review writes a frozen plan as one screen: what will run, who runs it, with
// which program, and what it is not kept from.
func (s *Screen) Review(w io.Writer, j coord.Job) {
	st := s.on(w)
	fmt.Fprintf(w, "%s  %s\n", st.Bold.Render(fmt.Sprintf("Job %d", j.Number)), Clean(j.Title))
	fmt.Fprintf(w, "%s\n\n", st.Dim.Render("deadline "+j.Deadline.String()+limits(j.Limits)))
	for i, step := range Steps(j.Plan) {
		for n, t := range step {
			label := "   "
			if n == 0 {
				label = fmt.Sprintf("%2d ", i+1)
			}
			fmt.Fprintf(w, "%s%s %s  %s  %s%s\n", label, track(n, len(step)), st.Bold.Render(t.Key), t.Agent, Operations(t.Operations), needs(t))
			if t.Workspace != "" {
				fmt.Fprintf(w, "      in %s\n", Clean(t.Workspace))
			}
			if t.Base != "" {
				fmt.Fprintf(w, "      on top of the changes %s\n", Clean(t.Base))
			}
			switch t.Writes {
			case coord.Each:
				fmt.Fprintln(w, "      asks you before each write, which then changes the file at once")
			case coord.Staged:
				fmt.Fprintln(w, "      writes are held back for your review")
			}
			if len(t.Tests) > 0 {
				fmt.Fprintf(w, "      may run %s up to %s without asking\n", Clean(strings.Join(t.Tests, ", ")), Plural(t.TestRuns, "time"))
			}
			for _, in := range t.Inputs {
				fmt.Fprintf(w, "      with the result of %s by %s (sha256 %s)\n", in.Key, in.Agent, Short(in.SHA256))
			}
			fmt.Fprint(w, Indent(Wrap(Clean(t.Instruction), s.Width-8), "      "))
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
		fmt.Fprintf(w, "%s  %s, revision %d, %s\n", st.Bold.Render(string(t.Agent)), t.Config.Route, t.Revision, Seat(t.Config.Locality, t.Host))
		if lines := peer(t.Config); lines != "" {
			// Nothing of it is cut: the operator approves all of it.
			fmt.Fprint(w, Indent(Wrap(lines, s.Width-6), "      "))
		} else {
			fmt.Fprintf(w, "      %s\n", st.Dim.Render(OneLine(t.Config.Where(), s.Width-6)))
		}
		for _, f := range t.Identity.Files {
			fmt.Fprintf(w, "      %s %s  sha256 %s\n", f.Role, filepath.Base(f.Path), Short(f.SHA256))
		}
	}
	for _, warning := range together(j.Frozen.Warnings) {
		fmt.Fprintf(w, "%s %s", st.Busy.Render("!"), strings.TrimPrefix(Indent(Wrap(Clean(warning), s.Width-2), "  "), "  "))
	}
	fmt.Fprintf(w, "\n%s\n", st.Dim.Render("digest "+j.Frozen.Digest))
}

// Seat says where an agent is, seen from the host that its attempts run on.
func Seat(where coord.Locality, host string) string {
	if where == coord.LocalityLocal {
		return "on " + host
	}
	return string(where) + ", reached from " + host
}

// together says once what is true of several agents or tasks: a warning is
// "agent NAME: what", and those with the same end become one.
func together(warnings []string) []string {
	var out []string
	names := map[string][]string{}
	for _, w := range warnings {
		subject, what, ok := strings.Cut(w, ": ")
		kind, name, named := strings.Cut(subject, " ")
		if !ok || !named || kind != "agent" && kind != "task" {
			out = append(out, w)
			continue
		}
		key := kind + "s %s: " + what
		if names[key] == nil {
			out = append(out, key)
		}
		names[key] = append(names[key], name)
	}
	for i, key := range out {
		switch n := names[key]; len(n) {
		case 0:
		case 1:
			out[i] = strings.Replace(key, "s %s", " "+n[0], 1)
		default:
			subject, what, _ := strings.Cut(key, ": ")
			out[i] = strings.Replace(subject, "%s", strings.Join(n, ", "), 1) + ": " + plural.Replace(what)
		}
	}
	return out
}

// plural makes of what planning warns of one agent what is true of several.
var plural = strings.NewReplacer(
	"its own", "their own",
	"it works elsewhere, and what it does", "they work elsewhere, and what they do",
	"what it does without", "what they do without",
	"it may by itself read files and send what it read; it may write", "they may by themselves read files and send what they read; they may write",
)

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

// Operations joins operations by a plus sign, in their order.
func Operations(ops []coord.Operation) string {
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

// Request writes a request whole: what is asked, by whom, the options, and the
// three facts.
func (s *Screen) Request(w io.Writer, r coord.Request) {
	st := s.on(w)
	fmt.Fprintf(w, "%s  %s  %s asks: %s\n", st.Bold.Render(fmt.Sprintf("r%d", r.Number)), st.Mark(string(r.Decision)), r.Agent, OneLine(r.Content.Title, coord.MaxTitle))
	fmt.Fprintf(w, "     task %s, %s, %s\n", r.Key, r.Kind, Ago(r.Opened.Wall))
	if r.Content.Tool != "" {
		fmt.Fprintf(w, "     tool %s\n", OneLine(r.Content.Tool, coord.MaxTitle))
	}
	if r.Content.Detail != "" {
		text := Clean(r.Content.Detail)
		if r.Kind == coord.WriteFile {
			text = Exact(r.Content.Detail)
		}
		fmt.Fprint(w, Indent(text, "     │ "))
	}
	if r.Content.Cut {
		fmt.Fprintln(w, "     the content is longer than can be shown, so it can only be denied")
	}
	for _, o := range r.Options {
		fmt.Fprintf(w, "     option %s: %s (%s)\n", OneLine(o.ID, coord.MaxTitle), OneLine(o.Name, coord.MaxTitle), strings.ReplaceAll(string(o.Kind), "_", " "))
	}
	if d := r.Decided; d != nil {
		fmt.Fprintf(w, "     %s %s", r.Decision, Ago(d.At.Wall))
		if d.By.Name != "" {
			fmt.Fprintf(w, " by %s (%s, %s)", d.By.Name, d.By.Door, d.By.Presence)
		}
		if d.Reason != "" {
			fmt.Fprintf(w, ": %s", Clean(d.Reason))
		}
		fmt.Fprintln(w)
		if r.Kind.Effective() {
			fmt.Fprintf(w, "     effect %s", r.Effect)
			if r.Done != nil && r.Done.Note != "" {
				fmt.Fprintf(w, ": %s", Clean(r.Done.Note))
			}
			if r.Done != nil && r.Done.Report != nil {
				fmt.Fprintf(w, ": tests %s", report(*r.Done.Report))
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "     answer %s", r.Delivery)
		if r.Delivered != "" {
			fmt.Fprintf(w, ": %s", OneLine(r.Delivered, coord.MaxReason))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "     %s\n", st.Dim.Render("digest "+Short(r.Digest)))
}

// Effect writes in a line what became of an approved write or run of tests.
func (s *Screen) Effect(w io.Writer, r coord.Request) {
	state, text := string(r.Effect), OneLine(r.Content.Title, coord.MaxTitle)
	if r.Done != nil && r.Done.Report != nil {
		state, text = string(r.Done.Report.Outcome), fmt.Sprintf("%s: %s", text, counts(*r.Done.Report))
	}
	if r.Done != nil && r.Done.Note != "" {
		text += ": " + OneLine(r.Done.Note, coord.MaxReason)
	}
	fmt.Fprintf(w, "%s  %s\n", s.on(w).Mark(state), text)
}

// report tells a run of tests, counts how many there were and what was wrong.
func report(t coord.TestReport) string {
	return strings.ReplaceAll(string(t.Outcome), "_", " ") + ", " + counts(t)
}

func counts(t coord.TestReport) string {
	text := fmt.Sprintf("%d passed, %d failed, %d skipped", t.Passed, t.Failed, t.Skipped)
	if t.Reason != "" {
		text += ", " + OneLine(strings.TrimSuffix(t.Reason, "."), coord.MaxReason)
	}
	return text
}

// Result writes a job's result with every statement attributed.
func (s *Screen) Result(w io.Writer, r coord.Result) {
	st := s.on(w)
	fmt.Fprintf(w, "%s  %s  %s\n", st.Bold.Render(fmt.Sprintf("Job %d", r.Number)), st.Mark(string(r.State)), Clean(r.Title))
	for _, t := range r.Tasks {
		fmt.Fprintf(w, "\n%s  %s  %s", st.Bold.Render(t.Key), st.Mark(string(t.State)), t.Agent)
		if t.Reason != "" {
			fmt.Fprintf(w, "  (%s)", OneLine(t.Reason, coord.MaxReason))
		}
		fmt.Fprintln(w)
		switch {
		case t.Statement != nil:
			by := "agent " + string(t.Statement.Agent) + " said"
			if t.Statement.By == "operator" {
				by = "the operator stated"
			}
			fmt.Fprintf(w, "  %s (%s, sha256 %s):\n", by, Size(t.Statement.Bytes), Short(t.Statement.SHA256))
			fmt.Fprint(w, Indent(Wrap(Clean(t.Statement.Text), s.Width-6), "  │ "))
			if t.Statement.Cut {
				fmt.Fprintln(w, "  (cut here; the artifact has it whole, as far as it was kept)")
			}
		case t.Partial != "":
			fmt.Fprintf(w, "  agent %s wrote, without coming to an end:\n", t.Agent)
			fmt.Fprint(w, Indent(Wrap(Clean(t.Partial), s.Width-6), "  │ "))
		}
		if t.Receipt != nil {
			fmt.Fprintf(w, "  %s\n", st.Dim.Render("receipt "+OneLine(t.Receipt.Reference, coord.MaxReason)+" ("+t.Receipt.Kind+")"))
		}
		for _, a := range t.Artifacts {
			what := fmt.Sprintf("%s  sha256 %s", Size(a.Size), Short(a.SHA256))
			if a.SHA256 == "" {
				what = "at " + OneLine(a.Reference, coord.MaxURL) + ", not fetched"
			}
			fmt.Fprintf(w, "  %s\n", st.Dim.Render(fmt.Sprintf("artifact %s  %s  %s", OneLine(a.Name, coord.MaxTitle), what, a.Origin)))
		}
		for _, q := range t.Requests {
			fmt.Fprintf(w, "  %s\n", st.Dim.Render(fmt.Sprintf("request r%d %s, answer %s: %s", q.Number, q.Decision, q.Delivery, OneLine(q.Content.Title, 60))))
			if q.Kind.Effective() && q.Decision == coord.DecisionApproved {
				fmt.Fprint(w, "    ")
				s.Effect(w, q)
			}
		}
		if used := t.Usage.String(); used != "" {
			fmt.Fprintf(w, "  %s\n", st.Dim.Render("used "+Clean(used)))
		}
	}
}
