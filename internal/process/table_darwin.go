package process

import (
	"bytes"
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// szomb is SZOMB of <sys/proc.h>.
const szomb = 5

// table reads all processes, in one system call and so always for sure.
func table() (all []entry, sure bool, err error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, false, tableError(err)
	}
	all = make([]entry, 0, len(list))
	for i := range list {
		all = append(all, fromKinfo(&list[i]))
	}
	return all, true, nil
}

// lookup reads one process; false means that there is none.
func lookup(pid int) (entry, bool, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	if err != nil {
		return entry{}, false, tableError(err)
	}
	if len(list) == 0 {
		return entry{}, false, nil
	}
	return fromKinfo(&list[0]), true, nil
}

func fromKinfo(k *unix.KinfoProc) entry {
	e := entry{
		pid:    int(k.Proc.P_pid),
		parent: int(k.Eproc.Ppid),
		group:  int(k.Eproc.Pgid),
		start:  uint64(k.Proc.P_starttime.Nano()),
		zombie: k.Proc.P_stat == szomb,
	}
	// kinfo_proc tells the session by a kernel address only.
	e.session, _ = unix.Getsid(e.pid)
	return e
}

// marked reports whether the environment of a process holds the marker.
// KERN_PROCARGS2 gives argc, then the path, the arguments and the environment,
// each ended by NUL; macOS leaves the environment out for its own protected
// programs.
func marked(pid int, id Identity) bool {
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(b) < 4 {
		return false
	}
	argc := int(binary.NativeEndian.Uint32(b))
	b = b[4:]
	_, b, _ = bytes.Cut(b, []byte{0})
	b = bytes.TrimLeft(b, "\x00")
	for range argc {
		_, b, _ = bytes.Cut(b, []byte{0})
	}
	return hasMarker(b, id.Marker)
}

// pipeInode has no use here: macOS does not show what descriptors refer to in
// the packages used here.
func pipeInode(*os.File) uint64 { return 0 }

// awaitExit does nothing: macOS has no wait without reaping in the packages
// used here, so the tree is looked at after the reaping.
func awaitExit(int) {}

// adoptOrphans does nothing: macOS has no sub-reaper.
func adoptOrphans() {}

// conceal does nothing: macOS has no /proc, and asks before one program looks
// into another.
func conceal() {}
