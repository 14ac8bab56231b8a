// Package cli is Signalbox on the command line.
//
// It promises: nothing but data on standard output, progress and questions on
// standard error; --json everywhere, one document, or a line for each event
// where something is followed and for each agent where several are inspected;
// exit codes as documented in exit.go; nothing is approved off a terminal unless
// the digest that is approved is named; and text that agents wrote cannot move
// the cursor, colour the screen or write anywhere but in its place.
package cli
