package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
	"signalbox/internal/sandbox"
)

// sandboxRuns is how often each program is run in each way. The ways take turns,
// so that whatever else the machine does weighs on all of them.
const sandboxRuns = 20

// confined is a program that is run in several ways.
type confined struct {
	name      string
	program   string
	args      []string
	workspace string
}

// measureSandbox is what it costs to run a program confined, beside running it
// directly and beside bubblewrap, which is asked for about the same namespaces
// and mounts, and for no filter.
func measureSandbox(ctx context.Context, b *bench) ([]figure, error) {
	waiting, err := waitingMemory(ctx, b)
	if err != nil {
		return nil, err
	}
	box, err := sandbox.New(b.program, filepath.Join(b.dir, "sandbox"))
	if err != nil {
		return nil, err
	}
	programs, err := confinedPrograms(b)
	if err != nil {
		return nil, err
	}
	defer box.Close()
	var figures []figure
	for _, p := range programs {
		some, err := overhead(ctx, b, box, p)
		if err != nil {
			return figures, fmt.Errorf("%s: %w", p.name, err)
		}
		figures = append(figures, some...)
	}
	ends, err := killToExit(ctx, box, b)
	if err != nil {
		return figures, err
	}
	figures = append(figures, ends...)
	figures = append(figures, waiting)
	scan, err := scanLarge(ctx, box, b)
	return append(figures, scan...), err
}

func confinedPrograms(b *bench) ([]confined, error) {
	workspace := filepath.Join(b.dir, "workspace")
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return nil, err
	}
	test := "import { expect, test } from 'bun:test';\ntest('one', () => expect(1).toBe(1));\n"
	if err := os.WriteFile(filepath.Join(workspace, "one.test.ts"), []byte(test), 0o600); err != nil {
		return nil, err
	}
	all := []confined{{"a Go program", b.hello, nil, workspace}}
	cache, err := peers.Install()
	if err != nil {
		return nil, err
	}
	bun := filepath.Join(cache, "node_modules", "@oven", "bun-linux-x64", "bin", "bun")
	return append(all, confined{"bun test", bun, []string{"test", "./one.test.ts"}, workspace}), nil
}

// settle is the pause after each run, in which a spare stage gets ready. The
// pauses of a person are longer.
const settle = 50 * time.Millisecond

// way is one way to run a program; it tells how long that took.
type way struct {
	name string
	run  func() (time.Duration, error)
}

// overhead measures one program. The goals are those of the design, for what a
// person's second run of tests sees: tier 1 costs less than bubblewrap does,
// tier 2 less than half of that. The first run, for which nothing waits, is
// told beside it.
func overhead(ctx context.Context, b *bench, box *sandbox.Box, p confined) ([]figure, error) {
	confine := func(box *sandbox.Box, tier coord.Tier) error {
		out, err := box.Run(ctx, sandbox.Spec{Tier: tier, Program: p.program, Args: p.args, Workspace: p.workspace, Limits: sandbox.DefaultLimits()})
		if err == nil && (out.Ending != sandbox.Exited || out.Exit != 0) {
			err = fmt.Errorf("it ended with %s %d %s: %.500s", out.Ending, out.Exit, out.Signal, out.Output)
		}
		return err
	}
	timed := func(run func() error) (time.Duration, error) {
		start := time.Now()
		err := run()
		return time.Since(start), err
	}
	var ways []way
	add := func(name string, run func() (time.Duration, error)) { ways = append(ways, way{name, run}) }
	add("direct", func() (time.Duration, error) { return timed(func() error { return output(directly(ctx, p)) }) })
	for _, tier := range benchTiers {
		add("warm "+string(tier), func() (time.Duration, error) { return timed(func() error { return confine(box, tier) }) })
		add("cold "+string(tier), func() (time.Duration, error) {
			fresh, err := sandbox.New(b.program, filepath.Join(b.dir, "sandbox"))
			if err != nil {
				return 0, err
			}
			defer fresh.Close()
			// What a worker knows from the certificate is known here too.
			if _, _, err := fresh.Hash(p.program); err != nil {
				return 0, err
			}
			return timed(func() error { return confine(fresh, tier) })
		})
	}
	bwrap, err := exec.LookPath("bwrap")
	if err == nil {
		add("bubblewrap", func() (time.Duration, error) { return timed(func() error { return output(wrapped(ctx, bwrap, p)) }) })
	}
	took := map[string][]time.Duration{}
	for i := range sandboxRuns + 2 {
		for _, w := range ways {
			one, err := w.run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
			if i >= 2 { // the first ones read the programs from the disk
				took[w.name] = append(took[w.name], one)
			}
			select {
			case <-time.After(settle):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
	direct := median(took["direct"])
	over := func(way string) float64 { return ms(median(took[way]) - direct) }
	beside := fmt.Sprintf("over %.1f ms directly", ms(direct))
	const warm = "; a stage waits, as for all runs but a person's first"
	goal := func(name string, value, _ float64) figure {
		return told(name, value, "ms", beside+"; bubblewrap is not installed"+warm)
	}
	var wrap float64
	if bwrap != "" {
		wrap = over("bubblewrap")
		beside = fmt.Sprintf("%s; bubblewrap %.1f ms", beside, wrap)
		goal = func(name string, value, most float64) figure { return atMost(name, value, most, "ms", beside+warm) }
	}
	var figures []figure
	for i, tier := range benchTiers {
		name := fmt.Sprintf("%s, tier %d", p.name, i+1)
		figures = append(figures,
			goal(name+", second run on", over("warm "+string(tier)), wrap/float64(i+1)),
			told(name+", first run", over("cold "+string(tier)), "ms", beside))
	}
	return figures, nil
}

// benchTiers are the tiers in the order of their numbers.
var benchTiers = []coord.Tier{coord.TierNamespaces, coord.TierLandlock}

func directly(ctx context.Context, p confined) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.program, p.args...)
	cmd.Dir, cmd.Env = p.workspace, []string{"HOME=/nonexistent", "TMPDIR=/tmp", "PATH=/nonexistent"}
	return cmd
}

// wrapped is the same run in bubblewrap.
func wrapped(ctx context.Context, bwrap string, p confined) *exec.Cmd {
	args := []string{"--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"}
	for _, path := range []string{"/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/localtime"} {
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		if target, err := os.Readlink(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
			args = append(args, "--symlink", target, path)
			continue
		}
		args = append(args, "--ro-bind", path, path)
	}
	args = append(args, "--ro-bind", p.program, p.program, "--ro-bind", p.workspace, p.workspace, "--tmpfs", "/scratch", "--dev", "/dev", "--proc", "/proc",
		"--chdir", p.workspace, "--setenv", "HOME", "/scratch", "--setenv", "TMPDIR", "/scratch", "--", p.program)
	return exec.CommandContext(ctx, bwrap, append(args, p.args...)...)
}

// output runs a command, and tells what it printed when it failed.
func output(cmd *exec.Cmd) error {
	text, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %.500s", err, text)
	}
	return nil
}

// killToExit is the time from the decision to end a busy run to its proven end.
func killToExit(ctx context.Context, box *sandbox.Box, b *bench) ([]figure, error) {
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		return nil, err
	}
	var figures []figure
	for i, tier := range benchTiers {
		limits := sandbox.DefaultLimits()
		limits.Wall = 150 * time.Millisecond
		var took []time.Duration
		for range sandboxRuns {
			out, err := box.Run(ctx, sandbox.Spec{Tier: tier, Program: shell, Args: []string{"-c", "while :; do :; done"}, Workspace: filepath.Join(b.dir, "workspace"), Limits: limits})
			if err != nil {
				return figures, err
			}
			if out.Ending != sandbox.TimedOut || !out.Gone {
				return figures, errors.New("a busy run did not end at its limit")
			}
			took = append(took, out.Kill)
		}
		figures = append(figures, told(fmt.Sprintf("kill to exit, tier %d", i+1), float64(median(took).Microseconds()), "us", "from the decision to nothing left"))
	}
	return figures, nil
}

// waitingMemory is what the stage that waits for the next run takes.
func waitingMemory(ctx context.Context, b *bench) (figure, error) {
	box, err := sandbox.New(b.program, filepath.Join(b.dir, "sandbox"))
	if err != nil {
		return figure{}, err
	}
	defer box.Close()
	box.Announce(coord.TierNamespaces)
	select {
	case <-time.After(10 * settle):
	case <-ctx.Done():
		return figure{}, context.Cause(ctx)
	}
	pid, err := child(os.Getpid())
	if err != nil {
		return figure{}, err
	}
	own, err := memory(pid, "RssAnon")
	if err != nil {
		return figure{}, err
	}
	all, err := memory(pid, "VmRSS")
	return told("a stage that waits", own, "MB", fmt.Sprintf("of its own; %.1f MB with what it shares with the worker", all)), err
}

// scanLarge is what a workspace of 70,000 files adds to a run: all of them are
// looked at for names and links that are hidden.
func scanLarge(ctx context.Context, box *sandbox.Box, b *bench) ([]figure, error) {
	large := filepath.Join(b.dir, "large")
	for _, top := range []string{"src", "node_modules"} {
		for d := range 700 {
			dir := filepath.Join(large, top, fmt.Sprint("group", d%26), fmt.Sprint("package", d))
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, err
			}
			for f := range 50 {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("file", f, ".ts")), nil, 0o600); err != nil {
					return nil, err
				}
			}
		}
	}
	took := map[string][]time.Duration{}
	for range 5 {
		for _, workspace := range []string{large, filepath.Join(b.dir, "workspace")} {
			start := time.Now()
			if _, err := box.Run(ctx, sandbox.Spec{Tier: coord.TierLandlock, Program: b.hello, Workspace: workspace, Limits: sandbox.DefaultLimits()}); err != nil {
				return nil, err
			}
			took[workspace] = append(took[workspace], time.Since(start))
		}
	}
	small := median(took[filepath.Join(b.dir, "workspace")])
	return []figure{atMost("scan of 70,000 files", ms(median(took[large])-small), 1000, "ms", fmt.Sprintf("over a run in an empty workspace: %.1f ms", ms(small)))}, nil
}
