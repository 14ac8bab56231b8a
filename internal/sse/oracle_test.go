package sse

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	oracle "github.com/tmaxmax/go-sse"
)

// oracleEvents reads a stream with go-sse, made comparable where it differs
// from this package by design:
//
//   - It leaves the type of an unnamed event empty; the standard says
//     "message".
//   - It takes the end of a stream inside an event for a clean end. The events
//     are the same, so only the error is not compared.
//   - It drops the field "error", which is no field of the standard; streams
//     with one are not compared.
//   - It delivers an event that has a name or an id but no data, which the
//     standard does not. Events without data are left out on both sides; those
//     of this package are in the quirk table.
func oracleEvents(t *testing.T, stream string) []identified {
	var events []identified
	for e, err := range oracle.Read(strings.NewReader(stream), &oracle.ReadConfig{MaxEventSize: 1 << 20}) {
		if err != nil {
			t.Fatalf("the oracle fails: %v", err)
		}
		if e.Data == "" {
			continue
		}
		name := e.Type
		if name == "" {
			name = "message"
		}
		events = append(events, identified{e.LastEventID, name, e.Data})
	}
	return events
}

type identified struct{ ID, Type, Data string }

// ownEvents is the same with this package.
func ownEvents(stream string) []identified {
	var events []identified
	r := NewReader(strings.NewReader(stream), wide)
	for {
		e, err := r.Next()
		if err != nil {
			return events
		}
		if len(e.Data) > 0 {
			events = append(events, identified{r.LastID(), e.Type, string(e.Data)})
		}
	}
}

// FuzzReader holds the reader to go-sse v0.12.0 on any stream, and to itself
// on the same stream in other pieces.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "data:a\r\ndata: b\r\n\r\n", "data: a\r\rdata: b\r\r", "\xef\xbb\xbfdata: a\n\n", ": c\n\ndata\n\n",
		"id: 1\nevent: x\ndata: a\n\nid\ndata: b\n\n", "id: a\x00b\ndata: a\n\n", "retry: 5\n\ndata: a", "error: x\n\n", "event: x\n\ndata: a\n\n",
		"\ndata: a\n\n", "\r\n\r\ndata: a\n\n", "data: a\n\n\xef\xbb\xbfdata: b\n\n", "event\ndata: a\n\n", "data: [DONE]\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		events, lastID, err := readAll(strings.NewReader(stream), wide)
		if !errors.Is(err, io.EOF) && !errors.Is(err, ErrIncomplete) {
			t.Fatalf("error %v on a stream within bounds", err)
		}
		slow, slowID, slowErr := readAll(halves(stream), wide)
		if diff := cmp.Diff(events, slow); diff != "" || lastID != slowID || !errors.Is(slowErr, err) {
			t.Errorf("in other pieces: %v, %v, (-once +pieces)\n%s", err, slowErr, diff)
		}
		if hasErrorField(stream) {
			return
		}
		if diff := cmp.Diff(oracleEvents(t, stream), ownEvents(stream)); diff != "" {
			t.Errorf("(-go-sse +here)\n%s", diff)
		}
	})
}

// halves cuts a stream at places that depend on its content.
func halves(stream string) io.Reader {
	var parts []io.Reader
	for len(stream) > 0 {
		n := min(len(stream), 1+int(stream[0])%5)
		parts = append(parts, strings.NewReader(stream[:n]))
		stream = stream[n:]
	}
	return io.MultiReader(parts...)
}

func hasErrorField(stream string) bool {
	for line := range strings.FieldsFuncSeq(strings.TrimPrefix(stream, "\xef\xbb\xbf"), func(r rune) bool { return r == '\n' || r == '\r' }) {
		if name, _, _ := strings.Cut(line, ":"); name == "error" {
			return true
		}
	}
	return false
}
