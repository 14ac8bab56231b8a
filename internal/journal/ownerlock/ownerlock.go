// Package ownerlock makes sure that one process owns a data directory.
//
// The lock of the operating system decides, and it ends with the process that
// holds it, however that ends. The record in the file only says who that is:
// a stale heartbeat never permits a takeover.
package ownerlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
)

// recordSize is the fixed size of the record, padded with spaces, so that one
// write replaces it whole.
const recordSize = 1024

// retryInterval is how often a waiting Acquire tries again.
const retryInterval = 50 * time.Millisecond

// Record says who owns a directory.
type Record struct {
	PID int `json:"pid"`
	// Start identifies the process together with PID and BootID: its start
	// time as the system keeps it.
	Start  string `json:"start"`
	BootID string `json:"boot_id"`
	// Generation is the owner's number, 0 while it opens the journal.
	Generation int64 `json:"generation"`
	// Since is when the lock was taken, Heartbeat when it was last renewed.
	Since     coord.Moment `json:"since"`
	Heartbeat coord.Moment `json:"heartbeat"`
}

// Lock is a held lock.
type Lock struct {
	clock  coord.Clock
	mu     sync.Mutex
	file   *os.File
	record Record
}

// Acquire takes the lock of path, trying for at most wait. When another
// process holds it for longer, it is a Conflict that says who and what to do;
// Unavailable when the file cannot be made or its file system has no locks.
func Acquire(ctx context.Context, path string, clock coord.Clock, wait time.Duration) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, failed(path, err)
	}
	if err := take(ctx, file, clock, wait); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	now := clock()
	l := &Lock{clock: clock, file: file, record: Record{
		PID: os.Getpid(), Start: processStart(), BootID: now.BootID, Since: now,
	}}
	if err := l.Beat(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// take locks file and proves that the lock works.
func take(ctx context.Context, file *os.File, clock coord.Clock, wait time.Duration) error {
	if name := remote(file); name != "" {
		return coord.Errorf(coord.Unavailable, "%s is on %s, where locks cannot be relied on: put the data directory on a local disk", file.Name(), name)
	}
	err := lockWithin(ctx, file, wait)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return held(file, clock())
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return failed(file.Name(), err)
	}
	// A second open file of the same process must be refused; where it is
	// not, the file system only pretends to lock.
	again, err := os.OpenFile(file.Name(), os.O_RDWR, 0)
	if err != nil {
		return failed(file.Name(), err)
	}
	err = unix.Flock(int(again.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err := again.Close(); err != nil {
		return failed(file.Name(), err)
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return coord.Errorf(coord.Unavailable, "the file system of %s does not keep locks: put the data directory on a local disk", file.Name())
	}
	return file.Chmod(0o600)
}

func lockWithin(ctx context.Context, file *os.File, wait time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, unix.EWOULDBLOCK)
	defer cancel()
	retry := time.NewTicker(retryInterval)
	defer retry.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-retry.C:
		}
	}
}

// held tells who holds the lock of file.
func held(file *os.File, now coord.Moment) error {
	r, err := read(file)
	if err != nil {
		return coord.Errorf(coord.Conflict, "another process owns %s: stop it first", file.Name())
	}
	age := now.Since(r.Heartbeat).Round(100 * time.Millisecond)
	return coord.Errorf(coord.Conflict,
		"another Signalbox owns this data directory (process %d since %s, last heartbeat %s ago): use that one, or stop it with: kill %d",
		r.PID, r.Since.Wall.Local().Format(time.DateTime), age, r.PID)
}

func read(file *os.File) (Record, error) {
	buf := make([]byte, recordSize)
	n, err := file.ReadAt(buf, 0)
	if n == 0 {
		return Record{}, err
	}
	var r Record
	return r, json.Unmarshal(buf[:n], &r)
}

// Read gives the record of the current or last owner of path, for display.
func Read(path string) (Record, error) {
	file, err := os.Open(path)
	if err != nil {
		return Record{}, err
	}
	r, err := read(file)
	return r, errors.Join(err, file.Close())
}

// SetGeneration records the owner's number.
func (l *Lock) SetGeneration(n int64) error {
	l.mu.Lock()
	l.record.Generation = n
	l.mu.Unlock()
	return l.Beat()
}

// Beat renews the heartbeat. Call it every coord.HeartbeatInterval.
func (l *Lock) Beat() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record.Heartbeat = l.clock()
	doc, err := json.Marshal(l.record)
	if err != nil {
		return err
	}
	if len(doc) >= recordSize {
		return fmt.Errorf("ownerlock: a record of %d bytes is too long", len(doc))
	}
	if _, err := fmt.Fprintf(&at{l.file}, "%-*s\n", recordSize-1, doc); err != nil {
		return failed(l.file.Name(), err)
	}
	return nil
}

// Release gives the lock up. The file stays: removing it would let two
// processes lock two files of one name.
func (l *Lock) Release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// at writes at the beginning of a file, whole.
type at struct{ file *os.File }

func (w *at) Write(p []byte) (int, error) { return w.file.WriteAt(p, 0) }

func failed(path string, err error) error {
	remedy := "check the path and its permissions"
	switch {
	case errors.Is(err, fs.ErrPermission):
		remedy = "it or its directory belongs to another user: change the owner, or name another directory with --data"
	case errors.Is(err, syscall.EROFS):
		remedy = "the file system is read-only: name another directory with --data"
	case errors.Is(err, syscall.ENOSPC):
		remedy = "the disk is full: free some space"
	}
	return &coord.Error{Code: coord.Unavailable, Message: path + " cannot be locked: " + remedy, Err: err}
}
