//go:build fault

package fault

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const (
	deathVar = "SIGNALBOX_FAULT"
	traceVar = "SIGNALBOX_FAULT_TRACE"
)

// hit is a point reached for the nth time.
type hit struct {
	name string
	n    int
}

// deaths are the chosen hits: true to kill the parent instead.
var deaths = sync.OnceValue(func() map[hit]bool {
	all := map[hit]bool{}
	for entry := range strings.SplitSeq(os.Getenv(deathVar), ",") {
		point, parent := strings.CutPrefix(entry, "parent@")
		name, count, _ := strings.Cut(point, ":")
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			n = 1
		}
		all[hit{name, n}] = parent
	}
	return all
})

var (
	mu    sync.Mutex
	local = map[string]int{} // the hits of this process
)

// Point names a step at which a crash test may end the process.
func Point(name string) {
	n, err := count(name)
	if err != nil {
		// A point that is not noted would be forgotten by the test.
		fmt.Fprintln(os.Stderr, "fault: the trace cannot be written:", err)
		os.Exit(3)
	}
	parent, chosen := deaths()[hit{name, n}]
	switch {
	case !chosen:
	case parent:
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL) // it may be gone
	default:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail for oneself
		select {}
	}
}

// count notes a hit and gives its number, 0 where nothing is traced yet.
func count(name string) (n int, err error) {
	mu.Lock()
	defer mu.Unlock()
	path := os.Getenv(traceVar)
	if path == "" {
		local[name]++
		return local[name], nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0) //nolint:gosec // the test names the file
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	}
	defer f.Close() // and with it the lock
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return 0, err
	}
	before, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(before) {
		if string(line) == name+"\n" {
			n++
		}
	}
	_, err = f.WriteString(name + "\n")
	return n + 1, err
}

// Env gives the variables by which a child takes part in a crash test, as
// NAME=value.
func Env() []string {
	var env []string
	for _, name := range []string{deathVar, traceVar} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
