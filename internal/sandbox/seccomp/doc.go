// Package seccomp decides which system calls a confined program may make.
//
// It promises a filter that denies by default: what is not listed fails, what
// belongs to another architecture kills. A program under it is one process for
// ever, which starts no other, opens no socket, signals nobody and changes
// nobody's limits, whatever files it can reach.
//
// Filters are plain instructions of the classic BPF machine, built the same on
// every platform, so that the filter of one architecture is tested on another.
package seccomp
