package jsonl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/jsonl"
)

const megabyte = 1 << 20

// pipe makes a real pipe whose reader is left to the test.
func pipe(t *testing.T, timeout time.Duration) (*os.File, *jsonl.Writer) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out := jsonl.NewWriter(w, 2*megabyte, timeout)
	t.Cleanup(func() { r.Close(); out.Close() })
	return r, out
}

// fill writes whole frames until the pipe holds no more, so that the next
// write can hand over nothing.
func fill(t *testing.T, w *jsonl.Writer) {
	t.Helper()
	// A pipe's capacity is a multiple of 4096 and writes up to that size are
	// whole or not at all (pipe(7), PIPE_BUF).
	for {
		n, err := w.Write(t.Context(), bytes.Repeat([]byte("x"), 4095))
		if err != nil {
			if n != 0 || !errors.Is(err, jsonl.ErrWriteTimeout) {
				t.Fatalf("filling ended with %d bytes, %v", n, err)
			}
			return
		}
	}
}

func TestWriterWritesWholeFrames(t *testing.T) {
	r, w := pipe(t, time.Minute)
	if n, err := w.Write(t.Context(), []byte(`{"a":1}`)); n != 8 || err != nil {
		t.Error(n, err)
	}
	if n, err := w.WriteJSON(t.Context(), map[string]string{"t": "<a\n\u2028>"}); n != 20 || err != nil {
		t.Error(n, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if want := "{\"a\":1}\n{\"t\":\"<a\\n\\u2028>\"}\n"; string(got) != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWriterRefusesWhatIsNotAFrame(t *testing.T) {
	r, w := pipe(t, time.Minute)
	for _, c := range []struct {
		name  string
		write func() (int, error)
		code  coord.Code
	}{
		{"line feed inside", func() (int, error) { return w.Write(t.Context(), []byte("{\n}")) }, coord.Invalid},
		{"carriage return inside", func() (int, error) { return w.Write(t.Context(), []byte("{}\r")) }, coord.Invalid},
		{"invalid UTF-8", func() (int, error) { return w.Write(t.Context(), []byte("\"\xff\"")) }, coord.Invalid},
		{"too large", func() (int, error) { return w.Write(t.Context(), make([]byte, 2*megabyte+1)) }, coord.Limit},
		{"too large as JSON", func() (int, error) { return w.WriteJSON(t.Context(), strings.Repeat("x", 2*megabyte)) }, coord.Limit},
		{"not encodable", func() (int, error) { return w.WriteJSON(t.Context(), func() {}) }, coord.Internal},
	} {
		t.Run(c.name, func(t *testing.T) {
			if n, err := c.write(); n != 0 || coord.CodeOf(err) != c.code {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	// None of it left a trace.
	if n, err := w.Write(t.Context(), []byte("1")); n != 2 || err != nil {
		t.Error(n, err)
	}
	w.Close()
	if got, err := io.ReadAll(r); string(got) != "1\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWriteToAPeerThatDoesNotReadTimesOut(t *testing.T) {
	_, w := pipe(t, 50*time.Millisecond)
	n, err := w.Write(t.Context(), make([]byte, megabyte))
	if n == 0 || n >= megabyte || !errors.Is(err, jsonl.ErrWriteTimeout) {
		t.Errorf("%d bytes, %v", n, err)
	}
	// The frame was cut: the stream must never be used again.
	if n, err := w.Write(t.Context(), []byte("{}")); n != 0 || !errors.Is(err, jsonl.ErrBroken) {
		t.Errorf("after a cut frame: %d bytes, %v", n, err)
	}
}

func TestWriteThatHandedOverNothingSaysSoAndCanBeRepeated(t *testing.T) {
	r, w := pipe(t, 50*time.Millisecond)
	fill(t, w)
	if n, err := w.Write(t.Context(), []byte(`"late"`)); n != 0 || !errors.Is(err, jsonl.ErrWriteTimeout) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	// The peer reads again.
	got := make(chan []byte)
	go func() { b, _ := io.ReadAll(r); got <- b }()
	if n, err := w.Write(t.Context(), []byte(`"again"`)); n != 8 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	w.Close()
	all := <-got
	if bytes.Contains(all, []byte("late")) || !bytes.HasSuffix(all, []byte("x\n\"again\"\n")) {
		t.Errorf("the peer got %d bytes that end in %q", len(all), all[max(0, len(all)-20):])
	}
}

func TestWriteEndsWithItsContext(t *testing.T) {
	stop := errors.New("operator stop")
	for _, c := range []struct {
		name   string
		before bool
		sent   bool
	}{{"before it began", true, false}, {"in the middle", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			r, w := pipe(t, time.Minute)
			ctx, cancel := context.WithCancelCause(t.Context())
			if c.before {
				cancel(stop)
			} else {
				// The first byte proves that the write is under way.
				go func() { _, _ = r.Read(make([]byte, 1)); cancel(stop) }()
			}
			n, err := w.Write(ctx, make([]byte, megabyte))
			if (n > 0) != c.sent || !errors.Is(err, stop) {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
}

func TestACancelledContextDoesNotTouchTheNextWrite(t *testing.T) {
	r, w := pipe(t, time.Minute)
	done := make(chan struct{})
	go func() { defer close(done); _, _ = io.Copy(io.Discard, r) }()
	stop := errors.New("operator stop")
	for range 2000 {
		ctx, cancel := context.WithCancelCause(t.Context())
		go cancel(stop)
		if n, err := w.Write(ctx, []byte("{}")); err != nil && (n != 0 || !errors.Is(err, stop)) {
			t.Fatal(n, err)
		}
		if n, err := w.Write(t.Context(), []byte("{}")); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	}
	w.Close()
	<-done
}

func TestCloseEndsABlockedWriteAndThoseThatWait(t *testing.T) {
	r, w := pipe(t, time.Minute)
	errs := make(chan error)
	go func() { _, err := w.Write(t.Context(), make([]byte, megabyte)); errs <- err }()
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		go func() { _, err := w.Write(t.Context(), []byte("{}")); errs <- err }()
	}
	begin := time.Now()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := <-errs; !errors.Is(err, jsonl.ErrClosed) {
			t.Errorf("a write ended with %v", err)
		}
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("Close took %v", took)
	}
	if _, err := w.Write(t.Context(), []byte("{}")); !errors.Is(err, jsonl.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

func TestAPeerThatIsGoneIsAnErrorWithNothingSent(t *testing.T) {
	r, w := pipe(t, time.Minute)
	r.Close()
	if n, err := w.Write(t.Context(), []byte("{}")); n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestFramesOfManyWritersAreNotInterleaved(t *testing.T) {
	r, w := pipe(t, time.Minute)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 10 {
				// Larger than a pipe takes at once.
				if _, err := w.WriteJSON(t.Context(), frame{i, k, strings.Repeat("x", 100<<10)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() { all.Wait(); w.Close() }()
	in := jsonl.NewReader(r, 2*megabyte)
	var next [8]int
	for {
		b, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var f frame
		if err != nil || json.Unmarshal(b, &f) != nil || len(f.Text) != 100<<10 {
			t.Fatalf("a broken frame of %d bytes: %v", len(b), err)
		}
		if f.Number != next[f.Writer] {
			t.Fatalf("writer %d: frame %d after %d", f.Writer, f.Number, next[f.Writer]-1)
		}
		next[f.Writer]++
	}
	if next != [8]int{10, 10, 10, 10, 10, 10, 10, 10} {
		t.Errorf("frames that came: %v", next)
	}
}

type frame struct {
	Writer, Number int
	Text           string
}

func TestWriterWithoutDeadlinesWorks(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	w := jsonl.NewWriter(f, 100, time.Nanosecond)
	for i := range 3 {
		if n, err := w.Write(t.Context(), fmt.Append(nil, i)); n != 2 || err != nil {
			t.Error(n, err)
		}
	}
	w.Close()
	if b, err := os.ReadFile(f.Name()); string(b) != "0\n1\n2\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}
