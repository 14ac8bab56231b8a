package clock

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
)

// clock_gettime(2): BOOTTIME is MONOTONIC plus the time suspended.
const (
	clockBoot  = unix.CLOCK_BOOTTIME
	clockAwake = unix.CLOCK_MONOTONIC
)

func read(id int32) time.Duration {
	var t unix.Timespec
	// It fails only for an id that the kernel lacks; both are older than any
	// kernel that Go runs on.
	if err := unix.ClockGettime(id, &t); err != nil {
		panic("clock: " + err.Error())
	}
	return time.Duration(t.Nano())
}

// bootID reads random(4)'s boot_id, a UUID drawn at boot.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", &coord.Error{Code: coord.Unsupported, Message: "The boot id of this machine cannot be read; /proc must be mounted.", Err: err}
	}
	return strings.TrimSpace(string(b)), nil
}
