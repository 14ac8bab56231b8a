// Package landlock restricts the calling thread, and the program that it
// becomes, to the files that are granted.
//
// It promises all or nothing: a right of the kernel's ABI that cannot be
// handled, or a path that cannot be granted, is an error and never a weaker
// restriction. Where the kernel offers more than was asked for (network, scopes)
// that is denied as well.
//
// The facts of the interface are those of the kernel's
// Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h.
package landlock
