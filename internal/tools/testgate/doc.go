// Command testgate runs the tests of the project and judges the run.
//
// It promises three things beyond go test. A test that was skipped fails the
// run when the environment variable CI is set, and is listed with its reason
// everywhere else. A run in which no test ran fails. And the last line of its
// output counts what passed, failed and was skipped.
//
//	testgate [-v] [-timeout 10m] [-run EXPRESSION] [-race PATTERNS] [-plain PATTERNS] [-fault PATTERNS]
//
// The patterns are package patterns, separated by spaces. The packages of
// -race run with the race detector where a C compiler makes that possible,
// without it otherwise, which the summary says; those of -plain run without. Of
// them only the tests that match the expression of -run, if it is given. Of
// those of -fault, the tests whose names tell of a Sweep or a Death run in a
// build with the tag fault.
package main
