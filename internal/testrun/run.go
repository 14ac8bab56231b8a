package testrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/sandbox"
)

// Result is what a run of tests came to.
type Result struct {
	// Report has no Output: the caller keeps that, redacted, as an artifact.
	Report coord.TestReport
	// Output is what the runner printed, at most coord.MaxTestOutput.
	Output []byte
	// Cases are the single tests, as far as the runner reported them, at most
	// maxCases.
	Cases []Case
	// Tier and Layers say how it was confined; Hidden is how many paths of the
	// workspace the tests could not see, Wall how long all of it took.
	Tier   coord.Tier
	Layers []string
	Hidden int
	Wall   time.Duration
}

// Run makes the run that was approved, and returns when nothing of it is left.
// Stale means that it would no longer be that run; nothing was started then. A
// machine that cannot confine it is an outcome, refused. The context's end is
// cancelled, or timed_out at its deadline.
func (t *Tester) Run(ctx context.Context, r Request, approved coord.TestRun) (Result, error) {
	res, err := t.run(ctx, r, approved)
	if err == nil || ctx.Err() == nil {
		return res, err
	}
	// It ended before the tests were under way; nothing of them is left.
	res = Result{Report: coord.TestReport{Outcome: coord.TestsCancelled}, Tier: r.Tier}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		res.Report.Outcome = coord.TestsTimedOut
	}
	return res, nil
}

func (t *Tester) run(ctx context.Context, r Request, approved coord.TestRun) (Result, error) {
	began := time.Now()
	p, err := t.plan(ctx, r)
	if err != nil {
		return Result{}, err
	}
	if why := differs(approved, p.run); why != "" {
		return Result{}, coord.Errorf(coord.Stale, "The run of tests is not the one that was approved: %s. Ask for it again.", why)
	}
	content, err := r.content()
	if err != nil {
		return Result{}, err
	}
	res, err := t.confined(ctx, r, p, began)
	if coord.CodeOf(err) == coord.Unsupported {
		res, err = Result{Report: coord.TestReport{Outcome: coord.TestsRefused, Reason: err.Error()}}, nil
	}
	if err != nil {
		return Result{}, err
	}
	res.Report.Content, res.Tier, res.Wall = content, r.Tier, time.Since(began)
	return res, nil
}

func (t *Tester) confined(ctx context.Context, r Request, p planned, began time.Time) (Result, error) {
	spec := sandbox.Spec{
		Tier: r.Tier, Program: p.run.Program, SHA256: p.run.SHA256, Args: p.run.Args,
		Workspace: r.Workspace, Changes: r.Changes, Reads: p.reads, Limits: sandbox.DefaultLimits(),
		Report: p.run.Runner == Bun || p.run.Runner == Node,
	}
	switch p.run.Runner {
	case Bun:
		// Nothing is written beside the report.
		spec.Env = []string{"BUN_RUNTIME_TRANSPILER_CACHE_PATH=0"}
	case Go:
		built, release, res, err := t.compile(ctx, r, p)
		if release != nil {
			defer func() { _ = release() }() // Sweep takes what is left
		}
		if err != nil || res.Report.Outcome != "" {
			return res, err
		}
		spec.Program, spec.SHA256 = built, ""
		spec.Dir = filepath.Dir(r.Files[0])
		spec.Args = []string{"-test.v", "-test.count=1", "-test.run=" + p.pattern, "-test.timeout=" + coord.TestTimeout.String()}
	}
	// The two minutes are for all of it.
	spec.Limits.Wall = max(time.Millisecond, coord.TestTimeout-time.Since(began))
	out, err := t.box.Run(ctx, spec)
	if err != nil {
		return Result{}, err
	}
	if !out.Gone {
		return Result{}, coord.Errorf(coord.Unavailable, "A process of the tests is still there; look at the machine's processes before anything else runs.")
	}
	cases := parse(p.run.Runner, out)
	report := judge(out, cases)
	return Result{Report: report, Output: out.Output, Cases: cases.list, Layers: out.Layers, Hidden: out.Hidden}, nil
}

// judge draws the outcome. Nothing but a run that ended by itself, with status
// 0, with a test that passed and none that failed, has passed.
func judge(out sandbox.Outcome, c cases) coord.TestReport {
	report := coord.TestReport{Outcome: coord.TestsFailed, Passed: c.passed, Failed: c.failed, Skipped: c.skipped}
	switch out.Ending {
	case sandbox.Cancelled:
		report.Outcome = coord.TestsCancelled
	case sandbox.TimedOut:
		report.Outcome = coord.TestsTimedOut
	case sandbox.OutputLimit:
		report.Outcome, report.Reason = coord.TestsOutputLimit, fmt.Sprintf("The tests printed more than %d bytes.", coord.MaxTestOutput)
	case sandbox.Exited:
		switch {
		case out.Signal != "":
			report.Reason = "The runner was ended by " + out.Signal + "."
		case c.failed > 0:
		case out.Exit != 0:
			report.Reason = fmt.Sprintf("The runner ended with status %d and named no test that failed.", out.Exit)
		case c.passed == 0:
			report.Reason = "No test ran."
		default:
			report.Outcome = coord.TestsPassed
		}
	}
	return report
}

var errBuildSlow = errors.New("the compilation took longer than two minutes")

// compile builds the test program of a Go package from a private copy. A
// result with an outcome is the end: it did not compile, or was ended.
func (t *Tester) compile(ctx context.Context, r Request, p planned) (program string, release func() error, res Result, err error) {
	places, err := goPlaces(ctx, p.run.Program)
	if err != nil {
		return "", nil, Result{}, err
	}
	tree, release, err := t.box.Copy(r.Workspace, r.Changes)
	if err != nil {
		return "", nil, Result{}, err
	}
	program = tree + ".test"
	limited, cancel := context.WithTimeoutCause(ctx, coord.TestTimeout, errBuildSlow)
	defer cancel()
	// The place of the result is added here: it is another one each time.
	args := append([]string{p.run.Args[0], p.run.Args[1], "-o", program}, p.run.Args[2:]...)
	cmd := exec.CommandContext(limited, p.run.Program, args...)
	cmd.Dir, cmd.Env = tree, append(places, goEnv...)
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	text := &limitedBuffer{left: coord.MaxTestOutput}
	cmd.Stdout, cmd.Stderr = text, text
	err = cmd.Run()
	// Where the copy was is of no interest, and differs each time.
	res.Output = bytes.ReplaceAll(text.Bytes(), []byte(tree), []byte("."))
	switch {
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		res.Report = coord.TestReport{Outcome: coord.TestsTimedOut, Reason: "The tests were still being compiled."}
	case limited.Err() != nil:
		res.Report = coord.TestReport{Outcome: coord.TestsCancelled}
	case err != nil:
		res.Report = coord.TestReport{Outcome: coord.TestsFailed, Reason: "The tests do not compile."}
	default:
		// A package without tests compiles to nothing.
		if _, err := os.Stat(program); err != nil {
			res.Report = coord.TestReport{Outcome: coord.TestsFailed, Reason: "No test ran."}
		}
	}
	return program, release, res, nil
}

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	bytes.Buffer
	left int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	b.Buffer.Write(p[:n])
	return len(p), nil
}
