// Package testrun runs tests in the sandbox.
//
// It promises that what runs is what was shown: a known runner with fixed
// arguments, recognised by its SHA-256, on test files recognised by theirs. A
// run that differs in anything is refused as stale. At least one test must have
// run for a run to count as passed; a run that was ended says why.
//
// The runners are Bun, Node.js, Python's unittest and Go. Go compiles first: the
// operator's own toolchain does that outside of the sandbox, because a compiler
// is many programs, and a confined program can start none. This runs no code of
// the workspace: cgo, vet, version control, code generation, other toolchains
// and the network are off, and the compiler works on a private copy without
// what is hidden, so that nothing secret can be embedded. The test program
// itself runs confined.
//
// A test can claim what it likes: it runs in the process that reports. What is
// promised is that it did no harm and that this is what it reported.
package testrun
