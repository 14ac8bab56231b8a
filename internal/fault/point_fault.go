//go:build fault

package fault

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// armed is the chosen point, and how often it is still to be passed.
type armed struct {
	name string
	left atomic.Int64
}

var arm = sync.OnceValue(func() *armed {
	name, count, _ := strings.Cut(os.Getenv("SIGNALBOX_FAULT"), ":")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil || n < 1 {
		n = 1
	}
	a := &armed{name: name}
	a.left.Store(n)
	return a
})

// Point names a step at which a crash test may end the process.
func Point(name string) {
	a := arm()
	if name != a.name || a.left.Add(-1) != 0 {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail for oneself
	select {}
}
