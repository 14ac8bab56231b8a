package tincan

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// searchPath is the PATH of the program, which may look for tailscale on it.
const searchPath = "/usr/local/bin:/usr/bin:/bin"

// program is the command line under one profile.
type program struct {
	executable, profile string
}

// programOf is the program that an identity names.
func programOf(id coord.Identity) program {
	return program{pathOf(id, roleLauncher), pathOf(id, roleProfile)}
}

// output is what a process printed before it ended by itself.
type output struct {
	code   int
	stdout []byte
	// hint is what its standard error stands for, "" for nothing known. The
	// text itself is dropped: it may hold anything.
	hint hint
}

// failure says why a process gave no whole output.
type failure struct {
	// unstarted: the program certainly never ran.
	unstarted bool
	cause     string
	reason    string
	transient bool
}

// Error gives the reason.
func (f *failure) Error() string { return f.reason }

var errSlow = errors.New("tincan took too long")

// run starts the program with arguments and waits for its end, and for that of
// all that it started. A context that ends ends the process.
func (a *Adapter) run(ctx context.Context, p program, args ...string) (output, *failure) {
	dir, err := os.MkdirTemp(a.o.Scratch, "tincan-*")
	if err != nil {
		return output{}, &failure{unstarted: true, cause: provider.CauseSpawn, transient: true, reason: "No private folder could be made for tincan; look at the disk."}
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			a.o.Logger.Warn("the private folder of a tincan could not be removed", "error", err)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, a.o.Timing.Command, errSlow)
	defer cancel()
	if ctx.Err() != nil {
		return output{}, stopped(ctx, true)
	}
	proc, err := a.starter.Start(ctx, process.Spec{Path: p.executable, Args: args, Env: a.environment(p), Dir: dir})
	switch {
	case err != nil && ctx.Err() != nil:
		// The start may have been cut off after the program began.
		return output{}, stopped(ctx, false)
	case err != nil:
		f := &failure{unstarted: true, cause: provider.CauseSpawn, reason: stdio.Shown(err)}
		switch coord.CodeOf(err) {
		case coord.NotFound, coord.Invalid, coord.Limit, coord.Unsupported:
		default:
			f.transient = true
		}
		return output{}, f
	}
	return a.await(ctx, proc)
}

// environment is the whole environment of the program.
func (a *Adapter) environment(p program) []string {
	env := []string{"PATH=" + searchPath, "TINCAN_CONFIG=" + p.profile}
	if home, ok := a.o.Lookup("HOME"); ok {
		env = append(env, "HOME="+home)
	}
	return env
}

// await takes what a process prints until it has ended, and leaves nothing of
// it.
func (a *Adapter) await(ctx context.Context, proc *process.Process) (output, *failure) {
	_ = proc.Stdin.Close()
	printed := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(io.LimitReader(proc.Stdout, coord.MaxTincanOutput+1)) // up to an end that Kill makes
		printed <- b
	}()
	var stdout []byte
	taken := false
	select {
	case <-proc.Done():
	case <-ctx.Done():
	case stdout = <-printed:
		taken = true
		if len(stdout) <= coord.MaxTincanOutput {
			select {
			case <-proc.Done():
			case <-ctx.Done():
			}
		}
	}
	var failed *failure
	select {
	case <-proc.Done():
	default:
		if failed = tooMuch(stdout); failed == nil {
			failed = stopped(ctx, false)
		}
	}
	if err := proc.Kill(context.WithoutCancel(ctx)); err != nil {
		a.o.Logger.Warn("a tincan could not be ended", "error", err)
		return output{}, &failure{cause: provider.CauseGone, reason: "The processes of tincan could not all be ended."}
	}
	// What escaped Kill and holds the pipe must not hold us.
	_ = proc.Stdout.SetReadDeadline(time.Now().Add(time.Second))
	if !taken {
		stdout = <-printed
	}
	proc.Close()
	if failed == nil {
		failed = tooMuch(stdout)
	}
	if failed != nil {
		return output{}, failed
	}
	exit, err := proc.Wait(context.WithoutCancel(ctx))
	if err != nil || exit.Signal != "" {
		return output{}, &failure{cause: provider.CauseGone, transient: true, reason: "tincan was killed by a signal before it had answered."}
	}
	return output{code: exit.Code, stdout: stdout, hint: classify(proc.Stderr())}, nil
}

func tooMuch(stdout []byte) *failure {
	if len(stdout) <= coord.MaxTincanOutput {
		return nil
	}
	return &failure{cause: provider.CauseFrame, reason: "tincan printed more than an answer can have."}
}

// stopped says that a process was ended with its context.
func stopped(ctx context.Context, unstarted bool) *failure {
	if errors.Is(context.Cause(ctx), errSlow) {
		return &failure{unstarted: unstarted, cause: provider.CauseSetupTimeout, transient: true, reason: "tincan did not end within its time and was killed."}
	}
	return &failure{unstarted: unstarted, cause: provider.CauseShutdown, reason: "tincan was ended before it had answered, because the attempt was stopped."}
}

// hint is what the standard error of the program stands for, as half a sentence.
type hint string

// The hints. They explain, and decide nothing about a text that was sent: the
// same words can come before and after a submission.
const (
	hintNone      hint = ""
	hintStranger  hint = "the relay does not take this profile for a joined agent"
	hintNoRelay   hint = "the profile has no relay"
	hintArguments hint = "the program does not know an argument, so it is of another version or dialect"
)

func classify(stderr string) hint {
	for _, c := range []struct {
		mark string
		hint hint
	}{
		{"not a joined agent", hintStranger}, {"no relay configured", hintNoRelay},
		{"unknown flag", hintArguments}, {"unknown command", hintArguments}, {"unknown shorthand flag", hintArguments},
	} {
		if strings.Contains(stderr, c.mark) {
			return c.hint
		}
	}
	return hintNone
}

// because gives the hint in brackets.
func (h hint) because() string {
	if h == hintNone {
		return ""
	}
	return " (" + string(h) + ")"
}
