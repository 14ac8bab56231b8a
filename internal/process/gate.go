package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"signalbox/internal/fault"
)

// gateArg is the first argument that makes our binary a gate.
const gateArg = "__gate"

// The descriptors that a gate inherits beside the standard streams.
const (
	goFD     = 3 // a line with the gate's orders; end of file: the worker is gone or gave up
	statusFD = 4 // what failed, see the marks below; end of file: it worked
)

// What a gate says of a failure begins with one of these: the errno in decimal
// of an exec, or why writes cannot be restricted.
const (
	execFailed    = 'x'
	confineFailed = 'c'
)

// maxOrders bounds the line: the folders of coord.MaxState, and one more for
// scratch, in JSON.
const maxOrders = 128 << 10

// orders are what a gate is told when it may go.
type orders struct {
	// Writes are as in Spec.
	Writes []string `json:"writes"`
}

// GateMain must be the first call of main. It returns at once unless the
// process was started as a gate; then it never returns: it waits for its orders
// and becomes the program, or exits when the pipe ends without them.
//
// The gate has the program's environment, directory, streams, session and pid
// from the start, so exec is all that is left to do, after it gave up writing
// where the orders say so.
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
	o, ok := readOrders()
	if !ok {
		os.Exit(0)
	}
	adoptOrphans()
	fault.Point("gate.exec")
	if o.Writes != nil {
		// Restrictions are those of a thread, and this one becomes the program.
		runtime.LockOSThread()
		confined, through, err := confine(path, argv, o.Writes)
		if err != nil {
			refuse(confineFailed, err.Error())
		}
		path, argv = confined, through
	}
	err := syscall.Exec(path, argv, os.Environ())
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		errno = syscall.EINVAL
	}
	refuse(execFailed, strconv.Itoa(int(errno)))
}

// readOrders waits for the line.
func readOrders() (o orders, ok bool) {
	var text []byte
	b := make([]byte, 4<<10)
	for {
		n, err := syscall.Read(goFD, b)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if n <= 0 || len(text) > maxOrders {
			return o, false
		}
		text = append(text, b[:n]...)
		if line, whole := bytes.CutSuffix(text, []byte{'\n'}); whole {
			return o, json.Unmarshal(line, &o) == nil
		}
	}
}

func refuse(mark byte, why string) {
	_, _ = syscall.Write(statusFD, append([]byte{mark}, why...))
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
