// Package block keeps trains apart.
package block

import "sync"

// Line is a row of blocks.
type Line struct {
	mu     sync.Mutex
	trains []*string // nil where the block is clear
}

// New makes a line of n clear blocks, numbered from 0.
func New(n int) *Line { return &Line{trains: make([]*string, n)} }

// Enter lets a train into a block, and reports whether it may.
func (l *Line) Enter(block int, train string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if block < 0 || block >= len(l.trains) || l.trains[block] != nil {
		return false
	}
	l.trains[block] = &train
	return true
}

// Leave clears a block, and reports whether that train was inside.
func (l *Line) Leave(block int, train string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if block < 0 || block >= len(l.trains) || l.trains[block] == nil || *l.trains[block] != train {
		return false
	}
	l.trains[block] = nil
	return true
}
