package landlock

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Access is a set of rights on files.
type Access uint64

// What is granted. Execute is apart from Read, so that a program can be read
// without being run.
const (
	ReadFile Access = unix.LANDLOCK_ACCESS_FS_READ_FILE
	ReadDir  Access = unix.LANDLOCK_ACCESS_FS_READ_DIR
	Execute  Access = unix.LANDLOCK_ACCESS_FS_EXECUTE
	Write    Access = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// Tree is everything that a private scratch directory needs: regular files,
	// directories, symbolic links and FIFOs. Devices and sockets are not made.
	Tree = ReadFile | ReadDir | Write | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_REFER

	// Socket lets sockets be made as well, which programs do in folders of their
	// own.
	Socket Access = unix.LANDLOCK_ACCESS_FS_MAKE_SOCK

	// changing are all the rights to change what others see of files.
	changing = Write | Socket | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// onFile are the rights that mean something on a file; the kernel refuses
	// the others there.
	onFile = ReadFile | Write | Execute
)

const (
	// MinABI is the oldest ABI that is enough: before 3, opening with O_TRUNC
	// emptied any file that could be named.
	MinABI = 3
	// maxABI is the newest whose rights are listed here. A newer kernel accepts
	// them too.
	maxABI = 7
	// signalABI is the first that keeps signals within the restriction.
	signalABI = 6
)

// ScopesSignals reports whether an ABI keeps signals within the restriction.
func ScopesSignals(abi int) bool { return abi >= signalABI }

// ABI is the kernel's version of Landlock; an error when it has none or it is
// switched off (boot option lsm=).
func ABI() (int, error) {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0, e
	}
	return int(v), nil
}

// Grant gives rights on one path and all below it.
type Grant struct {
	Path   string
	Access Access
	// Required makes an absent path an error; else it grants nothing.
	Required bool
	// Exact makes a symbolic link anywhere in the path an error: whoever may
	// write above it could have put it there.
	Exact bool
}

// handled are the rights that the kernel denies unless they are granted.
func handled(abi int) unix.LandlockRulesetAttr {
	a := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1}
	if abi >= 2 {
		a.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		a.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 4 {
		a.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 5 {
		a.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= signalABI {
		a.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return a
}

// attrSize is how much of the attributes a kernel of that ABI knows.
func attrSize(abi int) uintptr {
	switch {
	case abi >= signalABI:
		return 24
	case abi >= 4:
		return 16
	default:
		return 8
	}
}

// Prepare makes a ruleset that denies all that is not granted, and gives its
// descriptor, with which landlock_restrict_self puts a thread under it. The
// error names the path that failed.
func Prepare(grants []Grant) (abi, ruleset int, err error) {
	if abi, err = usable(); err != nil {
		return abi, -1, err
	}
	return rules(abi, handled(min(abi, maxABI)), grants)
}

// PrepareWrites makes a ruleset that denies only what changes files and is not
// granted, and, where the ABI has it, signals and abstract sockets to others.
// Reading, running and the network stay as they were. Landlock does not mediate
// changes of modes, owners, times and attributes.
func PrepareWrites(grants []Grant) (ruleset int, err error) {
	abi, err := usable()
	if err != nil {
		return -1, err
	}
	attr := handled(min(abi, maxABI))
	attr.Handled_access_fs &= uint64(changing)
	attr.Handled_access_net = 0
	_, ruleset, err = rules(abi, attr, grants)
	return ruleset, err
}

// Restrict puts the calling thread, and what it becomes or starts, under a
// ruleset for ever. The caller keeps to the thread (runtime.LockOSThread).
func Restrict(ruleset int) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); e != 0 {
		return e
	}
	return unix.Close(ruleset)
}

// usable is the ABI when it is enough.
func usable() (abi int, err error) {
	switch abi, err = ABI(); {
	case err != nil:
		return 0, err
	case abi < MinABI:
		return abi, fmt.Errorf("the kernel has Landlock ABI %d, %d is needed", abi, MinABI)
	}
	return abi, nil
}

func rules(abi int, attr unix.LandlockRulesetAttr, grants []Grant) (_, ruleset int, err error) {
	set, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), attrSize(abi), 0)
	if e != 0 {
		return abi, -1, fmt.Errorf("create a ruleset: %w", e)
	}
	for _, g := range grants {
		if err := add(int(set), Access(attr.Handled_access_fs), g); err != nil {
			return abi, -1, errors.Join(fmt.Errorf("grant %s: %w", g.Path, err), unix.Close(int(set)))
		}
	}
	return abi, int(set), nil
}

func add(set int, known Access, g Grant) error {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}
	if g.Exact {
		how.Resolve = unix.RESOLVE_NO_SYMLINKS
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, g.Path, &how)
	absent := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES)
	if absent && !g.Required {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	access := g.Access & known
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= onFile
	}
	if access == 0 {
		return nil
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: uint64(access), Parent_fd: int32(fd)}
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}
