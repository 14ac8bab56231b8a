// Package e2e holds the acceptance tests: the program as a person runs it, with
// agents and clients that nobody here wrote.
//
// It promises that every test starts the real binary on a data directory of its
// own, speaks to it as any client does, and leaves no process behind: a test
// that ends while an agent of its own still runs fails. The one agent that is
// ours (see agent_test.go) does what no honest agent does: it counts its
// prompts, ignores a stop, leaves children behind, and tells secrets.
package e2e
