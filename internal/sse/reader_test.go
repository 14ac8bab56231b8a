package sse

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

var wide = Limits{Line: 1 << 20, Event: 1 << 20, Total: 1 << 30}

// seen is an event with its bytes copied.
type seen struct {
	Type, Data, Fault string
}

func readAll(src io.Reader, limits Limits) (events []seen, lastID string, err error) {
	r := NewReader(src, limits)
	for {
		e, err := r.Next()
		if err != nil {
			return events, r.LastID(), err
		}
		events = append(events, seen{e.Type, string(e.Data), string(e.Fault)})
	}
}

func message(data string) seen { return seen{Type: "message", Data: data} }

// TestQuirksOfModelAPIs has one row for each way in which servers of model
// APIs use or bend the format. The libraries at hand lose or garble about half
// of them without an error.
func TestQuirksOfModelAPIs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stream string
		want   []seen
		err    error
	}{
		{"comments as keepalives", ": OPENROUTER PROCESSING\n\ndata: a\n\n:\n\n", []seen{message("a")}, io.EOF},
		{"a comment inside an event", "data: a\n: c\ndata: b\n\n", []seen{message("a\nb")}, io.EOF},
		{"retry is no data", "retry: 3000\n\nretry: x\ndata: a\n\n", []seen{message("a")}, io.EOF},
		{"no space after the colon", "data:a\n\ndata:  b\n\n", []seen{message("a"), message(" b")}, io.EOF},
		{"CRLF", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []seen{message("a\nb"), message("c")}, io.EOF},
		{"bare CR", "data: a\rdata: b\r\rdata: c\r\r", []seen{message("a\nb"), message("c")}, io.EOF},
		{"line ends mixed", "data: a\r\n\ndata: b\n\rdata: c\r\r\n\n", []seen{message("a"), message("b"), message("c")}, io.EOF},
		{"several data lines", "data: {\ndata: }\n\n", []seen{message("{\n}")}, io.EOF},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", []seen{message("a")}, io.EOF},
		{"empty data", "data:\n\ndata\n\ndata: \n\n", []seen{message(""), message(""), message("")}, io.EOF},
		{"data of two empty lines", "data\ndata\n\n", []seen{message("\n")}, io.EOF},
		{"an event without data is none", "event: ping\n\ndata: a\n\n", []seen{message("a")}, io.EOF},
		{"a named error", "event: error\ndata: {\"message\":\"x\"}\n\n", []seen{{Type: "error", Data: `{"message":"x"}`}}, io.EOF},
		{"an error field", "error: {\"code\":500}\n\n", []seen{{Type: "message", Fault: `{"code":500}`}}, io.EOF},
		{"an error field beside data", "data: a\nerror:\n\ndata: b\n\n", []seen{message("a"), message("b")}, io.EOF},
		{"the last event without its blank line", "data: a\n\ndata: b\n", []seen{message("a")}, ErrIncomplete},
		{"cut inside a line", "data: a\n\nda", []seen{message("a")}, ErrIncomplete},
		{"cut after a name", "event: x\n", nil, ErrIncomplete},
		{"cut after an error", "error: x\n", nil, ErrIncomplete},
		{"DONE without its blank line", "data: [DONE]\n", nil, ErrIncomplete},
		{"unknown fields and lines without a colon", "foo: bar\nbaz\nDATA: x\n data: y\ndata: a\n\n", []seen{message("a")}, io.EOF},
		{"colons in data", "data: a: b:\n\n", []seen{message("a: b:")}, io.EOF},
		{"a type is for one event", "event: x\ndata: a\n\ndata: b\n\nevent:\ndata: c\n\n", []seen{{Type: "x", Data: "a"}, message("b"), message("c")}, io.EOF},
		{"the last type of an event counts", "event: x\nevent: y\ndata: a\n\n", []seen{{Type: "y", Data: "a"}}, io.EOF},
		{"NUL and bad UTF-8 are the caller's", "data: \x00\xff\n\n", []seen{message("\x00\xff")}, io.EOF},
		{"nothing", "", nil, io.EOF},
		{"a mark alone", "\xef\xbb\xbf", nil, ErrIncomplete},
		{"HTML", "<html>\n<body></body>\n</html>\n", nil, io.EOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for how, src := range map[string]io.Reader{
				"at once":        strings.NewReader(tt.stream),
				"byte by byte":   iotest.OneByteReader(strings.NewReader(tt.stream)),
				"data with EOF":  iotest.DataErrReader(strings.NewReader(tt.stream)),
				"in half pieces": iotest.HalfReader(strings.NewReader(tt.stream)),
			} {
				got, _, err := readAll(src, wide)
				if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, tt.err) {
					t.Errorf("%s: error %v, want %v; events (-want +got):\n%s", how, err, tt.err, diff)
				}
			}
		})
	}
}

func TestEventsAreDeliveredWhileTheStreamIsOpen(t *testing.T) {
	// Bare CR is the trap: whether LF follows must not be waited for.
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r"} {
		t.Run(fmt.Sprintf("%q", end), func(t *testing.T) {
			src, dst := io.Pipe()
			defer dst.Close()
			written := make(chan error, 1)
			go func() {
				_, err := io.WriteString(dst, "data: a"+end)
				written <- err
			}()
			e, err := NewReader(src, wide).Next() // hangs if it waits for more
			if err != nil || string(e.Data) != "a" {
				t.Errorf("got %q, %v", e.Data, err)
			}
			if err := <-written; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLastIDIsThatOfDispatchedEvents(t *testing.T) {
	r := NewReader(strings.NewReader("data: a\n\nid: 1-2\ndata: b\n\ndata: c\n\nid: 1-3\n\nid: x\x00y\ndata: d\n\nid\ndata: e\n\nid: 9\ndata: cut"), wide)
	var got []string
	for {
		e, err := r.Next()
		if err != nil {
			got = append(got, "end "+r.LastID())
			break
		}
		got = append(got, string(e.Data)+" "+r.LastID())
	}
	// A bare id counts, one with NUL is ignored, an empty one resets, and that
	// of an event that was cut does not count.
	if diff := cmp.Diff([]string{"a ", "b 1-2", "c 1-2", "d 1-3", "e ", "end "}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBoundsAreExact(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits Limits
		stream string
		events int
		err    error
	}{
		{"a line at its bound", Limits{10, 100, 1000}, "data: abcd\n\n", 1, io.EOF},
		{"a line at its bound with CRLF", Limits{10, 100, 1000}, "data: abcd\r\n\r\n", 1, io.EOF},
		{"a line above its bound", Limits{10, 100, 1000}, "data: a\n\ndata: abcde\n\n", 1, ErrLineTooLong},
		{"a comment above its bound", Limits{10, 100, 1000}, ": abcdefghij\n\n", 0, ErrLineTooLong},
		{"an event at its bound", Limits{100, 10, 1000}, "event: x\ndata: abcd\ndata: efgh\n\n", 1, io.EOF},
		{"an event above its bound by data", Limits{100, 10, 1000}, "data: abcd\ndata: efghij\n\n", 0, ErrEventTooLarge},
		{"an event above its bound by its type", Limits{100, 10, 1000}, "data: abcdefgh\nevent: xyz\n\n", 0, ErrEventTooLarge},
		{"an event above its bound by its fault", Limits{100, 10, 1000}, "data: abcdefgh\nerror: xyz\n\n", 0, ErrEventTooLarge},
		{"an event above its bound by empty lines", Limits{100, 10, 1000}, strings.Repeat("data\n", 12) + "\n", 0, ErrEventTooLarge},
		{"many events below the bound", Limits{100, 10, 1000}, strings.Repeat("event: x\ndata: abcd\n\n", 20), 20, io.EOF},
		{"a stream at its bound", Limits{100, 100, 18}, "data: a\n\ndata: b\n\n", 2, io.EOF},
		{"a stream above its bound", Limits{100, 100, 18}, "data: a\n\ndata: b\n\n:", 2, ErrStreamTooLarge},
		{"a stream above its bound inside an event", Limits{100, 100, 17}, "data: a\n\ndata: b\n\n", 1, ErrStreamTooLarge},
		{"an empty stream at a bound of nothing", Limits{1, 1, 0}, "", 0, io.EOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for how, src := range map[string]io.Reader{"at once": strings.NewReader(tt.stream), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.stream))} {
				events, _, err := readAll(src, tt.limits)
				if len(events) != tt.events || !errors.Is(err, tt.err) {
					t.Errorf("%s: %d events, error %v; want %d, %v", how, len(events), err, tt.events, tt.err)
				}
			}
		})
	}
}

func TestErrorsStay(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), wide)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, broken) {
			t.Errorf("got %v, want what the source failed with", err)
		}
	}
	r = NewReader(strings.NewReader("data: abcdef\n\ndata: b\n\n"), Limits{Line: 10, Event: 10, Total: 100})
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, ErrLineTooLong) {
			t.Errorf("got %v, want %v", err, ErrLineTooLong)
		}
	}
}

func TestSourceThatReturnsNothingIsGivenUp(t *testing.T) {
	if _, err := NewReader(nothing{}, wide).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("got %v", err)
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

func TestLongLinesAreHeldOnce(t *testing.T) {
	// One line of 16 MiB, the largest a caller allows, next to a small event.
	const size = 16 << 20
	src := io.MultiReader(strings.NewReader("data: small\n\ndata: "), io.LimitReader(letters{}, size), strings.NewReader("\n\ndata: small\n\n"))
	r := NewReader(src, Limits{Line: size + 10, Event: size + 10, Total: size + 100})
	for i, want := range []int{5, size, 5} {
		e, err := r.Next()
		if err != nil || len(e.Data) != want {
			t.Fatalf("event %d: %d bytes, %v", i, len(e.Data), err)
		}
	}
	if held := cap(r.line) + cap(r.data); held > size*3/2 {
		t.Errorf("%d bytes are held after a line of %d", held, size)
	}
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestReadingAllocatesNothingPerEvent(t *testing.T) {
	event := "event: response.output_text.delta\ndata: {\"delta\":\"some text\"}\n\n"
	r := NewReader(strings.NewReader(strings.Repeat(event, 20000)), wide)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10000, func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per event", n)
	}
}

func BenchmarkReader(b *testing.B) {
	event := "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"" + strings.Repeat("x", 64) + "\"}\n\n"
	stream := strings.Repeat(event, 10000)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(strings.NewReader(stream), wide)
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
}

func TestReadyTellsOfAnEventThatIsThereAsAWhole(t *testing.T) {
	source, peer := io.Pipe()
	defer peer.Close()
	r := NewReader(source, Limits{Line: 100, Event: 100, Total: 1000})
	if r.Ready() {
		t.Error("an event is ready before anything was read")
	}
	for _, c := range []struct {
		write string
		ready bool
	}{
		{"data: 1\n\ndata: 2\n\n", true},
		{"", false}, // the second of them
		{"data: 3\n\ndata: 4\n", false},
		{"\n", false},
	} {
		if c.write != "" {
			go func() { _, _ = io.WriteString(peer, c.write) }()
		}
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if got := r.Ready(); got != c.ready {
			t.Errorf("after %q it is ready: %v", c.write, got)
		}
	}
}
