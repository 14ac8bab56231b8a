package screen

import (
	"fmt"
	"io"
	"strings"

	"signalbox/internal/approval"
	"signalbox/internal/coord"
	"signalbox/internal/workspace"
)

// About names the files of a change set in a line.
func About(c coord.ChangeSet) string {
	names := make([]string, len(c.Files))
	for i, f := range c.Files {
		names[i] = f.Path
	}
	return OneLine(strings.Join(names, " "), coord.MaxTitle)
}

// Landed writes what became of a change set and of each file of it.
func (s *Screen) Landed(w io.Writer, c coord.ChangeSet) {
	fmt.Fprintf(w, "c%d is %s\n", c.Number, c.State)
	for _, f := range c.Files {
		if c.Verdicts[f.Path] == coord.FileLeftOut {
			fmt.Fprintf(w, "  %s  %s\n", s.State(string(coord.FileLeftOut)), OneLine(f.Path, coord.MaxTitle))
		}
	}
	if c.State == coord.ChangeSetStale && c.Comment != "" {
		fmt.Fprintf(w, "  %s\n", OneLine(c.Comment, coord.MaxReason))
	}
	for _, step := range c.Steps {
		line := fmt.Sprintf("  %s  %s", s.State(string(step.State)), OneLine(step.Path, coord.MaxTitle))
		if step.Note != "" {
			line += "  " + OneLine(step.Note, coord.MaxReason)
		}
		fmt.Fprintln(w, line)
	}
}

// Changes writes a change set for a person to decide on.
func (s *Screen) Changes(w io.Writer, d approval.Display) {
	st := s.on(w)
	c := d.ChangeSet
	added, removed := 0, 0
	for _, f := range d.Files {
		added, removed = added+f.Added, removed+f.Removed
	}
	fmt.Fprintf(w, "%s  %s  task %s by %s, %s, +%d -%d\n", st.Bold.Render(fmt.Sprintf("c%d", c.Number)), st.Mark(string(c.State)),
		c.Key, c.Agent, Plural(len(d.Files), "file"), added, removed)
	at := ""
	if d.Git.Head != "" {
		at = " at commit " + Short(d.Git.Head)
	}
	fmt.Fprintf(w, "workspace %s%s\ndigest %s\n", s.place(c.Base.Path, len("workspace ")+len(at)), at, c.Digest)
	for _, n := range d.Notes {
		fmt.Fprintf(w, "%s %s\n", st.Busy.Render("!"), OneLine(n, coord.MaxReason))
	}
	for _, f := range d.Files {
		if git := d.Git.Files[f.Change.Path]; git != "" && git != workspace.GitClean && git != workspace.GitUntracked {
			fmt.Fprintf(w, "%s %s is %s in git's eyes\n", st.Busy.Render("!"), OneLine(f.Change.Path, coord.MaxTitle), git)
		}
	}
	for _, f := range d.Files {
		s.Diff(w, f)
	}
}

// Diff writes one file's change.
func (s *Screen) Diff(w io.Writer, f workspace.FileDiff) {
	st := s.on(w)
	fmt.Fprintf(w, "\n%s  +%d -%d\n", st.Bold.Render(Exact(f.Change.Path)), f.Added, f.Removed)
	for _, n := range f.Notes {
		fmt.Fprintf(w, "  %s\n", OneLine(n, coord.MaxReason))
	}
	if f.Hidden {
		fmt.Fprintln(w, st.Busy.Render("  it holds characters that are not shown as they are, here written as <U+200B>"))
	}
	for line := range strings.Lines(Exact(f.Text)) {
		text := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(text, "+"):
			text = st.Good.Render(text)
		case strings.HasPrefix(text, "-"):
			text = st.Bad.Render(text)
		case strings.HasPrefix(text, "@@"):
			text = st.Dim.Render(text)
		}
		fmt.Fprintln(w, text)
	}
	if f.Cut {
		fmt.Fprintln(w, st.Busy.Render("  the rest is longer than can be shown"))
	}
}
