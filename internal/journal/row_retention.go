package journal

import (
	"strconv"
	"time"

	"signalbox/internal/coord"
)

// EndedBefore gives up to limit jobs that ended before t and are still kept
// whole, the oldest first. One whose changes wait for the operator is not among
// them.
func (v *View) EndedBefore(t time.Time, limit int) ([]coord.Job, error) {
	return list[coord.Job](v, `SELECT doc FROM jobs WHERE kept = 0 AND ended < $1
		AND NOT EXISTS (SELECT 1 FROM change_sets WHERE change_sets.job = jobs.id AND change_sets.pending = 1) ORDER BY ended LIMIT $2`, t.UnixMilli(), limit)
}

// numbered is a table whose rows have short numbers, and the setting that keeps
// the highest of them once rows are removed: a number that a person wrote down
// must never come to name something else.
type numbered struct{ table, setting string }

var (
	jobNumbers     = numbered{"jobs", "last_job"}
	requestNumbers = numbered{"requests", "last_request"}
)

// nextNumber gives the number after the highest that was ever given.
func (tx *Tx) nextNumber(n numbered) (int64, error) {
	return tx.next(`SELECT coalesce(max(number), 0) + 1 FROM (SELECT max(number) AS number FROM ` + n.table +
		` UNION ALL SELECT CAST(doc AS INTEGER) FROM settings WHERE name = '` + n.setting + `') AS numbers`)
}

// keepNumber keeps the highest number that was given. It comes before rows are
// removed.
func (tx *Tx) keepNumber(n numbered) error {
	next, err := tx.nextNumber(n)
	if err != nil {
		return err
	}
	return tx.put(`INSERT INTO settings (name, doc) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET doc = excluded.doc`,
		n.setting, strconv.FormatInt(next-1, 10))
}

// Summary gives what remains of a job whose detail was removed, or NotFound.
func (v *View) Summary(job coord.JobID) (coord.Result, error) {
	return find[coord.Result](v, "summary of "+string(job), `SELECT doc FROM summaries WHERE job = $1`, job)
}

// Summarize keeps r in place of the job's detail: its plan, attempts and
// requests are removed, and its artifacts become tombstones. It gives the
// artifacts that had bytes. The events go with PruneEvents.
func (tx *Tx) Summarize(r coord.Result) ([]coord.Artifact, error) {
	doc, err := encode(tx, r)
	if err != nil {
		return nil, err
	}
	if err := tx.put(`INSERT INTO summaries (job, doc) VALUES ($1, $2) ON CONFLICT (job) DO NOTHING`, r.Job, doc); err != nil {
		return nil, err
	}
	all, err := tx.Artifacts(r.Job)
	if err != nil {
		return nil, err
	}
	var stored []coord.Artifact
	now := tx.Now()
	for _, a := range all {
		if a.Removed != nil || a.SHA256 == "" {
			continue
		}
		stored = append(stored, a)
		a.Removed = &now
		doc, err := encode(tx, a)
		if err != nil {
			return nil, err
		}
		if err := tx.put(`UPDATE artifacts SET size = 0, doc = $2 WHERE id = $1`, a.ID, doc); err != nil {
			return nil, err
		}
	}
	for _, n := range []numbered{requestNumbers, changeSetNumbers} {
		if err := tx.keepNumber(n); err != nil {
			return nil, err
		}
	}
	for _, query := range []string{
		`DELETE FROM attempts WHERE job = $1`,
		`DELETE FROM requests WHERE job = $1`,
		`DELETE FROM change_sets WHERE job = $1`,
		`UPDATE jobs SET kept = 1, plan = '{}' WHERE id = $1`,
	} {
		if err := tx.put(query, r.Job); err != nil {
			return nil, err
		}
	}
	return stored, nil
}

// Stored reports whether an artifact with these bytes is still kept.
func (v *View) Stored(sha256 string) (bool, error) {
	n, err := scalar[int64](v, `SELECT COUNT(*) FROM artifacts WHERE sha256 = $1 AND size > 0`, sha256)
	return n > 0, err
}

// PruneEvents removes up to limit of the oldest events: those before t that
// come before every event of a job that was run and is kept whole. A draft that
// nobody ran or threw away must not keep all events for ever. What is left has no
// gap, so a reader that comes from before it is told so. It gives how many were
// removed; the last event always stays, because the next one counts from it.
func (tx *Tx) PruneEvents(t time.Time, limit int) (int64, error) {
	// Events of no job, and of drafts, go by their own age. No more than the oldest
	// ones are looked at: the writer must not read all events, nor all jobs.
	oldest, err := list[coord.Event](&tx.View, `WITH oldest AS (SELECT seq, job, doc FROM events WHERE seq < $1 ORDER BY seq LIMIT $2)
		SELECT doc FROM oldest WHERE seq < COALESCE((SELECT MIN(seq) FROM oldest JOIN jobs ON jobs.id = oldest.job WHERE kept = 0 AND state <> 'draft'), $1) ORDER BY seq`, tx.head, limit)
	if err != nil {
		return 0, err
	}
	through := int64(0)
	for _, e := range oldest {
		if !e.At.Wall.Before(t) {
			break
		}
		through = e.Seq
	}
	if through == 0 {
		return 0, nil
	}
	if err := tx.put(`DELETE FROM spans WHERE span < $1`, (through+1)/span); err != nil {
		return 0, err
	}
	res, err := tx.exec(`DELETE FROM events WHERE seq <= $1`, through)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Forget removes up to limit jobs that are kept as summaries and ended before
// t, with everything that names them. It gives how many were removed.
func (tx *Tx) Forget(t time.Time, limit int) (int, error) {
	old, err := list[coord.Job](&tx.View, `SELECT doc FROM jobs WHERE kept = 1 AND ended < $1 ORDER BY ended LIMIT $2`, t.UnixMilli(), limit)
	if err != nil || len(old) == 0 {
		return 0, err
	}
	if err := tx.keepNumber(jobNumbers); err != nil {
		return 0, err
	}
	for _, j := range old {
		for _, query := range []string{
			`DELETE FROM summaries WHERE job = $1`, `DELETE FROM tasks WHERE job = $1`, `DELETE FROM artifacts WHERE job = $1`, `DELETE FROM jobs WHERE id = $1`,
		} {
			if err := tx.put(query, j.ID); err != nil {
				return 0, err
			}
		}
	}
	return len(old), nil
}

// RetentionTime gives the moment by which retention is to judge: now, but at
// most step after the one it was given last. A clock that is set far ahead for
// a while then costs nothing that would not have gone in step.
func (tx *Tx) RetentionTime(now time.Time, step time.Duration) (time.Time, error) {
	last, err := find[time.Time](&tx.View, "", `SELECT doc FROM settings WHERE name = 'retention'`)
	switch {
	case coord.CodeOf(err) == coord.NotFound:
	case err != nil:
		return now, err
	case now.After(last.Add(step)):
		now = last.Add(step)
	}
	doc, err := encode(tx, now)
	if err != nil {
		return now, err
	}
	return now, tx.put(`INSERT INTO settings (name, doc) VALUES ('retention', $1) ON CONFLICT (name) DO UPDATE SET doc = excluded.doc`, doc)
}
