//go:build !fault

package e2e

// tags are the build tags of the program under test.
const tags = ""
