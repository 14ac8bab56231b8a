package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// systemReads are the libraries and tables that programs of a distribution
// need. Where one is a link it is made again as a link.
var systemReads = []string{
	"/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/openssl.cnf",
}

// devices are those that the program gets; the first three may be written.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// procReadOnly are parts of /proc that root may write to by file modes alone,
// without any capability.
var procReadOnly = []string{"sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"}

// Attributes of what is mounted.
const (
	foreign = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	device  = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
)

// buildRoot gives this mount namespace a root with nothing but what the order
// names. It says which stage failed.
func buildRoot(o order) (stage string, err error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return stageRoot, err
	}
	if err := unix.Mount("tmpfs", o.Root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=4m,mode=0755"); err != nil {
		return stageRoot, err
	}
	r := newRoot(o.Root)
	if err := r.fill(o); err != nil {
		return stageRoot, err
	}
	if o.Layer != "" {
		if err := r.overlay(o); err != nil {
			return stageOverlay, err
		}
	}
	if within(o.Program, o.Dir) && (o.Layer != "" || o.Source != o.Dir) {
		// The file that was hashed, not its copy.
		if err := r.bind(o.Program, o.Program, foreign); err != nil {
			return stageRoot, err
		}
	}
	if err := r.hide(o); err != nil {
		return stageHide, err
	}
	if err := r.proc(); err != nil {
		return stageProc, err
	}
	if err := r.enter(); err != nil {
		return stageRoot, err
	}
	return "", nil
}

type newRoot string

func (r newRoot) at(path string) string { return filepath.Join(string(r), path) }

// fill binds what the order names, parents before what is in them.
func (r newRoot) fill(o order) error {
	paths := slices.Concat(systemReads, o.Reads, []string{o.Program, o.Dir})
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	var bound []string
	for _, p := range slices.Compact(paths) {
		source := p
		if p == o.Dir {
			source = o.Source
		} else if slices.ContainsFunc(bound, func(q string) bool { return within(p, q) }) {
			continue // it is there already
		}
		if err := r.readOnly(source, p); err != nil {
			if p != o.Dir && p != o.Program && errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return err
		}
		bound = append(bound, p)
	}
	for _, d := range devices {
		if err := r.bind(d, d, device); err != nil {
			return err
		}
	}
	uid, gid := os.Geteuid(), os.Getegid()
	for path, text := range map[string]string{
		"/etc/passwd": fmt.Sprintf("sandbox:x:%d:%d::%s:/nonexistent\n", uid, gid, o.Scratch),
		"/etc/group":  fmt.Sprintf("sandbox:x:%d:\n", gid),
	} {
		if err := os.MkdirAll(r.at("/etc"), 0o755); err != nil { //nolint:gosec // the root of the sandbox, which is read-only later
			return err
		}
		if err := os.WriteFile(r.at(path), []byte(text), 0o444); err != nil { //nolint:gosec // it holds nothing
			return err
		}
	}
	if err := os.Symlink("/proc/self/fd", r.at("/dev/fd")); err != nil {
		return err
	}
	if err := os.MkdirAll(r.at(o.Scratch), 0o700); err != nil {
		return err
	}
	size := fmt.Sprintf("size=%d,nr_inodes=65536,mode=0700", o.Limits.Scratch)
	return unix.Mount("tmpfs", r.at(o.Scratch), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, size)
}

// readOnly binds a path, or makes a link that is there again.
func (r newRoot) readOnly(source, path string) error {
	info, err := os.Lstat(source)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		return r.bind(source, path, foreign)
	}
	target, err := os.Readlink(source)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.at(path)), 0o755); err != nil { //nolint:gosec // as above
		return err
	}
	return os.Symlink(target, r.at(path))
}

// bind mounts a path with all that is mounted below it. It is no part of the
// tree before it has its attributes.
func (r newRoot) bind(source, path string, attributes uint64) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes}); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := r.mountpoint(path, st.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, r.at(path), unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func (r newRoot) mountpoint(path string, dir bool) error {
	if _, err := os.Lstat(r.at(path)); err == nil {
		return nil
	}
	if dir {
		return os.MkdirAll(r.at(path), 0o755) //nolint:gosec // as above
	}
	if err := os.MkdirAll(filepath.Dir(r.at(path)), 0o755); err != nil { //nolint:gosec // as above
		return err
	}
	return os.WriteFile(r.at(path), nil, 0o444) //nolint:gosec // as above
}

// overlay lays the changed files over the workspace, both read-only.
func (r newRoot) overlay(o order) error {
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace
	options := "lowerdir=" + escape(o.Layer) + ":" + escape(o.Source)
	return unix.Mount("overlay", r.at(o.Dir), "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, options)
}

// hide mounts an empty file or directory without permissions over each hidden
// path. A path that is gone needs none; one that became a link is left to
// Landlock, which judges where it leads to.
func (r newRoot) hide(o order) error {
	if len(o.Masks) == 0 {
		return nil
	}
	file, dir := r.at("/.hidden"), r.at("/.hidden.d")
	if err := errors.Join(os.WriteFile(file, nil, 0), os.Mkdir(dir, 0)); err != nil {
		return err
	}
	root, err := unix.Open(r.at(o.Dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(root) }()
	for _, m := range o.Masks {
		if err := hideOne(root, m.Path, file, dir); err != nil {
			return err
		}
	}
	return nil
}

func hideOne(root int, path, file, dir string) error {
	at, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }()
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	empty := file
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return nil
	case unix.S_IFDIR:
		empty = dir
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, empty, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: foreign}); err != nil {
		return err
	}
	return unix.MoveMount(fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// proc mounts the /proc of the new PID namespace.
func (r newRoot) proc() error {
	if err := os.MkdirAll(r.at("/proc"), 0o755); err != nil { //nolint:gosec // as above
		return err
	}
	if err := unix.Mount("proc", r.at("/proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	for _, name := range procReadOnly {
		path := filepath.Join("/proc", name)
		if err := r.bind(r.at(path), path, foreign); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// enter makes it the root, and detaches the old one (pivot_root(2), NOTES).
func (r newRoot) enter() error {
	if err := os.Chdir(string(r)); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: foreign})
}
