package sse

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"signalbox/internal/coord"
)

func TestFramesAsTheyAreOnTheWire(t *testing.T) {
	for _, tt := range []struct {
		name  string
		write func(*Writer) error
		want  string
	}{
		{"all fields", func(w *Writer) error { return w.Event("1-7", "job", []byte(`{"a":1}`)) }, "id: 1-7\nevent: job\ndata: {\"a\":1}\n\n"},
		{"data alone", func(w *Writer) error { return w.Event("", "", []byte("a")) }, "data: a\n\n"},
		{"empty data", func(w *Writer) error { return w.Event("", "", []byte{}) }, "data: \n\n"},
		{"a bare id", func(w *Writer) error { return w.Event("1-8", "", nil) }, "id: 1-8\n\n"},
		{"lines", func(w *Writer) error { return w.Event("", "", []byte("a\nb\r\nc\rd\n")) }, "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
		{"a comment", func(w *Writer) error { return w.Comment("still here") }, ": still here\n\n"},
		{"a comment of two lines", func(w *Writer) error { return w.Comment("a\ndata: b") }, ": a\n: data: b\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := tt.write(NewWriter(&out)); err != nil || out.String() != tt.want {
				t.Errorf("got %q, %v; want %q", &out, err, tt.want)
			}
		})
	}
}

func TestNothingCanForgeAFrame(t *testing.T) {
	for _, bad := range []string{"a\nb", "a\rb", "a\r\n\r\ndata: x"} {
		var out bytes.Buffer
		w := NewWriter(&out)
		if err := w.Event(bad, "", nil); coord.CodeOf(err) != coord.Invalid {
			t.Errorf("id %q: %v", bad, err)
		}
		if err := w.Event("", bad, nil); coord.CodeOf(err) != coord.Invalid {
			t.Errorf("name %q: %v", bad, err)
		}
		if out.Len() != 0 {
			t.Errorf("%q was written", &out)
		}
	}
	if err := NewWriter(&bytes.Buffer{}).Event("a\x00", "", nil); coord.CodeOf(err) != coord.Invalid {
		t.Errorf("an id with NUL, which readers ignore: %v", err)
	}
}

func TestFailureOfTheConnectionIsTold(t *testing.T) {
	broken := errors.New("broken")
	w := NewWriter(failing{broken})
	if err := w.Event("", "", []byte("a")); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := w.Comment("a"); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// FuzzRoundTrip shows that what a Writer takes, a Reader gives back.
func FuzzRoundTrip(f *testing.F) {
	f.Add("1-2", "job", "a\nb\r\nc\r\r\n\xef\xbb\xbf : x")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, id, name, data string) {
		var out bytes.Buffer
		w := NewWriter(&out)
		if err := w.Event(id, name, []byte(data)); err != nil {
			if !strings.ContainsAny(id, "\r\n\x00") && !strings.ContainsAny(name, "\r\n") || out.Len() > 0 {
				t.Fatalf("%v after %q", err, &out)
			}
			return
		}
		if err := w.Comment(data); err != nil {
			t.Fatal(err)
		}
		r := NewReader(&out, wide)
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if name == "" {
			name = "message"
		}
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)
		if r.LastID() != id || e.Type != name || string(e.Data) != want || e.Fault != nil {
			t.Errorf("got %q %q %q", r.LastID(), e.Type, e.Data)
		}
		if e, err := r.Next(); err == nil {
			t.Errorf("a comment came out as %q", e.Data)
		}
	})
}
