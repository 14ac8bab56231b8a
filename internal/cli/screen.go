package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"golang.org/x/term"
)

// screen is where a command writes and asks. Data goes to out, everything else
// to err.
type screen struct {
	in       io.Reader
	out, err io.Writer
	// json asks for documents instead of words.
	json bool
	// tty: a person looks at out; asks: a person can answer at in and see err.
	tty, asks bool
	width     int
}

func newScreen(in io.Reader, out, err io.Writer) *screen {
	s := &screen{in: in, out: out, err: err, width: 100}
	s.tty = isTerminal(out)
	s.asks = isTerminal(in) && isTerminal(err)
	if f, ok := out.(*os.File); ok && s.tty {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			s.width = w
		}
	}
	return s
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// document writes v as one JSON document.
func (s *screen) document(v any) error {
	e := json.NewEncoder(s.out)
	e.SetEscapeHTML(false)
	if s.tty {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// line writes v as one line of JSON.
func (s *screen) line(v any) error {
	e := json.NewEncoder(s.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// show writes v as JSON when that was asked for, otherwise what words writes.
func (s *screen) show(v any, words func(w io.Writer)) error {
	if s.json {
		return s.document(v)
	}
	var b strings.Builder
	words(&b)
	_, err := io.WriteString(s.out, b.String())
	return err
}

// say writes a line of progress for a person.
func (s *screen) say(format string, args ...any) {
	fmt.Fprintf(s.err, format+"\n", args...)
}

// styles are the few that are used; off a terminal they write plain text.
type styles struct{ bold, dim, good, busy, bad, odd lipgloss.Style }

func (s *screen) styles(on bool) styles {
	plain := lipgloss.NewStyle()
	if !on || os.Getenv("NO_COLOR") != "" {
		return styles{plain, plain, plain, plain, plain, plain}
	}
	colour := func(c string) lipgloss.Style { return plain.Foreground(lipgloss.Color(c)) }
	return styles{bold: plain.Bold(true), dim: plain.Faint(true), good: colour("2"), busy: colour("3"), bad: colour("1"), odd: colour("5")}
}

// rows writes a table with a head on a terminal, and tabs between columns
// elsewhere.
func (s *screen) rows(w io.Writer, head []string, rows [][]string) {
	if !s.tty {
		for _, r := range rows {
			fmt.Fprintln(w, strings.Join(r, "\t"))
		}
		return
	}
	st := s.styles(true)
	t := table.New().Headers(head...).Rows(rows...).Border(lipgloss.HiddenBorder()).BorderTop(false).BorderBottom(false).
		BorderLeft(false).BorderRight(false).BorderHeader(false).Wrap(false).
		StyleFunc(func(row, _ int) lipgloss.Style {
			if row == table.HeaderRow {
				return st.dim
			}
			return lipgloss.NewStyle()
		})
	fmt.Fprintln(w, t.Render())
}

// clean makes text of an agent safe to be shown: control characters, which
// could move the cursor or hide text, become visible; line breaks and tabs stay.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return -1
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// oneLine is clean text without line breaks, cut to n characters.
func oneLine(s string, n int) string {
	r := []rune(strings.Join(strings.Fields(clean(s)), " "))
	if len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return string(r)
}

// indent writes text with before in front of each line.
func indent(text, before string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(before + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}

// ask puts a yes-or-no question; anything but yes is no.
func (s *screen) ask(question string) (bool, error) {
	fmt.Fprintf(s.err, "%s [y/N] ", question)
	answer, err := s.readLine()
	if err != nil {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// readLine reads one line of at most 4 KiB, byte by byte, so that nothing that
// follows it is taken.
func (s *screen) readLine() (string, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < 4<<10 {
		n, err := s.in.Read(one)
		if n == 1 {
			if one[0] == '\n' {
				return string(line), nil
			}
			line = append(line, one[0])
			continue
		}
		if err != nil {
			if len(line) > 0 {
				return string(line), nil
			}
			return "", fmt.Errorf("no answer: %w", err)
		}
	}
	return string(line), nil
}
