// Package retention removes what has been kept long enough.
//
// It promises: everything about a job is kept for coord.KeepDetail after its
// end, and its result for coord.KeepSummary, also when the clock is wrong for a
// while. The answer to a request with an idempotency key is given again for
// coord.KeepAnswer. Nothing of a job that runs, waits or is of unknown outcome
// is touched. A job's result is durable before its
// detail goes, and bytes go only when no artifact that is kept has them.
package retention

import (
	"context"
	"log/slog"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// Results gives what remains of a job.
type Results interface {
	Result(ctx context.Context, ref coord.JobRef) (coord.Result, error)
}

// Bytes removes stored bytes that were last stored before a moment.
type Bytes interface {
	RemoveLeftover(sha string, before time.Time) (bool, error)
}

// Space takes back the space of a job's artifacts.
type Space interface {
	Free(job coord.JobID, bytes int64) error
}

// Contents removes the contents that keep does not name and that were last
// stored before a moment.
type Contents interface {
	Sweep(ctx context.Context, keep map[string]bool, before time.Time) (int, error)
}

// Retention is the keeper of one journal.
type Retention struct {
	journal *journal.Journal
	results Results
	bytes   Bytes
	space   Space
	files   Contents
	log     *slog.Logger
}

// New makes the keeper of a journal and of what its jobs stored.
func New(j *journal.Journal, results Results, bytes Bytes, space Space, files Contents, log *slog.Logger) *Retention {
	return &Retention{journal: j, results: results, bytes: bytes, space: space, files: files, log: log}
}

const (
	// every is how often Run looks: what is kept for months is not in a hurry.
	every = time.Hour
	// step is how far the time by which it judges moves at most from one look to
	// the next: a clock that is wrong for an hour must not cost the evidence of a
	// year.
	step = 48 * time.Hour
	// batch bounds what one transaction removes, so that none of them is long.
	batch = 500
	// settled is how old a content is that no change set names for good: it is
	// stored a moment before the change set is.
	settled = 24 * time.Hour
)

// Run sweeps at the start and then each hour, until ctx ends. What fails is
// logged and tried again.
func (r *Retention) Run(ctx context.Context) {
	for {
		if err := r.Sweep(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("what is kept could not be looked through", "code", coord.CodeOf(err), "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

// Sweep removes everything whose time has come.
func (r *Retention) Sweep(ctx context.Context) error {
	var now time.Time
	err := r.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		now, err = tx.RetentionTime(tx.Now().Wall, step)
		return err
	})
	if err != nil {
		return err
	}
	if err := r.summarize(ctx, now.Add(-coord.KeepDetail)); err != nil {
		return err
	}
	if err := r.contents(ctx, now); err != nil {
		return err
	}
	for removed := int64(batch); removed > 0; {
		err := r.journal.Update(ctx, func(tx *journal.Tx) (err error) {
			removed, err = tx.PruneEvents(now.Add(-coord.KeepDetail), batch)
			return err
		})
		if err != nil {
			return err
		}
	}
	for removed := int64(batch); removed == batch; {
		err := r.journal.Update(ctx, func(tx *journal.Tx) (err error) {
			removed, err = tx.PruneAnswers(now.Add(-coord.KeepAnswer), batch)
			return err
		})
		if err != nil {
			return err
		}
	}
	for removed := batch; removed == batch; {
		err := r.journal.Update(ctx, func(tx *journal.Tx) (err error) {
			removed, err = tx.Forget(now.Add(-coord.KeepSummary), batch)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// contents removes what no kept change set names.
func (r *Retention) contents(ctx context.Context, now time.Time) error {
	var keep map[string]bool
	err := r.journal.View(ctx, func(v *journal.View) (err error) {
		keep, err = v.ChangedContents()
		return err
	})
	if err != nil {
		return err
	}
	_, err = r.files.Sweep(ctx, keep, now.Add(-settled))
	return err
}

// summarize replaces the detail of jobs that ended before t by their results.
// A job that cannot be summarized stays whole and must not keep the others.
func (r *Retention) summarize(ctx context.Context, t time.Time) error {
	for {
		var old []coord.Job
		err := r.journal.View(ctx, func(v *journal.View) (err error) {
			old, err = v.EndedBefore(t, batch)
			return err
		})
		if err != nil || len(old) == 0 {
			return err
		}
		done := 0
		for _, j := range old {
			err := r.one(ctx, j, t)
			switch {
			case err == nil:
				done++
			case ctx.Err() != nil || r.journal.Err() != nil:
				return err
			default:
				r.log.Warn("a job that ended long ago could not be reduced to its result", "job", j.ID, "code", coord.CodeOf(err), "err", err)
			}
		}
		if done == 0 {
			return nil
		}
	}
}

func (r *Retention) one(ctx context.Context, j coord.Job, t time.Time) error {
	result := coord.Result{Job: j.ID, Number: j.Number, Title: j.Title, State: j.State, Tasks: []coord.TaskResult{}}
	if j.Grant != nil { // a draft that was thrown away has no result
		var err error
		if result, err = r.results.Result(ctx, coord.JobRef{ID: j.ID}); err != nil {
			return err
		}
	}
	var stored []coord.Artifact
	err := r.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		stored, err = tx.Summarize(result)
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range stored {
		if err := r.space.Free(j.ID, a.Size); err != nil {
			return err
		}
		kept := false
		err := r.journal.View(ctx, func(v *journal.View) (err error) {
			kept, err = v.Stored(a.SHA256)
			return err
		})
		if err != nil {
			return err
		}
		if kept {
			continue
		}
		if _, err := r.bytes.RemoveLeftover(a.SHA256, t); err != nil {
			return err
		}
	}
	return nil
}
