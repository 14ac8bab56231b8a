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
	dsn  string
	keep *sql.DB // an idle handle: the database lives as long as one is open

	// Shared-cache connections lock whole tables against each other. Views
	// take turns with the writer here instead of failing on those locks.
	turn sync.RWMutex

	mu    sync.Mutex
	owned bool
}

// NewMemory makes an empty database in memory.
func NewMemory(ctx context.Context) (*Memory, error) {
	m := &Memory{dsn: "file:" + randomID() + "?mode=memory&cache=shared"}
	var err error
	if m.keep, err = sql.Open("sqlite", m.dsn); err != nil {
		return nil, err
	}
	m.keep.SetMaxOpenConns(1)
	m.keep.SetConnMaxIdleTime(0)
	if err := m.keep.PingContext(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

// Close frees the database. Close the journal on it first.
func (m *Memory) Close() error { return m.keep.Close() }

func (m *Memory) acquire() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owned {
		return coord.Errorf(coord.Conflict, "this memory is owned by another open journal: close that one first")
	}
	m.owned = true
	return nil
}

func (m *Memory) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned = false
}
