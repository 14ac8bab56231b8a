package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/filehash"
	"signalbox/internal/sandbox/landlock"
)

// tiers are those of this system, strongest first.
var tiers = []coord.Tier{coord.TierNamespaces, coord.TierLandlock}

// arrange lays out what a run needs on the disk and writes its order.
func arrange(s Spec, dir runDir, id filehash.State, masks []mask, copied bool) (order, error) {
	o := newOrder(s, dir, id)
	o.Masks = masks
	if len(s.Changes) == 0 {
		return o, nil
	}
	if s.Tier == coord.TierNamespaces && !copied {
		// A changed file is in the layer, and is no longer the one that had
		// another name elsewhere.
		o.Masks = slices.DeleteFunc(slices.Clone(masks), func(m mask) bool {
			return slices.ContainsFunc(s.Changes, func(c Change) bool { return c.Path == m.Path })
		})
		o.Layer = dir.layer()
		if err := os.Mkdir(o.Layer, 0o700); err != nil {
			return o, scratchError(err)
		}
		return o, lay(o.Layer, s.Changes, whiteout)
	}
	if err := copyTree(s.Workspace, dir.tree(), masks); err != nil {
		return o, err
	}
	o.Masks, o.Source = nil, dir.tree()
	if s.Tier != coord.TierNamespaces {
		o.Dir = o.Source
	}
	return o, lay(dir.tree(), s.Changes, os.RemoveAll)
}

// whiteout marks a path of a layer as deleted: a character device 0/0, which
// every user may make (Documentation/filesystems/overlayfs.rst).
func whiteout(path string) error {
	if err := makeDirs(filepath.Dir(path)); err != nil {
		return err
	}
	return unix.Mknod(path, unix.S_IFCHR, 0)
}

// stageAttr is how a stage is started.
func stageAttr(tier coord.Tier, g *group) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if g != nil {
		a.UseCgroupFD, a.CgroupFD = true, g.fd
	}
	if tier != coord.TierNamespaces {
		return a
	}
	a.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	// The same numbers inside as outside, and no others: files keep their owner.
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT}
	return a
}

// ReportPath is where the program writes its report.
const ReportPath = "/proc/self/fd/3"

// abstractName is the address of a socket without a path.
func abstractName(name string) string { return "@" + name }

// systemPrograms take part in each run beside our own.
var systemPrograms []coord.IdentityFile

// landlockABI is 0 where there is none.
func landlockABI() int {
	abi, err := landlock.ABI()
	if err != nil {
		return 0
	}
	return abi
}
