package process

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"signalbox/internal/fault"
)

// gateArg is the first argument that makes our binary a gate.
const gateArg = "__gate"

// orderFD is what a gate inherits beside the standard streams: a socket on which
// it gets its orders and says how far it came, see the marks below.
// End of file instead of orders: the worker is gone or gave up. End of file after
// going: it worked.
//
// It is a socket because the end of a pipe can be opened anew, through /proc, by
// every process of the same user: who did so would give the orders.
const orderFD = 3

// What a gate says begins with the mark that it has its orders and goes. A
// failure follows as one of the others: the errno in decimal of an exec or of
// entering the directory, or why writes cannot be restricted.
const (
	going         = 'g'
	execFailed    = 'x'
	dirFailed     = 'd'
	confineFailed = 'c'
)

// GateMain must be the first call of main. It returns at once unless the
// process was started as a gate; then it never returns: it waits for its orders
// and becomes the program, or exits when the socket ends without them.
//
// The gate has the program's streams, session and pid from the start. What it
// is to become it learns from the orders alone, so that it can wait before
// anybody knows.
func GateMain() {
	if len(os.Args) != 2 || os.Args[1] != gateArg {
		return
	}
	gate()
}

func gate() {
	// Everything but the standard streams closes at exec: the socket, and whatever
	// the worker itself may have inherited from its own parent.
	closeAtExec()
	conceal()
	fault.Point("gate.wait")
	lighten()
	o, ok := readOrders()
	if !ok {
		os.Exit(0)
	}
	// Silence is to prove that the program never ran: who cannot say that it goes
	// must not go.
	if n, _ := syscall.Write(orderFD, []byte{going}); n != 1 {
		os.Exit(0)
	}
	adoptOrphans()
	fault.Point("gate.exec")
	path, argv := o.Path, o.Argv
	if err := syscall.Chdir(o.Dir); err != nil {
		refuse(dirFailed, number(err))
	}
	if o.Writes != nil {
		// Restrictions are those of a thread, and this one becomes the program.
		runtime.LockOSThread()
		confined, through, err := confine(path, argv, o.Writes)
		if err != nil {
			refuse(confineFailed, err.Error())
		}
		path, argv = confined, through
	}
	err := syscall.Exec(path, argv, o.Env)
	refuse(execFailed, number(err))
}

// number is the errno of err in decimal.
func number(err error) string {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		errno = syscall.EINVAL
	}
	return strconv.Itoa(int(errno))
}

// readOrders waits for the orders.
func readOrders() (o orders, ok bool) {
	size, ok := readFull(4)
	if !ok {
		return o, false
	}
	n := binary.BigEndian.Uint32(size)
	if n > maxOrders {
		return o, false
	}
	b, ok := readFull(int(n))
	if !ok {
		return o, false
	}
	return decode(b)
}

// readFull reads n bytes of the socket; false when it ended before.
func readFull(n int) ([]byte, bool) {
	b := make([]byte, n)
	for got := 0; got < n; {
		more, err := syscall.Read(orderFD, b[got:])
		switch {
		case errors.Is(err, syscall.EINTR):
		case more <= 0:
			return nil, false
		default:
			got += more
		}
	}
	return b, true
}

func refuse(mark byte, why string) {
	_, _ = syscall.Write(orderFD, append([]byte{mark}, why...))
	os.Exit(126)
}

func closeAtExec() {
	syscall.CloseOnExec(orderFD)
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
