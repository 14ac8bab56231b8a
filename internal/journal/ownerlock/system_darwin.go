package ownerlock

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// processStart is this process's start time in microseconds since 1970, ""
// when it cannot be read.
func processStart() string {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", os.Getpid())
	if err != nil {
		return ""
	}
	t := info.Proc.P_starttime
	return strconv.FormatInt(t.Sec*1_000_000+int64(t.Usec), 10)
}

// remote names the network file system that file is on, "" for another.
func remote(file *os.File) string {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &st); err != nil {
		return ""
	}
	switch name := unix.ByteSliceToString(st.Fstypename[:]); name {
	case "nfs", "smbfs", "afpfs", "webdav":
		return name
	}
	return ""
}
