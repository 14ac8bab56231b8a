//go:build !linux

package main

import "os"

// datasync is the nearest to what the journal's commits do.
func datasync(f *os.File) error { return f.Sync() }
