// Package heap sets the pace of the garbage collector for a program that is
// small and idle most of the time, and must be neither slow nor large when it
// is not.
package heap

import (
	"runtime/debug"

	"signalbox/internal/coord"
)

// ballast counts as heap and is no memory: nothing ever touches it, so the
// system gives it no page.
var ballast []byte //nolint:unused // it is to be held, never read

// Pace lets the heap of this program grow by coord.HeapGrowth percent between
// two collections, as if it held coord.HeapFloor bytes more than it does. What
// a collection costs goes with what is live, and what it brings with what was
// made since: a heap of 2 MB that is collected at 3 would be collected for each
// request. The function that it gives takes that back.
func Pace() (undo func()) {
	ballast = make([]byte, coord.HeapFloor)
	percent := debug.SetGCPercent(coord.HeapGrowth)
	return func() {
		ballast = nil
		debug.SetGCPercent(percent)
	}
}
