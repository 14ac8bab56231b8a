// Package coord is the vocabulary of Signalbox: the agents, plans, jobs,
// tasks, attempts, requests and results that every other package speaks of,
// the transition tables that say how they may change, and the bounds that
// everything from outside is held to.
//
// It promises three things. It imports the standard library only, so any
// package may use it. Its functions are pure: they decide, they never do.
// And a state changes only through Apply and its siblings, so a transition
// that a table does not list cannot happen anywhere.
package coord
