package filehash

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

func times(st *syscall.Stat_t) (mtime, ctime int64) { return st.Mtim.Nano(), st.Ctim.Nano() }

// dating are the file systems of Linux that date every change, by the clock of
// this machine (statfs(2); the last two have their numbers in their own
// sources). FAT gives the time of modification for that of change, and so lets
// it be set; on a network the clock is another machine's, and what it last said
// is kept for seconds; images that are mounted read-only may be exchanged, and
// have the times that their makers chose.
var dating = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
	unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, 0x2fc12fc1 /* ZFS */, 0xca451a4e, /* bcachefs */
}

// dated reports whether changes of a file are dated so that they can be relied on.
func dated(f *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &st) == nil && slices.Contains(dating, int64(uint32(st.Type)))
}
