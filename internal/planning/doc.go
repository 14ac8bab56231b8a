// Package planning turns what somebody wants into a plan that a person can
// approve: drafted, validated, and frozen into exactly what will run.
//
// It promises three things. Every fault of a plan is told at once, each with
// its JSON pointer, before anything is spent. Freezing names exactly what runs:
// the agent's configuration revision and the files that it consists of, the
// workspace as the disk knows it, and one digest over all of it; freezing again
// with nothing changed gives the same digest. And nothing here runs work: retry
// and continue draft a new job, in which the results of the old one are data.
package planning
