package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/sandbox"
)

const shell = "/bin/sh"

// sh is a run of a shell, which can do what its builtins can.
func sh(t testing.TB, tier coord.Tier, workspace, script string) sandbox.Spec {
	t.Helper()
	path, err := filepath.EvalSymlinks(shell)
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Spec{Tier: tier, Program: path, Args: []string{"-c", script}, Workspace: workspace, Limits: sandbox.DefaultLimits()}
}

func must(t *testing.T, box *sandbox.Box, s sandbox.Spec) sandbox.Outcome {
	t.Helper()
	out, err := box.Run(t.Context(), s)
	if err != nil {
		t.Fatalf("%v (%v)", err, errors.Unwrap(err))
	}
	if !out.Gone {
		t.Error("something of the run is left")
	}
	return out
}

func write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOutcomeTellsExitSignalOutputAndReport(t *testing.T) {
	box := newBox(t)
	eachTier(t, func(t *testing.T, tier coord.Tier) {
		ws := t.TempDir()
		s := sh(t, tier, ws, `echo "$0 $A $TMPDIR"; echo err >&2; echo report >/proc/self/fd/3; cd; pwd; exit 7`)
		s.Env, s.Report = []string{"A={scratch}/x"}, true
		out := must(t, box, s)
		lines := strings.Split(string(out.Output), "\n")
		if out.Ending != sandbox.Exited || out.Exit != 7 || out.Signal != "" || len(lines) != 4 || lines[1] != "err" {
			t.Errorf("outcome %+v\n%s", out, out.Output)
		}
		if want := lines[2]; !strings.HasPrefix(want, "/") || !strings.Contains(lines[0], want+"/x "+want) {
			t.Errorf("the scratch directory is told as %q, and is %q", lines[0], want)
		}
		if string(out.Report) != "report\n" {
			t.Errorf("report %q", out.Report)
		}
		out = must(t, box, sh(t, tier, ws, `kill -TERM $$`))
		if out.Exit != -1 || out.Signal != "SIGTERM" {
			t.Errorf("after a signal: %+v", out)
		}
	})
}

func TestProgramSeesExactlyTheEnvironmentOfTheRun(t *testing.T) {
	t.Setenv("SIGNALBOX_TOKEN", "leak")
	box := newBox(t)
	eachTier(t, func(t *testing.T, tier coord.Tier) {
		env, err := filepath.EvalSymlinks("/usr/bin/env")
		if err != nil {
			t.Fatal(err)
		}
		out := must(t, box, sandbox.Spec{Tier: tier, Program: env, Env: []string{"A=1"}, Workspace: t.TempDir(), Limits: sandbox.DefaultLimits()})
		var names []string
		for line := range strings.Lines(string(out.Output)) {
			name, _, _ := strings.Cut(line, "=")
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != "HOME TMPDIR XDG_CACHE_HOME PATH LANG TZ CI NO_COLOR DO_NOT_TRACK A" {
			t.Errorf("the environment has %s", got)
		}
	})
}

func TestLimitsEndARunAndSayWhich(t *testing.T) {
	box := newBox(t)
	const spin = `while :; do :; done`
	for _, c := range []struct {
		name, script string
		change       func(*sandbox.Limits)
		cancel       time.Duration
		deadline     bool
		want         sandbox.Ending
	}{
		{name: "wall", script: spin, change: func(l *sandbox.Limits) { l.Wall = 300 * time.Millisecond }, want: sandbox.TimedOut},
		{name: "cpu", script: spin, change: func(l *sandbox.Limits) { l.CPU = time.Second }, want: sandbox.TimedOut},
		{name: "cpu, caught", script: `trap : XCPU; ` + spin, change: func(l *sandbox.Limits) { l.CPU = time.Second }, want: sandbox.TimedOut},
		{name: "output", script: `while :; do echo 0123456789012345678901234567890123456789; done`, want: sandbox.OutputLimit},
		{name: "cancel", script: spin, cancel: 200 * time.Millisecond, want: sandbox.Cancelled},
		{name: "deadline", script: spin, cancel: 200 * time.Millisecond, deadline: true, want: sandbox.TimedOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachTier(t, func(t *testing.T, tier coord.Tier) {
				s := sh(t, tier, t.TempDir(), c.script)
				if c.change != nil {
					c.change(&s.Limits)
				}
				ctx, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				switch {
				case c.deadline:
					var end context.CancelFunc
					ctx, end = context.WithTimeoutCause(ctx, c.cancel, errSlow)
					defer end()
				case c.cancel > 0:
					time.AfterFunc(c.cancel, func() { stop(errors.New("the operator")) })
				}
				out, err := box.Run(ctx, s)
				if err != nil {
					t.Fatal(err)
				}
				if out.Ending != c.want || !out.Gone {
					t.Errorf("outcome %+v", out)
				}
				if out.Kill > 5*time.Second || int64(len(out.Output)) > s.Limits.Output {
					t.Errorf("%d bytes of output, %s from the decision to the end", len(out.Output), out.Kill)
				}
			})
		})
	}
}

func TestChangesLieOverTheWorkspaceWhichStaysAsItIs(t *testing.T) {
	box := newBox(t)
	eachTier(t, func(t *testing.T, tier coord.Tier) {
		base := filepath.Join(t.TempDir(), `odd:na,me\`)
		for _, name := range []string{"changed", "deleted", "kept", "dir/kept", "becomes-dir", "dir/.env"} {
			write(t, filepath.Join(base, name), "old "+name+"\n")
		}
		hidden := write(t, filepath.Join(t.TempDir(), "elsewhere"), "linked\n")
		for _, name := range []string{"hard", "hard-changed"} {
			if err := os.Link(hidden, filepath.Join(base, name)); err != nil {
				t.Fatal(err)
			}
		}
		before := listing(t, base)
		content := func(text string) string { return write(t, filepath.Join(t.TempDir(), "c"), text) }
		s := sh(t, tier, base, `
			for f in changed kept dir/kept dir/new/deep becomes-dir/x hard-changed; do read line <$f; echo "$f=$line"; done
			for f in deleted hard dir/.env; do if read line <$f; then echo "sees $f"; fi; done 2>/dev/null
			[ -x changed ] && echo executable; [ -e deleted ] && echo "deleted is there"
			for f in dir/*; do echo "$f"; done`)
		s.Changes = []sandbox.Change{
			{Path: "changed", Content: content("new\n"), Mode: 0o755},
			{Path: "deleted"},
			{Path: "becomes-dir/x", Content: content("x\n"), Mode: 0o644},
			{Path: "becomes-dir"},
			{Path: "dir/new/deep", Content: content("deep\n"), Mode: 0o644},
			{Path: "hard-changed", Content: content("own\n"), Mode: 0o644},
		}
		out := must(t, box, s)
		want := "changed=new\nkept=old kept\ndir/kept=old dir/kept\ndir/new/deep=deep\nbecomes-dir/x=x\nhard-changed=own\nexecutable\ndir/kept\ndir/new\n"
		if string(out.Output) != want {
			t.Errorf("the program saw\n%s, want\n%s", out.Output, want)
		}
		if after := listing(t, base); after != before {
			t.Errorf("the workspace changed from\n%s to\n%s", before, after)
		}
	})
}

// listing is every file with its content, mode and time.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, _ := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %s %d %q\n", path, info.Mode(), info.ModTime().UnixNano(), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRunsThatCannotBeConfinedAreRefused(t *testing.T) {
	box := newBox(t)
	text := write(t, filepath.Join(t.TempDir(), "text"), "hello")
	if err := os.Chmod(text, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*sandbox.Spec)
		code   coord.Code
		says   string
	}{
		{"relative program", func(s *sandbox.Spec) { s.Program = "sh" }, coord.Invalid, "program"},
		{"absent program", func(s *sandbox.Spec) { s.Program = "/no/such" }, coord.NotFound, "program"},
		{"not a program", func(s *sandbox.Spec) { s.Program = text }, coord.Unsupported, "running the program failed"},
		{"other content", func(s *sandbox.Spec) { s.SHA256 = strings.Repeat("0", 64) }, coord.Stale, "approved"},
		{"root as workspace", func(s *sandbox.Spec) { s.Workspace = "/" }, coord.Invalid, "root"},
		{"absent workspace", func(s *sandbox.Spec) { s.Workspace = "/no/such" }, coord.Unavailable, "workspace"},
		{"change outside", func(s *sandbox.Spec) { s.Changes = []sandbox.Change{{Path: "../x"}} }, coord.Invalid, "outside"},
		{"change twice", func(s *sandbox.Spec) { s.Changes = []sandbox.Change{{Path: "x"}, {Path: "x"}} }, coord.Invalid, "twice"},
		{"change of a credential", func(s *sandbox.Spec) { s.Changes = []sandbox.Change{{Path: "a/.Env"}} }, coord.Invalid, "credential"},
		{"no limit", func(s *sandbox.Spec) { s.Limits.Data = 0 }, coord.Invalid, "limit"},
		{"unknown tier", func(s *sandbox.Spec) { s.Tier = "best effort" }, coord.Unsupported, "tier"},
		{"NUL", func(s *sandbox.Spec) { s.Args = []string{"a\x00b"} }, coord.Invalid, "NUL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sh(t, coord.TierNamespaces, t.TempDir(), "exit 0")
			c.change(&s)
			_, err := box.Run(t.Context(), s)
			if coord.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// supervisorEnv makes the test binary a supervisor that is killed.
const supervisorEnv = "SANDBOX_TEST_SUPERVISOR"

func supervisor(mode string) int {
	var s sandbox.Spec
	if err := json.Unmarshal([]byte(mode), &s); err != nil {
		return 2
	}
	box, err := sandbox.New(os.Getenv(supervisorEnv+"_HELPER"), os.Getenv(supervisorEnv+"_DIR"))
	if err != nil {
		return 2
	}
	ctx, cancel := timeout()
	defer cancel()
	_, _ = box.Run(ctx, s)
	return 3
}

func TestRunEndsWithItsKilledSupervisorAndSweepTakesItsScratch(t *testing.T) {
	eachTier(t, func(t *testing.T, tier coord.Tier) {
		dir := t.TempDir()
		ws := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(ws, "x"), 0o600); err != nil {
			t.Fatal(err)
		}
		mark := "marker-" + filepath.Base(filepath.Dir(dir)) + string(tier)
		s := sh(t, tier, ws, "while :; do :; done # "+mark)
		mode, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), supervisorEnv+"="+string(mode), supervisorEnv+"_HELPER="+helper, supervisorEnv+"_DIR="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running := func() bool { return len(processesWith(t, mark)) > 0 }
		eventually(t, "the program runs", running)
		box, err := sandbox.New(helper, dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := box.Sweep(); err != nil {
			t.Fatal(err)
		}
		if names, _ := os.ReadDir(dir); len(names) != 1 || !running() {
			t.Errorf("a sweep took a living run's scratch: %v", names)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		eventually(t, "the program is gone", func() bool { return !running() })
		if names, _ := os.ReadDir(dir); len(names) != 1 {
			t.Errorf("the killed supervisor left %v; this test would show nothing", names)
		}
		if err := box.Sweep(); err != nil {
			t.Fatal(err)
		}
		if names, _ := os.ReadDir(dir); len(names) != 0 {
			t.Errorf("after a sweep there is %v", names)
		}
	})
}

// processesWith finds the confined programs by their command line.
func processesWith(t *testing.T, mark string) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range all {
		text, _ := os.ReadFile(path)
		if bytes.Contains(text, []byte("# "+mark)) {
			found = append(found, path)
		}
	}
	return found
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for !cond() {
		select {
		case <-late:
			t.Fatalf("never came true: %s", what)
		case <-tick.C:
		}
	}
}

func TestProbeFindsTheStrongestTier(t *testing.T) {
	support, err := newBox(t).Probe(t.Context())
	if err != nil || support.Tier != coord.TierNamespaces || support.LandlockABI < 3 || len(support.Refusals) != 0 {
		t.Errorf("support %+v, %v", support, err)
	}
}
