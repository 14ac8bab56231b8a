package workspace

import "golang.org/x/sys/unix"

// statAt looks at name in dir and follows no link; the empty name is dir
// itself. macOS has no bind mounts, so the device tells mounts apart.
func statAt(dir int, name string) (stat, error) {
	var x unix.Stat_t
	err := again(func() error {
		if name == "" {
			return unix.Fstat(dir, &x)
		}
		return unix.Fstatat(dir, name, &x, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return stat{}, err
	}
	dev := uint64(x.Dev) // as identity.go has it
	return stat{
		mode: uint32(x.Mode), links: uint64(x.Nlink), dev: dev, ino: x.Ino, mount: dev,
		size: x.Size, uid: x.Uid, gid: x.Gid, mtime: x.Mtim, ctime: x.Ctim,
	}, nil
}

// exchange swaps two names of dir in one step. place gives the file from the
// name to, which must not exist. Both fail with ENOTSUP where the file system
// cannot.
func exchange(dir int, a, b string) error {
	return again(func() error { return unix.RenameatxNp(dir, a, dir, b, unix.RENAME_SWAP) })
}

func place(dir int, from, to string) error {
	return again(func() error { return unix.RenameatxNp(dir, from, dir, to, unix.RENAME_EXCL) })
}
