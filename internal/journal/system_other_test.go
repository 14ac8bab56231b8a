//go:build !linux

package journal_test

import "os"

// children are the programs that the test binary can be instead.
var children = map[string]func(){"writer": childWriter, "denied": childDenied}

func datasync(f *os.File) error { return f.Sync() }
