package screen

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"

	"signalbox/internal/workspace"
)

// Clean makes text of an agent safe to be shown: control characters, which
// could move the cursor or hide text, become visible; line breaks and tabs stay.
func Clean(s string) string {
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

// Exact shows text that is decided on, with nothing hidden in it: a character
// that would not be seen, a carriage return too, is written as <U+200B>. Line
// breaks and tabs stay.
func Exact(s string) string {
	var b strings.Builder
	for _, r := range s {
		if workspace.Hidden(r) {
			fmt.Fprintf(&b, "<U+%04X>", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// OneLine is clean text without line breaks, cut to n characters.
func OneLine(s string, n int) string {
	r := []rune(strings.Join(strings.Fields(Clean(s)), " "))
	if len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return string(r)
}

// Indent writes text with before in front of each line.
func Indent(text, before string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(before + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}

// Wrap breaks lines at width columns between words.
func Wrap(text string, width int) string {
	lines := strings.Split(lipgloss.Wrap(text, max(width, 20), " "), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// Hanging wraps text whose first line begins at column at.
func Hanging(text string, at, width int) string {
	return strings.TrimLeft(Indent(Wrap(text, width-at), strings.Repeat(" ", at)), " ")
}

// Ago is a span for people.
func Ago(t time.Time) string {
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

// Size is a number of bytes for people.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
}

// Short is the part of a digest that a person compares.
func Short(digest string) string {
	if len(digest) > 12 {
		return digest[:12]
	}
	return digest
}

// Plural is a number with its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
