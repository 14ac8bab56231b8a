package ownerlock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signalbox/internal/coord"
	"signalbox/internal/journal/ownerlock"
)

const holderVariable = "SIGNALBOX_LOCK_HOLDER"

func TestMain(m *testing.M) {
	if path := os.Getenv(holderVariable); path != "" {
		hold(path)
		return
	}
	goleak.VerifyTestMain(m)
}

var start = coord.Moment{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), BootID: "boot-1", Boot: time.Hour, Awake: time.Hour}

func at(m coord.Moment) coord.Clock { return func() coord.Moment { return m } }

// hold is another process that owns path until its standard input ends.
func hold(path string) {
	l, err := ownerlock.Acquire(context.Background(), path, at(start), 0)
	if err == nil {
		err = l.SetGeneration(7)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

type holder struct {
	*exec.Cmd
	in io.WriteCloser
}

func startHolder(t *testing.T, path string) holder {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), holderVariable+"="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the holder says %q (%v)", line, err)
	}
	return holder{cmd, in}
}

func TestASecondProcessIsRefusedWithWhoHoldsTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "owner.lock")
	h := startHolder(t, path)
	// An hour without heartbeat changes nothing: the lock of the system counts.
	_, err := ownerlock.Acquire(t.Context(), path, at(start.Add(time.Hour)), 0)
	if coord.CodeOf(err) != coord.Conflict {
		t.Fatalf("error is %v, want a conflict", err)
	}
	pid := strconv.Itoa(h.Process.Pid)
	for _, part := range []string{"process " + pid, "last heartbeat 1h0m0s ago", "kill " + pid} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	r, err := ownerlock.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if r.PID != h.Process.Pid || r.Generation != 7 || r.BootID != "boot-1" || r.Start == "" || !r.Heartbeat.Wall.Equal(start.Wall) {
		t.Errorf("the record is %+v", r)
	}
}

func TestAKilledOwnerLeavesTheLockAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "owner.lock")
	h := startHolder(t, path)
	if err := h.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.Wait()
	l, err := ownerlock.Acquire(t.Context(), path, at(start), 0)
	if err != nil {
		t.Fatalf("after the owner was killed: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestWaitingTakesOverFromADrainingOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "owner.lock")
	h := startHolder(t, path)
	acquired := make(chan error, 1)
	go func() {
		l, err := ownerlock.Acquire(t.Context(), path, at(start), time.Minute)
		if err == nil {
			err = l.Release()
		}
		acquired <- err
	}()
	select {
	case err := <-acquired:
		t.Fatalf("acquired while another process holds the lock: %v", err)
	default:
	}
	_ = h.in.Close()
	if err := <-acquired; err != nil {
		t.Fatal(err)
	}
}

func TestWaitingEndsWithItsTimeOrContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "owner.lock")
	startHolder(t, path)
	if _, err := ownerlock.Acquire(t.Context(), path, at(start), 120*time.Millisecond); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("after the time: %v, want a conflict", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(coord.Errorf(coord.Unavailable, "shutting down"))
	if _, err := ownerlock.Acquire(ctx, path, at(start), time.Minute); err == nil || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("with an ended context: %v, want its cause", err)
	}
}

func TestBeatRenewsTheRecordWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "owner.lock")
	now := start
	l, err := ownerlock.Acquire(t.Context(), path, func() coord.Moment { return now }, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	})
	for range 3 {
		now = now.Add(coord.HeartbeatInterval)
		if err := l.Beat(); err != nil {
			t.Fatal(err)
		}
		r, err := ownerlock.Read(path)
		if err != nil || !r.Heartbeat.Wall.Equal(now.Wall) || !r.Since.Wall.Equal(start.Wall) {
			t.Errorf("the record is %+v (%v)", r, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
}

func TestALockThatCannotBeMadeSaysWhatToDo(t *testing.T) {
	_, err := ownerlock.Acquire(t.Context(), filepath.Join(t.TempDir(), "missing", "owner.lock"), at(start), 0)
	if coord.CodeOf(err) != coord.Unavailable || !strings.Contains(err.Error(), "check the path") {
		t.Errorf("error is %v", err)
	}
}
