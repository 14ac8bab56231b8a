// Package script runs the real program as a person or a script would: its
// commands, exit codes, streams, questions on a terminal, and what README shows.
package script
