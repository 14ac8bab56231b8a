package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
)

// mask is a path of the workspace that a run does not see.
type mask struct {
	// Path is relative to the workspace.
	Path string
	Dir  bool
}

// packages is the directory in which package managers keep one file under many
// names on purpose. Its files are read by everybody who installs the package.
const packages = "node_modules"

// scan lists what a workspace hides: names of credentials and metadata at any
// depth, and files that have another name somewhere else, outside of packages:
// such a name may be that of a secret. Only regular files there are asked for
// their number of names; everything else is judged by its directory's listing.
func scan(root string) ([]mask, error) {
	s := scanner{root: root}
	// Most of the time is spent waiting for the file system.
	s.group.SetLimit(4 * runtime.GOMAXPROCS(0))
	err := s.directory("", false)
	if err := errors.Join(err, s.group.Wait()); err != nil {
		return nil, err
	}
	return s.masks, nil
}

type scanner struct {
	root  string
	group errgroup.Group
	seen  atomic.Int64

	mu    sync.Mutex
	masks []mask
}

func (s *scanner) hide(path string, dir bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.masks = append(s.masks, mask{path, dir})
	if len(s.masks) > coord.MaxHidden {
		return coord.Errorf(coord.Limit, "More than %d files of the workspace are hidden from tests, most likely because they are hard links; copy the workspace without links.", coord.MaxHidden)
	}
	return nil
}

func (s *scanner) directory(dir string, inPackages bool) error {
	f, err := os.OpenFile(filepath.Join(s.root, dir), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		if dir != "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
			return nil // the program, being the same user, cannot read it either
		}
		return workspaceError(err)
	}
	entries, err := f.ReadDir(-1)
	if err == nil && s.seen.Add(int64(len(entries))) > coord.MaxWorkspaceEntries {
		err = coord.Errorf(coord.Limit, "The workspace has more than %d files; choose a smaller folder.", coord.MaxWorkspaceEntries)
	}
	var below []string
	for _, e := range entries {
		if err != nil {
			break
		}
		path := filepath.Join(dir, e.Name())
		switch {
		case coord.HiddenName(e.Name()):
			err = s.hide(path, e.IsDir())
		case e.IsDir():
			below = append(below, path)
		case e.Type().IsRegular() && !inPackages:
			if linked(f, e.Name()) {
				err = s.hide(path, false)
			}
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return workspaceError(err)
	}
	for _, path := range below {
		inside := inPackages || filepath.Base(path) == packages
		if s.group.TryGo(func() error { return s.directory(path, inside) }) {
			continue
		}
		if err := s.directory(path, inside); err != nil {
			return err
		}
	}
	return nil
}

// linked reports whether a file of an open directory has several names.
func linked(dir *os.File, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Nlink > 1
}

func workspaceError(err error) error {
	if _, ok := errors.AsType[*coord.Error](err); ok {
		return err
	}
	return &coord.Error{Code: coord.Unavailable, Message: "The workspace of a confined run cannot be read.", Err: err}
}
