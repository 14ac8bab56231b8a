package journal

import (
	"context"
	"database/sql"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"signalbox/internal/coord"
)

// session is one database connection with its prepared statements. It belongs
// to one goroutine at a time. Statements never watch a context: an interrupt
// in the middle of a batch would undo the operations of others.
type session struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	// broken is the first error after which the open transaction cannot be
	// trusted: the database may have rolled it back already.
	broken error
	// written counts the bytes of the arguments of this transaction.
	written int
	// writes are the statements that operations of this transaction ran.
	writes []write
	// undone is whether one of them was undone.
	undone bool
}

// write is one writing statement.
type write struct {
	query string
	args  []any
}

func newSession(ctx context.Context, db *sql.DB) (*session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, stmts: make(map[string]*sql.Stmt)}, nil
}

func (s *session) close() error {
	var errs []error
	for _, stmt := range s.stmts {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, s.conn.Close())...)
}

// prepare gives the cached statement of query. Queries are constants of this
// package, so the cache is bounded by its source.
func (s *session) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt := s.stmts[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, s.note(err)
	}
	s.stmts[query] = stmt
	return stmt, nil
}

func (s *session) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	ctx = context.WithoutCancel(ctx)
	stmt, err := s.prepare(ctx, query) //nolint:sqlclosecheck // the session closes what it has cached
	if err != nil {
		return nil, err
	}
	for _, a := range args {
		switch a := a.(type) {
		case string:
			s.written += len(a)
		case []byte:
			s.written += len(a)
		}
	}
	res, err := stmt.ExecContext(ctx, args...)
	return res, s.note(err)
}

func (s *session) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	ctx = context.WithoutCancel(ctx)
	stmt, err := s.prepare(ctx, query) //nolint:sqlclosecheck // the session closes what it has cached
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	return rows, s.note(err)
}

func (s *session) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	ctx = context.WithoutCancel(ctx)
	stmt, err := s.prepare(ctx, query) //nolint:sqlclosecheck // the session closes what it has cached
	if err != nil {
		return s.conn.QueryRowContext(ctx, query, args...) // fails the same way, as a Row
	}
	return stmt.QueryRowContext(ctx, args...)
}

// run executes a statement without arguments.
func (s *session) run(ctx context.Context, query string) error {
	_, err := s.ExecContext(ctx, query)
	return err
}

// note remembers err when it breaks the transaction, and gives it back.
func (s *session) note(err error) error {
	if s.broken == nil && breaks(err) {
		s.broken = err
	}
	return err
}

// sqliteCode is the primary result code of err, 0 for another error.
func sqliteCode(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// breaks reports whether SQLite may have rolled back the whole transaction,
// or can no longer be trusted with it. The list is that of
// https://www.sqlite.org/lang_transaction.html, section 2.3, with those that
// tell of the file itself.
func breaks(err error) bool {
	switch sqliteCode(err) {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_INTERRUPT,
		sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return true
	}
	return false
}

func isFull(err error) bool { return sqliteCode(err) == sqlite3.SQLITE_FULL }

// writeFailed is what a caller is told when the database broke under it.
func writeFailed(err error) error {
	if isFull(err) {
		return &coord.Error{Code: coord.Unavailable, Message: "the disk of the data directory is full: free some space and start Signalbox again", Err: err}
	}
	return &coord.Error{Code: coord.Unavailable, Message: "the journal could not be written: see the log, check the disk, and start Signalbox again", Err: err}
}
