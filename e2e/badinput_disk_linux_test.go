package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"signalbox/e2e/rogue"
	"signalbox/internal/api"
	"signalbox/internal/coord"
)

// smallDiskWord makes this test program mount a disk of its own and become
// another program on it:
//
//	on-small-disk FOLDER OPTIONS PROGRAM ARG...
//
// It runs in a mount namespace of its own, so that the disk is nobody else's.
// The options ro make the folder as it is read-only instead.
const smallDiskWord = "on-small-disk"

func smallDiskMain(args []string) int {
	err := func() error {
		if len(args) < 3 {
			return errors.New("usage: " + smallDiskWord + " FOLDER OPTIONS PROGRAM ARG...")
		}
		dir, options := args[0], args[1]
		if options == "ro" {
			if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("bind: %w", err)
			}
			if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				return fmt.Errorf("remount: %w", err)
			}
		} else if err := unix.Mount("none", dir, "tmpfs", 0, options); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
		return syscall.Exec(args[2], args[2:], os.Environ())
	}()
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// onDisk is the program with a disk of its own at dir.
func (w *world) onDisk(dir, options string, args ...string) *exec.Cmd {
	w.t.Helper()
	cmd := exec.CommandContext(w.ctx, w.self(), append([]string{smallDiskWord, dir, options, binary}, args...)...)
	cmd.Env = w.env
	cmd.SysProcAttr = bound()
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	return cmd
}

func TestOnALowDiskNothingIsDispatchedAndControlGoesOn(t *testing.T) {
	w := closedWorld(t)
	mount := t.TempDir()
	w.dir = filepath.Join(mount, "data")
	d := &door{exited: make(chan struct{}), stderr: filepath.Join(t.TempDir(), "serve.log")}
	log, err := os.Create(d.stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// A little more than what is needed to dispatch, with the reserve.
	const size = coord.MinFreeSpace + coord.ReserveSpace + 32<<20
	d.cmd = w.onDisk(mount, fmt.Sprintf("size=%d,mode=0700", size), "serve", "--listen", "0", "--data", w.dir, "--json")
	first := &firstLine{to: &d.stdout, line: make(chan []byte, 1)}
	d.cmd.Stdout, d.cmd.Stderr = first, log
	if err := d.cmd.Start(); err != nil {
		t.Fatalf("in a mount namespace of its own (needs user namespaces): %v", err)
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.exited)
	}()
	w.door = d
	var ready struct{ URL, Pair string }
	select {
	case line := <-first.line:
		if err := json.Unmarshal(line, &ready); err != nil {
			t.Fatal(err)
		}
	case <-d.exited:
		t.Fatalf("serve ended: %v\n%s", d.err, w.log())
	}
	d.url = ready.URL
	w.pair(ready.Pair)
	w.login()

	director := rogue.New()
	url := listen(t, director)
	for _, id := range []string{"before", "during", "after"} {
		w.cast(url, id)
		director.Cast(id, "", "stream:100000")
	}
	director.Cast("after", "", "echo")
	one := w.run(plan(task("t", "before", "work")))
	w.when("the first agent to work", func() bool { return w.result(one, "t").Partial != "" })

	// The disk as the program sees it, from outside its namespace.
	ballast, err := os.OpenFile(filepath.Join("/proc", fmt.Sprint(d.cmd.Process.Pid), "root", mount, "ballast"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer ballast.Close()
	w.fill(ballast, 48<<20)
	status := func() api.Status { return must[api.Status](w, "status")(w.client.Status(w.ctx)) }
	if s := status(); !s.LowDisk || s.Free >= coord.MinFreeSpace || s.Free == 0 {
		t.Errorf("with %d bytes free, low_disk is %v", s.Free, s.LowDisk)
	}
	two := w.run(plan(task("t", "during", "not now")))
	three := w.run(plan(task("t", "after", "when there is space")))
	if s := status(); s.Ready != 2 || s.Running != 1 {
		t.Errorf("%d ready, %d running", s.Ready, s.Running)
	}

	// The disk is full to the last byte. Text ends, and control goes on.
	w.fill(ballast, 1<<40)
	w.when("the reserve to serve", func() bool {
		must[coord.Job](w, "cancel on a full disk")(w.client.CancelJob(w.ctx, two))
		return w.job(two).State == coord.JobCancelled
	})
	must[coord.Job](w, "cancel what runs on a full disk")(w.client.CancelJob(w.ctx, one))
	w.when("the running job to settle", func() bool { return w.job(one).State != coord.JobRunning })
	a := w.attempt(one, "t")
	t.Logf("the attempt that ran while the disk filled is %s (%s: %s)", a.State, a.Cause, a.Reason)
	if a.Live() || len(director.Prompts("before")) != 1 {
		t.Errorf("the attempt is %s after %d prompts", a.State, len(director.Prompts("before")))
	}
	w.expect(three, "t:ready")
	if n := len(director.Prompts("during")) + len(director.Prompts("after")); n != 0 {
		t.Errorf("%d prompts were sent below the bound", n)
	}

	// Space returns, and what waited goes on by itself.
	if err := ballast.Truncate(0); err != nil {
		t.Fatal(err)
	}
	w.settles(three, coord.JobCompleted)
	if s := status(); s.LowDisk {
		t.Error("low_disk stays when there is space")
	}
	w.sound()
}

// fill writes n bytes, or as many as there is space for.
func (w *world) fill(f *os.File, n int64) {
	w.t.Helper()
	block := make([]byte, 64<<10)
	for left := n; left > 0; left -= int64(len(block)) {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			if len(block) == 4<<10 {
				return
			}
			block = block[:4<<10]
		} else if err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestAReadOnlyDataDirectoryIsTold(t *testing.T) {
	w := closedWorld(t)
	dir := t.TempDir()
	cmd := w.onDisk(dir, "ro", "serve", "--listen", "0", "--data", dir)
	var log bytes.Buffer
	cmd.Stderr = &log
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 7 || !strings.Contains(log.String(), dir) || !strings.Contains(log.String(), "read-only") || !strings.Contains(log.String(), "--data") {
		t.Errorf("serve ends with %d (%v): %s", code, err, log.String())
	}
}
