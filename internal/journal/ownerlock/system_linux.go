package ownerlock

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"
)

// processStart is this process's start time in clock ticks since boot: field
// 22 of /proc/self/stat (proc_pid_stat(5)), "" when it cannot be read.
func processStart() string {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return ""
	}
	// The name in field 2 may hold anything, so count from its last bracket.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return ""
	}
	return string(fields[19])
}

// remote names the network file system that file is on, "" for another. The
// numbers are those of statfs(2).
func remote(file *os.File) string {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &st); err != nil {
		return ""
	}
	switch uint32(st.Type) { // the field is wider on some platforms
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "SMB"
	}
	return ""
}
