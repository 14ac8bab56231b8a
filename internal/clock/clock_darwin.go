package clock

import (
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
)

// clock_gettime(3) of macOS: MONOTONIC_RAW goes on during sleep, unlike
// Linux's, and no correction of the clock bends it; UPTIME_RAW stands still.
const (
	clockBoot  = unix.CLOCK_MONOTONIC_RAW
	clockAwake = unix.CLOCK_UPTIME_RAW
)

func read(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic("clock: " + err.Error())
	}
	return time.Duration(t.Nano())
}

// bootID reads the UUID of the boot session. kern.boottime would not do: it
// moves with each correction of the wall clock.
func bootID() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", &coord.Error{Code: coord.Unsupported, Message: "The boot session id of this machine cannot be read.", Err: err}
	}
	return id, nil
}
