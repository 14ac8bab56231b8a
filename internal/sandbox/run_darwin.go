package sandbox

import (
	"os"
	"syscall"

	"signalbox/internal/coord"
	"signalbox/internal/filehash"
)

// tiers are those of this system.
var tiers = []coord.Tier{coord.TierSeatbelt}

// ReportPath is where the program writes its report.
const ReportPath = "/dev/fd/3"

// arrange lays out what a run needs on the disk and writes its order. Changes
// need a private copy: there is nothing to lay them over the workspace with.
func arrange(s Spec, dir runDir, id filehash.State, masks []mask, _ bool) (order, error) {
	o := newOrder(s, dir, id)
	o.Masks = masks
	if len(s.Changes) == 0 {
		return o, nil
	}
	if err := copyTree(s.Workspace, dir.tree(), masks); err != nil {
		return o, err
	}
	o.Masks, o.Source, o.Dir = nil, dir.tree(), dir.tree()
	return o, lay(dir.tree(), s.Changes, os.RemoveAll)
}

// stageAttr is how a stage is started. This system does not end it with its
// supervisor: a run whose supervisor is killed goes on to its limit of
// processor time.
func stageAttr(coord.Tier, *group) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}

// group stands for the control groups that this system does not have.
type group struct{}

func newGroup(runDir) *group { return nil }
func (*group) limit(Limits)  {}
func (*group) kill()         {}
func (*group) empty() bool   { return true }
func (*group) close()        {}
func sweepGroup(string)      {}

// mounts stand for the mounts of a namespace, which this system does not have:
// a stage sees what this process sees.
type mounts struct{}

func watchMounts() *mounts    { return nil }
func (*mounts) changed() bool { return false }
func (*mounts) close() error  { return nil }

// abstractName would be the address of a socket without a path, which this
// system does not have.
func abstractName(string) string { return "" }

// systemPrograms take part in each run beside our own.
var systemPrograms = []coord.IdentityFile{{Role: coord.FileWrapper, Path: wrapper}}

func landlockABI() int { return 0 }
