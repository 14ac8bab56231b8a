package process

import (
	"os"

	"signalbox/internal/clock"
	"signalbox/internal/coord"
)

// Identity names one process for ever. It is plain data that a later worker
// can use.
type Identity struct {
	// Host is the host as the owner of the journal names it.
	Host string `json:"host"`
	// BootID is the boot in which the process ran.
	BootID string `json:"boot_id"`
	PID    int    `json:"pid"`
	// StartTime is when it started, in the unit of the system: clock ticks
	// since boot on Linux (field 22 of /proc/PID/stat), nanoseconds since 1970
	// on macOS. It is only ever compared for equality or order on one boot.
	// The gate's exec of the program changes neither it nor the pid.
	StartTime uint64 `json:"start_time"`
	// Group is the process group and the session, which the process leads.
	Group int `json:"group"`
	// Marker is the value of MarkerEnv in the environment of the tree. It
	// finds descendants that left the group and whose parents are gone. It is
	// not a secret and gives no rights.
	Marker string `json:"marker"`
	// Stderr is the inode of the pipe on which the tree writes its standard
	// error, 0 where the system does not show it (macOS). It finds descendants
	// that were started with an environment of their own, as the servers of
	// MCP clients are, and whose parents are gone: those inherit stderr.
	Stderr uint64 `json:"stderr,omitempty"`
}

// Self is the identity of the calling process, for records of who owns
// something. It has no marker.
func Self(host string) (Identity, error) {
	boot, err := clock.BootID()
	if err != nil {
		return Identity{}, err
	}
	e, ok, err := lookup(os.Getpid())
	if err != nil {
		return Identity{}, err
	}
	if !ok {
		return Identity{}, &coord.Error{Code: coord.Internal, Message: "The process table does not list this process."}
	}
	return Identity{Host: host, BootID: boot, PID: e.pid, StartTime: e.start, Group: e.group}, nil
}

// Alive reports whether the very process runs on this machine: same boot, same
// pid, same start time. A zombie is not alive. The host is not looked at; the
// caller knows which host it is on.
func Alive(id Identity) (bool, error) {
	boot, err := clock.BootID()
	if err != nil {
		return false, err
	}
	if boot != id.BootID {
		return false, nil
	}
	e, ok, err := lookup(id.PID)
	return ok && !e.zombie && e.start == id.StartTime, err
}

// entry is one line of the process table.
type entry struct {
	pid, parent, group, session int
	start                       uint64
	zombie                      bool
}

// key tells two processes with the same pid apart within one boot.
type key struct {
	pid   int
	start uint64
}

func (e entry) key() key     { return key{e.pid, e.start} }
func (id Identity) key() key { return key{id.PID, id.StartTime} }

func tableError(e error) error {
	return &coord.Error{Code: coord.Unavailable, Message: "The process table of this machine cannot be read.", Err: e}
}
