// Package rogue is an agent of our own that does what no honest agent does, and
// the director who tells it what to do.
//
// It promises that an agent plays exactly the part that its director gave it:
// one for its setup, one for its turn. The director counts the prompts, so that
// work that was sent twice is seen by the one who got it. Every part ends by
// itself or with the agent's input.
package rogue
