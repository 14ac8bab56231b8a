package probe

import "golang.org/x/sys/unix"

// foreignCall has no equal here: a 64-bit process cannot make 32-bit calls.
func foreignCall() error { return unix.ENOSYS }
