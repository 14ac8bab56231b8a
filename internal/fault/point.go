//go:build !fault

package fault

// Point names a step at which a crash test may end the process.
func Point(name string) {}

// Env gives the variables by which a child takes part in a crash test, as
// NAME=value: none.
func Env() []string { return nil }
