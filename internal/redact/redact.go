package redact

import (
	"strings"
	"sync"
	"sync/atomic"
)

// MinSecret is the shortest exact value, in bytes, that Add takes: shorter ones
// are ordinary words too often.
const MinSecret = 8

// maxName bounds the name within a marker, in bytes.
const maxName = 64

const markerOpen = "[redacted:"

// Redactor replaces secrets. It is safe for concurrent use.
type Redactor struct {
	mu    sync.Mutex // held by Add
	known atomic.Pointer[exacts]
}

// New makes a Redactor that knows the kinds and no exact value.
func New() *Redactor {
	r := &Redactor{}
	r.known.Store(newExacts())
	return r
}

// Add registers an exact value under a name, which stands in the marker and
// must be no secret itself: usually that of an environment variable. Space
// around the value is ignored, and so is a value shorter than MinSecret. Text
// that was redacted before is not looked at again.
func (r *Redactor) Add(name, secret string) {
	secret = strings.TrimSpace(secret)
	if len(secret) < MinSecret {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known.Store(r.known.Load().with(cleanName(name), secret))
}

// cleanName keeps what a marker can hold.
func cleanName(name string) string {
	name = strings.Map(func(c rune) rune {
		if c < 128 && nameChars[byte(c)] {
			return c
		}
		return '_'
	}, name)
	if name == "" {
		return "secret"
	}
	return name[:min(len(name), maxName)]
}

// String gives s with every secret replaced. Text without one is returned as
// it is, without a copy.
func (r *Redactor) String(s string) string {
	sc := scanner{known: r.known.Load(), final: true, lazy: true}
	// Most texts are short and hold none, and need nothing to write to.
	if probe := sc; probe.next(s, 0).verdict == no {
		return s
	}
	var out strings.Builder
	sc.scan(s, 0, &out)
	if out.Len() == 0 {
		return s
	}
	return out.String()
}
