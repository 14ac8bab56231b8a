package journal

import (
	"context"
	"database/sql"
	"sync"

	"signalbox/internal/coord"
)

// Memory holds a journal's database in memory, for model tests. It outlives
// the journals that are opened on it one after another, so a test can end one
// as a crash would and open the next. In a testing/synctest bubble, make and
// close it inside the bubble.
type Memory struct {
	// db has one session, which views and batches take in turns: a database in
	// memory belongs to one connection, unless that shares its cache, and then
	// the two would fail on each other's locks. The session's prepared
	// statements outlive the journals too.
	db *database

	mu    sync.Mutex
	owned bool
}

// NewMemory makes an empty database in memory.
func NewMemory(ctx context.Context) (*Memory, error) {
	handle, err := sql.Open("sqlite", "file::memory:?_dqs=0&_foreign_keys=1")
	if err != nil {
		return nil, err
	}
	d := &database{write: handle, readers: make(chan *session, 1)}
	if d.writer, err = newSession(ctx, handle); err != nil {
		_ = d.close() // the first error is the one to tell
		return nil, err
	}
	d.readers <- d.writer
	return &Memory{db: d}, nil
}

// Close frees the database. Close the journal on it first.
func (m *Memory) Close() error { return m.db.close() }

func (m *Memory) acquire() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owned {
		return coord.Errorf(coord.Conflict, "this memory is owned by another open journal: close that one first")
	}
	m.owned = true
	return nil
}

// release awaits the view that still runs, if one does, and lets another
// journal own the memory.
func (m *Memory) release() {
	leave := m.turn()
	defer leave()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned = false
}

// turn waits until neither a view nor a batch runs; none begins until the
// function is called.
func (m *Memory) turn() (leave func()) {
	s := <-m.db.readers
	return func() { m.db.readers <- s }
}
