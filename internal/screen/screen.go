package screen

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf16"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"golang.org/x/term"

	"signalbox/internal/workspace"
)

// Screen is where a command writes and asks. Data goes to one stream,
// everything else to the other.
type Screen struct {
	in        io.Reader
	data, err io.Writer
	// JSON asks for documents instead of words.
	JSON bool
	// TTY: a person looks at the data. Asks: a person can answer, and sees the
	// question.
	TTY, Asks bool
	// Width of the terminal in columns, 80 where there is none.
	Width int
}

// plainWidth is how wide prose is where nobody can say.
const plainWidth = 80

// New looks at the three streams of a program.
func New(in io.Reader, data, err io.Writer) *Screen {
	s := &Screen{in: in, data: data, err: err, Width: plainWidth, TTY: IsTerminal(data), Asks: IsTerminal(in) && IsTerminal(err)}
	for _, stream := range []io.Writer{data, err} {
		if f, ok := stream.(*os.File); ok {
			if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
				s.Width = w
				break
			}
		}
	}
	return s
}

// Aside is the same screen with its data beside everything else, for a command
// whose data is another than what it shows on the way.
func (s *Screen) Aside() *Screen {
	return &Screen{in: s.in, data: s.err, err: s.err, TTY: IsTerminal(s.err), Asks: s.Asks, Width: s.Width}
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Document writes v as one JSON document.
func (s *Screen) Document(v any) error {
	indent := ""
	if s.TTY {
		indent = "  "
	}
	return s.encode(v, indent)
}

// Line writes v as one line of JSON.
func (s *Screen) Line(v any) error { return s.encode(v, "") }

// encode writes v as JSON, with what nobody sees or a terminal obeys escaped: the
// encoder does so below U+0020 alone, and agents write what stands in it.
func (s *Screen) encode(v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	doc := b.Bytes()
	if bytes.ContainsFunc(doc, workspace.Hidden) {
		var out bytes.Buffer
		for _, r := range string(doc) {
			switch {
			case !workspace.Hidden(r):
				out.WriteRune(r)
			case r > 0xffff:
				high, low := utf16.EncodeRune(r)
				fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
			default:
				fmt.Fprintf(&out, `\u%04x`, r)
			}
		}
		doc = out.Bytes()
	}
	_, err := s.data.Write(doc)
	return err
}

// Write writes data.
func (s *Screen) Write(b []byte) (int, error) { return s.data.Write(b) }

// Show writes v as JSON when that was asked for, otherwise what words writes.
func (s *Screen) Show(v any, words func(w io.Writer)) error {
	if s.JSON {
		return s.Document(v)
	}
	var b strings.Builder
	words(&b)
	_, err := io.WriteString(s.data, b.String())
	return err
}

// Beside is the stream of everything that is no data.
func (s *Screen) Beside() io.Writer { return s.err }

// Say writes a line of progress for a person.
func (s *Screen) Say(format string, args ...any) {
	fmt.Fprintf(s.err, format+"\n", args...)
}

// Styles are the few that are used; off a terminal they write plain text.
type Styles struct{ Bold, Dim, Good, Busy, Bad, Odd lipgloss.Style }

// Styles gives the styles for a stream that is a terminal or is not.
func (s *Screen) Styles(terminal bool) Styles {
	// Tabs stay tabs: a diff must not show them as the spaces they may replace.
	plain := lipgloss.NewStyle().TabWidth(lipgloss.NoTabConversion)
	if !terminal || os.Getenv("NO_COLOR") != "" {
		return Styles{plain, plain, plain, plain, plain, plain}
	}
	colour := func(c string) lipgloss.Style { return plain.Foreground(lipgloss.Color(c)) }
	return Styles{Bold: plain.Bold(true), Dim: plain.Faint(true), Good: colour("2"), Busy: colour("3"), Bad: colour("1"), Odd: colour("5")}
}

// minLast is what the last column of a table keeps on a narrow terminal.
const minLast = 12

// Rows writes a table with a head on a terminal, whose last column takes what
// width there is, and tabs between columns elsewhere, whole and without a head.
func (s *Screen) Rows(w io.Writer, head []string, rows [][]string) {
	if !s.TTY {
		for _, r := range rows {
			fmt.Fprintln(w, strings.Join(r, "\t"))
		}
		return
	}
	last, taken := len(head)-1, 0
	for c := range last {
		widest := lipgloss.Width(head[c])
		for _, r := range rows {
			widest = max(widest, lipgloss.Width(r[c]))
		}
		taken += widest + 2
	}
	t := table.New().Headers(head...).Border(lipgloss.HiddenBorder()).BorderTop(false).BorderBottom(false).
		BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false).Wrap(false).
		StyleFunc(func(row, col int) lipgloss.Style {
			style := lipgloss.NewStyle()
			if row == table.HeaderRow {
				style = s.Styles(true).Dim
			}
			if col < last {
				style = style.PaddingRight(2)
			}
			return style
		})
	for _, r := range rows {
		r[last] = OneLine(r[last], max(s.Width-taken, minLast))
		t.Row(r...)
	}
	for line := range strings.Lines(t.Render()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

// List writes a table as Rows does, and says none where there is nothing in it.
func (s *Screen) List(w io.Writer, none string, head []string, rows [][]string) {
	if len(rows) == 0 {
		s.Say("%s", none)
		return
	}
	s.Rows(w, head, rows)
}

// State is a state in a table: with its sign on a terminal, the bare word
// elsewhere.
func (s *Screen) State(state string) string {
	if !s.TTY {
		return state
	}
	return s.Styles(true).Mark(state)
}

// Ask puts a yes-or-no question; anything but yes is no.
func (s *Screen) Ask(ctx context.Context, question string) (bool, error) {
	fmt.Fprintf(s.err, "%s [y/N] ", question)
	answer, err := s.ReadLine(ctx)
	if err != nil {
		fmt.Fprintln(s.err)
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// maxLine bounds what a person types as an answer, in bytes.
const maxLine = 4 << 10

// ReadLine reads one line of at most 4 KiB. The end of the input without a line
// is an error, and so is the end of ctx, with its cause. Then the reading itself
// lasts as long as the program, which is about to end: the system cannot take a
// read of a terminal back.
func (s *Screen) ReadLine(ctx context.Context) (string, error) {
	type answer struct {
		line string
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		line, err := s.readLine()
		read <- answer{line, err}
	}()
	select {
	case a := <-read:
		return a.line, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// readLine reads byte by byte, so that nothing that follows the line is taken.
func (s *Screen) readLine() (string, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < maxLine {
		n, err := s.in.Read(one)
		if n == 1 {
			if one[0] == '\n' {
				break
			}
			line = append(line, one[0])
			continue
		}
		if err != nil {
			if len(line) > 0 {
				break
			}
			return "", fmt.Errorf("no answer: %w", err)
		}
	}
	return string(line), nil
}
