package journal

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
)

// reserve is a file that occupies disk space so that it can be given up when
// the disk is full: a cancellation or an end must still be written then.
type reserve struct {
	path string
	mu   sync.Mutex
	ok   bool
}

// make occupies the space. Without enough of it nothing is left behind.
func (r *reserve) make() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = occupy(f, coord.ReserveSpace)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(r.path) // half a reserve would only make the shortage worse
		return err
	}
	r.ok = true
	return nil
}

// held reports whether there is something to give up. In memory, where r is
// nil, no disk can be full.
func (r *reserve) held() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ok
}

// release frees the space and reports whether there was any to free.
func (r *reserve) release() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ok {
		return false
	}
	r.ok = false
	err := os.Remove(r.path)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// fill occupies size bytes by writing them. The bytes are random so that no
// file system can compress or skip them.
func fill(f *os.File, size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	source := rand.NewChaCha8([32]byte{})
	for at := info.Size(); at < size; at += int64(len(block)) {
		_, _ = source.Read(block) // never fails
		if _, err := f.WriteAt(block[:min(int64(len(block)), size-at)], at); err != nil {
			return err
		}
	}
	return f.Sync()
}

// freeSpace is what an unprivileged process may still use on dir's disk.
func freeSpace(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, dirFailed(dir, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}
