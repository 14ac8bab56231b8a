package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"signalbox/internal/coord"
	"signalbox/internal/filehash"
)

// Box confines runs on this machine. Its methods may be used at the same time.
// A run leaves a process behind that waits for the next one (see starter); who
// made runs closes the box.
type Box struct {
	helper string
	dir    string

	// runs is held by each run, and by Close for good.
	runs    sync.RWMutex
	started sync.Once
	starter *starter
	// life ends with Close.
	life context.Context
	end  context.CancelCauseFunc
}

// errClosed is why a run ends, or does not begin.
var errClosed = coord.Errorf(coord.Unavailable, "Signalbox is being stopped; run it again afterwards.")

// New makes a box. helper is an executable whose main calls StageMain first,
// normally process.Executable(); dir is an absolute directory for scratch
// space, which is made with mode 0700.
func New(helper, dir string) (*Box, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &coord.Error{Code: coord.Unavailable, Message: "The directory for scratch space of confined runs cannot be made.", Err: err}
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(resolved) {
		return nil, &coord.Error{Code: coord.Invalid, Message: "The directory for scratch space of confined runs is not an absolute path.", Err: err}
	}
	b := &Box{helper: helper, dir: resolved, starter: newStarter(helper, resolved)}
	b.life, b.end = context.WithCancelCause(context.Background())
	return b, nil
}

// Close ends what runs and what waits, and returns when nothing of it is left.
// Later runs are Unavailable.
func (b *Box) Close() {
	if b.life.Err() != nil {
		return
	}
	b.end(errClosed)
	b.runs.Lock()
	defer b.runs.Unlock()
	b.started.Do(func() { close(b.starter.done) })
	b.starter.stop()
}

// Announce says that a run in a tier is likely to come soon, so that it needs
// not wait for what can be made ready. It returns at once.
func (b *Box) Announce(tier coord.Tier) {
	b.runs.RLock()
	defer b.runs.RUnlock()
	if b.life.Err() == nil && slices.Contains(tiers, tier) {
		b.started.Do(func() { go b.starter.run() })
		b.starter.want(tier)
	}
}

// Support is what a machine can do.
type Support struct {
	// Tier is the strongest that works, "" when none does.
	Tier coord.Tier
	// LandlockABI is that of the kernel, 0 without.
	LandlockABI int
	// Refusals say of each stronger tier which stage failed and what would help.
	Refusals map[coord.Tier]error
}

// Probe finds the strongest tier that works, by running a program in each. The
// error, Unsupported, is that of the weakest tier when none does.
func (b *Box) Probe(ctx context.Context) (Support, error) {
	s := Support{Refusals: map[coord.Tier]error{}}
	var last error
	for _, tier := range tiers {
		out, err := b.try(ctx, tier)
		if err == nil {
			s.Tier, s.LandlockABI = tier, out.LandlockABI
			return s, nil
		}
		if ctx.Err() != nil {
			return s, context.Cause(ctx)
		}
		s.Refusals[tier], last = err, err
	}
	return s, last
}

// try runs the helper, which then does nothing, in an empty workspace.
func (b *Box) try(ctx context.Context, tier coord.Tier) (Outcome, error) {
	program, err := b.helperPath()
	if err != nil {
		return Outcome{}, err
	}
	empty, err := os.MkdirTemp("", "signalbox-empty-")
	if err != nil {
		return Outcome{}, &coord.Error{Code: coord.Unavailable, Message: "There is no place for temporary files.", Err: err}
	}
	defer os.Remove(empty)
	if empty, err = filepath.EvalSymlinks(empty); err != nil {
		return Outcome{}, err
	}
	out, err := b.Run(ctx, Spec{Tier: tier, Program: program, Args: []string{probeArg, "nothing"}, Workspace: empty, Limits: DefaultLimits()})
	if err == nil && (out.Ending != Exited || out.Exit != 0) {
		err = refused("running a program", "it did not end well", "Run signalbox sandbox certify for the details.")
	}
	return out, err
}

// helperPath is the helper's file, its links resolved.
func (b *Box) helperPath() (string, error) {
	path, err := filepath.EvalSymlinks(b.helper)
	if err != nil {
		return "", helperError(err)
	}
	return path, nil
}

func helperError(err error) error {
	return &coord.Error{Code: coord.Unavailable, Message: "The program of Signalbox is no longer where it was started from; start signalbox serve again.", Err: err}
}

// identifyPath is the state of an executable, its links followed.
func identifyPath(path string) (filehash.State, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return filehash.State{}, err
	}
	return filehash.StateOf(&st), nil
}

// Hash gives the SHA-256, in hex, and the size of an executable. It is
// remembered until the file changes.
func (*Box) Hash(path string) (sum string, size int64, err error) {
	id, sum, err := filehash.Of(path)
	if err != nil {
		return "", 0, unreadable(err)
	}
	return sum, int64(id.Size), nil
}

// unreadable tells why a program has no sum.
func unreadable(err error) error {
	if errors.Is(err, filehash.ErrChanged) {
		return &coord.Error{Code: coord.Unavailable, Message: "A program that is to run confined was changed while it was read; try again when its installation has ended.", Err: err}
	}
	return &coord.Error{Code: coord.NotFound, Message: "A program that is to run confined cannot be read; look at its path and its permissions.", Err: err}
}
