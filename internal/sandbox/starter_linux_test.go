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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/sandbox"
)

// spares are the stages of a process that wait for their order.
func spares(t *testing.T, parent int) []int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, path := range all {
		stat, _ := os.ReadFile(path)
		// proc_pid_stat(5): the name is in parentheses; state and parent follow.
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		fields := strings.Fields(string(rest))
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(parent) && string(command) == "signalbox\x00__sandbox\x00" {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, pid)
		}
	}
	return found
}

// spare waits for the one spare of a process.
func spare(t *testing.T, parent int) int {
	t.Helper()
	var found []int
	eventually(t, "one stage waits", func() bool { found = spares(t, parent); return len(found) == 1 })
	return found[0]
}

// whoami prints the number of the program's process, which in the tier landlock
// is that of its stage.
const whoami = `echo $$`

func TestNextRunTakesTheStageThatWaits(t *testing.T) {
	eachTier(t, func(t *testing.T, tier coord.Tier) {
		box := newBox(t)
		s := sh(t, tier, t.TempDir(), whoami)
		if got := spares(t, os.Getpid()); len(got) != 0 {
			t.Fatalf("before the first run there are %v", got)
		}
		must(t, box, s)
		waits := spare(t, os.Getpid())
		out := must(t, box, s)
		if tier == coord.TierLandlock && string(out.Output) != fmt.Sprintln(waits) {
			t.Errorf("%d waited, and %s ran", waits, out.Output)
		}
		if slices.Contains(spares(t, os.Getpid()), waits) {
			t.Error("the stage that waited was not taken")
		}
		if next := spare(t, os.Getpid()); next == waits {
			t.Error("it waits again")
		}
	})
}

func TestAnnouncedRunFindsAStage(t *testing.T) {
	box := newBox(t)
	box.Announce(coord.TierLandlock)
	waits := spare(t, os.Getpid())
	box.Announce(coord.TierLandlock)
	box.Announce("best effort")
	if out := must(t, box, sh(t, coord.TierLandlock, t.TempDir(), whoami)); string(out.Output) != fmt.Sprintln(waits) {
		t.Errorf("%d waited, and %s ran", waits, out.Output)
	}
}

// look prints what a program can see of how it was started.
const look = `echo "fds:"; for f in /proc/self/fd/*; do echo "$f"; done
	echo "mounts:"; while read a b c d rest; do echo "$d $rest"; done </proc/self/mountinfo
	while read l; do case "$l" in Cap*|NoNewPrivs*|Seccomp:*|Groups*|Uid*|Gid*|Sig*|Shd*|Umask*) echo "$l";; esac; done </proc/self/status
	while read l; do echo "$l"; done </proc/self/limits
	pwd; umask; set`

// varying are names of directories and numbers of processes and file systems.
var varying = regexp.MustCompile(`run-\d+|PPID='\d+'|SigQ.*|\b\d+:\d+\b`)

func TestProgramSeesTheSameInAStageThatWaited(t *testing.T) {
	eachTier(t, func(t *testing.T, tier coord.Tier) {
		s := sh(t, tier, t.TempDir(), look)
		saw := func(out sandbox.Outcome) string { return varying.ReplaceAllString(string(out.Output), "*") }
		box := newBox(t)
		cold := saw(must(t, box, s))
		spare(t, os.Getpid())
		// Nothing that happens to this process meanwhile reaches it either.
		leak, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer leak.Close()
		t.Setenv("LEAK", "leak")
		if diff := cmp.Diff(cold, saw(must(t, box, s))); diff != "" {
			t.Errorf("a program that did not wait for its stage sees something else (-first +second):\n%s", diff)
		}
		if !strings.Contains(cold, "NoNewPrivs:\t1") || !strings.Contains(cold, "Max open files") {
			t.Errorf("this test compares too little:\n%s", cold)
		}
	})
}

func TestStageThatNoLongerFitsIsNotTaken(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, helper string, waits int){
		"another program": func(t *testing.T, helper string, _ int) {
			text, err := os.ReadFile(helper)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(helper+".new", text, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(helper+".new", helper); err != nil {
				t.Fatal(err)
			}
		},
		"killed": func(t *testing.T, _ string, waits int) {
			if err := syscall.Kill(waits, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is gone", func() bool { return !slices.Contains(spares(t, os.Getpid()), waits) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			own := filepath.Join(dir, "helper")
			text, err := os.ReadFile(helper)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(own, text, 0o755); err != nil {
				t.Fatal(err)
			}
			box, err := sandbox.New(own, filepath.Join(dir, "scratch"))
			if err != nil {
				t.Fatal(err)
			}
			defer box.Close()
			s := sh(t, coord.TierLandlock, t.TempDir(), whoami)
			must(t, box, s)
			waits := spare(t, os.Getpid())
			spoil(t, own, waits)
			if out := must(t, box, s); string(out.Output) == fmt.Sprintln(waits) {
				t.Error("it was taken")
			}
			eventually(t, "it is gone", func() bool { return !slices.Contains(spares(t, os.Getpid()), waits) })
		})
	}
}

func TestRunWithoutOurProgramSaysSo(t *testing.T) {
	box, err := sandbox.New(filepath.Join(t.TempDir(), "absent"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	box.Announce(coord.TierLandlock)
	if _, err := box.Run(t.Context(), sh(t, coord.TierLandlock, t.TempDir(), "exit 0")); coord.CodeOf(err) != coord.Unavailable || !strings.Contains(err.Error(), "signalbox serve") {
		t.Errorf("it gave %v", err)
	}
}

func TestStageThatNobodyTakesEnds(t *testing.T) {
	box := newBox(t)
	box.HurrySpares(2*time.Second, 10*time.Millisecond)
	box.Announce(coord.TierNamespaces)
	spare(t, os.Getpid())
	eventually(t, "it is gone", func() bool { return len(spares(t, os.Getpid())) == 0 })
}

func TestCloseLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	box, err := sandbox.New(helper, dir)
	if err != nil {
		t.Fatal(err)
	}
	ws := t.TempDir()
	for _, tier := range tiers {
		must(t, box, sh(t, tier, ws, "exit 0"))
	}
	eventually(t, "two stages wait", func() bool { return len(spares(t, os.Getpid())) == 2 })
	ended := make(chan sandbox.Ending, 1)
	mark := "marker-" + filepath.Base(filepath.Dir(dir))
	go func() {
		out, _ := box.Run(context.Background(), sh(t, coord.TierNamespaces, ws, "while :; do :; done # "+mark))
		ended <- out.Ending
	}()
	eventually(t, "a program runs", func() bool { return len(processesWith(t, mark)) > 0 })
	box.Close()
	if got := <-ended; got != sandbox.Cancelled {
		t.Errorf("the run ended with %q", got)
	}
	if got := spares(t, os.Getpid()); len(got) != 0 {
		t.Errorf("the stages %v are left", got)
	}
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("there is %v", names)
	}
	if _, err := box.Run(t.Context(), sh(t, coord.TierNamespaces, ws, "exit 0")); coord.CodeOf(err) != coord.Unavailable {
		t.Errorf("a later run: %v", err)
	}
	box.Close()
}

func TestStageWithoutAnOrderEndsWithItsPipe(t *testing.T) {
	order, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	status, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer status.Close()
	cmd := exec.CommandContext(t.Context(), helper, "__sandbox")
	cmd.ExtraFiles = []*os.File{order, theirs, theirs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(order.Close(), theirs.Close(), ours.Close()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	var said bytes.Buffer
	if _, err := said.ReadFrom(status); err != nil || said.Len() > 0 {
		t.Errorf("it said %q (%v)", said.Bytes(), err)
	}
}

// again is what a supervisor in a process of its own does: it runs a spec, says
// so, waits for a line, and runs it again. mount lays a new file system over the
// workspace before.
type again struct {
	Spec        sandbox.Spec
	Helper, Dir string
	Mount       bool
}

// againEnv makes the test binary that supervisor.
const againEnv = "SANDBOX_TEST_AGAIN"

func init() { others[againEnv] = runAgain }

func runAgain(text string) int {
	var a again
	err := json.Unmarshal([]byte(text), &a)
	if err == nil {
		err = a.run()
	}
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

func (a again) run() error {
	if a.Mount {
		// So that nothing but the spare's age can keep the mount from it.
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			return err
		}
	}
	box, err := sandbox.New(a.Helper, a.Dir)
	if err != nil {
		return err
	}
	defer box.Close()
	for i := range 2 {
		ctx, cancel := timeout()
		out, err := box.Run(ctx, a.Spec)
		cancel()
		if err != nil {
			return err
		}
		fmt.Printf("%s", out.Output)
		if i == 1 {
			return nil
		}
		var line [1]byte
		if _, err := os.Stdin.Read(line[:]); err != nil {
			return err
		}
		if a.Mount {
			if err := syscall.Mount("tmpfs", a.Spec.Workspace, "tmpfs", 0, ""); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(a.Spec.Workspace, "x"), []byte("mounted\n"), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a again) command(t *testing.T) (*exec.Cmd, *os.File) {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), againEnv+"="+string(text))
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = in
	t.Cleanup(func() { _ = in.Close(); _ = out.Close() })
	return cmd, out
}

func TestRunSeesWhatWasMountedWhileItsStageWaited(t *testing.T) {
	eachTier(t, func(t *testing.T, tier coord.Tier) {
		ws := t.TempDir()
		write(t, filepath.Join(ws, "x"), "plain\n")
		a := again{Spec: sh(t, tier, ws, `read line <x; echo $line`), Helper: helper, Dir: t.TempDir(), Mount: true}
		cmd, proceed := a.command(t)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
			AmbientCaps: []uintptr{21}, // CAP_SYS_ADMIN
		}
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		spare(t, cmd.Process.Pid)
		if _, err := proceed.WriteString("\n"); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil || out.String() != "plain\nmounted\n" {
			t.Errorf("the two runs saw %q (%v)", out.String(), err)
		}
	})
}

func TestStageThatWaitsEndsWithItsKilledSupervisor(t *testing.T) {
	eachTier(t, func(t *testing.T, tier coord.Tier) {
		cmd, _ := again{Spec: sh(t, tier, t.TempDir(), "exit 0"), Helper: helper, Dir: t.TempDir()}.command(t)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waits := spare(t, cmd.Process.Pid)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		eventually(t, "the stage is gone", func() bool { return errors.Is(syscall.Kill(waits, 0), syscall.ESRCH) })
	})
}
