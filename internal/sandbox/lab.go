package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/sandbox/probe"
)

// lab is a laboratory: a workspace, things beside it, listeners on loopback and
// a process, all of them bait.
type lab struct {
	probe.Lab
	dir     string
	stdin   io.Closer
	victim  *exec.Cmd
	sockets []int
}

// The limits of a probe's run, small so that they are reached soon.
const (
	labFileSize = 4 << 20
	labScratch  = 16 << 20
)

func newLab(ctx context.Context, helper string) (_ *lab, err error) {
	dir, err := os.MkdirTemp("", "signalbox-lab-")
	if err != nil {
		return nil, labError(err)
	}
	l := &lab{dir: dir}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, labError(err)
	}
	at := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	l.Lab = probe.Lab{
		Workspace: at("workspace"), Scratch: at("scratch"), Outside: at("outside"), Home: at("home"),
		Secret: rand.Text(), Abstract: "signalbox-lab-" + rand.Text(), FileSize: labFileSize, ScratchSize: labScratch,
	}
	for _, step := range []func() error{l.files, l.links, func() error { return l.listen() }, func() error { return l.startVictim(ctx, helper) }} {
		if err := step(); err != nil {
			return nil, labError(err)
		}
	}
	return l, nil
}

func (l *lab) files() error {
	ws, secret := l.Workspace, l.Secret
	for path, text := range map[string]string{
		filepath.Join(l.Outside, "secret"): secret, filepath.Join(l.Outside, "target"): "x", filepath.Join(l.Outside, "waste"): "x", filepath.Join(l.Outside, "waste2"): "x",
		filepath.Join(l.Home, ".ssh", "id_ed25519"): secret, filepath.Join(l.Home, ".cache", "x"): "x", filepath.Join(l.Scratch, "x"): "x",
		filepath.Join(ws, "plain"): "plain", filepath.Join(ws, "waste"): "x", filepath.Join(ws, "sub", "plain"): "plain",
		filepath.Join(ws, ".env"): secret, filepath.Join(ws, ".ENV.local"): secret, filepath.Join(ws, ".npmrc"): secret, filepath.Join(ws, ".ssh", "x"): "x",
		filepath.Join(ws, ".git", "config"): secret, filepath.Join(ws, ".git", "hooks", "x"): "x",
		filepath.Join(ws, "sub", ".git", "config"): secret, filepath.Join(ws, "sub", ".git", "hooks", "x"): "x",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) links() error {
	secret := filepath.Join(l.Outside, "secret")
	return errors.Join(
		os.Symlink(secret, filepath.Join(l.Workspace, "link")),
		os.Link(secret, filepath.Join(l.Workspace, "hard")),
		unix.Mkfifo(filepath.Join(l.Workspace, "fifo"), 0o600),
		os.Symlink("plain", filepath.Join(l.Workspace, "swap")),
	)
}

// listen opens what attempts connect to. Nobody has to accept: a connection is
// made when it is in the queue.
func (l *lab) listen() error {
	open := func(family, kind int, at unix.Sockaddr) (int, error) {
		fd, err := unix.Socket(family, kind, 0)
		if err != nil {
			return -1, err
		}
		unix.CloseOnExec(fd)
		l.sockets = append(l.sockets, fd)
		if err := unix.Bind(fd, at); err != nil {
			return -1, err
		}
		if kind == unix.SOCK_STREAM {
			err = unix.Listen(fd, 16)
		}
		return fd, err
	}
	loopback := [4]byte{127, 0, 0, 1}
	for kind, port := range map[int]*int{unix.SOCK_STREAM: &l.TCP, unix.SOCK_DGRAM: &l.UDP} {
		fd, err := open(unix.AF_INET, kind, &unix.SockaddrInet4{Addr: loopback})
		if err != nil {
			return err
		}
		name, err := unix.Getsockname(fd)
		if err != nil {
			return err
		}
		if in, ok := name.(*unix.SockaddrInet4); ok {
			*port = in.Port
		}
	}
	for _, s := range []struct {
		kind int
		name string
	}{
		{unix.SOCK_STREAM, filepath.Join(l.Outside, "socket")}, {unix.SOCK_STREAM, filepath.Join(l.Workspace, "socket")},
		{unix.SOCK_DGRAM, filepath.Join(l.Outside, "datagrams")}, {unix.SOCK_STREAM, abstractName(l.Abstract)},
	} {
		if s.name == "" {
			continue
		}
		if _, err := open(unix.AF_UNIX, s.kind, &unix.SockaddrUnix{Name: s.name}); err != nil {
			return err
		}
	}
	fifo, err := unix.Open(filepath.Join(l.Workspace, "fifo"), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l.sockets = append(l.sockets, fifo)
	// This one is left open for children on purpose, as a careless program does.
	l.Descriptor, err = unix.Open(filepath.Join(l.Outside, "secret"), unix.O_RDONLY, 0)
	if err == nil {
		l.sockets = append(l.sockets, l.Descriptor)
	}
	return err
}

func (l *lab) startVictim(ctx context.Context, helper string) error {
	l.victim = exec.CommandContext(ctx, helper, probeArg, "victim")
	l.victim.Env = []string{"SECRET=" + l.Secret}
	stdin, err := l.victim.StdinPipe()
	if err != nil {
		return err
	}
	l.stdin = stdin
	if err := l.victim.Start(); err != nil {
		return err
	}
	l.Victim = l.victim.Process.Pid
	return nil
}

// swap exchanges a link for a file and back until stop is closed.
func (l *lab) swap(stop <-chan struct{}) {
	at, next := filepath.Join(l.Workspace, "swap"), filepath.Join(l.Workspace, "swap.next")
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		to := "plain"
		if i%2 == 0 {
			to = filepath.Join(l.Outside, "secret")
		}
		// What fails once is tried again.
		_ = os.Symlink(to, next)
		_ = os.Rename(next, at)
	}
}

func (l *lab) close() {
	if l.victim != nil && l.victim.Process != nil {
		_ = l.stdin.Close()
		_ = l.victim.Process.Kill()
		_ = l.victim.Wait()
	}
	for _, fd := range l.sockets {
		_ = unix.Close(fd)
	}
	_ = removeAll(l.dir)
}

func labError(err error) error {
	return &coord.Error{Code: coord.Unavailable, Message: "The place for the probes of the sandbox cannot be set up; look at the temporary directory (TMPDIR).", Err: err}
}
