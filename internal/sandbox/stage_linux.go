package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/filehash"
	"signalbox/internal/sandbox/landlock"
	"signalbox/internal/sandbox/seccomp"
)

// stage is the process between the supervisor and the program. It stays on one
// thread, because credentials and restrictions belong to a thread until exec.
func stage() {
	runtime.LockOSThread()
	// Nobody of the same user looks into this process by /proc, also while it
	// waits. That a user namespace's owner may trace who is in it stays so.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		fail(stagePrivs, err)
	}
	o, err := readOrder()
	if err != nil {
		fail(stageOrder, err)
	}
	layers := []string{"rlimits", "no_new_privs"}
	if o.Tier == coord.TierNamespaces {
		if step, err := buildRoot(o); err != nil {
			fail(step, err)
		}
		layers = append(layers, "namespaces", "pivot_root")
	}
	if err := os.Chdir(filepath.Join(o.Dir, o.Start)); err != nil {
		fail(stageDir, err)
	}
	if err := setLimits(o); err != nil {
		fail(stageLimits, err)
	}
	if err := dropPrivileges(); err != nil {
		fail(stagePrivs, err)
	}
	b, layers := prepare(o, layers)
	tell(reply{Ready: true, ABI: b.abi, Layers: layers})
	if o.Tier != coord.TierNamespaces {
		become(b)
	}
	// The first process of a PID namespace ignores signals that it does not
	// handle, which a program must not notice; so it is the second.
	pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid == 0 && e == 0 {
		become(b)
	}
	if e != 0 {
		fail(stageFork, e)
	}
	reap(int(pid))
}

// duplicate makes to a descriptor that the program keeps.
func duplicate(from, to int) error { return unix.Dup3(from, to, 0) }

// setLimits sets what holds whatever else the kernel offers.
func setLimits(o order) error {
	l := o.Limits
	cpu := uint64((l.CPU + time.Second - 1) / time.Second)
	limits := []struct {
		what      int
		soft, max uint64
	}{
		{unix.RLIMIT_CORE, 0, 0},
		{unix.RLIMIT_NOFILE, uint64(l.Files), uint64(l.Files)},
		{unix.RLIMIT_FSIZE, uint64(l.FileSize), uint64(l.FileSize)},
		{unix.RLIMIT_DATA, uint64(l.Data), uint64(l.Data)},
		// A program that catches SIGXCPU is killed two seconds later.
		{unix.RLIMIT_CPU, cpu, cpu + 2},
		{unix.RLIMIT_MEMLOCK, 64 << 10, 64 << 10},
		{unix.RLIMIT_MSGQUEUE, 0, 0},
		{unix.RLIMIT_SIGPENDING, 256, 256},
	}
	for _, l := range limits {
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: l.soft, Max: l.max}); err != nil {
			return err
		}
	}
	if o.Tier == coord.TierNamespaces {
		// Counted within the user namespace; elsewhere the operator's own
		// processes would count.
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: maxProcesses, Max: maxProcesses}); err != nil {
			return err
		}
	}
	unix.Umask(0o077)
	return nil
}

// Bits of linux/securebits.h: root is nobody special, and no capability can be
// gained or kept, all locked.
const securebits = 0x01 | 0x02 | 0x04 | 0x08 | 0x20 | 0x40 | 0x80

// dropPrivileges gives up every capability for ever, and looks whether that
// worked.
func dropPrivileges() error {
	// The first three need a capability that an unprivileged process does not
	// have, and that it does not have anything to lose by either.
	_ = unix.Prctl(unix.PR_SET_SECUREBITS, securebits, 0, 0, 0)
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	for c := uintptr(0); c <= 63; c++ {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capset(&head, &caps[0]); err != nil {
		return err
	}
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return err
	}
	if caps != [2]unix.CapUserData{} {
		return errors.New("capabilities are left")
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// prepare makes everything ready, so that nothing but three system calls is
// left for become.
func prepare(o order, layers []string) (*becoming, []string) {
	abi, ruleset, err := landlock.Prepare(grants(o))
	if err != nil {
		fail(stageLandlock, err)
	}
	program, err := openProgram(o)
	if err != nil {
		fail(stageExec, err)
	}
	// Whatever the supervisor inherited and did not close ends at exec.
	from := uint(orderFD)
	if o.Report {
		from++
	}
	if err := unix.CloseRange(from, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		fail(stageExec, err)
	}
	b := &becoming{abi: abi, ruleset: uintptr(ruleset)}
	for i, data := range [][]byte{
		append(fmt.Appendf(nil, "/proc/self/fd/%d", program), 0), nil, nil,
	} {
		address, err := place(func(at uint64) []byte {
			switch i {
			case 1:
				return vector(at, o.Argv)
			case 2:
				return vector(at, o.Env)
			}
			return data
		})
		if err != nil {
			fail(stageExec, err)
		}
		b.exec[i] = uintptr(address)
	}
	b.filter = seccomp.Filter(seccomp.Arch(runtime.GOARCH), seccomp.Params{
		PID:           seccomp.PIDMark,
		Exec:          [3]uint64{uint64(b.exec[0]), uint64(b.exec[1]), uint64(b.exec[2])},
		OwnMounts:     o.Tier == coord.TierNamespaces,
		SignalsScoped: o.Tier == coord.TierNamespaces || landlock.ScopesSignals(abi),
	})
	if len(b.filter) == 0 {
		fail(stageSeccomp, errors.New("there is no table of system calls for this architecture"))
	}
	b.ready()
	return b, append(layers, fmt.Sprintf("landlock abi %d", abi), fmt.Sprintf("seccomp %d", len(b.filter)))
}

// openProgram opens the file that was hashed, and no other.
func openProgram(o order) (int, error) {
	fd, err := unix.Open(o.Program, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return -1, err
	}
	if filehash.StateOf(&st) != o.ID {
		return -1, errors.New("the program changed while the run was prepared")
	}
	return fd, nil
}

// reap awaits the program as the first process of its namespace. When it ends,
// the kernel ends all that is left in the namespace.
func reap(program int) {
	// The output ends with the program, not with this process.
	for fd := range statusFD {
		_ = unix.Close(fd)
	}
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		pid, err := unix.Wait4(-1, &status, 0, &usage)
		if errors.Is(err, unix.EINTR) || err == nil && pid != program {
			continue
		}
		if err != nil {
			os.Exit(126)
		}
		r := reply{Ended: true, Exit: status.ExitStatus(), CPU: time.Duration(usage.Utime.Nano() + usage.Stime.Nano())}
		if status.Signaled() {
			r.Exit, r.Signal = -1, int(status.Signal())
		}
		tell(r)
		os.Exit(0)
	}
}

// vector lays out a NULL-terminated list of strings for an address.
func vector(at uint64, list []string) []byte {
	head := make([]byte, 8*(len(list)+1))
	var text strings.Builder
	for i, s := range list {
		putAddress(head[8*i:], at+uint64(len(head)+text.Len()))
		text.WriteString(s)
		text.WriteByte(0)
	}
	return slices.Concat(head, []byte(text.String()))
}
