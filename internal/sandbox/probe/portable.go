package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// portable are the attempts that every system knows.
func portable() []Probe {
	return []Probe{
		{Name: "read_workspace", Must: true, What: "read a file of the workspace", Do: func(l Lab) error { return contains(in(l, "plain"), "plain") }},
		{Name: "read_below", Must: true, What: "read a file beside a hidden one, in a folder of its own", Do: func(l Lab) error { return contains(in(l, "sub", "plain"), "plain") }},
		{Name: "list_workspace", Must: true, What: "list the workspace", Do: func(l Lab) error { return list(l.Workspace) }},
		{Name: "write_scratch", Must: true, What: "write, rename and remove in the scratch space", Do: scratch},
		{Name: "devices", Must: true, What: "use /dev/null and /dev/urandom", Do: deviceFiles},
		{Name: "socket_pair", Must: true, What: "make a pair of connected stream sockets", Do: func(Lab) error { return pair(unix.SOCK_STREAM) }},
		{Name: "signal_self", Must: true, What: "ask for a signal to itself", Do: func(Lab) error { return unix.Kill(os.Getpid(), 0) }},
		{Name: "read_libraries", Must: true, What: "list the system's libraries", Do: func(Lab) error { return list("/usr/lib") }},

		{Name: "read_sibling", What: "read a file beside the workspace", Do: func(l Lab) error { return contains(out(l, "secret"), l.Secret) }},
		{Name: "read_dotdot", What: "read it by ..", Do: func(l Lab) error {
			return contains("../"+filepath.Base(l.Outside)+"/secret", l.Secret)
		}},
		{Name: "read_symlink", What: "read it by a symbolic link in the workspace", Do: func(l Lab) error { return contains(in(l, "link"), l.Secret) }},
		{Name: "read_race", Race: true, What: "read it by a link that is exchanged all the time", Do: race},
		{Name: "read_hardlink", What: "read it by a hard link in the workspace", Do: func(l Lab) error { return contains(in(l, "hard"), l.Secret) }},
		{Name: "make_hardlink", What: "make a hard link to it in the scratch space", Do: func(l Lab) error {
			return os.Link(out(l, "secret"), filepath.Join(l.Scratch, "hard"))
		}},
		{Name: "read_env", What: "read .env of the workspace", Do: func(l Lab) error { return contains(in(l, ".env"), l.Secret) }},
		{Name: "read_env_case", What: "read .ENV.local, by another case", Do: func(l Lab) error { return contains(in(l, ".ENV.local"), l.Secret) }},
		{Name: "read_npmrc", What: "read .npmrc of the workspace", Do: func(l Lab) error { return contains(in(l, ".npmrc"), l.Secret) }},
		{Name: "read_git", What: "read .git/config", Do: func(l Lab) error { return contains(in(l, ".git", "config"), l.Secret) }},
		{Name: "read_git_nested", What: "read .git/config of a nested repository", Do: func(l Lab) error { return contains(in(l, "sub", ".git", "config"), l.Secret) }},
		{Name: "list_hidden", What: "list the names in .git", Do: func(l Lab) error { return list(in(l, ".git")) }},
		{Name: "read_ssh_key", What: "read a key in the operator's home", Do: func(l Lab) error { return contains(filepath.Join(l.Home, ".ssh", "id_ed25519"), l.Secret) }},
		{Name: "stat_outside", What: "ask for the size of a file outside", Do: func(l Lab) error {
			_, err := os.Lstat(out(l, "secret"))
			return err
		}},

		{Name: "write_workspace", What: "make a file in the workspace", Do: func(l Lab) error { return write(in(l, "made")) }},
		{Name: "change_workspace", What: "open a file of the workspace for writing", Do: func(l Lab) error { return appendTo(in(l, "plain")) }},
		{Name: "remove_workspace", What: "remove a file of the workspace", Do: func(l Lab) error { return removed(in(l, "waste")) }},
		{Name: "write_fifo", What: "write to a FIFO of the workspace that somebody reads", Do: func(l Lab) error { return open(in(l, "fifo"), unix.O_WRONLY|unix.O_NONBLOCK) }},
		{Name: "write_hook", What: "make a git hook", Do: func(l Lab) error { return write(in(l, ".git", "hooks", "pre-commit")) }},
		{Name: "write_hook_nested", What: "make a git hook in a nested repository", Do: func(l Lab) error { return write(in(l, "sub", ".git", "hooks", "pre-commit")) }},
		{Name: "write_hidden", What: "make a file in a hidden directory", Do: func(l Lab) error { return write(in(l, ".ssh", "config")) }},
		{Name: "write_outside", What: "make a file outside", Do: func(l Lab) error { return write(out(l, "made")) }},
		{Name: "append_outside", What: "append to a file outside", Do: func(l Lab) error { return appendTo(out(l, "target")) }},
		{Name: "truncate_outside", What: "empty a file outside by opening it for reading", Do: func(l Lab) error { return open(out(l, "waste"), unix.O_RDONLY|unix.O_TRUNC) }},
		{Name: "remove_outside", What: "remove a file outside", Do: func(l Lab) error { return removed(out(l, "waste2")) }},
		{Name: "mkdir_outside", What: "make a directory outside", Do: func(l Lab) error { return os.Mkdir(out(l, "dir"), 0o700) }},
		{Name: "symlink_outside", What: "make a symbolic link outside", Do: func(l Lab) error { return os.Symlink("x", out(l, "made-link")) }},
		{Name: "write_cache", What: "write to the cache in the operator's home", Do: func(l Lab) error { return write(filepath.Join(l.Home, ".cache", "made")) }},
		{Name: "chmod_outside", What: "change the mode of a file outside", Do: func(l Lab) error { return os.Chmod(out(l, "target"), 0o600) }},
		{Name: "utime_outside", What: "change the times of a file outside", Do: func(l Lab) error {
			return unix.Utimes(out(l, "target"), make([]unix.Timeval, 2))
		}},
		{Name: "chmod_workspace", What: "change the mode of a file of the workspace", Do: func(l Lab) error { return os.Chmod(in(l, "plain"), 0o600) }},
		{Name: "file_size", What: "write a file beyond its limit", Do: func(l Lab) error { return fill(filepath.Join(l.Scratch, "large"), l.FileSize+1) }},
		{Name: "scratch_size", What: "write more to the scratch space than its limit", Do: fillScratch},

		{Name: "tcp_connect", What: "connect to a TCP port of this machine", Do: func(l Lab) error { return connect(unix.AF_INET, 0, loopback(l.TCP)) }},
		{Name: "tcp_listen", What: "listen at a TCP port", Do: listen},
		{Name: "udp_send", What: "send a datagram to a port of this machine, as a name look-up does", Do: func(l Lab) error { return sendTo(unix.AF_INET, loopback(l.UDP)) }},
		{Name: "unix_connect_outside", What: "connect to a socket outside, as that of a container service", Do: func(l Lab) error {
			return connect(unix.AF_UNIX, 0, &unix.SockaddrUnix{Name: out(l, "socket")})
		}},
		{Name: "unix_connect_workspace", What: "connect to a socket in the workspace", Do: func(l Lab) error {
			return connect(unix.AF_UNIX, 0, &unix.SockaddrUnix{Name: in(l, "socket")})
		}},

		{Name: "start_program", What: "start another program", Do: func(Lab) error { return spawn(&os.ProcAttr{}) }},
		{Name: "start_daemon", What: "start a program in a session of its own, which would survive", Do: func(Lab) error {
			return spawn(&os.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
		}},
		{Name: "become_program", What: "become another program", Do: func(Lab) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			return syscall.Exec(self, []string{self, os.Args[1], "nothing"}, nil)
		}},
		{Name: "signal_process", What: "signal another process of the user", Do: func(l Lab) error { return unix.Kill(l.Victim, 0) }},
		{Name: "inherited_environment", What: "find the environment of Signalbox", Do: func(Lab) error {
			if os.Getenv("PATH") == "/nonexistent" {
				return errWrong
			}
			return nil
		}},
		{Name: "inherited_descriptor", What: "read an open file of Signalbox", Do: func(l Lab) error {
			b := make([]byte, len(l.Secret))
			n, err := unix.Pread(l.Descriptor, b, 0)
			return found(b[:max(n, 0)], l.Secret, err)
		}},
	}
}

func in(l Lab, elem ...string) string {
	return filepath.Join(append([]string{l.Workspace}, elem...)...)
}
func out(l Lab, elem ...string) string { return filepath.Join(append([]string{l.Outside}, elem...)...) }

// found is nil when a text holds what was looked for.
func found(text []byte, want string, err error) error {
	if err == nil && !bytes.Contains(text, []byte(want)) {
		return errWrong
	}
	return err
}

func contains(path, want string) error {
	text, err := os.ReadFile(path)
	return found(text, want, err)
}

func list(path string) error {
	names, err := os.ReadDir(path)
	if err == nil && len(names) == 0 {
		return errWrong
	}
	return err
}

func open(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func write(path string) error    { return os.WriteFile(path, []byte("made"), 0o600) }
func appendTo(path string) error { return open(path, unix.O_WRONLY|unix.O_APPEND) }

// removed makes sure that there was something to remove.
func removed(path string) error {
	return os.Remove(path)
}

func scratch(l Lab) error {
	from, to := filepath.Join(l.Scratch, "a"), filepath.Join(l.Scratch, "b")
	if err := write(from); err != nil {
		return err
	}
	return errors.Join(os.Rename(from, to), contains(to, "made"), os.Remove(to))
}

func deviceFiles(Lab) error {
	if err := open("/dev/null", unix.O_RDWR); err != nil {
		return err
	}
	return open("/dev/urandom", unix.O_RDONLY)
}

// race reads a path that is a link within the workspace at one moment, and one out
// of it at the next. How often it was exchanged is looked at as well: on a busy
// machine a number of reads alone may all be between two exchanges.
func race(l Lab) error {
	const reads, exchanges, patience = 4000, 100, 10 * time.Second
	last, to, seen, begun := errWrong, "", 0, time.Now()
	for n := 0; n < reads || seen < exchanges && time.Since(begun) < patience; n++ {
		if now, err := os.Readlink(in(l, "swap")); err == nil && now != to {
			to = now
			seen++
		}
		if err := contains(in(l, "swap"), l.Secret); err == nil {
			return nil
		} else if !errors.Is(err, errWrong) && !os.IsNotExist(err) {
			last = err
		}
	}
	return last
}

func fill(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for size > 0 {
		n, err := f.Write(chunk[:min(size, int64(len(chunk)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}

// fillScratch stays below the limit of one file and goes beyond that of all.
func fillScratch(l Lab) error {
	part := l.FileSize / 2
	for i := int64(0); i*part <= l.ScratchSize; i++ {
		f, err := os.Create(filepath.Join(l.Scratch, fmt.Sprint("part", i)))
		if err != nil {
			return err
		}
		_, err = f.WriteString(strings.Repeat("x", int(part)))
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func loopback(port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

func connect(family, protocol int, to unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM, protocol)
	if err != nil {
		return err
	}
	return errors.Join(unix.Connect(fd, to), unix.Close(fd))
}

func listen(Lab) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Bind(fd, loopback(0)), unix.Listen(fd, 1), unix.Close(fd))
}

func sendTo(family int, to unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Sendto(fd, []byte("x"), 0, to), unix.Close(fd))
}

func pair(kind int) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Close(fds[0]), unix.Close(fds[1]))
}

// spawn starts this program again, to do nothing, and awaits it.
func spawn(attr *os.ProcAttr) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	attr.Env = []string{}
	p, err := os.StartProcess(self, []string{self, os.Args[1], "nothing"}, attr)
	if err != nil {
		return err
	}
	state, err := p.Wait()
	if err == nil && !state.Success() {
		return errWrong
	}
	return err
}
