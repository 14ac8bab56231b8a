package e2e

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// bound lets serve have its signals to itself.
func bound() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// carrying gives the processes whose environment has all of the variables, as
// NAME=value or NAME= for any value.
func carrying(vars ...string) ([]int, error) {
	out, err := exec.CommandContext(context.Background(), "ps", "-axEww", "-o", "pid=,command=").Output()
	if err != nil {
		return nil, err
	}
	var pids []int
	for line := range strings.Lines(string(out)) {
		has := true
		for _, v := range vars {
			has = has && strings.Contains(line, " "+v)
		}
		if has {
			pid, err := strconv.Atoi(strings.Fields(line)[0])
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
