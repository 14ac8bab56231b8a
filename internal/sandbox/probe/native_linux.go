package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// native are the attempts that only Linux knows.
func native() []Probe {
	return []Probe{
		{Name: "threads", Must: true, What: "run several threads", Do: threads},
		{Name: "read_own_maps", Must: true, What: "read what /proc tells of itself", Do: func(Lab) error { return contains("/proc/self/maps", "rw-p") }},

		{Name: "read_proc_root", What: "read a file outside by /proc/self/root", Do: func(l Lab) error { return contains("/proc/self/root"+out(l, "secret"), l.Secret) }},
		{Name: "read_victim_environment", What: "read the environment of another process", Do: func(l Lab) error { return contains(victimFile(l, "environ"), l.Secret) }},
		{Name: "read_victim_root", What: "read a file outside by another process's root", Do: func(l Lab) error { return contains(victimFile(l, "root")+out(l, "secret"), l.Secret) }},
		{Name: "read_victim_descriptor", What: "open the standard input of another process", Do: func(l Lab) error {
			return open(victimFile(l, "fd/0"), unix.O_WRONLY|unix.O_NONBLOCK)
		}},
		{Name: "read_init_environment", What: "read the environment of the first process", Do: func(Lab) error {
			text, err := os.ReadFile("/proc/1/environ")
			if err == nil && len(text) == 0 {
				return errWrong
			}
			return err
		}},
		{Name: "xattr_outside", What: "set an attribute of a file outside", Do: func(l Lab) error {
			return unix.Setxattr(out(l, "target"), "user.probe", []byte("x"), 0)
		}},
		{Name: "open_by_handle", What: "open a file outside by a handle without its path", Do: openByHandle},
		{Name: "shared_memory_file", What: "make a file in /dev/shm", Do: func(Lab) error {
			path := fmt.Sprintf("/dev/shm/signalbox-probe-%d", os.Getpid())
			return errors.Join(write(path), os.Remove(path))
		}},
		{Name: "core_pattern", What: "open the kernel's core pattern for writing", Do: func(Lab) error { return open("/proc/sys/kernel/core_pattern", unix.O_WRONLY) }},
		{Name: "sysrq", What: "open /proc/sysrq-trigger for writing", Do: func(Lab) error { return open("/proc/sysrq-trigger", unix.O_WRONLY) }},
		{Name: "make_device", What: "make a device", Do: func(l Lab) error {
			return unix.Mknod(filepath.Join(l.Scratch, "device"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
		}},
		{Name: "terminal_injection", What: "type into a terminal (TIOCSTI)", Do: typeInto},

		{Name: "abstract_connect", What: "connect to an abstract socket", Do: func(l Lab) error {
			return connect(unix.AF_UNIX, 0, &unix.SockaddrUnix{Name: "@" + l.Abstract})
		}},
		{Name: "datagram_reconnect", What: "turn a pair of datagram sockets to a socket outside", Do: reconnect},
		{Name: "unix_datagram", What: "send a datagram to a socket outside", Do: func(l Lab) error { return sendTo(unix.AF_UNIX, &unix.SockaddrUnix{Name: out(l, "datagrams")}) }},
		{Name: "mptcp_connect", What: "connect by multipath TCP", Do: func(l Lab) error {
			return connect(unix.AF_INET, unix.IPPROTO_MPTCP, loopback(l.TCP))
		}},
		{Name: "netlink", What: "open a socket to the kernel's network tables", Do: func(Lab) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW) }},
		{Name: "vsock", What: "open a socket to the host of a virtual machine", Do: func(Lab) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM) }},
		{Name: "packet_socket", What: "open a socket for raw packets", Do: func(Lab) error { return socket(unix.AF_PACKET, unix.SOCK_RAW) }},
		{Name: "io_uring", What: "set up io_uring, which makes calls past a filter", Do: ioUring},

		{Name: "fork", What: "fork", Do: func(Lab) error { return clone(uintptr(unix.SIGCHLD)) }},
		{Name: "fork_namespace", What: "fork into a new user namespace", Do: func(Lab) error { return clone(uintptr(unix.SIGCHLD) | unix.CLONE_NEWUSER) }},
		{Name: "execute_memory", What: "run a program from memory (memfd)", Do: executeMemory},
		{Name: "foreign_architecture", What: "make a call of the 32-bit architecture", Do: func(Lab) error { return foreignCall() }},
		{Name: "new_session", What: "leave the session", Do: func(Lab) error {
			_, err := unix.Setsid()
			if errors.Is(err, unix.EPERM) && leadsGroup() {
				return errWrong
			}
			return err
		}},
		{Name: "clear_death_signal", What: "outlive the supervisor by clearing the parent-death signal", Do: func(Lab) error { return unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0) }},
		{Name: "raise_limit", What: "change one of its own limits", Do: raiseLimit},
		{Name: "thread_signal", What: "signal a thread of another process", Do: func(l Lab) error { return unix.Tgkill(l.Victim, l.Victim, 0) }},
		{Name: "pidfd_signal", What: "signal another process by a descriptor", Do: pidfdSignal},
		{Name: "pidfd_getfd", What: "take a descriptor from another process", Do: pidfdGetfd},
		{Name: "ptrace", What: "attach to another process", Do: attach},
		{Name: "read_memory", What: "read the memory of another process", Do: readMemory},
		{Name: "limit_victim", What: "change the limits of another process", Do: func(l Lab) error {
			var now unix.Rlimit
			if err := unix.Prlimit(l.Victim, unix.RLIMIT_CORE, nil, &now); err != nil {
				return err
			}
			return unix.Prlimit(l.Victim, unix.RLIMIT_CORE, &now, nil)
		}},
		{Name: "slow_victim", What: "change the priority of another process", Do: func(l Lab) error { return unix.Setpriority(unix.PRIO_PROCESS, l.Victim, 19) }},
		{Name: "owner_signal", What: "have a pipe signal another process (F_SETOWN)", Do: setOwner},

		{Name: "memfd", What: "make a file in memory that no limit counts", Do: func(Lab) error { return opened(unix.MemfdCreate("probe", 0)) }},
		{Name: "shared_memory", What: "map shared memory that no limit counts", Do: sharedMemory},
		{Name: "sysv_memory", What: "make a System V segment", Do: sysv},
		{Name: "new_namespaces", What: "leave for new namespaces", Do: func(Lab) error {
			return onThread(func() error { return unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWUTS) })
		}},
		{Name: "keyring", What: "add a key to the kernel's keyring", Do: addKey},
		{Name: "userfaultfd", What: "handle page faults", Do: func(Lab) error { return call(unix.SYS_USERFAULTFD, 1, 0, 0) }},
		{Name: "perf_event", What: "open a performance counter", Do: perf},
		{Name: "bpf", What: "load a map into the kernel", Do: loadBPF},
		{Name: "mount", What: "mount a file system", Do: mountSomething},
		{Name: "chroot", What: "change the root", Do: func(l Lab) error { return unix.Chroot(l.Scratch) }},
		{Name: "personality", What: "change the execution domain", Do: func(Lab) error { return call(unix.SYS_PERSONALITY, 0x0040000, 0, 0) }},
	}
}

func victimFile(l Lab, name string) string { return fmt.Sprintf("/proc/%d/%s", l.Victim, name) }

// call makes a system call; one that gives a descriptor leaves it open, to the
// end of this short process.
func call(number uintptr, a, b, c uintptr) error {
	if _, _, e := unix.Syscall(number, a, b, c); e != 0 {
		return e
	}
	return nil
}

func opened(fd int, err error) error {
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func socket(family, kind int) error { return opened(unix.Socket(family, kind, 0)) }

func threads(Lab) error {
	done := make(chan int)
	for range 4 {
		go func() {
			runtime.LockOSThread()
			done <- unix.Gettid()
		}()
	}
	seen := map[int]bool{}
	for range 4 {
		seen[<-done] = true
	}
	if len(seen) != 4 {
		return errWrong
	}
	return nil
}

// onThread runs what would spoil a thread on one that is thrown away.
func onThread(do func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- do()
	}()
	return <-result
}

func openByHandle(l Lab) error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, out(l, "secret"), 0)
	if err != nil {
		return err
	}
	dir, err := unix.Open(l.Workspace, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return opened(unix.OpenByHandleAt(dir, handle, unix.O_RDONLY))
}

func typeInto(Lab) error {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return err
	}
	side, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	letter := byte('x')
	return call(unix.SYS_IOCTL, uintptr(side), unix.TIOCSTI, uintptr(unsafe.Pointer(&letter)))
}

func reconnect(l Lab) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	return unix.Connect(fds[0], &unix.SockaddrUnix{Name: out(l, "datagrams")})
}

func ioUring(Lab) error {
	var params [128]byte // struct io_uring_params has 120 bytes
	return call(unix.SYS_IO_URING_SETUP, 2, uintptr(unsafe.Pointer(&params)), 0)
}

// clone forks; the child ends at once.
//
//go:norace
func clone(flags uintptr) error {
	pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		for {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

func executeMemory(Lab) error {
	fd, err := unix.MemfdCreate("probe", 0)
	if err != nil {
		return err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, self); err != nil {
		return err
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	return unix.Exec(path, []string{path, os.Args[1], "nothing"}, nil)
}

// leadsGroup reports whether setsid cannot work for a reason of its own.
func leadsGroup() bool {
	group, err := unix.Getpgid(0)
	return err == nil && group == os.Getpid()
}

func raiseLimit(Lab) error {
	var now unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, nil, &now); err != nil {
		return err
	}
	return unix.Prlimit(0, unix.RLIMIT_CORE, &now, nil)
}

func pidfdSignal(l Lab) error {
	fd, err := unix.PidfdOpen(l.Victim, 0)
	if err != nil {
		return err
	}
	return unix.PidfdSendSignal(fd, 0, nil, 0)
}

func pidfdGetfd(l Lab) error {
	fd, err := unix.PidfdOpen(l.Victim, 0)
	if err != nil {
		return err
	}
	return opened(unix.PidfdGetfd(fd, 0, 0))
}

func attach(l Lab) error {
	return onThread(func() error {
		// Seizing does not stop the victim; the end of this thread lets it go.
		return call(unix.SYS_PTRACE, 0x4206, uintptr(l.Victim), 0)
	})
}

func readMemory(l Lab) error {
	// A Go program without position independence begins here; a wrong address
	// is EFAULT, which already means that one may look.
	local := make([]byte, 4)
	_, err := unix.ProcessVMReadv(l.Victim, []unix.Iovec{{Base: &local[0], Len: 4}}, []unix.RemoteIovec{{Base: 0x400000, Len: 4}}, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil
	}
	return err
}

func setOwner(l Lab) error {
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		return err
	}
	return call(unix.SYS_FCNTL, uintptr(fds[0]), unix.F_SETOWN, uintptr(l.Victim))
}

func sharedMemory(Lab) error {
	b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	return unix.Munmap(b)
}

func sysv(Lab) error {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		return err
	}
	_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	return err
}

func addKey(Lab) error {
	_, err := unix.AddKey("user", "signalbox-probe", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	return err
}

func perf(Lab) error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK, Bits: unix.PerfBitExcludeKernel}
	attr.Size = uint32(unsafe.Sizeof(attr))
	return opened(unix.PerfEventOpen(&attr, 0, -1, -1, 0))
}

func loadBPF(Lab) error {
	attr := [18]uint32{2 /* BPF_MAP_TYPE_ARRAY */, 4, 4, 1}
	return call(unix.SYS_BPF, 0 /* BPF_MAP_CREATE */, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
}

func mountSomething(l Lab) error {
	return onThread(func() error {
		// In a namespace of its own, so that nothing of the machine changes.
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		return unix.Mount("tmpfs", l.Scratch, "tmpfs", 0, "")
	})
}
