package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/journal/journaltest"
)

// The disk of this test is a small file system in memory, mounted in a mount
// namespace of a child's own: a disk that is really full, without touching
// the machine's.
func TestAFullDiskLeavesRoomForControlOperationsOnly(t *testing.T) {
	cmd := child(t, "full", "JOURNAL_DIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		t.Fatalf("in a mount namespace of its own (needs user namespaces): %v", err)
	}
}

func childFull() {
	if err := fillDisk(os.Getenv("JOURNAL_DIR")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fillDisk plays the whole story: a disk fills up, control goes on from the
// reserve, text is refused, the reserve is used up, the journal fails, space
// returns, and everything acknowledged is there.
func fillDisk(mount string) error {
	if err := unix.Mount("none", mount, "tmpfs", 0, "size=80m,mode=0700"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	ctx, dir := context.Background(), filepath.Join(mount, "data")
	open := func() (*journal.Journal, error) {
		o := options(dir, journaltest.At(journaltest.Start))
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError + 1}))
		return journal.Open(ctx, o)
	}
	j, err := open()
	if err != nil {
		return err
	}
	reserve := filepath.Join(dir, "reserve")
	var occupied unix.Stat_t
	if err := unix.Stat(reserve, &occupied); err != nil {
		return err
	}
	const blockSize = 512 // stat(2)
	if occupied.Size != coord.ReserveSpace || occupied.Blocks*blockSize < coord.ReserveSpace {
		return fmt.Errorf("the reserve has %d bytes in %d blocks, not %d", occupied.Size, occupied.Blocks, coord.ReserveSpace)
	}
	ballast := filepath.Join(mount, "ballast")

	// Somebody else fills the disk while Signalbox is down: it starts all the
	// same, on its reserve.
	if err := errors.Join(j.Close(), fillUp(ballast)); err != nil {
		return err
	}
	if j, err = open(); err != nil {
		return fmt.Errorf("open on a full disk: %w", err)
	}
	if err := j.Update(ctx, func(tx *journal.Tx) error {
		tx.Append(coord.Event{Kind: coord.JobChanged})
		return nil
	}); err != nil {
		return fmt.Errorf("control after opening on a full disk: %w", err)
	}
	if err := errors.Join(j.Close(), os.Remove(ballast)); err != nil {
		return err
	}

	// With the reserve made again, it fills while Signalbox runs.
	if j, err = open(); err != nil {
		return err
	}
	if err := fillUp(ballast); err != nil {
		return err
	}

	// Text fills what SQLite still has, then is refused, and nothing of it
	// stays; from then on the reserve serves control.
	data := []byte(`"` + strings.Repeat("text", 16<<10) + `"`)
	var told []bool // of the last one
	write := func(update func(context.Context, func(*journal.Tx) error) error) error {
		told = nil
		return update(ctx, func(tx *journal.Tx) error {
			tx.Ended(func(committed bool) { told = append(told, committed) })
			// The job has a new name until something of it is kept.
			tx.Append(coord.Event{Kind: coord.AttemptText, Job: coord.JobID(fmt.Sprint("job_", j.Head())), Data: data})
			return nil
		})
	}
	for err = write(j.UpdateText); err == nil; err = write(j.UpdateText) {
	}
	if coord.CodeOf(err) != coord.Unavailable {
		return fmt.Errorf("text on a full disk: %w", err)
	}
	if !slices.Equal(told, []bool{false}) {
		return fmt.Errorf("text that was refused was told as committed: %v", told)
	}
	head := j.Head()
	if _, err := os.Stat(reserve); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the reserve is still there: %w", err)
	}
	if err := write(j.UpdateText); coord.CodeOf(err) != coord.Unavailable {
		return fmt.Errorf("text while the reserve serves: %w", err)
	}
	if err := write(j.Update); err != nil || j.Head() != head+1 {
		return fmt.Errorf("control on a full disk: head %d after %d: %w", j.Head(), head, err)
	}
	if !slices.Equal(told, []bool{true}) {
		return fmt.Errorf("control on a full disk was told as %v", told)
	}
	if err := j.View(ctx, func(v *journal.View) error {
		found, err := v.Events(0, journal.EventFilter{Job: coord.JobID(fmt.Sprint("job_", head))}, 9)
		if len(found) != 1 {
			return fmt.Errorf("of the job whose text was refused before, %d events are found: %w", len(found), err)
		}
		return err
	}); err != nil {
		return err
	}
	if j.Err() != nil {
		return fmt.Errorf("the journal failed while the reserve served: %w", j.Err())
	}

	// The reserve is used up as well: the journal fails.
	if err := fillUp(ballast); err != nil {
		return err
	}
	for err = write(j.Update); err == nil; err = write(j.Update) {
	}
	if coord.CodeOf(err) != coord.Unavailable {
		return fmt.Errorf("control without any space: %w", err)
	}
	<-j.Failed()
	head = j.Head()
	_ = j.Close() // the last move of the log into the database may lack space, too

	// Space returns.
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if j, err = open(); err != nil {
		return fmt.Errorf("open after the space returned: %w", err)
	}
	if j.Head() != head {
		return fmt.Errorf("head is %d after reopening, want %d", j.Head(), head)
	}
	if info, err := os.Stat(reserve); err != nil || info.Size() != coord.ReserveSpace {
		return fmt.Errorf("the reserve was not made again: %w", err)
	}
	if err := write(j.UpdateText); err != nil {
		return fmt.Errorf("text after the space returned: %w", err)
	}
	return j.Close()
}

// fillUp appends to path until the disk is full.
func fillUp(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
