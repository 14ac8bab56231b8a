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

// maxTyped is what a terminal takes in one line; it drops what goes beyond.
const maxTyped = 4 << 10

// Secret reads a value of at most limit bytes that is shown nowhere: from the
// terminal without echo, or the whole input when that is no terminal. A line
// break at the end does not count. It returns early when ctx ends, with the
// terminal as it was; the read that goes on then is that of a process about to
// end.
func (s *Screen) Secret(ctx context.Context, question string, limit int) (string, error) {
	f, ok := s.in.(*os.File)
	if !ok || !IsTerminal(f) {
		// Room for the line break, and for one byte that is too much.
		b, err := io.ReadAll(io.LimitReader(s.in, int64(limit)+3))
		if err != nil {
			return "", fmt.Errorf("read the value: %w", err)
		}
		return secret(strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), limit)
	}
	// Echo is off before the question is seen: a person may paste at once.
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return "", fmt.Errorf("take the echo from the terminal: %w", err)
	}
	defer func() { _ = term.Restore(int(f.Fd()), before) }() // it can only have gone away
	type answer struct {
		line string
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		both := struct {
			io.Reader
			io.Writer
		}{f, s.err}
		line, err := term.NewTerminal(both, "").ReadPassword(question)
		read <- answer{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case a := <-read:
		if a.err != nil { // Ctrl-C and Ctrl-D come as the end of the input
			return "", coord.Errorf(coord.Invalid, "no value was given")
		}
		if len(a.line) >= maxTyped-1 {
			return "", coord.Errorf(coord.Limit, "the value is too long for a line of a terminal: give it on the standard input")
		}
		return secret(a.line, limit)
	}
}

// secret holds what was read to its bound.
func secret(value string, limit int) (string, error) {
	switch {
	case value == "":
		return "", coord.Errorf(coord.Invalid, "no value was given")
	case len(value) > limit:
		return "", coord.Errorf(coord.Limit, "the value is longer than %d bytes", limit)
	}
	return value, nil
}
