//go:build !linux

package e2e

// A disk of a test's own needs a mount namespace, which only Linux has.
const smallDiskWord = "on-small-disk"

func smallDiskMain([]string) int { return 1 }
