package probe

import "io"

// Main is filled in by the probes.
func Main([]string, io.Writer) int { return 0 }
