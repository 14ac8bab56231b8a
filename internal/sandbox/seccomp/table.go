package seccomp

// call is a system call with its number on each architecture, -1 where the
// architecture does not have it. The numbers are those of the kernel's
// arch/x86/entry/syscalls/syscall_64.tbl and scripts/syscall.tbl; a test
// compares them with golang.org/x/sys.
type call struct {
	name         string
	amd64, arm64 int
}

func (c call) number(arch Arch) int {
	if arch == ARM64 {
		return c.arm64
	}
	return c.amd64
}

// plain calls are allowed whatever their arguments: they work on the process
// itself, on descriptors that it has, or on files, which Landlock judges.
var plain = []call{
	{"read", 0, 63}, {"write", 1, 64}, {"open", 2, -1}, {"close", 3, 57}, {"stat", 4, -1}, {"fstat", 5, 80}, {"lstat", 6, -1}, {"poll", 7, -1},
	{"lseek", 8, 62}, {"mprotect", 10, 226}, {"munmap", 11, 215}, {"brk", 12, 214}, {"rt_sigaction", 13, 134}, {"rt_sigprocmask", 14, 135},
	{"rt_sigreturn", 15, 139}, {"pread64", 17, 67}, {"pwrite64", 18, 68}, {"readv", 19, 65}, {"writev", 20, 66}, {"access", 21, -1}, {"pipe", 22, -1},
	{"select", 23, -1}, {"sched_yield", 24, 124}, {"mremap", 25, 216}, {"msync", 26, 227}, {"mincore", 27, 232}, {"madvise", 28, 233}, {"dup", 32, 23},
	{"dup2", 33, -1}, {"pause", 34, -1}, {"nanosleep", 35, 101}, {"getitimer", 36, 102}, {"alarm", 37, -1}, {"setitimer", 38, 103}, {"getpid", 39, 172},
	{"sendfile", 40, 71}, {"sendmsg", 46, 211}, {"recvmsg", 47, 212}, {"recvfrom", 45, 207}, {"shutdown", 48, 210}, {"getsockname", 51, 204},
	{"getpeername", 52, 205}, {"setsockopt", 54, 208}, {"getsockopt", 55, 209}, {"exit", 60, 93}, {"wait4", 61, 260}, {"uname", 63, 160},
	{"flock", 73, 32}, {"fsync", 74, 82}, {"fdatasync", 75, 83}, {"truncate", 76, 45}, {"ftruncate", 77, 46}, {"getdents", 78, -1}, {"getcwd", 79, 17},
	{"chdir", 80, 49}, {"fchdir", 81, 50}, {"rename", 82, -1}, {"mkdir", 83, -1}, {"rmdir", 84, -1}, {"creat", 85, -1}, {"link", 86, -1},
	{"unlink", 87, -1}, {"symlink", 88, -1}, {"readlink", 89, -1}, {"umask", 95, 166}, {"gettimeofday", 96, 169}, {"getrlimit", 97, 163},
	{"getrusage", 98, 165}, {"sysinfo", 99, 179}, {"times", 100, 153}, {"getuid", 102, 174}, {"getgid", 104, 176}, {"geteuid", 107, 175},
	{"getegid", 108, 177}, {"getppid", 110, 173}, {"getpgrp", 111, -1}, {"getgroups", 115, 158}, {"getresuid", 118, 148}, {"getresgid", 120, 150},
	{"getpgid", 121, 155}, {"getsid", 124, 156}, {"capget", 125, 90}, {"rt_sigpending", 127, 136}, {"rt_sigtimedwait", 128, 137},
	{"rt_sigsuspend", 130, 133}, {"sigaltstack", 131, 132}, {"statfs", 137, 43}, {"fstatfs", 138, 44}, {"getpriority", 140, 141},
	{"sched_getparam", 143, 121}, {"sched_getscheduler", 145, 120}, {"sched_get_priority_max", 146, 125}, {"sched_get_priority_min", 147, 126},
	{"mlock", 149, 228}, {"munlock", 150, 229}, {"mlock2", 325, 284}, {"arch_prctl", 158, -1}, {"gettid", 186, 178}, {"readahead", 187, 213},
	{"getxattr", 191, 8}, {"lgetxattr", 192, 9}, {"fgetxattr", 193, 10}, {"listxattr", 194, 11}, {"llistxattr", 195, 12}, {"flistxattr", 196, 13},
	{"time", 201, -1}, {"futex", 202, 98}, {"sched_getaffinity", 204, 123}, {"epoll_create", 213, -1}, {"getdents64", 217, 61},
	{"set_tid_address", 218, 96}, {"restart_syscall", 219, 128}, {"fadvise64", 221, 223}, {"timer_create", 222, 107}, {"timer_settime", 223, 110},
	{"timer_gettime", 224, 108}, {"timer_getoverrun", 225, 109}, {"timer_delete", 226, 111}, {"clock_gettime", 228, 113}, {"clock_getres", 229, 114},
	{"clock_nanosleep", 230, 115}, {"exit_group", 231, 94}, {"epoll_wait", 232, -1}, {"epoll_ctl", 233, 21}, {"mbind", 237, 235},
	{"get_mempolicy", 239, 236}, {"waitid", 247, 95}, {"openat", 257, 56}, {"mkdirat", 258, 34}, {"newfstatat", 262, 79}, {"unlinkat", 263, 35},
	{"renameat", 264, 38}, {"linkat", 265, 37}, {"symlinkat", 266, 36}, {"readlinkat", 267, 78}, {"faccessat", 269, 48}, {"pselect6", 270, 72},
	{"ppoll", 271, 73}, {"set_robust_list", 273, 99}, {"get_robust_list", 274, 100}, {"splice", 275, 76}, {"tee", 276, 77},
	{"sync_file_range", 277, 84}, {"epoll_pwait", 281, 22}, {"timerfd_create", 283, 85}, {"eventfd", 284, -1}, {"fallocate", 285, 47},
	{"timerfd_settime", 286, 86}, {"timerfd_gettime", 287, 87}, {"signalfd", 282, -1}, {"signalfd4", 289, 74}, {"eventfd2", 290, 19},
	{"epoll_create1", 291, 20}, {"dup3", 292, 24}, {"pipe2", 293, 59}, {"preadv", 295, 69}, {"pwritev", 296, 70}, {"getcpu", 309, 168},
	{"renameat2", 316, 276}, {"getrandom", 318, 278}, {"membarrier", 324, 283}, {"copy_file_range", 326, 285}, {"preadv2", 327, 286},
	{"pwritev2", 328, 287}, {"pkey_mprotect", 329, 288}, {"pkey_alloc", 330, 289}, {"pkey_free", 331, 290}, {"statx", 332, 291}, {"rseq", 334, 293},
	{"close_range", 436, 436}, {"openat2", 437, 437}, {"faccessat2", 439, 439}, {"epoll_pwait2", 441, 441}, {"futex_waitv", 449, 449},
	{"cachestat", 451, 451}, {"futex_wake", 454, 454}, {"futex_wait", 455, 455}, {"futex_requeue", 456, 456},
}

// metadata are the changes of mode and times.
var metadata = []call{
	{"chmod", 90, -1}, {"fchmod", 91, 52}, {"fchmodat", 268, 53}, {"utimensat", 280, 88}, {"utimes", 235, -1}, {"utime", 132, -1},
	{"futimesat", 261, -1},
}

// absent calls look as on a kernel without them. Libraries then use what can be
// judged: clone instead of clone3, whose flags are in memory; anonymous memory
// instead of memfds, which no limit counts.
var absent = []call{
	{"clone3", 435, 435}, {"io_uring_setup", 425, 425}, {"io_uring_enter", 426, 426}, {"io_uring_register", 427, 427}, {"fchmodat2", 452, 452},
	{"memfd_create", 319, 279}, {"pidfd_open", 434, 434}, {"memfd_secret", 447, 447}, {"userfaultfd", 323, 282},
}

// These are judged by their arguments, or by the run.
var (
	clone      = call{"clone", 56, 220}
	execve     = call{"execve", 59, 221}
	kill       = call{"kill", 62, 129}
	tgkill     = call{"tgkill", 234, 131}
	tkill      = call{"tkill", 200, 130}
	socketpair = call{"socketpair", 53, 199}
	sendto     = call{"sendto", 44, 206}
	prctl      = call{"prctl", 157, 167}
	mmap       = call{"mmap", 9, 222}
	prlimit64  = call{"prlimit64", 302, 261}
	ioctl      = call{"ioctl", 16, 29}
	fcntl      = call{"fcntl", 72, 25}
)
