package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
)

// runPrefix begins the names of the directories of runs.
const runPrefix = "run-"

// runDir is the directory of one run. Its supervisor holds a lock on it, which
// the kernel takes back when the supervisor dies; so a directory whose lock is
// free belongs to nobody.
type runDir struct {
	path string
	lock *os.File
}

// The parts of a run's directory.
func (d runDir) scratch() string { return filepath.Join(d.path, "scratch") }
func (d runDir) root() string    { return filepath.Join(d.path, "root") }
func (d runDir) layer() string   { return filepath.Join(d.path, "layer") }
func (d runDir) tree() string    { return filepath.Join(d.path, "tree") }

// newRunDir makes the directory of a run in a tier, with what each run there
// needs: in tier 1 the scratch space is a mount within the new root.
func newRunDir(dir string, tier coord.Tier) (runDir, error) {
	path, err := os.MkdirTemp(dir, runPrefix)
	if err != nil {
		return runDir{}, scratchError(err)
	}
	d := runDir{path: path}
	if d.lock, err = lockDir(path); err != nil {
		return runDir{}, scratchError(errors.Join(err, d.remove()))
	}
	part := d.scratch()
	if tier == coord.TierNamespaces {
		part = d.root()
	}
	if err := os.Mkdir(part, 0o700); err != nil {
		return runDir{}, scratchError(errors.Join(err, d.remove()))
	}
	return d, nil
}

// lockDir takes the lock of a directory, or fails at once.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// empty removes what was written. What else a run has is a mount.
func (d runDir) empty() error {
	for _, part := range []string{d.scratch(), d.layer(), d.tree()} {
		if names, err := os.ReadDir(part); len(names) == 0 && (err == nil || errors.Is(err, os.ErrNotExist)) {
			continue
		}
		if err := removeAll(part); err != nil {
			return scratchError(err)
		}
	}
	return nil
}

// remove removes everything. The program may have made directories that it
// cannot itself write to.
func (d runDir) remove() error {
	err := removeAll(d.path)
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}

func removeAll(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(p string, e os.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(p, 0o700) //nolint:gosec // a directory that is being removed
		}
		return nil // what cannot be read is told by RemoveAll below
	})
	return os.RemoveAll(path)
}

// Sweep removes what runs of dead supervisors left behind. It is called at the
// start of a worker, and takes nothing from a run that goes on.
func (b *Box) Sweep() error {
	names, err := os.ReadDir(b.dir)
	if err != nil {
		return scratchError(err)
	}
	var failed []error
	for _, n := range names {
		if !strings.HasPrefix(n.Name(), runPrefix) || !n.IsDir() {
			continue
		}
		path := filepath.Join(b.dir, n.Name())
		lock, err := lockDir(path)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		sweepGroup(n.Name())
		failed = append(failed, removeAll(path), lock.Close())
	}
	if err := errors.Join(failed...); err != nil {
		return scratchError(err)
	}
	return nil
}

func scratchError(err error) error {
	return &coord.Error{Code: coord.Unavailable, Message: "The scratch space of confined runs cannot be written; look at the data directory.", Err: err}
}
