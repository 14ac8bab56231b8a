package redact

import "strings"

// Stream redacts text that comes in pieces. It belongs to one goroutine.
//
// What it gives out, all together, is what String gives for the whole. It holds
// back what may be the start of a secret: at most MaxHold bytes, or the longest
// spelling of an exact value where that is more. A secret that goes on longer
// is replaced as soon as it is one, and the rest of it is dropped as it comes.
type Stream struct {
	redactor *Redactor
	scanner  scanner
	// text is what a rule may look back at, up to done, and what is held back.
	text string
	done int
}

// MaxHold bounds what a Stream holds back for the kinds, in bytes. The longest
// is a JWT with the first two parts unfinished.
const MaxHold = 2*(maxJWTPart+1) + maxValue

// Stream makes a Stream. It sees values that are added later, too.
func (r *Redactor) Stream() *Stream { return &Stream{redactor: r} }

// Write takes the next piece, which may end anywhere, even within a character,
// and gives the text that is safe by now, which may be empty.
func (t *Stream) Write(text string) (safe string) { return t.scan(text, false) }

// Flush ends the text and gives what was held back. The Stream is as new
// afterwards. It must not be called while more of the same text may follow: a
// secret that is cut there would show.
func (t *Stream) Flush() string {
	safe := t.scan("", true)
	*t = Stream{redactor: t.redactor}
	return safe
}

func (t *Stream) scan(text string, final bool) string {
	t.scanner.known, t.scanner.final = t.redactor.known.Load(), final
	s := t.text + text
	var out strings.Builder
	done := t.scanner.scan(s, t.done, &out)
	keep := min(done, max(t.scanner.low, done-lookbehind))
	t.text, t.done = strings.Clone(s[keep:]), done-keep
	t.scanner.low = max(0, t.scanner.low-keep)
	return out.String()
}
