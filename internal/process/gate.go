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

// orderFD is what a gate inherits beside the standard streams: a socket on which
// it gets a line with its orders and says how far it came, see the marks below.
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

// maxOrders bounds the line. What a program may be given in arguments and
// environment is at most 6 MiB on Linux and 1 MiB on macOS; in JSON each byte of
// it takes four thirds. The rest is for the folders.
const maxOrders = 9 << 20

// orders are what a gate is told when it may go. Paths, arguments and variables
// are bytes, which JSON would change in text that is not UTF-8.
type orders struct {
	Path []byte   `json:"path"`
	Argv [][]byte `json:"argv"`
	Env  [][]byte `json:"env"`
	Dir  []byte   `json:"dir"`
	// Writes are as in Spec: null and none are two things.
	Writes [][]byte `json:"writes"`
}

func bytesOf(all []string) [][]byte {
	if all == nil {
		return nil
	}
	out := make([][]byte, len(all))
	for i, s := range all {
		out[i] = []byte(s)
	}
	return out
}

func textOf(all [][]byte) []string {
	out := make([]string, len(all))
	for i, b := range all {
		out[i] = string(b)
	}
	return out
}

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
	path, argv := string(o.Path), textOf(o.Argv)
	if err := syscall.Chdir(string(o.Dir)); err != nil {
		refuse(dirFailed, number(err))
	}
	if o.Writes != nil {
		// Restrictions are those of a thread, and this one becomes the program.
		runtime.LockOSThread()
		confined, through, err := confine(path, argv, textOf(o.Writes))
		if err != nil {
			refuse(confineFailed, err.Error())
		}
		path, argv = confined, through
	}
	err := syscall.Exec(path, argv, textOf(o.Env))
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

// readOrders waits for the line.
func readOrders() (o orders, ok bool) {
	var text []byte
	b := make([]byte, 4<<10)
	for {
		n, err := syscall.Read(orderFD, b)
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
