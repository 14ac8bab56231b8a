package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"signalbox/internal/sandbox/probe"
)

// The first arguments that make our binary a part of the sandbox.
const (
	stageArg = "__sandbox"
	probeArg = "__probe"
)

// StageMain must be called at the beginning of main, beside process.GateMain.
// It returns at once unless the process was started as a stage of a confined
// run, or as one of the probes that try to break out of one; then it never
// returns.
func StageMain() {
	if len(os.Args) < 2 {
		return
	}
	switch {
	case os.Args[1] == stageArg && len(os.Args) == 2:
		stage()
	case os.Args[1] == probeArg && len(os.Args) > 2:
		os.Exit(probe.Main(os.Args[2:], os.Stdout))
	}
}

// readOrder waits for the order and reads it, without the runtime's poller,
// whose descriptors would be in the way. It puts the report where the program
// expects it.
func readOrder() (order, error) {
	for _, fd := range []int{orderFD, statusFD, reportFD} {
		unix.CloseOnExec(fd)
	}
	// A first reading of an order takes as long as many more, so it is done while
	// there is time for it.
	text, err := json.Marshal(order{Argv: []string{""}, Masks: []mask{{}}})
	if err == nil {
		err = json.Unmarshal(text, &order{})
	}
	if err != nil {
		return order{}, err
	}
	text = text[:0]
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Read(orderFD, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return order{}, err
		}
		if n == 0 {
			break
		}
		text = append(text, buf[:n]...)
	}
	if len(text) == 0 {
		os.Exit(0) // whoever might have given one is gone
	}
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return order{}, err
	}
	if o.Report {
		if err := duplicate(reportFD, orderFD); err != nil {
			return order{}, err
		}
	} else if err := unix.Close(orderFD); err != nil {
		return order{}, err
	}
	return o, unix.Close(reportFD)
}

// tell writes one line to the supervisor.
func tell(r reply) {
	line, err := json.Marshal(r)
	if err != nil {
		os.Exit(126)
	}
	_, _ = unix.Write(statusFD, append(line, '\n'))
}

// fail tells which step failed, and ends the stage.
func fail(step string, err error) {
	r := reply{Failed: step, Why: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		r.Errno = fmt.Sprint(int(errno))
	}
	tell(r)
	os.Exit(126)
}
