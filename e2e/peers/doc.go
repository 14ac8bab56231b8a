// Package peers gives tests the programs that nobody of this project wrote:
// OpenCode, Codex, the example agent and the example client of the TypeScript SDK,
// an agent on the Go SDK, the headless client acpx, and servers of A2A on three
// official SDKs.
//
// It promises that a test gets a program that is installed, pinned by a lock
// file and set up to touch nothing but its own scratch directories and the
// loopback address that the test gives it. Where a program cannot be had the
// test fails in CI and is skipped elsewhere, both times with the reason.
//
// Only tests import it. How each program is started was measured with the
// versions in package.json; what it answers is written beside each function.
package peers
