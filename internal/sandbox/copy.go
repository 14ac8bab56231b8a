package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"signalbox/internal/coord"

	"golang.org/x/sys/unix"
)

// copyTree makes a private copy of a workspace without what is hidden. Links
// are copied as links; devices, sockets and FIFOs are left out.
func copyTree(from, to string, masks []mask) error {
	hidden := make(map[string]bool, len(masks))
	for _, m := range masks {
		hidden[m.Path] = true
	}
	root, err := os.OpenRoot(from)
	if err != nil {
		return workspaceError(err)
	}
	defer root.Close()
	left, files := int64(coord.MaxCopied), 0
	err = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrPermission) {
				return nil
			}
			return err
		}
		if hidden[path] {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if files++; files > coord.MaxCopiedFiles {
			return tooLargeToCopy()
		}
		target := filepath.Join(to, path)
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o700)
		case e.Type()&fs.ModeSymlink != 0:
			link, err := root.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target) //nolint:gosec // into a directory that this run has just made
		case e.Type().IsRegular():
			n, err := copyFrom(root, path, target, left)
			left -= n
			return err
		}
		return nil
	})
	if err != nil {
		return workspaceError(err)
	}
	return nil
}

// Copy makes a private copy of a workspace with changes in it and nothing of
// what is hidden, for a compiler that must not find secrets to embed. release
// removes it.
func (b *Box) Copy(workspace string, changes []Change) (path string, release func() error, err error) {
	masks, err := scan(workspace)
	if err != nil {
		return "", nil, err
	}
	dir, err := newRunDir(b.dir, "")
	if err != nil {
		return "", nil, err
	}
	if err = copyTree(workspace, dir.tree(), masks); err == nil {
		err = lay(dir.tree(), changes, os.RemoveAll)
	}
	if err != nil {
		return "", nil, errors.Join(err, dir.remove())
	}
	return dir.tree(), dir.remove, nil
}

func tooLargeToCopy() error {
	return coord.Errorf(coord.Limit, "The workspace has more than %d files or %d MiB, too much for the private copy that tests of changes need on this machine.", coord.MaxCopiedFiles, coord.MaxCopied>>20)
}

func copyFrom(root *os.Root, path, target string, left int64) (int64, error) {
	in, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		return 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, err
	}
	if info.Size() > left {
		return 0, tooLargeToCopy()
	}
	return put(in, target, info.Mode().Perm()|0o400)
}

// put writes a new file.
func put(in io.Reader, target string, mode fs.FileMode) (int64, error) {
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, in)
	return n, errors.Join(err, out.Close())
}

// lay puts the changed files below a directory. Where something is in the way,
// it is removed first; deleted files are left to whiteout, which marks or
// removes the path.
func lay(dir string, changes []Change, whiteout func(path string) error) error {
	for _, c := range changes {
		target := filepath.Join(dir, c.Path)
		if c.Content == "" {
			if err := whiteout(target); err != nil {
				return changeError(err)
			}
		}
	}
	// After the deletions, so that a folder can take a deleted file's place.
	for _, c := range changes {
		if c.Content == "" {
			continue
		}
		if err := layFile(filepath.Join(dir, c.Path), c); err != nil {
			return changeError(err)
		}
	}
	return nil
}

func layFile(target string, c Change) error {
	in, err := os.Open(c.Content)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := makeDirs(filepath.Dir(target)); err != nil {
		return err
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	n, err := put(io.LimitReader(in, coord.MaxFile+1), target, fs.FileMode(c.Mode)&0o777|0o400)
	if err == nil && n > coord.MaxFile {
		err = coord.Errorf(coord.Limit, "A changed file has more than %d bytes.", coord.MaxFile)
	}
	return err
}

// makeDirs makes directories, over a file or a mark that is in the way. A link
// in the way is followed by no one: what is laid stays below dir.
func makeDirs(dir string) error {
	info, err := os.Lstat(dir)
	if err == nil && info.IsDir() {
		return nil
	}
	if err := makeDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o700)
}

func changeError(err error) error {
	if _, ok := errors.AsType[*coord.Error](err); ok {
		return err
	}
	return &coord.Error{Code: coord.Unavailable, Message: "The changed files of a confined run cannot be laid over the workspace.", Err: err}
}
