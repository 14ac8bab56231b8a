package workspace

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
)

// stat is what a file system says of a file.
type stat struct {
	mode     uint32 // type and permissions, as in stat(2)
	links    uint64
	dev, ino uint64
	// mount tells mounts apart, where dev cannot: a bind mount of the same
	// file system has the same dev, and the files of an overlay have others.
	mount    uint64
	size     int64
	uid, gid uint32
	// ctime is when anything of it changed, its number of names included.
	mtime, ctime unix.Timespec
}

func (s stat) is(kind uint32) bool { return s.mode&unix.S_IFMT == kind }

func (s stat) perm() coord.FileMode { return coord.FileMode(s.mode & uint32(fs.ModePerm)) }

// special reports bits that give a program other rights than its caller's.
func (s stat) special() bool { return s.mode&(unix.S_ISUID|unix.S_ISGID|unix.S_ISVTX) != 0 }

func (s stat) same(o stat) bool { return s.dev == o.dev && s.ino == o.ino }

// kind is the word for what is no regular file.
func (s stat) kind() string {
	switch s.mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFDIR:
		return "a folder"
	case unix.S_IFREG:
		return "a file"
	case unix.S_IFIFO:
		return "a pipe"
	case unix.S_IFSOCK:
		return "a socket"
	}
	return "a device"
}

// refused says why a file may not be read through its name, "" if it may. Its
// size is another matter.
func (s stat) refused(mount uint64) string {
	switch {
	case !s.is(unix.S_IFREG):
		return "it is " + s.kind() + ", not a regular file"
	case s.links > 1:
		return "it has a second name (a hard link), which may lie outside the workspace"
	case s.mount != mount:
		return "another file system is mounted there"
	}
	return ""
}

// again repeats a system call that a signal interrupted.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openAt opens name in dir. No link is followed, and nothing waits: a pipe may
// have taken the place of what was looked at.
func openAt(dir int, name string, flags int, perm uint32) (fd int, err error) {
	if flags&unix.O_DIRECTORY == 0 {
		flags |= unix.O_NONBLOCK
	}
	err = again(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NOCTTY, perm)
		return err
	})
	return fd, err
}

// trouble types an error of the system about a path of the workspace.
func trouble(p string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return coord.Errorf(coord.NotFound, "%s does not exist in the workspace", quote(p))
	case errors.Is(err, unix.ENOTDIR):
		return refusal(p, "a part of it is no folder")
	case errors.Is(err, unix.ELOOP):
		return refusal(p, "a part of it is a symbolic link")
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return refusal(p, "the permissions of the file do not allow it")
	case errors.Is(err, unix.ENAMETOOLONG):
		return refusal(p, "a name in it is too long")
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return coord.Errorf(coord.Unavailable, "the disk of the workspace is full: free some space and try again")
	case errors.Is(err, unix.EROFS):
		return coord.Errorf(coord.Unsupported, "the file system of the workspace is read-only: mount it for writing")
	}
	return fmt.Errorf("%s: %w", quote(p), err)
}
