package filehashtest

import (
	"syscall"
	"testing"
	"time"

	"signalbox/internal/filehash"
)

// age is more than the two seconds for which a changed file is not remembered.
const age = 2100 * time.Millisecond

// Settle waits until files that nobody changes any more can be remembered: that
// is a matter of the machine's clock, which dates their last change.
func Settle(t testing.TB, paths ...string) {
	t.Helper()
	for _, path := range paths {
		var st syscall.Stat_t
		if err := syscall.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		changed := time.Unix(0, filehash.StateOf(&st).Ctime)
		<-time.After(age - time.Since(changed))
	}
}
