package scheduler

import (
	"context"
	"encoding/json"
	"errors"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/process"
)

// Ledger keeps the processes of agents in the journal, so that the next worker
// can end what this one leaves behind. It is a process.Ledger.
type Ledger struct{ Journal *journal.Journal }

// Started records a process before its program runs.
func (l Ledger) Started(ctx context.Context, id process.Identity) error {
	doc, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return l.Journal.Update(ctx, func(tx *journal.Tx) error { return tx.AddProcess(doc) })
}

// Ended forgets a process of which nothing is left.
func (l Ledger) Ended(ctx context.Context, id process.Identity) error {
	doc, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return l.Journal.Update(ctx, func(tx *journal.Tx) error { return tx.EndProcess(doc) })
}

// carryOver counts what passed of the jobs' deadlines before the machine was
// started anew.
func (s *Scheduler) carryOver(ctx context.Context) error {
	last, opened := s.Journal.Resumed()
	var jobs []coord.Job
	err := s.Journal.View(ctx, func(v *journal.View) (err error) {
		jobs, err = v.OpenJobs()
		return err
	})
	for _, j := range jobs {
		carried := j.CarryOver(last, opened)
		if carried.Counted == j.Counted {
			continue
		}
		// Nothing else changes jobs yet.
		err = errors.Join(err, s.Journal.Update(ctx, func(tx *journal.Tx) error { return tx.PutJob(carried, nil) }))
	}
	return err
}

// sweep ends the process trees that older owners recorded, and waits for them.
func (s *Scheduler) sweep(ctx context.Context) error {
	var old []journal.Process
	err := s.Journal.View(ctx, func(v *journal.View) (err error) {
		old, err = v.Processes(s.Journal.Generation())
		return err
	})
	if err != nil || len(old) == 0 {
		return err
	}
	ids := make([]process.Identity, len(old))
	for i, p := range old {
		if err := json.Unmarshal(p.Identity, &ids[i]); err != nil {
			return coord.Errorf(coord.Internal, "a recorded process cannot be read: %w", err)
		}
	}
	s.Logger.Info("ending what an earlier worker may have left running", "count", len(ids))
	if s.Children == nil {
		return coord.Errorf(coord.Internal, "processes are recorded, and there is nothing to end them with")
	}
	return s.Children.Sweep(ctx, ids)
}
