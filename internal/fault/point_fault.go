//go:build fault

package fault

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	chosen string
	left   atomic.Int64
)

func init() {
	name, count, _ := strings.Cut(os.Getenv("SIGNALBOX_FAULT"), ":")
	chosen = name
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil || n < 1 {
		n = 1
	}
	left.Store(n)
}

// Point names a step at which a crash test may end the process.
func Point(name string) {
	if name != chosen || left.Add(-1) != 0 {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail for oneself
	select {}
}
