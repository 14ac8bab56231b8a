package screen

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// liveWidth is the longest line of live text, in columns.
const liveWidth = 80

// Live writes texts of agents as they come: that of one alone as it is, those
// of several in lines with a name before each.
type Live struct {
	screen *Screen
	// lines holds what each name has written of its present line.
	lines map[string]string
}

// NewLive makes a Live that writes on s.
func NewLive(s *Screen) *Live { return &Live{screen: s, lines: map[string]string{}} }

// Write takes the next piece of a name's text; one without a name is alone.
func (l *Live) Write(name, text string) error {
	text = Clean(text)
	l.lines[name] += text
	if name == "" {
		l.lines[name] = l.lines[name][strings.LastIndexByte(l.lines[name], '\n')+1:]
		_, err := io.WriteString(l.screen, text)
		return err
	}
	for {
		n := due(l.lines[name], min(l.screen.Width, liveWidth)-len(name)-len(" │ "))
		if n == 0 {
			return nil
		}
		line, rest := l.lines[name][:n], l.lines[name][n:]
		l.lines[name] = strings.TrimPrefix(rest, " ")
		if err := l.line(name, line); err != nil {
			return err
		}
	}
}

// due gives how many bytes of a text that is still being written make a line
// now: up to a line break, a full line broken between words, or whole
// sentences, so that a person reads along. 0 is none.
func due(text string, room int) int {
	if at := strings.IndexByte(text, '\n'); at >= 0 && utf8.RuneCountInString(text[:at]) <= room {
		return at + 1
	}
	if utf8.RuneCountInString(text) > room {
		end := 0 // in bytes, of as many characters as there is room for
		for range max(room, 1) {
			_, size := utf8.DecodeRuneInString(text[end:])
			end += size
		}
		if at := strings.LastIndexByte(text[:end+1], ' '); at > 0 {
			return at
		}
		return end
	}
	end := 0
	for _, stop := range []string{". ", "! ", "? "} {
		end = max(end, strings.LastIndex(text, stop)+1)
	}
	return end
}

func (l *Live) line(name, line string) error {
	_, err := fmt.Fprintf(l.screen, "%s │ %s\n", name, strings.TrimRight(line, " \n"))
	return err
}

// End ends a name's present line.
func (l *Live) End(name string) error {
	line := l.lines[name]
	delete(l.lines, name)
	switch {
	case line == "":
		return nil
	case name == "":
		_, err := io.WriteString(l.screen, "\n")
		return err
	default:
		return l.line(name, line)
	}
}

// Flush ends every present line, before something else is written.
func (l *Live) Flush() error {
	var err error
	for _, name := range slices.Sorted(maps.Keys(l.lines)) {
		err = errors.Join(err, l.End(name))
	}
	return err
}
