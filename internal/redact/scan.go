package redact

import "strings"

// lookbehind bounds how far before a place a rule may look, in bytes. A Stream
// keeps as much of what it has given out already.
const lookbehind = 128

// verdict is what a rule says about a place.
type verdict uint8

const (
	no   verdict = iota
	yes          // a secret
	more         // the text ends before it can be told
)

// match is a secret that a rule found.
type match struct {
	verdict verdict
	kind    string
	start   int  // where the secret starts
	end     int  // all before is secret
	tail    tail // what else belongs to it after end
}

// tail tells how a secret goes on after the part that proved it one.
type tail struct {
	// chars go on for as long as they come; nil for none.
	chars *charset
	// quote is the closing quotation mark of a quoted value; it goes on up to
	// there, or to the end of the line.
	quote byte
	// depth is how many backslashes stand before the closing quote: 1 inside
	// of JSON that is a string of JSON itself.
	depth int
	// pem goes on to the end of a PEM block, for at most this many bytes.
	pem int
}

// scanner carries out one scan, or the scans of a Stream one after another.
type scanner struct {
	known *exacts
	final bool // no text follows
	lazy  bool // text in which nothing is replaced need not be written

	// Within a secret that was replaced already: how many bytes are certainly
	// of it, and how it goes on after them.
	inside bool
	sure   int
	tail   tail

	// low is where the text since the last replacement starts.
	low int
}

// scan reads s from pos on, writes safe text to out and gives the place up to
// which it is done with s. Before pos there is context only.
func (c *scanner) scan(s string, pos int, out *strings.Builder) int {
	copied := pos
	replaced := false
	for {
		if c.inside {
			end, done := c.swallow(s, pos)
			pos, copied, c.low = end, end, end
			if !done {
				return pos
			}
			c.inside = false
		}
		m := c.next(s, pos)
		switch m.verdict {
		case no:
			if replaced || !c.lazy {
				out.WriteString(s[copied:])
			}
			return len(s)
		case more:
			out.WriteString(s[copied:m.start])
			return m.start
		case yes:
			out.WriteString(s[copied:m.start])
			out.WriteString(markerOpen)
			out.WriteString(m.kind)
			out.WriteByte(']')
			pos, replaced = m.start, true
			c.inside, c.sure, c.tail = true, m.end-m.start, m.tail
		}
	}
}

// next finds the first secret of s at or after pos. For verdict more, start is
// the place from which the text must be held back.
func (c *scanner) next(s string, pos int) match {
	pairs := &c.known.pairs
	i := pos
	for i < len(s) {
		if i+1 < len(s) {
			if !pairs.has(pair(s[i], s[i+1])) {
				i++
				continue
			}
		} else if c.final || !c.known.firsts[s[i]] {
			break
		}
		m := c.at(s, i)
		switch m.verdict {
		case yes:
			return m
		case more:
			m.start = i
			return m
		case no:
			if m.end > i { // a marker: it is passed over, and parts the text
				i = m.end
				c.low = i
				continue
			}
			i++
		}
	}
	return match{}
}

// at asks every rule about place i. An exact value wins over a kind, since it
// has the better name; the secret ends where the longer of the two ends. A
// marker is no secret: the answer is no, with its end.
func (c *scanner) at(s string, i int) match {
	if s[i] == '[' {
		switch end, v := c.marker(s, i); v {
		case yes:
			return match{end: end}
		case more:
			return match{verdict: more}
		case no:
		}
	}
	length, name, need := c.known.at(s[i:], c.final)
	if need {
		return match{verdict: more}
	}
	m := c.kindAt(s, i)
	if m.verdict == more || length == 0 {
		return m
	}
	if m.verdict == yes && m.start == i {
		m.kind, m.end = name, max(m.end, i+length)
		return m
	}
	return match{verdict: yes, kind: name, start: i, end: i + length}
}

// kindAt asks the rules that look for kinds.
func (c *scanner) kindAt(s string, i int) match {
	switch s[i] {
	case ':', '=':
		return c.separatorAt(s, i)
	case '-':
		if m := c.pemAt(s, i); m.verdict != no {
			return m
		}
		return c.flagAt(s, i)
	}
	return c.tokenAt(s, i)
}

// marker reports whether a marker of this redactor starts at i, and its end.
func (c *scanner) marker(s string, i int) (int, verdict) {
	rest := s[i:]
	if !strings.HasPrefix(rest, markerOpen) {
		if !c.final && strings.HasPrefix(markerOpen, rest) {
			return 0, more
		}
		return 0, no
	}
	j := len(markerOpen)
	for j < len(rest) && j < len(markerOpen)+maxName && nameChars[rest[j]] {
		j++
	}
	switch {
	case j == len(rest):
		if c.final {
			return 0, no
		}
		return 0, more
	case rest[j] == ']' && c.known.names[rest[len(markerOpen):j]]:
		return i + j + 1, yes
	}
	return 0, no
}

// swallow gives the end of the secret that goes on at pos, and whether it ended
// there. An exact value that starts within it belongs to it to its own end.
func (c *scanner) swallow(s string, pos int) (int, bool) {
	for pos < len(s) {
		length, _, need := c.known.at(s[pos:], c.final)
		if need {
			return pos, false
		}
		c.sure = max(c.sure, length)
		if c.sure == 0 {
			n, v := c.goesOn(s[pos:])
			switch v {
			case more:
				return pos, false
			case no:
				return pos + n, true
			case yes:
			}
		}
		pos++
		c.sure = max(0, c.sure-1)
		c.tail.pem = max(0, c.tail.pem-1)
	}
	return pos, c.final
}

// goesOn reports whether the tail takes the first byte of s. For no, n is how
// many bytes of s are the last of the secret.
func (c *scanner) goesOn(s string) (n int, v verdict) {
	switch t := c.tail; {
	case t.chars != nil:
		if t.chars[s[0]] {
			return 0, yes
		}
	case t.quote != 0:
		return c.quotedGoesOn(s)
	case t.pem > 0:
		return c.pemGoesOn(s)
	}
	return 0, no
}

// charset is a set of bytes.
type charset [256]bool

func chars(list string) *charset {
	var c charset
	for i := 0; i < len(list); i++ {
		c[list[i]] = true
	}
	return &c
}

const (
	digits   = "0123456789"
	uppers   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lowers   = "abcdefghijklmnopqrstuvwxyz"
	alphanum = digits + uppers + lowers
)

var (
	nameChars  = chars(alphanum + "_.-")
	wordChars  = chars(alphanum)
	upperNum   = chars(uppers + digits)
	hexChars   = chars(digits + "abcdefABCDEF")
	underChars = chars(alphanum + "_")
	urlChars   = chars(alphanum + "_-")
	dashChars  = chars(alphanum + "-")
	jwtChars   = chars(alphanum + "_-.")
	codeChars  = chars(alphanum + "+/=_-")
)

// run gives how many bytes of s, at most limit, are in the set.
func (c *charset) run(s string, limit int) int {
	n := 0
	for n < len(s) && n < limit && c[s[n]] {
		n++
	}
	return n
}
