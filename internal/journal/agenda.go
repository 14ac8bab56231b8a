package journal

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"signalbox/internal/coord"
)

// Agenda is everything that is not over: what a scheduler decides on, and reads
// again whenever something happened. Reading it anew decodes only what has
// changed since. What it holds is shared between readings, so it must not be
// changed. The zero Agenda is empty; it belongs to one goroutine at a time.
type Agenda struct {
	// Jobs are those that run or need attention, by number, without plans.
	Jobs []coord.Job
	// Tasks are those of Jobs, in the order of the plan.
	Tasks map[coord.JobID][]coord.Task
	// Attempts are live, or unknown and unresolved.
	Attempts []coord.Attempt
	// Requests wait for a decision, or for their answer's delivery.
	Requests []coord.Request
	// ChangeSets wait for a decision, or have not landed yet.
	ChangeSets []coord.ChangeSet
	Leases     []Lease
	Paused     bool

	jobs     decoded[coord.Job]
	tasks    decoded[coord.Task]
	attempts decoded[coord.Attempt]
	requests decoded[coord.Request]
	changes  decoded[coord.ChangeSet]
	leases   decoded[Lease]
}

// Read brings the agenda to what a view sees.
func (a *Agenda) Read(v *View) (err error) {
	if a.Paused, err = v.Paused(); err != nil {
		return err
	}
	if a.Jobs, err = a.jobs.list(v, openJobs); err != nil {
		return err
	}
	a.Tasks = make(map[coord.JobID][]coord.Task, len(a.Jobs))
	if len(a.Jobs) > 0 {
		tasks, err := a.tasks.list(v, `SELECT tasks.doc FROM jobs JOIN tasks ON tasks.job = jobs.id
			WHERE jobs.state IN ('running', 'needs_attention') ORDER BY jobs.number, tasks.idx`)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			a.Tasks[t.Job] = append(a.Tasks[t.Job], t)
		}
	}
	if a.Attempts, err = a.attempts.list(v, openAttempts); err != nil {
		return err
	}
	if a.Requests, err = a.requests.list(v, pendingRequests); err != nil {
		return err
	}
	if a.ChangeSets, err = a.changes.list(v, pendingChangeSets); err != nil {
		return err
	}
	a.Leases, err = a.leases.list(v, allLeases)
	return err
}

// decoded holds what the documents of the last reading say, by their text: the
// same text says the same, so nothing in it can be out of date.
type decoded[T any] map[string]T

// list is the function list, but decodes only texts that were not there the
// last time.
func (d *decoded[T]) list(v *View, query string) ([]T, error) {
	rows, err := v.q.QueryContext(v.ctx, query)
	if err != nil {
		return nil, fmt.Errorf("journal: read: %w", err)
	}
	defer rows.Close()
	var out []T
	now := make(decoded[T], len(*d))
	for rows.Next() {
		var doc sql.RawBytes
		if err := rows.Scan(&doc); err != nil {
			return nil, fmt.Errorf("journal: read: %w", err)
		}
		one, known := (*d)[string(doc)]
		if !known {
			if err := json.Unmarshal(doc, &one); err != nil {
				return nil, fmt.Errorf("journal: a stored %s cannot be read: %w", noun[T](), err)
			}
		}
		now[string(doc)] = one
		out = append(out, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("journal: read: %w", err)
	}
	*d = now
	return out, nil
}
