package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memory is a field of /proc/PID/status in MB, such as VmRSS or VmHWM. What
// getrusage tells of a child would include this program's own memory, which
// the child had before its exec.
func memory(pid int, field string) (float64, error) {
	value, err := status(pid, field)
	if err != nil {
		return 0, err
	}
	kib, err := strconv.ParseFloat(strings.TrimSuffix(value, " kB"), 64)
	return kib * 1024 / 1e6, err
}

func status(pid int, field string) (string, error) {
	doc, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(doc)) {
		if name, value, _ := strings.Cut(line, ":"); name == field {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("/proc/%d/status has no %s", pid, field)
}

// child is the one child of a process.
func child(parent int) (int, error) {
	found, err := children(parent)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("process %d has %d children, not one", parent, len(found))
	}
	if err != nil {
		return 0, err
	}
	return found[0], nil
}

// children are those of a process.
func children(parent int) ([]int, error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, dir := range all {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		// A process that ended meanwhile is not one.
		if of, err := status(pid, "PPid"); err == nil && of == strconv.Itoa(parent) {
			found = append(found, pid)
		}
	}
	return found, nil
}
