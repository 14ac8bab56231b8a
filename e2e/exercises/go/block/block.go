// Package block keeps trains apart.
package block

// Line is a row of blocks.
type Line struct{}

// New makes a line of n clear blocks, numbered from 0.
func New(n int) *Line { return &Line{} }

// Enter lets a train into a block, and reports whether it may.
func (l *Line) Enter(block int, train string) bool { return false }

// Leave clears a block, and reports whether that train was inside.
func (l *Line) Leave(block int, train string) bool { return false }
