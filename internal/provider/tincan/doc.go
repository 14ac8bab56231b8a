// Package tincan carries out the route to peers that are reached through the
// command line of Tincan: one short-lived process for each question.
//
// It promises what the port asks for, and for Tincan: the commands are ask, get,
// agents, version and a help text, with fixed arguments, and never one that
// claims requests, joins or waits; the program runs with an empty environment
// but for its profile, HOME and a fixed PATH, in an empty folder, with bounds on
// what it prints and how long it takes, and nothing of it is left afterwards; a
// text is handed over by one process, once; a request is followed under the
// profile and by the program it was sent with, whatever is configured since;
// what the relay says of another request, peer or identity changes nothing. The
// key in the profile is neither kept nor shown.
//
// What cannot be prevented from here: the text is an argument, which every user
// of this machine can see while the process runs; the program may look for its
// relay elsewhere and repeat one call by itself, so that one process may submit
// twice; the relay gives a request again to its peer when a claim runs out.
//
// The facts about the program are those of agent-tincan of October 2026, with
// and without --json.
package tincan
