package workspace

import "golang.org/x/sys/unix"

const statMask = unix.STATX_BASIC_STATS | unix.STATX_MNT_ID

// statAt looks at name in dir and follows no link; the empty name is dir
// itself.
func statAt(dir int, name string) (stat, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var x unix.Statx_t
	if err := again(func() error { return unix.Statx(dir, name, flags, statMask, &x) }); err != nil {
		return stat{}, err
	}
	s := stat{
		mode: uint32(x.Mode), links: uint64(x.Nlink), dev: unix.Mkdev(x.Dev_major, x.Dev_minor), ino: x.Ino, mount: x.Mnt_id,
		size: int64(x.Size), uid: x.Uid, gid: x.Gid, mtime: timespec(x.Mtime), ctime: timespec(x.Ctime),
	}
	if x.Mask&unix.STATX_MNT_ID == 0 { // Linux before 5.8
		s.mount = s.dev
	}
	return s, nil
}

func timespec(t unix.StatxTimestamp) unix.Timespec {
	return unix.Timespec{Sec: t.Sec, Nsec: int64(t.Nsec)}
}

// exchange swaps two names of dir in one step. place gives the file from the
// name to, which must not exist. Both fail with EINVAL where the file system
// cannot.
func exchange(dir int, a, b string) error {
	return again(func() error { return unix.Renameat2(dir, a, dir, b, unix.RENAME_EXCHANGE) })
}

func place(dir int, from, to string) error {
	return again(func() error { return unix.Renameat2(dir, from, dir, to, unix.RENAME_NOREPLACE) })
}
