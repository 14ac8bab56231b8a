package process

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// table reads all processes that /proc shows.
//
// The reading is no snapshot. The list of pids is complete in this sense: the
// kernel walks it upwards and gives out pids upwards, so of a chain in which
// each process starts the next and ends, one is always listed. But it may end
// before its line is read while the next is not listed. So the result is sure
// only if every listed process could be read.
func table() (all []entry, sure bool, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, false, tableError(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, false, tableError(err)
	}
	all, sure = make([]entry, 0, len(names)), true
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		e, ok, err := lookup(pid)
		if err != nil {
			return nil, false, err
		}
		if ok {
			all = append(all, e)
		}
		sure = sure && ok
	}
	return all, sure, nil
}

// lookup reads one process; false means that there is none.
func lookup(pid int) (entry, bool, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if gone(err) {
		return entry{}, false, nil
	}
	if err != nil {
		return entry{}, false, tableError(err)
	}
	e, ok := parseStat(b)
	if !ok {
		return entry{}, false, tableError(errors.New("malformed stat line"))
	}
	return e, true, nil
}

// parseStat reads proc_pid_stat(5). The command name, field 2, is in
// parentheses and may itself hold spaces and parentheses, so the rest is taken
// after the last one.
func parseStat(line []byte) (entry, bool) {
	open, shut := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || shut < open {
		return entry{}, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line[:open])))
	f := bytes.Fields(line[shut+1:]) // f[0] is field 3
	if err != nil || len(f) < 20 {
		return entry{}, false
	}
	var n [3]int
	for i := range n {
		if n[i], err = strconv.Atoi(string(f[1+i])); err != nil {
			return entry{}, false
		}
	}
	start, err := strconv.ParseUint(string(f[19]), 10, 64)
	if err != nil {
		return entry{}, false
	}
	// Z is a zombie, X and x are on their way out of the table.
	state := f[0][0]
	return entry{pid: pid, parent: n[0], group: n[1], session: n[2], start: start, zombie: state == 'Z' || state == 'X' || state == 'x'}, true
}

// marked reports whether a process carries what only the tree of id has: the
// marker in the environment with which it was last exec'ed, or the tree's pipe
// as its standard output or error. A process that we may not look into runs
// with other rights and is left to the other ways of finding it.
func marked(pid int, id Identity) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if id.Stderr != 0 {
		pipe := "pipe:[" + strconv.FormatUint(id.Stderr, 10) + "]"
		for _, fd := range []string{"2", "1"} {
			if to, err := os.Readlink(filepath.Join(dir, "fd", fd)); err == nil && to == pipe {
				return true
			}
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "environ"))
	return err == nil && hasMarker(b, id.Marker)
}

// pipeInode is the number under which /proc shows a pipe.
func pipeInode(f *os.File) uint64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return stat.Ino
}

func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// awaitExit returns when the child has ended, before it is reaped: until then
// its pid, and with it the session's number, can go to nobody else.
func awaitExit(pid int) {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return
		}
	}
}

// adoptOrphans makes the calling process, and after exec the program, the
// parent of descendants whose own parent ended (prctl(2),
// PR_SET_CHILD_SUBREAPER, kept by exec and not inherited by children). Without
// it a daemon goes to pid 1 and no chain of parents leads to it; the marker
// does not help where a program starts its servers with an environment of its
// own, as MCP clients do. Failure only costs that way of finding them.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// conceal keeps other processes of the same user from what this one holds and
// does, its standard streams and memory, for as long as it waits: exec takes it
// back. Failure leaves what every process is open to.
func conceal() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
