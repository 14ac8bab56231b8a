package scheduler

import (
	"context"
	"errors"
	"fmt"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
)

// apply carries an action out. It reports whether anything was done; an action
// that somebody else was quicker with is none. An error is the journal's.
func (s *Scheduler) apply(ctx context.Context, a action) (bool, error) {
	switch a := a.(type) {
	case admit:
		return s.admit(ctx, a.task)
	case move:
		return s.commit(ctx, func(tx *journal.Tx) error { return tx.MoveTask(a.task, a.on, a.reason) })
	case lose:
		return s.commit(ctx, func(tx *journal.Tx) error {
			now, err := s.orphan(tx, a.attempt.ID)
			if err != nil {
				return err
			}
			return loseOrphan(tx, now)
		})
	case reattach:
		return s.reattach(ctx, a.attempt)
	case proveEnded:
		return s.commit(ctx, func(tx *journal.Tx) error { return s.proveEnded(tx, a.attempt) })
	case cancel:
		return s.commit(ctx, func(tx *journal.Tx) error {
			_, err := tx.CancelAttempt(a.attempt, a.cause, coord.WorkerActor)
			return err
		})
	case stop:
		return s.with(a.attempt, (*owner).stop), nil
	case giveUp:
		return s.with(a.attempt, func(o *owner) bool { return o.leave(errGiveUp) }), nil
	case dismiss:
		return s.with(a.attempt, func(o *owner) bool { return o.leave(errOver) }), nil
	case perform:
		return s.with(a.request.Attempt, func(o *owner) bool { return o.perform(a.request) }), nil
	case examine:
		return s.examine(ctx, a.request)
	case land:
		return s.land(ctx, a.changes), nil
	case deliver:
		return s.with(a.request.Attempt, func(o *owner) bool { return o.deliver(a.request) }), nil
	default:
		return false, fmt.Errorf("scheduler: unknown action %T", a)
	}
}

// commit runs fn in the journal. A conflict means that somebody else was
// quicker: nothing was done, and that is no error.
func (s *Scheduler) commit(ctx context.Context, fn func(tx *journal.Tx) error) (bool, error) {
	err := s.Journal.Update(ctx, fn)
	code := coord.CodeOf(err)
	switch {
	case code == "":
		return true, nil
	case (code == coord.Conflict || code == coord.NotFound) && s.Journal.Err() == nil:
		return false, nil
	default:
		return false, err
	}
}

// with calls fn on the owner of an attempt, if there is one.
func (s *Scheduler) with(id coord.AttemptID, fn func(*owner) bool) bool {
	s.mu.Lock()
	o := s.owners[id]
	s.mu.Unlock()
	return o != nil && fn(o)
}

// works reports whether an attempt of an agent has an owner.
func (s *Scheduler) works(id coord.AgentID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.owners {
		if o.agent == id {
			return true
		}
	}
	return false
}

// admit gives a task its next attempt and an owner for it.
func (s *Scheduler) admit(ctx context.Context, t coord.Task) (bool, error) {
	return s.commit(ctx, func(tx *journal.Tx) error {
		// The owners that evaluate was given are older than this.
		if s.works(t.Agent) {
			return coord.Errorf(coord.Conflict, "agent %s still has a process", t.Agent)
		}
		now, planned, frozen, err := frozenTask(&tx.View, t.ID)
		if err != nil {
			return err
		}
		return s.start(ctx, tx, now, planned, frozen)
	})
}

// AdmitFirst admits the first tasks of a job in the operation that starts it, as
// far as there is room for them: one commit says that the job was approved and
// what runs of it. The others are left to Run, and all where Run has not begun, is
// to stop, or has tasks that wait for room. tasks are those of the job, as they
// were added.
func (s *Scheduler) AdmitFirst(tx *journal.Tx, j coord.Job, tasks []coord.Task) error {
	s.mu.Lock()
	open := s.open
	if open {
		s.admissions++
		s.work.Add(1) // Run waits for what is begun here
	}
	s.mu.Unlock()
	if !open {
		return nil
	}
	tx.Ended(func(bool) {
		s.mu.Lock()
		s.admissions--
		s.mu.Unlock()
		s.nudge()
		s.work.Done()
	})
	paused, err := tx.Paused()
	if err != nil {
		return err
	}
	leases, err := tx.Leases()
	if err != nil {
		return err
	}
	st := s.here()
	st.hold(paused, leases)
	st.tasks = map[coord.JobID][]coord.Task{j.ID: tasks}
	for _, t := range admissible(st, j, tx.Now()) {
		planned, frozen, err := frozenAs(j, t)
		if err != nil {
			return err
		}
		// The owner outlives the request that approved.
		if err := s.start(context.Background(), tx, t, planned, frozen); err != nil {
			return err
		}
	}
	return nil
}

// start gives a task its next attempt and an owner for it. The owner begins to
// prepare while the admission is still on its way to the disk: what it starts is
// in the ledger before it runs, and is sent nothing before the intent is durable,
// which is a later operation.
func (s *Scheduler) start(ctx context.Context, tx *journal.Tx, t coord.Task, planned coord.PlanTask, frozen coord.FrozenTask) error {
	a, err := tx.AddAttempt(t, frozen.Config.Route, s.Host)
	if err != nil {
		return err
	}
	w, err := orderFor(&tx.View, a, t, planned, frozen)
	o := s.own(ctx, a, admitting, func(o *owner) { o.run(w, err) })
	tx.Ended(func(committed bool) {
		if !committed {
			o.leave(errOver)
		} else {
			o.admitted()
		}
	})
	return nil
}

// orphan gives an attempt as it is now, or a Conflict when it has an owner here. The
// owners that evaluate was given are those of a moment before its attempts, and
// others admit meanwhile.
func (s *Scheduler) orphan(tx *journal.Tx, id coord.AttemptID) (coord.Attempt, error) {
	if s.with(id, func(*owner) bool { return true }) {
		return coord.Attempt{}, coord.Errorf(coord.Conflict, "attempt %s has an owner", id)
	}
	return tx.Attempt(coord.AttemptRef{ID: id})
}

// proveEnded notes that nothing of an unknown attempt runs any more.
func (s *Scheduler) proveEnded(tx *journal.Tx, id coord.AttemptID) error {
	if _, err := s.orphan(tx, id); err != nil {
		return err
	}
	s.mu.Lock()
	unproven := s.unproven[id]
	s.mu.Unlock()
	if unproven {
		return coord.Errorf(coord.Conflict, "the session of attempt %s could not be ended", id)
	}
	return tx.EditAttempt(id, func(a coord.Attempt) coord.Attempt { return ended(a, tx.Now()) })
}

// reattach takes an attempt of an earlier owner over and follows it.
func (s *Scheduler) reattach(ctx context.Context, a coord.Attempt) (bool, error) {
	did, err := s.commit(ctx, func(tx *journal.Tx) error {
		now, err := s.orphan(tx, a.ID)
		if err != nil {
			return err
		}
		if !now.Live() {
			return coord.Errorf(coord.Conflict, "attempt %s is %s", now.ID, now.State)
		}
		return tx.EditAttempt(a.ID, func(a coord.Attempt) coord.Attempt {
			a.Generation = tx.Generation()
			return a
		})
	})
	if did {
		s.own(ctx, a, preparing, (*owner).resume)
	}
	return did, err
}

// own starts the goroutine that follows an attempt.
func (s *Scheduler) own(ctx context.Context, a coord.Attempt, at phase, run func(*owner)) *owner {
	o := newOwner(ctx, s, a, at)
	s.mu.Lock()
	s.owners[a.ID] = o
	s.mu.Unlock()
	s.work.Go(func() {
		defer func() {
			o.leave(errOver)
			s.mu.Lock()
			delete(s.owners, a.ID)
			s.mu.Unlock()
			s.nudge()
		}()
		run(o)
	})
	return o
}

// loseOrphan settles an attempt whose owner is gone. What was only prepared was
// not sent; everything later is unknown. Its processes were ended before.
func loseOrphan(tx *journal.Tx, a coord.Attempt) error {
	// The attempt now belongs to this generation, or it could not be changed.
	err := tx.EditAttempt(a.ID, func(a coord.Attempt) coord.Attempt {
		a.Generation = tx.Generation()
		return a
	})
	if err != nil {
		return err
	}
	c := coord.Change{On: coord.AttemptNotSend, Cause: "worker_restart", Transient: true,
		Reason: "Signalbox ended before anything was sent"}
	if a.Sent != nil {
		c = coord.Change{On: coord.AttemptLose, Cause: "worker_restart", Activity: coord.MayRun,
			Reason: "Signalbox ended while the agent worked, so the outcome was not seen"}
		if !a.Route.Askable() {
			c.Activity = coord.Ended
			c.Evidence = []coord.Evidence{{Source: "signalbox", Fact: "the agent's processes were looked for and none is left", At: tx.Now()}}
		}
	}
	_, err = tx.MoveAttempt(a.ID, c)
	return err
}

// ended notes that nothing of an attempt of unknown outcome runs any more.
func ended(a coord.Attempt, at coord.Moment) coord.Attempt {
	if a.State != coord.AttemptUnknown || a.Activity != coord.MayRun {
		return a
	}
	a.Activity = coord.Ended
	return a.Note(coord.Evidence{Source: "signalbox", Fact: "the agent's processes are gone", At: at})
}

// frozenTask gives a task, also as planned and as frozen.
func frozenTask(v *journal.View, id coord.TaskID) (t coord.Task, planned coord.PlanTask, frozen coord.FrozenTask, err error) {
	if t, err = v.Task(coord.TaskRef{ID: id}); err != nil {
		return t, planned, frozen, err
	}
	j, err := v.Job(coord.JobRef{ID: t.Job})
	if err != nil {
		return t, planned, frozen, err
	}
	planned, frozen, err = frozenAs(j, t)
	return t, planned, frozen, err
}

// frozenAs is frozenTask where the job is known.
func frozenAs(j coord.Job, t coord.Task) (coord.PlanTask, coord.FrozenTask, error) {
	if j.Frozen == nil || t.Index >= len(j.Frozen.Tasks) || t.Index >= len(j.Frozen.Plan.Tasks) {
		return coord.PlanTask{}, coord.FrozenTask{}, coord.Errorf(coord.Internal, "job %d has no frozen task %s", j.Number, t.Key)
	}
	return j.Frozen.Plan.Tasks[t.Index], j.Frozen.Tasks[t.Index], nil
}

// Reconcile asks the provider what became of an unknown attempt, and records
// what it says. It never sends work.
func (s *Scheduler) Reconcile(ctx context.Context, ref coord.AttemptRef, by coord.Actor) (coord.Attempt, error) {
	var a coord.Attempt
	var w order
	err := s.Journal.View(ctx, func(v *journal.View) (err error) {
		if a, err = v.Attempt(ref); err != nil {
			return err
		}
		if a.State != coord.AttemptUnknown || a.Resolution != nil || a.Handle == nil {
			return coord.Errorf(coord.Conflict, "attempt %s is %s: only an unresolved unknown outcome is reconciled", a.ID, a.State)
		}
		w, err = orderOf(v, a)
		return err
	})
	if err == nil {
		err = w.check()
	}
	if err != nil {
		return a, shown(err)
	}
	adapter, ok := s.Adapters[a.Route]
	if !ok {
		return a, coord.Errorf(coord.Unsupported, "the route %s cannot be asked in this version", a.Route)
	}
	dir, clean, err := s.folder(w.Dir, string(a.ID)+"-reconcile")
	if err != nil {
		return a, err
	}
	defer clean()
	w.Dir = dir
	verdict, err := adapter.Reconcile(ctx, w.Work, *a.Handle, a.Receipt)
	if err != nil {
		return a, shown(err)
	}
	err = s.Journal.Update(ctx, func(tx *journal.Tx) (err error) {
		a, err = record(tx, a.ID, verdict, by)
		return err
	})
	return a, err
}

// shown gives why an agent could not be asked as an error that a door shows:
// the workspace is gone, or the agent does not start.
func shown(err error) error {
	if u, ok := errors.AsType[*provider.Unsent](err); ok {
		return &coord.Error{Code: coord.Unavailable, Message: "the agent cannot be asked: " + u.Message, Err: err}
	}
	return err
}

// record writes down what a provider said of an unknown attempt.
func record(tx *journal.Tx, id coord.AttemptID, v provider.Verdict, by coord.Actor) (coord.Attempt, error) {
	facts := []coord.Evidence{{Source: "signalbox", Fact: fmt.Sprintf("asked the provider (for %s): %s", who(by), v.Finding), At: tx.Now()}}
	for _, e := range v.Evidence {
		fact, _ := cutText(e, coord.MaxReason)
		facts = append(facts, coord.Evidence{Source: "provider", Fact: fact, At: tx.Now()})
	}
	err := tx.EditAttempt(id, func(a coord.Attempt) coord.Attempt {
		a = a.Note(facts...)
		if v.Activity == coord.Ended {
			a = ended(a, tx.Now())
		}
		return a
	})
	if err != nil {
		return coord.Attempt{}, err
	}
	switch {
	case v.Finding == provider.FoundEnded && v.End != nil:
		c := endChange(*v.End)
		if v.Text != "" && c.On == coord.AttemptComplete {
			a, err := tx.Attempt(coord.AttemptRef{ID: id})
			if err != nil {
				return a, err
			}
			c.Statement = statement(a.Agent, v.Text, 0, tx.Now())
		}
		return tx.MoveAttempt(id, c)
	case v.Finding == provider.Fenced:
		return tx.MoveAttempt(id, coord.Change{On: coord.AttemptNotSend, Cause: "fenced", Reason: "the provider refuses this attempt for good, so it never ran"})
	}
	return tx.Attempt(coord.AttemptRef{ID: id})
}

func who(a coord.Actor) string {
	if a.Name != "" {
		return a.Name
	}
	return a.Door
}
