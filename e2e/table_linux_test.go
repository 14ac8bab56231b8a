package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// bound lets serve have its signals to itself, and end when this program is cut
// off, as by its time limit.
func bound() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// carrying gives the processes whose environment has all of the variables, as
// NAME=value or NAME= for any value.
func carrying(vars ...string) ([]int, error) {
	names, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, name := range names {
		block, err := os.ReadFile(name)
		if err != nil {
			continue // it ended meanwhile, or is somebody else's
		}
		block = append([]byte{0}, block...)
		has := true
		for _, v := range vars {
			has = has && bytes.Contains(block, append([]byte{0}, v...))
		}
		if has {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil {
				return nil, err
			}
			out = append(out, pid)
		}
	}
	return out, nil
}
