package sandbox

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"signalbox/internal/sandbox/seccomp"
)

// becoming is what is left to do for the process that becomes the program.
// Everything is allocated before, because that process may be a fork of this
// one thread, in which Go's runtime does not work any more.
type becoming struct {
	abi     int
	ruleset uintptr
	filter  []seccomp.Instruction
	prog    unix.SockFprog
	// exec are the secret addresses of path, arguments and environment.
	exec [3]uintptr
	// pids are the instructions that compare with the process's own number.
	pids []*uint32
	// own grants what /proc tells of the process itself, which has its number
	// only now.
	own  unix.LandlockPathBeneathAttr
	proc []byte
	// failures are the replies for the three steps; their errno is filled in.
	failures [3][]byte
}

// ready computes what become uses.
func (b *becoming) ready() {
	b.prog = unix.SockFprog{Len: uint16(len(b.filter)), Filter: (*unix.SockFilter)(unsafe.Pointer(unsafe.SliceData(b.filter)))}
	for i := range b.filter {
		if b.filter[i].K == seccomp.PIDMark {
			b.pids = append(b.pids, &b.filter[i].K)
		}
	}
	b.proc = []byte("/proc/self\x00")
	b.own.Allowed_access = uint64(read)
	for i, step := range []string{stageLandlock, stageSeccomp, stageExec} {
		b.failures[i] = fmt.Appendf(nil, "{\"failed\":%q,\"errno\":\"000\"}\n", step)
	}
}

// modeFilter is SECCOMP_SET_MODE_FILTER.
const modeFilter = 1

// become restricts this thread and becomes the program. It makes system calls
// and nothing else: no allocation, no growing stack, no lock.
//
//go:norace
//go:nosplit
func become(b *becoming) {
	pid, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	for _, k := range b.pids {
		*k = uint32(pid)
	}
	step := 0
	const cwd, flags = ^uintptr(99), uintptr(unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC) // AT_FDCWD
	fd, _, e := syscall.RawSyscall6(syscall.SYS_OPENAT, cwd, uintptr(unsafe.Pointer(unsafe.SliceData(b.proc))), flags, 0, 0, 0)
	if e == 0 {
		b.own.Parent_fd = int32(fd)
		_, _, e = syscall.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, b.ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&b.own)), 0, 0, 0)
	}
	if e == 0 {
		_, _, e = syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, b.ruleset, 0, 0)
	}
	if e == 0 {
		step = 1
		_, _, e = syscall.RawSyscall(unix.SYS_SECCOMP, modeFilter, 0, uintptr(unsafe.Pointer(&b.prog)))
	}
	if e == 0 {
		step = 2
		_, _, e = syscall.RawSyscall(syscall.SYS_EXECVE, b.exec[0], b.exec[1], b.exec[2])
	}
	text := b.failures[step]
	at := len(text) - len("000\"}\n")
	text[at], text[at+1], text[at+2] = '0'+byte(e/100), '0'+byte(e/10%10), '0'+byte(e%10)
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, statusFD, uintptr(unsafe.Pointer(unsafe.SliceData(text))), uintptr(len(text)))
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 126, 0, 0)
	}
}

// Secret addresses lie between these, where neither Go nor a C library puts
// anything, and which every configuration of both architectures has.
const (
	lowestSecret  = 1 << 33
	highestSecret = 1 << 38
	pageSize      = 1 << 16 // the largest of the two architectures
)

// place puts what make gives for an address at that address, which is random.
// The mapping is not Go's, and vanishes at exec.
func place(data func(at uint64) []byte) (uint64, error) {
	for range 16 {
		var random [8]byte
		if _, err := rand.Read(random[:]); err != nil {
			return 0, err
		}
		at := lowestSecret + binary.NativeEndian.Uint64(random[:])%(highestSecret-lowestSecret)&^7
		content := data(at)
		first := at &^ (pageSize - 1)
		size := (at - first + uint64(len(content)) + pageSize - 1) &^ (pageSize - 1)
		_, _, e := unix.RawSyscall6(unix.SYS_MMAP, uintptr(first), uintptr(size), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE, ^uintptr(0), 0)
		if e == unix.EEXIST {
			continue
		}
		if e != 0 {
			return 0, e
		}
		address := uintptr(at)
		// The address is not one of Go's, so that there is nothing to keep alive.
		copy(unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), len(content)), content)
		return at, nil
	}
	return 0, errors.New("no free address was found")
}

func putAddress(b []byte, address uint64) { binary.NativeEndian.PutUint64(b, address) }
