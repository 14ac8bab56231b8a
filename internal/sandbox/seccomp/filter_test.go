package seccomp

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// data is the kernel's struct seccomp_data, as a filter loads it.
type data struct {
	number int
	arch   uint32
	args   [6]uint64
}

func (d data) word(at uint32) uint32 {
	switch {
	case at == atNumber:
		return uint32(d.number)
	case at == atArch:
		return d.arch
	case at >= atArgs && at%4 == 0 && at < atArgs+48:
		arg := d.args[(at-atArgs)/8]
		if at%8 == 4 {
			arg >>= 32
		}
		return uint32(arg)
	}
	panic(fmt.Sprintf("a filter loads from %d", at))
}

// interpret runs a filter as the kernel would (Documentation/networking/
// filter.rst, "BPF engine"), and panics where the kernel's checker would refuse.
func interpret(filter []Instruction, d data) uint32 {
	var acc uint32
	for pc := 0; ; pc++ {
		in := filter[pc]
		jump := func(yes bool) {
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case opLoad:
			acc = d.word(in.K)
		case opAnd:
			acc &= in.K
		case opEqual:
			jump(acc == in.K)
		case opAtMin:
			jump(acc >= in.K)
		case opBits:
			jump(acc&in.K != 0)
		case opJump:
			pc += int(in.K)
		case opRet:
			return in.K
		default:
			panic(fmt.Sprintf("instruction %d has the code %#x", pc, in.Code))
		}
	}
}

const (
	eperm  = ePerm
	enosys = eNoCall
	pid    = 77
)

var secrets = [3]uint64{0x3a12345678, 0x2b00000010, 0x1c0000fff8}

// names finds a call in the tables.
func named(t *testing.T, arch Arch, name string) int {
	t.Helper()
	for _, list := range [][]call{plain, metadata, absent, {clone, execve, kill, tgkill, tkill, socketpair, sendto, prctl, mmap, prlimit64, ioctl, fcntl}} {
		for _, c := range list {
			if c.name == name {
				return c.number(arch)
			}
		}
	}
	n, ok := numbers(t, arch)[name]
	if !ok {
		return -1
	}
	return n
}

// numbers are all calls as golang.org/x/sys numbers them.
func numbers(t *testing.T, arch Arch) map[string]int {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(strings.TrimSpace(string(out)), "unix", "zsysnum_linux_"+string(arch)+".go"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := regexp.MustCompile(`^\s+SYS_(\w+)\s+= (\d+)$`)
	all := map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if m := line.FindStringSubmatch(s.Text()); m != nil {
			all[strings.ToLower(m[1])], _ = strconv.Atoi(m[2])
		}
	}
	if len(all) < 300 {
		t.Fatalf("only %d calls were found", len(all))
	}
	return all
}

var arches = []Arch{AMD64, ARM64}

func TestTablesHaveTheNumbersOfTheKernel(t *testing.T) {
	for _, arch := range arches {
		want := numbers(t, arch)
		seen := map[int]string{}
		for _, list := range [][]call{plain, metadata, absent, {clone, execve, kill, tgkill, tkill, socketpair, sendto, prctl, mmap, prlimit64, ioctl, fcntl}} {
			for _, c := range list {
				n, ok := want[c.name]
				if got := c.number(arch); ok && got != n || !ok && got != -1 {
					t.Errorf("%s %s is %d, not %d", arch, c.name, n, got)
				}
				if other := seen[c.number(arch)]; other != "" && c.number(arch) >= 0 {
					t.Errorf("%s: %s and %s have one number", arch, c.name, other)
				}
				seen[c.number(arch)] = c.name
			}
		}
		for name, n := range want {
			if n >= unlisted && n < 1000 {
				t.Errorf("%s %s has the number %d: look at it, and raise the bound of what is listed", arch, name, n)
			}
		}
	}
}

func TestFilterAllowsAndDenies(t *testing.T) {
	type args = [6]uint64
	cases := []struct {
		call string
		args args
		want uint32
	}{
		{"read", args{}, retAllow}, {"openat", args{}, retAllow}, {"futex", args{}, retAllow}, {"exit_group", args{}, retAllow},
		{"rt_sigreturn", args{}, retAllow}, {"getpid", args{}, retAllow}, {"wait4", args{}, retAllow}, {"recvmsg", args{}, retAllow},

		{"clone", args{0x3d0f00}, retAllow},          // a thread of glibc
		{"clone", args{0x50f00}, retAllow},           // a thread of Go
		{"clone", args{17}, eperm},                   // fork
		{"clone", args{0x4111}, eperm},               // vfork
		{"clone", args{0x10000 | 0x10000000}, eperm}, // a thread in a new user namespace
		{"clone", args{0x10000 | 0x2000}, eperm},     // traced
		{"clone3", args{}, enosys},                   // its flags are in memory
		{"fork", args{}, eperm},                      // amd64 only
		{"vfork", args{}, eperm},                     // amd64 only
		{"execve", args{secrets[0], secrets[1], secrets[2]}, retAllow},
		{"execve", args{secrets[0], secrets[1], secrets[2] + 1<<32}, eperm},
		{"execve", args{secrets[0] + 1, secrets[1], secrets[2]}, eperm},
		{"execve", args{0, 0, 0}, eperm},
		{"execveat", args{secrets[0], secrets[1], secrets[2]}, eperm},

		{"socket", args{1, 1}, eperm}, {"connect", args{}, eperm}, {"bind", args{}, eperm}, {"listen", args{}, eperm},
		{"accept", args{}, eperm}, {"accept4", args{}, eperm}, {"sendmmsg", args{}, eperm},
		{"socketpair", args{1, 1}, retAllow}, {"socketpair", args{1, 1 | 0x80800}, retAllow},
		{"socketpair", args{1, 2}, eperm}, {"socketpair", args{1, 5}, eperm}, {"socketpair", args{2, 1}, eperm},
		{"sendto", args{3, 0, 1, 0, 0, 0}, retAllow}, {"sendto", args{3, 0, 1, 0, 0x1000, 16}, eperm}, {"sendto", args{3, 0, 1, 0, 1 << 32, 16}, eperm},

		{"kill", args{pid, 6}, retAllow}, {"kill", args{pid + 1, 9}, eperm}, {"kill", args{0xffffffff, 9}, eperm}, {"kill", args{0, 9}, eperm},
		{"tgkill", args{pid, 80, 6}, retAllow}, {"tgkill", args{pid + 1, 80, 6}, eperm},
		{"rt_sigqueueinfo", args{pid + 1}, eperm}, {"rt_tgsigqueueinfo", args{pid + 1}, eperm}, {"pidfd_send_signal", args{}, eperm}, {"pidfd_open", args{}, enosys}, {"pidfd_getfd", args{}, eperm},
		{"ptrace", args{}, eperm}, {"process_vm_readv", args{}, eperm}, {"process_vm_writev", args{}, eperm}, {"kcmp", args{}, eperm},

		{"prctl", args{15}, retAllow}, {"prctl", args{1}, eperm}, {"prctl", args{22}, eperm}, {"prctl", args{36}, eperm}, {"prctl", args{0x59616d61}, eperm},
		{"prlimit64", args{0, 7, 0, 0x1000}, retAllow}, {"prlimit64", args{pid, 7, 0, 0x1000}, retAllow}, {"prlimit64", args{0, 7, 0x1000}, eperm},
		{"prlimit64", args{0, 7, 1 << 32}, eperm}, {"prlimit64", args{1, 7, 0, 0x1000}, eperm}, {"setrlimit", args{}, eperm},
		{"mmap", args{0, 4096, 3, 0x22}, retAllow}, {"mmap", args{0, 4096, 3, 0x21}, eperm}, {"mmap", args{0, 4096, 3, 0x23}, eperm}, {"mmap", args{0, 4096, 1, 0x01, 3}, retAllow},
		{"memfd_create", args{}, enosys}, {"memfd_secret", args{}, enosys}, {"shmget", args{}, eperm}, {"msgget", args{}, eperm}, {"semget", args{}, eperm}, {"mq_open", args{}, eperm},
		{"ioctl", args{1, 0x5401}, retAllow}, {"ioctl", args{1, 0x5412}, eNoTTY}, {"ioctl", args{1, 0x5412 | 1<<32}, eNoTTY}, {"ioctl", args{1, 0x541C}, eNoTTY},
		{"fcntl", args{1, 1030}, retAllow}, {"fcntl", args{1, 8}, eInval}, {"fcntl", args{1, 15}, eInval}, {"fcntl", args{1, 10}, eInval}, {"fcntl", args{1, 1024}, eInval},

		{"io_uring_setup", args{}, enosys}, {"io_uring_enter", args{}, enosys}, {"userfaultfd", args{}, enosys},
		{"unshare", args{}, eperm}, {"setns", args{}, eperm}, {"mount", args{}, eperm}, {"umount2", args{}, eperm}, {"pivot_root", args{}, eperm}, {"chroot", args{}, eperm},
		{"open_tree", args{}, eperm}, {"move_mount", args{}, eperm}, {"fsopen", args{}, eperm}, {"mount_setattr", args{}, eperm},
		{"bpf", args{}, eperm}, {"perf_event_open", args{}, eperm}, {"keyctl", args{}, eperm}, {"add_key", args{}, eperm}, {"request_key", args{}, eperm},
		{"init_module", args{}, eperm}, {"kexec_load", args{}, eperm}, {"reboot", args{}, eperm}, {"swapon", args{}, eperm}, {"settimeofday", args{}, eperm}, {"clock_settime", args{}, eperm},
		{"name_to_handle_at", args{}, eperm}, {"open_by_handle_at", args{}, eperm}, {"mknodat", args{}, eperm}, {"fanotify_init", args{}, eperm}, {"quotactl", args{}, eperm},
		{"setuid", args{}, eperm}, {"setresuid", args{}, eperm}, {"setgroups", args{}, eperm}, {"capset", args{}, eperm}, {"personality", args{}, eperm},
		{"setsid", args{}, eperm}, {"setpgid", args{}, eperm}, {"setpriority", args{}, eperm}, {"sched_setaffinity", args{}, eperm}, {"sched_setscheduler", args{}, eperm},
		{"setxattr", args{}, eperm}, {"fsetxattr", args{}, eperm}, {"removexattr", args{}, eperm}, {"fchownat", args{}, eperm}, {"chown", args{}, eperm},
		{"seccomp", args{}, eperm}, {"landlock_restrict_self", args{}, eperm},
	}
	for _, arch := range arches {
		filter := Filter(arch, Params{PID: pid, Exec: secrets})
		for _, c := range cases {
			number := named(t, arch, c.call)
			if number < 0 {
				if arch == AMD64 {
					t.Errorf("%s is not known; this case would check nothing", c.call)
				}
				continue
			}
			if got := interpret(filter, data{number, audit[arch], c.args}); got != c.want {
				t.Errorf("%s %s%x gives %#x, want %#x", arch, c.call, c.args, got, c.want)
			}
		}
	}
}

func TestFilterKillsForeignArchitectures(t *testing.T) {
	for _, arch := range arches {
		filter := Filter(arch, Params{PID: pid, Exec: secrets, OwnMounts: true, SignalsScoped: true})
		for name, d := range map[string]data{
			"i386": {20, 0x40000003, [6]uint64{}}, "arm": {20, 0x40000028, [6]uint64{}}, "the other": {0, audit[AMD64] ^ audit[ARM64] ^ audit[arch], [6]uint64{}},
		} {
			if got := interpret(filter, d); got != retKill {
				t.Errorf("%s under %s gives %#x", name, arch, got)
			}
		}
	}
	if got := interpret(Filter(AMD64, Params{}), data{0x40000000 | 39, audit[AMD64], [6]uint64{}}); got != retKill {
		t.Errorf("x32 gives %#x", got)
	}
}

func TestParamsOpenWhatTheTierMakesSafe(t *testing.T) {
	for _, arch := range arches {
		for _, on := range []bool{false, true} {
			filter := Filter(arch, Params{PID: PIDMark, OwnMounts: on, SignalsScoped: on})
			want := uint32(eperm)
			if on {
				want = retAllow
			}
			for _, name := range []string{"fchmodat", "utimensat", "tkill"} {
				if got := interpret(filter, data{named(t, arch, name), audit[arch], [6]uint64{}}); got != want {
					t.Errorf("%s %s with %v gives %#x", arch, name, on, got)
				}
			}
			marks := 0
			for _, in := range filter {
				if in.K == PIDMark {
					marks++
				}
			}
			if marks != 3 {
				t.Errorf("%d marks stand for the process, in kill, tgkill and prlimit64", marks)
			}
		}
	}
	if Filter("riscv64", Params{}) != nil {
		t.Error("an architecture without a table has a filter")
	}
}

// The kernel refuses a filter of more than 4096 instructions, or one that jumps
// beyond its end. Whatever the number and the first argument, it must return.
func FuzzFilterAlwaysReturns(f *testing.F) {
	f.Add(0, uint64(0), uint64(0))
	f.Add(1<<30, uint64(1)<<40, uint64(7))
	f.Fuzz(func(t *testing.T, number int, first, other uint64) {
		for _, arch := range arches {
			filter := Filter(arch, Params{PID: pid, Exec: secrets, OwnMounts: true})
			if len(filter) > 4096 {
				t.Fatal("too long")
			}
			got := interpret(filter, data{number, audit[arch], [6]uint64{first, other, other, other, other, other}})
			if got != retAllow && got != retKill && got&0xffff0000 != retErrno {
				t.Errorf("%#x is no action", got)
			}
		}
	})
}
