package sandbox

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// group is a control group (version 2) of one run's own, where this process may
// make one: as root, or in a hierarchy that was delegated to it. Its methods
// work on nil, which stands for none.
type group struct {
	path string
	fd   int
}

// groupName begins the names of our groups; the run's name follows.
const groupName = "signalbox-"

// maxProcesses is far above the threads of any runner's process.
const maxProcesses = 512

// newGroup makes a group for a run.
func newGroup(dir runDir) *group {
	parent := groupParent()
	if parent == "" {
		return nil
	}
	g := &group{path: filepath.Join(parent, groupName+filepath.Base(dir.path))}
	if err := os.Mkdir(g.path, 0o700); err != nil {
		return nil
	}
	var err error
	if g.fd, err = unix.Open(g.path, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		_ = os.Remove(g.path)
		return nil
	}
	return g
}

// limit sets limits, as far as the hierarchy has controllers.
func (g *group) limit(l Limits) {
	if g == nil {
		return
	}
	for name, value := range map[string]int64{"memory.max": l.Data, "memory.swap.max": 0, "pids.max": maxProcesses} {
		// Absent where the controller is not delegated. The rlimits hold in any
		// case.
		_ = os.WriteFile(filepath.Join(g.path, name), []byte(strconv.FormatInt(value, 10)), 0)
	}
}

// groupParent is this process's own group in the mounted hierarchy.
func groupParent() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	var mount string
	for line := range strings.Lines(string(mounts)) {
		// proc_pid_mountinfo(5): the fifth field is the mount point, the type
		// follows the separator.
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 {
			mount = fields[4]
		}
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || mount == "" {
		return ""
	}
	for line := range strings.Lines(string(own)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join(mount, path)
		}
	}
	return ""
}

// kill ends every process of the group at once.
func (g *group) kill() {
	if g != nil {
		_ = os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0)
	}
}

// empty reports whether no process is left in it, also no zombie.
func (g *group) empty() bool {
	if g == nil {
		return true
	}
	events, err := os.ReadFile(filepath.Join(g.path, "cgroup.events"))
	return err == nil && bytes.Contains(events, []byte("populated 0"))
}

// close ends what is left and removes the group.
func (g *group) close() {
	if g == nil || g.path == "" {
		return
	}
	_ = unix.Close(g.fd)
	removeGroup(g.path)
	g.path = ""
}

// groupPatience bounds the wait for killed processes to leave their group.
const groupPatience = time.Second

func removeGroup(path string) {
	if err := os.Remove(path); err == nil || errors.Is(err, os.ErrNotExist) {
		return
	}
	(&group{path: path}).kill()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(groupPatience); time.Now().Before(end); <-tick.C {
		if os.Remove(path) == nil {
			return
		}
	}
}

// sweepGroup removes the group of a dead supervisor's run.
func sweepGroup(run string) {
	if parent := groupParent(); parent != "" {
		removeGroup(filepath.Join(parent, groupName+run))
	}
}
