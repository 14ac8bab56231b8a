package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"signalbox/internal/coord"
)

// querier is what a View needs of the database.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// View reads one consistent state of the journal. It is good inside the
// function it was given to, for one goroutine.
type View struct {
	ctx context.Context
	q   querier
}

// View runs fn on one read transaction. Keep it short: read a page, return,
// and only then write to a network. Do not call Update or View inside it. The
// error is fn's own, or Unavailable when the journal is closed.
func (j *Journal) View(ctx context.Context, fn func(*View) error) error {
	s, err := j.reader(ctx)
	if err != nil {
		return err
	}
	defer func() { j.db.readers <- s }()
	if err := s.run(ctx, "BEGIN"); err != nil {
		return fmt.Errorf("journal: begin a view: %w", err)
	}
	// Deferred, so that a panic of fn does not leave the transaction open.
	defer func() {
		if err := s.run(ctx, "ROLLBACK"); err != nil {
			j.log.Warn("a view could not be ended", "err", err)
		}
	}()
	return fn(&View{ctx: ctx, q: s})
}

// reader takes a read session.
func (j *Journal) reader(ctx context.Context) (*session, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-j.closing:
		return nil, errClosed()
	default:
	}
	select {
	case s := <-j.db.readers:
		return s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-j.closing:
		return nil, errClosed()
	}
}

// Context is the context of the caller.
func (v *View) Context() context.Context { return v.ctx }

// get reads the one document of a query that selects doc. Without a row it is
// NotFound, in the name of T; find names the thing better.
func get[T any](v *View, query string, args ...any) (T, error) {
	var out T
	var doc string
	switch err := v.q.QueryRowContext(v.ctx, query, args...).Scan(&doc); {
	case errors.Is(err, sql.ErrNoRows):
		return out, coord.Errorf(coord.NotFound, "there is no such %s", noun[T]())
	case err != nil:
		return out, fmt.Errorf("journal: read: %w", err)
	}
	return out, decode(doc, &out)
}

// list reads the documents of a query that selects doc, in its order. Bound it
// with LIMIT.
func list[T any](v *View, query string, args ...any) ([]T, error) {
	rows, err := v.q.QueryContext(v.ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("journal: read: %w", err)
	}
	defer rows.Close()
	out := []T{}
	for rows.Next() {
		if err := context.Cause(v.ctx); err != nil {
			return nil, err
		}
		var doc sql.RawBytes
		if err := rows.Scan(&doc); err != nil {
			return nil, fmt.Errorf("journal: read: %w", err)
		}
		var one T
		if err := json.Unmarshal(doc, &one); err != nil {
			return nil, fmt.Errorf("journal: a stored %s cannot be read: %w", noun[T](), err)
		}
		out = append(out, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("journal: read: %w", err)
	}
	return out, nil
}

// scalar reads the one value of a query, the zero value without a row.
func scalar[T any](v *View, query string, args ...any) (T, error) {
	var out T
	err := v.q.QueryRowContext(v.ctx, query, args...).Scan(&out)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return out, fmt.Errorf("journal: read: %w", err)
	}
	return out, nil
}

func decode(doc string, into any) error {
	if err := json.Unmarshal([]byte(doc), into); err != nil {
		return fmt.Errorf("journal: a stored document cannot be read: %w", err)
	}
	return nil
}

// noun is T's name as a word of the vocabulary.
func noun[T any]() string { return strings.ToLower(reflect.TypeFor[T]().Name()) }

// Tx is one operation inside the writer: a View of everything so far,
// uncommitted included, that can also write.
type Tx struct {
	View
	j *Journal
	s *session
	// now is the one moment of the operation, zero until it is asked for.
	now coord.Moment
	// head and moved are those of the journal, what is not committed included.
	head, moved int64
	err         error // first failure of a write; fails the operation
	op          *operation
}

// Ended has fn called as soon as it is known what became of this run of the
// operation, before Update returns: whether what it wrote was committed. false
// means that it was undone, or that the database failed and nobody knows. fn
// must not call the journal, nor wait for anything.
func (tx *Tx) Ended(fn func(committed bool)) { tx.op.ends = append(tx.op.ends, fn) }

// exec runs one writing statement. Its failure fails the operation even when
// the caller overlooks it; expect a clash with ON CONFLICT, not with an error.
func (tx *Tx) exec(query string, args ...any) (sql.Result, error) {
	tx.s.writes = append(tx.s.writes, write{query, args})
	res, err := tx.s.ExecContext(tx.ctx, query, args...)
	if err != nil {
		return nil, tx.failed(fmt.Errorf("journal: write: %w", err))
	}
	return res, nil
}

// failed remembers the first failure of the operation, and gives err back.
func (tx *Tx) failed(err error) error {
	if tx.err == nil {
		tx.err = err
	}
	return err
}

// Now is Journal.Now, and the same moment throughout the operation.
func (tx *Tx) Now() coord.Moment {
	if tx.now == (coord.Moment{}) {
		tx.now = tx.j.Now()
	}
	return tx.now
}

// Generation is Journal.Generation.
func (tx *Tx) Generation() int64 { return tx.j.generation }
