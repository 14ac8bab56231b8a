package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"signalbox/internal/coord"
	"signalbox/internal/follow"
)

// exits gives the exit code of each kind of error.
var exits = map[coord.Code]int{
	coord.Internal:        1,
	coord.Invalid:         2,
	coord.Unauthenticated: 3,
	coord.Forbidden:       3,
	coord.NotFound:        4,
	coord.Conflict:        5,
	coord.Stale:           5,
	coord.Limit:           6,
	coord.Unavailable:     7,
	coord.Unsupported:     8,
}

// The exit codes of commands that wait for a job, and of an interrupt.
const (
	exitFailed      = 10
	exitCancelled   = 11
	exitUnknown     = 12
	exitNeeded      = 13
	exitInterrupted = 130
)

// exitCode ends the command with a code of its own and nothing to say: what
// there was to say is on the screen.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// errInterrupted is the cause of a context that ended with an interrupt.
var errInterrupted = errors.New("interrupted")

// codeOf gives the exit code of a command's error.
func codeOf(ctx context.Context, err error) int {
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, follow.ErrNeeded):
		return exitNeeded
	case errors.Is(err, errInterrupted) || errors.Is(context.Cause(ctx), errInterrupted):
		return exitInterrupted
	default:
		return exits[coord.CodeOf(err)]
	}
}

// jobExit is the exit code of waiting for a job.
func jobExit(state coord.JobState) error {
	switch state {
	case coord.JobFailed:
		return exitCode(exitFailed)
	case coord.JobCancelled:
		return exitCode(exitCancelled)
	case coord.JobAttention:
		return exitCode(exitUnknown)
	case coord.JobDraft:
		return follow.ErrNeeded
	case coord.JobCompleted, coord.JobRunning:
	}
	return nil
}

// Interruptible gives a context that ends with errInterrupted at the first
// SIGINT or SIGTERM; at the second the program ends at once, as usual. The
// function gives the signals back.
func Interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			cancel(errInterrupted)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}
