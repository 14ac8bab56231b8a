package sandbox

import (
	"golang.org/x/sys/unix"
)

// mounts tell whether anything was mounted or unmounted since they are watched:
// a stage with a mount namespace of its own has the mounts of its start.
type mounts struct{ fd int }

func watchMounts() *mounts {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &mounts{fd}
}

// changed reports a change once; where nothing can be watched, always. The
// kernel tells of it by an exceptional condition (proc_pid_mountinfo(5)).
func (m *mounts) changed() bool {
	if m == nil {
		return true
	}
	p := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLPRI}}
	_, err := unix.Poll(p, 0)
	return err != nil || p[0].Revents != 0
}

func (m *mounts) close() error {
	if m == nil {
		return nil
	}
	return unix.Close(m.fd)
}
