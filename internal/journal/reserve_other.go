//go:build !linux

package journal

import "os"

// occupy reserves size bytes for f for real.
func occupy(f *os.File, size int64) error { return fill(f, size) }
