// Package screen is how the command line writes to people and to programs.
//
// It promises: data and nothing else on the data stream; nothing that an agent
// wrote reaches a terminal with its control characters; a state is told by its
// shape and its word, and colour only helps; off a terminal everything is plain.
package screen
