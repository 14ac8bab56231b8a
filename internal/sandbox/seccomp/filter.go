package seccomp

import "slices"

// Arch is an architecture with a table of system calls.
type Arch string

// The architectures, by Go's names.
const (
	AMD64 Arch = "amd64"
	ARM64 Arch = "arm64"
)

// audit is the architecture as the kernel tells it to a filter
// (include/uapi/linux/audit.h).
var audit = map[Arch]uint32{AMD64: 0xC000003E, ARM64: 0xC00000B7}

// Instruction is one instruction of classic BPF, laid out as the kernel's
// struct sock_filter.
type Instruction struct {
	Code   uint16
	Jt, Jf uint8
	K      uint32
}

// Params are what differs from run to run.
type Params struct {
	// PID is the process that will run, as it sees itself; exec does not change
	// it. It may signal itself and ask for its own limits. PIDMark stands for a
	// number that is not known yet.
	PID uint32
	// Exec are the addresses of path, arguments and environment of the one
	// execve that passes. They are secret, and vanish with the memory that exec
	// replaces, so that the program can never name them.
	Exec [3]uint64
	// OwnMounts allows changes of mode and times of files. Landlock does not
	// mediate those, so they are safe only where every foreign mount is
	// read-only.
	OwnMounts bool
	// SignalsScoped allows tkill, which names a thread without its process,
	// where a PID namespace or Landlock keeps signals inside.
	SignalsScoped bool
}

// PIDMark is no number of a process (the kernel's limit is 1<<22) and occurs
// nowhere else in a filter, so that it can be replaced there.
const PIDMark = 0x7ffffff1

// Opcodes and return values (include/uapi/linux/bpf_common.h, seccomp.h).
const (
	opLoad  = 0x20 // BPF_LD  | BPF_W   | BPF_ABS
	opEqual = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	opAtMin = 0x35 // BPF_JMP | BPF_JGE | BPF_K
	opBits  = 0x45 // BPF_JMP | BPF_JSET | BPF_K
	opJump  = 0x05 // BPF_JMP | BPF_JA
	opAnd   = 0x54 // BPF_ALU | BPF_AND | BPF_K
	opRet   = 0x06 // BPF_RET | BPF_K

	retKill  = 0x80000000 // SECCOMP_RET_KILL_PROCESS
	retErrno = 0x00050000 // SECCOMP_RET_ERRNO
	retAllow = 0x7fff0000 // SECCOMP_RET_ALLOW
)

// Offsets in struct seccomp_data. Both architectures are little-endian.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

// Errors that a denied call gives. A program falls back after ENOSYS, as on an
// older kernel; killing it instead would crash runtimes that only ask.
const (
	ePerm   = retErrno | 1
	eInval  = retErrno | 22
	eNoTTY  = retErrno | 25
	eNoCall = retErrno | 38
)

// unlisted is the first number that the tables do not know (golang.org/x/sys 0.50). Newer
// calls look absent rather than forbidden.
const unlisted = 472

// Flags and values that the rules look at. They are the same on both
// architectures (include/uapi/linux/sched.h, asm-generic/mman-common.h,
// fcntl.h, prctl.h, asm-generic/ioctls.h).
const (
	cloneThread  = 0x00010000
	clonePtrace  = 0x00002000
	cloneAnyNew  = 0x7E020000 // CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}
	cloneNewTime = 0x00000080
	mapShared    = 0x01
	mapAnonymous = 0x20
	afUnix       = 1
	sockStream   = 1
	sockTypeMask = 0xf
)

var (
	// ioctls that ask, or set what belongs to the descriptor alone: TCGETS,
	// TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX. TIOCSTI, which
	// types into the operator's terminal, is the reason for a list.
	ioctls = []uint32{0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451}
	// fcntls without owners, signals, leases and pipe sizes: F_DUPFD to F_SETLKW,
	// F_GETOWN, F_GETSIG, the open-file-description locks, F_DUPFD_CLOEXEC,
	// F_GETPIPE_SZ, F_GET_SEALS.
	fcntls = []uint32{0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 36, 37, 38, 1030, 1032, 1034}
	// prctls: PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME,
	// PR_GET_SECCOMP, PR_CAPBSET_READ, timer slack, no_new_privs, huge pages,
	// PR_SET_VMA. Clearing the parent-death signal is not among them.
	prctls = []uint32{2, 3, 15, 16, 21, 23, 29, 30, 38, 39, 41, 42, 0x53564d41}
)

// program is a filter being written.
type program []Instruction

func (p *program) add(code uint16, k uint32, jt, jf uint8) {
	*p = append(*p, Instruction{code, jt, jf, k})
}
func (p *program) load(at uint32)  { p.add(opLoad, at, 0, 0) }
func (p *program) ret(what uint32) { p.add(opRet, what, 0, 0) }

// low and high are the halves of an argument.
func low(arg int) uint32  { return atArgs + 8*uint32(arg) }
func high(arg int) uint32 { return low(arg) + 4 }

// table says what becomes of each call. Each of its programs ends in a return
// on every path.
type table struct {
	arch  Arch
	calls map[int]program
}

// when writes what becomes of one call.
func (t table) when(c call, body func(*program)) {
	if number := c.number(t.arch); number >= 0 {
		var p program
		body(&p)
		t.calls[number] = p
	}
}

func (t table) always(calls []call, what uint32) {
	for _, c := range calls {
		t.when(c, func(b *program) { b.ret(what) })
	}
}

// section is a range of numbers of which the same becomes, up to the first of
// the next.
type section struct {
	first uint32
	body  program
}

func (t table) sections() []section {
	var all []section
	for number := range unlisted {
		body := t.calls[number]
		if body == nil {
			body.ret(ePerm)
		}
		if len(all) == 0 || !slices.Equal(all[len(all)-1].body, body) {
			all = append(all, section{uint32(number), body})
		}
	}
	return append(all, section{unlisted, program{{opRet, 0, 0, eNoCall}}})
}

// choose finds the section by halves. The kernel runs a filter once for every
// number when it takes it, which for a list costs more than all the rest.
func choose(all []section) program {
	if len(all) == 1 {
		return all[0].body
	}
	middle := len(all) / 2
	below, above := choose(all[:middle]), choose(all[middle:])
	var p program
	if len(below) <= 255 { // a jump of 8 bits
		p.add(opAtMin, all[middle].first, uint8(len(below)), 0)
	} else {
		p.add(opAtMin, all[middle].first, 0, 1)
		p.add(opJump, uint32(len(below)), 0, 0)
	}
	return slices.Concat(p, below, above)
}

// oneOf allows when the low half of an argument is listed. The kernel reads
// only that half of the arguments it is used for.
func (p *program) oneOf(arg int, otherwise uint32, values ...uint32) {
	p.load(low(arg))
	for _, v := range values {
		p.add(opEqual, v, 0, 1)
		p.ret(retAllow)
	}
	p.ret(otherwise)
}

// exactly goes on when a whole argument has a value, and denies otherwise.
func (p *program) exactly(arg int, value uint64) {
	for _, half := range []struct{ at, want uint32 }{{low(arg), uint32(value)}, {high(arg), uint32(value >> 32)}} {
		p.load(half.at)
		p.add(opEqual, half.want, 1, 0)
		p.ret(ePerm)
	}
}

// Filter builds the filter for an architecture; nil for one without a table.
func Filter(arch Arch, params Params) []Instruction {
	if _, known := audit[arch]; !known {
		return nil
	}
	var p program
	p.load(atArch)
	p.add(opEqual, audit[arch], 1, 0)
	p.ret(retKill)
	p.load(atNumber)
	if arch == AMD64 {
		// The x32 numbers, which are another set of calls.
		p.add(opAtMin, 0x40000000, 0, 1)
		p.ret(retKill)
	}
	t := table{arch, map[int]program{}}
	t.always(plain, retAllow)
	if params.OwnMounts {
		t.always(metadata, retAllow)
	}
	t.always(absent, eNoCall)
	if params.SignalsScoped {
		t.always([]call{tkill}, retAllow)
	}
	t.rules(params)
	return append(p, choose(t.sections())...)
}

// rules are the calls that depend on their arguments.
func (t table) rules(params Params) {
	t.when(clone, func(b *program) {
		b.load(low(0))
		b.add(opBits, cloneAnyNew|cloneNewTime|clonePtrace, 2, 0)
		b.add(opBits, cloneThread, 0, 1)
		b.ret(retAllow)
		b.ret(ePerm)
	})
	t.when(execve, func(b *program) {
		for arg, address := range params.Exec {
			b.exactly(arg, address)
		}
		b.ret(retAllow)
	})
	for _, c := range []call{kill, tgkill} {
		t.when(c, func(b *program) { b.oneOf(0, ePerm, params.PID) })
	}
	// A pair of datagram sockets could be connected again, to an address of
	// another process.
	t.when(socketpair, func(b *program) {
		b.load(low(0))
		b.add(opEqual, afUnix, 1, 0)
		b.ret(ePerm)
		b.load(low(1))
		b.add(opAnd, sockTypeMask, 0, 0)
		b.add(opEqual, sockStream, 0, 1)
		b.ret(retAllow)
		b.ret(ePerm)
	})
	// Without an address it is send, which asyncio and Bun need for their pairs.
	t.when(sendto, func(b *program) {
		b.exactly(4, 0)
		b.ret(retAllow)
	})
	t.when(prctl, func(b *program) { b.oneOf(0, ePerm, prctls...) })
	t.when(ioctl, func(b *program) { b.oneOf(1, eNoTTY, ioctls...) })
	t.when(fcntl, func(b *program) { b.oneOf(1, eInval, fcntls...) })
	// Shared anonymous memory is outside of RLIMIT_DATA, as memfds are.
	t.when(mmap, func(b *program) {
		b.load(low(3))
		b.add(opBits, mapAnonymous, 0, 2)
		b.add(opBits, mapShared, 0, 1)
		b.ret(ePerm)
		b.ret(retAllow)
	})
	// Only questions, and only about itself.
	t.when(prlimit64, func(b *program) {
		b.exactly(2, 0)
		b.oneOf(0, ePerm, 0, params.PID)
	})
}
