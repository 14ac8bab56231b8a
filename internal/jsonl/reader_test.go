package jsonl_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"signalbox/internal/coord"
	"signalbox/internal/jsonl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outcome is what one call of Next said, in text.
func outcome(frame []byte, err error) string {
	switch {
	case err == nil:
		return "frame " + string(frame)
	case errors.Is(err, jsonl.ErrFrameTooLarge):
		return "too large"
	case errors.Is(err, jsonl.ErrInvalidUTF8):
		return "invalid"
	case errors.Is(err, io.EOF):
		return "end"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "cut"
	}
	return err.Error()
}

func final(outcome string) bool {
	return outcome != "invalid" && !strings.HasPrefix(outcome, "frame ")
}

func readAll(src io.Reader, limit int) []string {
	r := jsonl.NewReader(src, limit)
	var all []string
	for {
		o := outcome(r.Next())
		all = append(all, o)
		if final(o) {
			return all
		}
	}
}

func TestReaderCutsFrames(t *testing.T) {
	cases := []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", []string{"end"}},
		{"one", "{}\n", []string{"frame {}", "end"}},
		{"CRLF", "{}\r\n[]\r\n", []string{"frame {}", "frame []", "end"}},
		{"only one CR belongs to the line end", "a\r\r\n", []string{"frame a\r", "end"}},
		{"lone CR is content", "a\rb\n", []string{"frame a\rb", "end"}},
		{"empty lines are frames", "\n\r\n", []string{"frame ", "frame ", "end"}},
		{"line and paragraph separators are content", "\"a\u2028b\u2029c\u0085d\"\n", []string{"frame \"a\u2028b\u2029c\u0085d\"", "end"}},
		{"unterminated last frame", "{}\n{\"a\":1}", []string{"frame {}", "cut"}},
		{"unterminated CR", "{}\r", []string{"cut"}},
		{"invalid UTF-8 costs its frame only", "a\n\xff\xfe\nb\n", []string{"frame a", "invalid", "frame b", "end"}},
		{"cut rune", "\xe2\x82\nb\n", []string{"invalid", "frame b", "end"}},
		{"surrogate", "\xed\xa0\x80\nb\n", []string{"invalid", "frame b", "end"}},
		{"whole rune", "€\n", []string{"frame €", "end"}},
		{"NUL is content", "a\x00b\n", []string{"frame a\x00b", "end"}},
		{"exactly the limit", "12345678\n", []string{"frame 12345678", "end"}},
		{"exactly the limit with CRLF", "12345678\r\n", []string{"frame 12345678", "end"}},
		{"one above the limit", "123456789\nx\n", []string{"too large"}},
		{"one above the limit, unterminated", "123456789", []string{"too large"}},
		{"CR above the limit that ends nothing", "12345678\r9\n", []string{"too large"}},
		{"too large after good ones", "a\nb\n" + strings.Repeat("c", 100) + "\nd\n", []string{"frame a", "frame b", "too large"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// The limit concerns the small cases only; others are shorter.
			limit := 8
			if strings.Contains(c.name, "separators") {
				limit = 64
			}
			for how, src := range map[string]io.Reader{
				"whole":          strings.NewReader(c.in),
				"byte by byte":   iotest.OneByteReader(strings.NewReader(c.in)),
				"end with bytes": iotest.DataErrReader(strings.NewReader(c.in)),
			} {
				if diff := cmp.Diff(c.want, readAll(src, limit)); diff != "" {
					t.Errorf("%s: %s", how, diff)
				}
			}
		})
	}
}

func TestReaderRepeatsItsFinalError(t *testing.T) {
	broken := errors.New("device gone")
	for _, c := range []struct {
		name string
		src  io.Reader
		want string
	}{
		{"end", strings.NewReader("a\n"), "end"},
		{"too large", strings.NewReader("a\n" + strings.Repeat("b", 99) + "\nc\n"), "too large"},
		{"source", io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), "device gone"},
		{"source that gives nothing", io.MultiReader(strings.NewReader("a\n"), empty{}), io.ErrNoProgress.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := jsonl.NewReader(c.src, 8)
			if o := outcome(r.Next()); o != "frame a" {
				t.Fatal(o)
			}
			for range 3 {
				if o := outcome(r.Next()); o != c.want {
					t.Errorf("got %q, want %q", o, c.want)
				}
			}
		})
	}
}

type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, nil }

func TestFrameTooLargeIsALimit(t *testing.T) {
	_, err := jsonl.NewReader(strings.NewReader("123\n"), 2).Next()
	if coord.CodeOf(err) != coord.Limit || !errors.Is(err, jsonl.ErrFrameTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestReaderTakesFramesOfEverySizeInOrder(t *testing.T) {
	const limit = 1 << 20
	sizes := []int{0, 1, 16<<10 - 1, 16 << 10, 16<<10 + 1, 3, 40 << 10, limit - 1, limit, 5, 5, 100 << 10}
	var in bytes.Buffer
	for i, n := range sizes {
		in.Write(bytes.Repeat([]byte{byte('a' + i)}, n))
		in.WriteString([]string{"\n", "\r\n"}[i%2])
	}
	r := jsonl.NewReader(iotest.HalfReader(&in), limit)
	for i, n := range sizes {
		frame, err := r.Next()
		if err != nil || !bytes.Equal(frame, bytes.Repeat([]byte{byte('a' + i)}, n)) {
			t.Fatalf("frame %d: %d bytes, %v; want %d", i, len(frame), err, n)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// endless gives lines, or one line without end.
type endless struct{ chunk []byte }

func (e endless) Read(b []byte) (int, error) { return copy(b, e.chunk), nil }

func TestReaderGivesTheRoomOfALargeFrameBack(t *testing.T) {
	idle := jsonl.NewReader(strings.NewReader(""), coord.MaxFrame).Held()
	large := strings.Repeat("x", coord.MaxFrame) + "\n"
	r := jsonl.NewReader(io.MultiReader(strings.NewReader(large), endless{[]byte("{}\n{}\n")}), coord.MaxFrame)
	if frame, err := r.Next(); len(frame) != coord.MaxFrame || err != nil {
		t.Fatal(len(frame), err)
	}
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if held := r.Held(); held != idle {
		t.Errorf("%d bytes are held after a large frame, %d before", held, idle)
	}
	// The small frames come without allocation.
	if n := testing.AllocsPerRun(1000, func() { _, _ = r.Next() }); n != 0 {
		t.Errorf("%v allocations a small frame", n)
	}
}

// meter is a line without end that adds up the buffers of who reads it.
type meter struct {
	reader      *jsonl.Reader
	held, spent int
}

func (m *meter) Read(b []byte) (int, error) {
	if held := m.reader.Held(); held != m.held {
		m.held = held
		m.spent += held
	}
	return copy(b, bytes.Repeat([]byte("x"), 4096)), nil
}

func TestReaderSpendsABoundedAmountOnALineWithoutEnd(t *testing.T) {
	m := &meter{}
	m.reader = jsonl.NewReader(m, coord.MaxFrame)
	if _, err := m.reader.Next(); !errors.Is(err, jsonl.ErrFrameTooLarge) {
		t.Fatal(err)
	}
	// Doubling up to the limit takes less than three times of it in sum.
	if m.spent < coord.MaxFrame || m.spent > 3*coord.MaxFrame {
		t.Errorf("a line without end cost %d bytes", m.spent)
	}
	if held := m.reader.Held(); held != 0 {
		t.Errorf("%d bytes are held after the end", held)
	}
}

// FuzzReader compares with the plainest possible reading of the same bytes,
// and checks that how the bytes arrive changes nothing.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"", "{}\n", "a\r\nb\n\xff\nc", "12345678\r\n123456789\n", "\u2028\n\r\n\r"} {
		f.Add([]byte(s), 8)
	}
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		if limit < 0 || limit > 1<<16 {
			return
		}
		got := readAll(bytes.NewReader(in), limit)
		if diff := cmp.Diff(plain(in, limit), got); diff != "" {
			t.Errorf("whole: %s", diff)
		}
		if diff := cmp.Diff(got, readAll(iotest.OneByteReader(bytes.NewReader(in)), limit)); diff != "" {
			t.Errorf("byte by byte: %s", diff)
		}
	})
}

func plain(in []byte, limit int) []string {
	var all []string
	for {
		line, rest, terminated := bytes.Cut(in, []byte("\n"))
		content := bytes.TrimSuffix(line, []byte("\r"))
		switch {
		case len(content) > limit:
			return append(all, "too large")
		case !terminated && len(line) == 0:
			return append(all, "end")
		case !terminated:
			return append(all, "cut")
		case !bytes.Equal(bytes.ToValidUTF8(content, []byte("?")), content):
			all = append(all, "invalid")
		default:
			all = append(all, "frame "+string(content))
		}
		in = rest
	}
}

func BenchmarkReader(b *testing.B) {
	chunk := bytes.Repeat([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"}}}}`+"\n"), 100)
	r := jsonl.NewReader(&loop{chunk: chunk}, coord.MaxFrame)
	b.ReportAllocs()
	b.SetBytes(int64(len(chunk) / 100))
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

type loop struct {
	chunk []byte
	at    int
}

func (l *loop) Read(b []byte) (int, error) {
	n := copy(b, l.chunk[l.at:])
	l.at = (l.at + n) % len(l.chunk)
	return n, nil
}
