// Package clock reads the clocks of this machine.
//
// It promises moments that can be compared later by another process and, as
// far as the wall clock is right, after a reboot: the wall clock, the time
// since boot with and without sleep, and a name of the boot that no other boot
// has.
package clock

import (
	"crypto/rand"
	"sync"
	"time"

	"signalbox/internal/coord"
)

// BootID names the present boot of this machine: the same for every process of
// every user, another after each reboot. It is read once.
var BootID = sync.OnceValues(bootID)

// System is the clock of this machine. A call costs a microsecond or two and
// touches no file.
//
// Should the system not tell its boot id, each process takes a random one:
// spans measured across processes then follow the wall clock, as they do
// across boots, which is the safe error.
func System() coord.Clock {
	id, err := BootID()
	if err != nil {
		id = "unnamed-" + rand.Text()
	}
	return func() coord.Moment {
		return coord.Moment{
			// Round drops Go's monotonic reading, which means nothing to
			// another process and would make equal moments compare unequal.
			Wall:   time.Now().UTC().Round(0),
			BootID: id,
			Boot:   read(clockBoot),
			Awake:  read(clockAwake),
		}
	}
}
