//go:build fault

package e2e

// tags are the build tags of the program under test: it can be killed at its
// fault points.
const tags = "fault"
