package process

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"syscall"

	"signalbox/internal/coord"
	"signalbox/internal/fault"
)

// Executable is the path under which this very binary can be started again.
// On Linux it is the running image itself, so that gates work, and are of the
// same version, after the file was replaced by an update.
func Executable() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", &coord.Error{Code: coord.Unsupported, Message: "The path of the running program cannot be found.", Err: err}
	}
	return path, nil
}

// gated is a gate that waits, with our ends of its pipes and of its socket.
type gated struct {
	proc                         *os.Process
	stdin, stdout, stderr, order *os.File
	// process is what the gate will be, known to the ledger.
	process *Process
}

// close closes the gate's socket. A gate that still waits then exits.
func (g *gated) close() { _ = g.order.Close() }

// gateEnv lets the runtime of a gate start few threads, which exec has to end.
// The program sees none of it.
var gateEnv = []string{"GOMAXPROCS=1", "GOGC=off"}

// SocketPair makes two connected stream sockets. Neither is inherited by a child
// unless it is handed over on purpose. Ours takes deadlines, theirs blocks.
func SocketPair() (ours, theirs *os.File, err error) {
	// Darwin has no SOCK_CLOEXEC; holding ForkLock closes the gap.
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		syscall.ForkLock.RUnlock()
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	syscall.ForkLock.RUnlock()
	// A descriptor that does not block is one that the runtime waits for.
	err = os.NewSyscallError("fcntl", syscall.SetNonblock(fds[0], true))
	ours, theirs = os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
	if err != nil {
		return nil, nil, errors.Join(err, ours.Close(), theirs.Close())
	}
	return ours, theirs, nil
}

// marking is what every process of a tree has in its environment.
func marking(marker string) []string {
	return append([]string{MarkerEnv + "=" + marker}, fault.Env()...)
}

// spawn starts a gate. All pipes and the socket are close-on-exec, so another
// child that is started at the same time cannot hold one open.
func spawn(executable, marker string) (*gated, error) {
	var ours, theirs [4]*os.File
	fail := func(err error) (*gated, error) {
		for _, f := range slices.Concat(ours[:], theirs[:]) {
			if f != nil {
				_ = f.Close()
			}
		}
		return nil, &coord.Error{Code: coord.Unavailable, Message: "A process cannot be started on this machine at present.", Err: err}
	}
	var err error
	if ours[orderFD], theirs[orderFD], err = SocketPair(); err != nil {
		return fail(err)
	}
	for fd := range orderFD {
		r, w, err := os.Pipe()
		if err != nil {
			return fail(err)
		}
		if fd == 0 {
			theirs[fd], ours[fd] = r, w
		} else {
			ours[fd], theirs[fd] = r, w
		}
	}
	proc, err := os.StartProcess(executable, []string{executable, gateArg}, &os.ProcAttr{
		Dir:   "/",
		Env:   append(marking(marker), gateEnv...),
		Files: theirs[:],
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fail(err)
	}
	for _, f := range theirs {
		_ = f.Close()
	}
	return &gated{proc: proc, stdin: ours[0], stdout: ours[1], stderr: ours[2], order: ours[orderFD]}, nil
}
