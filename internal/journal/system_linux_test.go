package journal_test

import (
	"os"

	"golang.org/x/sys/unix"
)

// children are the programs that the test binary can be instead.
var children = map[string]func(){"writer": childWriter, "denied": childDenied, "full": childFull}

func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
