package scheduler

import (
	"context"

	"signalbox/internal/coord"
	"signalbox/internal/fault"
	"signalbox/internal/journal"
	"signalbox/internal/scheduler/workbench"
)

// land lands a change set beside whatever runs; false when one is landing.
func (s *Scheduler) land(ctx context.Context, c coord.ChangeSet) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.landing {
		return false
	}
	s.landing = true
	s.work.Go(func() {
		defer func() {
			s.mu.Lock()
			s.landing = false
			s.mu.Unlock()
			s.nudge()
		}()
		if err := s.landAll(ctx, c); err != nil {
			s.Logger.Error("a change set could not be landed", "change_set", c.ID, "code", coord.CodeOf(err), "err", err)
		}
	})
	return true
}

// landAll makes the steps durable and takes them. Of a landing that an earlier
// process began the first open step may have been taken, so that one is only
// looked at.
func (s *Scheduler) landAll(ctx context.Context, c coord.ChangeSet) error {
	take := workbench.Take
	if c.State == coord.ChangeSetLanding {
		take = workbench.Examine
	} else {
		now, err := s.beginLanding(ctx, c)
		if err != nil || now.State != coord.ChangeSetLanding {
			return err
		}
		c = now
	}
	for {
		next, i, open := c.NextStep()
		if !open {
			return nil
		}
		step := take(ctx, c.Base, s.Contents, next.Steps[i])
		take = workbench.Take
		fault.Point("landing.step.after")
		err := s.Journal.Update(ctx, func(tx *journal.Tx) (err error) {
			if c, err = tx.ChangeSet(coord.ChangeSetRef{ID: c.ID}); err != nil {
				return err
			}
			if c, err = c.Record(i, step); err != nil {
				return err
			}
			return tx.PutChangeSet(c, nil)
		})
		fault.Point("landing.record.after")
		if err != nil {
			return err
		}
	}
}

// beginLanding plans the steps on what is there now and makes them durable. A
// change set that does not fit any more becomes stale.
func (s *Scheduler) beginLanding(ctx context.Context, c coord.ChangeSet) (coord.ChangeSet, error) {
	steps, unfit := workbench.Rebase(ctx, s.Contents, c)
	fault.Point("landing.start.before")
	err := s.Journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if unfit != nil {
			c, err = tx.DecideChangeSet(c.ID, coord.Review{On: coord.ChangeSetOutdate, Reason: told(unfit, "the workspace cannot be written to"), By: coord.WorkerActor})
			return err
		}
		if c, err = tx.ChangeSet(coord.ChangeSetRef{ID: c.ID}); err != nil {
			return err
		}
		if c, err = c.Land(steps); err != nil {
			return err
		}
		return tx.PutChangeSet(c, nil)
	})
	fault.Point("landing.start.after")
	return c, err
}
