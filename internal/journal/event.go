package journal

import (
	"context"
	"encoding/json"
	"fmt"

	"signalbox/internal/coord"
)

// EventFilter chooses events; a zero member does not restrict. Attempt is one of
// Job, which is then named too.
type EventFilter struct {
	Job     coord.JobID
	Attempt coord.AttemptID
}

// span is how many events share an entry in the table of spans, which tells
// where to look for those of a job. The table holds numbers made with it, so that
// another span needs a migration.
const span = 256

// spanned are the jobs whose entry for the span number was written already; it
// is the writer's alone.
type spanned struct {
	number int64
	jobs   map[coord.JobID]bool
}

// Append writes e as the next event and gives its sequence, which is final
// once the operation is committed. Seq is overwritten, At is set to now when
// it is zero. A failure fails the operation.
func (tx *Tx) Append(e coord.Event) int64 {
	e = tx.following(e)
	_ = tx.insert(e, e) // the operation keeps the failure
	return e.Seq
}

// Tell appends e with data as its data.
func (tx *Tx) Tell(e coord.Event, data any) error {
	e = tx.following(e)
	return tx.insert(e, struct {
		coord.Event
		Data any `json:"data"` // in place of that of Event
	}{e, data})
}

// following is e as the next event.
func (tx *Tx) following(e coord.Event) coord.Event {
	e.Seq = tx.head + 1
	if e.At.IsZero() {
		e.At = tx.Now()
	}
	return e
}

// insert stores e as v says it.
func (tx *Tx) insert(e coord.Event, v any) error {
	doc, err := encode(tx, v)
	if err != nil {
		return err
	}
	if _, err := tx.exec(`INSERT INTO events (seq, kind, job, attempt, doc) VALUES ($1, $2, $3, $4, $5)`,
		e.Seq, e.Kind, optional(e.Job), optional(e.Attempt), doc); err != nil {
		return err
	}
	if err := tx.mark(e); err != nil {
		return err
	}
	tx.head = e.Seq
	if !told(e.Kind) {
		tx.moved = e.Seq
	}
	return nil
}

// mark notes that the span of e has an event of its job.
func (tx *Tx) mark(e coord.Event) error {
	known := &tx.j.spanned
	if n := e.Seq / span; known.jobs == nil || known.number != n {
		*known = spanned{n, map[coord.JobID]bool{}}
	}
	if e.Job == "" || known.jobs[e.Job] {
		return nil
	}
	known.jobs[e.Job] = true
	return tx.put(`INSERT INTO spans (job, span) VALUES ($1, $2) ON CONFLICT (job, span) DO NOTHING`, e.Job, known.number)
}

// told reports whether events of a kind only tell what an agent says or does:
// nothing is decided by them, and they may be many.
func told(k coord.EventKind) bool {
	return k == coord.AttemptText || k == coord.AttemptActed || k == coord.AttemptCalled || k == coord.AttemptLate
}

// optional is nil for an empty id, so that the partial indexes stay small.
func optional[T ~string](id T) any {
	if id == "" {
		return nil
	}
	return string(id)
}

// Record is an event as it is stored: Doc is its JSON, redacted, as a reader is
// to get it.
type Record struct {
	Seq  int64
	Kind coord.EventKind
	Doc  []byte
}

// query selects at most limit events after a cursor. The spans are looked through
// one after another, which is the order of the events.
func (f EventFilter) query(after int64, limit int) (string, []any) {
	const (
		ofJob = `SELECT events.seq, events.kind, events.doc
			FROM spans CROSS JOIN events
			WHERE spans.job = $3 AND spans.span >= $1 / $4 AND events.seq >= spans.span * $4 AND events.seq < spans.span * $4 + $4
				AND events.seq > $1 AND events.job = $3`
		inOrder = ` ORDER BY spans.span, events.seq LIMIT $2`
	)
	switch {
	case f.Attempt != "":
		return ofJob + ` AND events.attempt = $5` + inOrder, []any{after, limit, string(f.Job), span, string(f.Attempt)}
	case f.Job != "":
		return ofJob + inOrder, []any{after, limit, string(f.Job), span}
	}
	return `SELECT seq, kind, doc FROM events WHERE seq > $1 ORDER BY seq LIMIT $2`, []any{after, limit}
}

// Records reads at most limit events that f chooses, with a sequence greater
// than after, in order. An attempt without its job is an Internal error.
func (v *View) Records(after int64, f EventFilter, limit int) ([]Record, error) {
	if f.Attempt != "" && f.Job == "" {
		return nil, coord.Errorf(coord.Internal, "the events of %s were asked for without its job", f.Attempt)
	}
	query, args := f.query(after, limit)
	rows, err := v.q.QueryContext(v.ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("journal: read: %w", err)
	}
	defer rows.Close()
	out := []Record{}
	for rows.Next() {
		if err := context.Cause(v.ctx); err != nil {
			return nil, err
		}
		var r Record
		if err := rows.Scan(&r.Seq, &r.Kind, &r.Doc); err != nil {
			return nil, fmt.Errorf("journal: read: %w", err)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("journal: read: %w", err)
	}
	return out, nil
}

// Events is Records, decoded.
func (v *View) Events(after int64, f EventFilter, limit int) ([]coord.Event, error) {
	records, err := v.Records(after, f, limit)
	if err != nil {
		return nil, err
	}
	out := make([]coord.Event, len(records))
	for i, r := range records {
		if err := json.Unmarshal(r.Doc, &out[i]); err != nil {
			return nil, fmt.Errorf("journal: a stored event cannot be read: %w", err)
		}
	}
	return out, nil
}

// Head is the sequence of the last event that this view sees.
func (v *View) Head() (int64, error) {
	return scalar[int64](v, `SELECT COALESCE(MAX(seq), 0) FROM events`)
}
