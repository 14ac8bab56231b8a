package process

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"signalbox/internal/fault"
)

// gateArg is the first argument that makes our binary a gate.
const gateArg = "__gate"

// The descriptors that a gate inherits beside the standard streams.
const (
	goFD     = 3 // one byte: go; end of file: the worker is gone or gave up
	statusFD = 4 // an errno in decimal when exec failed; end of file: it worked
)

// GateMain must be the first call of main. It returns at once unless the
// process was started as a gate; then it never returns: it waits for the go
// byte and becomes the program, or exits when the pipe ends without one.
//
// The gate has the program's environment, directory, streams, session and pid
// from the start, so exec is all that is left to do.
func GateMain() {
	if len(os.Args) < 3 || os.Args[1] != gateArg {
		return
	}
	gate(os.Args[2], os.Args[2:])
}

func gate(path string, argv []string) {
	// Everything but the standard streams closes at exec: these two pipes, and
	// whatever the worker itself may have inherited from its own parent.
	closeAtExec()
	fault.Point("gate.wait")
	var b [1]byte
	for {
		n, err := syscall.Read(goFD, b[:])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if n != 1 {
			os.Exit(0)
		}
		break
	}
	adoptOrphans()
	fault.Point("gate.exec")
	err := syscall.Exec(path, argv, os.Environ())
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		errno = syscall.EINVAL
	}
	_, _ = syscall.Write(statusFD, []byte(strconv.Itoa(int(errno))))
	os.Exit(126)
}

func closeAtExec() {
	syscall.CloseOnExec(goFD)
	syscall.CloseOnExec(statusFD)
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
