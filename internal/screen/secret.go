package screen

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"signalbox/internal/coord"
)

// Secret reads a value of at most limit bytes that is shown nowhere: from the
// terminal without echo, or the whole input when that is no terminal. A line
// break at the end does not count. It returns early when ctx ends, with echo as
// it was; the read that goes on then is that of a process about to end.
func (s *Screen) Secret(ctx context.Context, question string, limit int) (string, error) {
	f, ok := s.in.(*os.File)
	if !ok || !IsTerminal(s.in) {
		// One byte more for the line break, and one to see that there is more.
		b, err := io.ReadAll(io.LimitReader(s.in, int64(limit)+3))
		if err != nil {
			return "", fmt.Errorf("read the value: %w", err)
		}
		return bounded(string(b), limit)
	}
	before, err := term.GetState(int(f.Fd()))
	if err != nil {
		return "", fmt.Errorf("look at the terminal: %w", err)
	}
	fmt.Fprint(s.err, question)
	defer fmt.Fprintln(s.err)
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := term.ReadPassword(int(f.Fd()))
		read <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		_ = term.Restore(int(f.Fd()), before) // the interruption is what is told
		return "", context.Cause(ctx)
	case l := <-read:
		if l.err != nil {
			return "", coord.Errorf(coord.Invalid, "no value was given")
		}
		return bounded(string(l.text), limit)
	}
}

func bounded(value string, limit int) (string, error) {
	value = strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")
	if len(value) > limit {
		return "", coord.Errorf(coord.Limit, "the value is longer than %d bytes", limit)
	}
	if value == "" {
		return "", coord.Errorf(coord.Invalid, "no value was given")
	}
	return value, nil
}
