package coord

import "time"

// Moment is an instant as this machine knows it. Wall time alone lies after a
// clock change and a process clock stops while the machine sleeps, so a moment
// carries all that is needed to measure a span truthfully later, even by
// another process or after a reboot.
type Moment struct {
	// Wall is the wall clock, in UTC.
	Wall time.Time `json:"wall"`
	// BootID names this boot of the machine; it changes with each.
	BootID string `json:"boot_id"`
	// Boot is the time since boot, sleep included.
	Boot time.Duration `json:"boot"`
	// Awake is the time since boot without sleep.
	Awake time.Duration `json:"awake"`
}

// Clock gives the present moment. It is the one source of time for every
// decision; tests inject one that sleeps, jumps and reboots.
type Clock func() Moment

// Since is the time from earlier to m, sleep included. Within one boot it
// follows the boot clock, which no clock change can move; across boots it
// follows the wall clock and is never negative.
func (m Moment) Since(earlier Moment) time.Duration {
	if m.BootID == earlier.BootID {
		return m.Boot - earlier.Boot
	}
	return max(0, m.Wall.Sub(earlier.Wall))
}

// AwakeSince is the waking time from earlier to m. After a reboot it is the
// time awake since that boot, the least that is certain.
func (m Moment) AwakeSince(earlier Moment) time.Duration {
	if m.BootID == earlier.BootID {
		return m.Awake - earlier.Awake
	}
	return m.Awake
}

// Add is the moment d later on every clock.
func (m Moment) Add(d time.Duration) Moment {
	m.Wall, m.Boot, m.Awake = m.Wall.Add(d), m.Boot+d, m.Awake+d
	return m
}

// IsZero reports whether the moment was never set.
func (m Moment) IsZero() bool { return m.Wall.IsZero() && m.BootID == "" }
