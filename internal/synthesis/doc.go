// Package synthesis puts together what is known afterwards: a job's result, one
// archive of all its evidence, the explanation of an attempt, and what is wrong
// with the data.
//
// It promises three things. Every statement is attributed, and what an agent
// says, what a receipt proves and what Signalbox did stay apart. It changes
// nothing, but for the repairs that are provably safe. And an archive can be
// verified by anybody with the archive alone: every member is listed with its
// size and SHA-256, and the same journal gives the same bytes.
package synthesis
