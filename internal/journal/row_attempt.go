package journal

import (
	"fmt"
	"math"
	"time"

	"signalbox/internal/coord"
)

// Attempt gives an attempt, or NotFound.
func (v *View) Attempt(ref coord.AttemptRef) (coord.Attempt, error) {
	if ref.ID != "" {
		return find[coord.Attempt](v, "attempt "+string(ref.ID)+": it was never made, or was removed by retention, which keeps the outcome (signalbox job result)", `SELECT doc FROM attempts WHERE id = $1`, ref.ID)
	}
	t, err := v.Task(ref.Task)
	if err != nil {
		return coord.Attempt{}, err
	}
	n := ref.Number
	if n == 0 {
		n = t.Attempts
	}
	if n == 0 {
		return coord.Attempt{}, coord.Errorf(coord.NotFound, "task %s has no attempt yet", t.Key)
	}
	a, err := find[coord.Attempt](v, fmt.Sprintf("attempt %d of task %s", n, t.Key), `SELECT doc FROM attempts WHERE task = $1 AND number = $2`, t.ID, n)
	if coord.CodeOf(err) == coord.NotFound && n <= t.Attempts {
		return a, v.removed(t, n)
	}
	return a, err
}

// removed says of an attempt that there was that its detail was not kept longer.
func (v *View) removed(t coord.Task, number int) error {
	j, err := v.JobHead(coord.JobRef{ID: t.Job})
	if err != nil {
		return err
	}
	end := ""
	if j.Ended != nil {
		end = " on " + j.Ended.Wall.UTC().Format(time.DateOnly)
	}
	return coord.Errorf(coord.NotFound, "what was recorded of attempt %d of task %s was removed by retention %d days after its job had ended%s: signalbox job result %d still tells the outcome",
		number, t.Key, coord.KeepDetail/(24*time.Hour), end, j.Number)
}

// Attempts gives the attempts of a job, oldest first.
func (v *View) Attempts(job coord.JobID) ([]coord.Attempt, error) {
	return list[coord.Attempt](v, `SELECT doc FROM attempts WHERE job = $1 ORDER BY id`, job)
}

// OpenAttempts gives every attempt that is live, or unknown and unresolved.
func (v *View) OpenAttempts() ([]coord.Attempt, error) {
	return list[coord.Attempt](v, openAttempts)
}

const openAttempts = `SELECT doc FROM attempts WHERE open = 1 ORDER BY id`

// AddAttempt stores a new attempt of the task, which prepares, and takes its
// leases. It is a Conflict when the task is not ready or a lease is taken.
func (tx *Tx) AddAttempt(t coord.Task, route coord.Route, host string) (coord.Attempt, error) {
	t, err := t.Apply(coord.TaskStart, "", tx.Now())
	if err != nil {
		return coord.Attempt{}, err
	}
	t.Attempts++
	a := coord.Attempt{
		ID: coord.AttemptID(tx.newID(coord.AttemptPrefix)), Job: t.Job, Task: t.ID, Key: t.Key, Number: t.Attempts,
		Agent: t.Agent, Route: route, State: coord.Attempts.Initial, Generation: tx.Generation(),
		Cancel: coord.Cancellation{State: coord.Cancellations.Initial}, Made: tx.Now(), Observed: tx.Now(),
	}
	t.Attempt = a.ID
	if err := tx.Acquire("run", a.ID, coord.MaxRunning); err != nil {
		return a, err
	}
	if err := tx.Acquire("agent:"+string(t.Agent), a.ID, 1); err != nil {
		return a, err
	}
	if t.Writes {
		if err := tx.Acquire("writer:"+host, a.ID, 1); err != nil {
			return a, err
		}
	}
	if a, err = a.Apply(coord.Change{On: coord.AttemptPrepare, At: tx.Now(), Generation: tx.Generation()}); err != nil {
		return a, err
	}
	doc, err := encode(tx, a)
	if err != nil {
		return a, err
	}
	if err := tx.put(`INSERT INTO attempts (id, job, task, number, state, open, doc) VALUES ($1, $2, $3, $4, $5, 1, $6)`,
		a.ID, a.Job, a.Task, a.Number, a.State, doc); err != nil {
		return a, err
	}
	if err := tx.putTask(t); err != nil {
		return a, err
	}
	return a, tx.tellAttempt(a, nil)
}

// MoveAttempt applies a change to an attempt and all that follows from it: the
// requests it loses, the leases it gives back, its task, its job.
func (tx *Tx) MoveAttempt(id coord.AttemptID, c coord.Change) (coord.Attempt, error) {
	a, err := tx.Attempt(coord.AttemptRef{ID: id})
	if err != nil {
		return a, err
	}
	c.At, c.Generation = tx.Now(), tx.Generation()
	unknown := a.State == coord.AttemptUnknown
	if a, err = a.Apply(c); err != nil {
		return a, err
	}
	if unknown && a.Live() {
		// It was heard of again, so it runs and takes a slot, be it one too many.
		if err := tx.Acquire("run", a.ID, math.MaxInt); err != nil {
			return a, err
		}
	}
	return a, tx.settle(a, nil)
}

// CancelAttempt records that a stop was asked for and withdraws the attempt's
// open requests. Before the intent to send, that is the end of it.
func (tx *Tx) CancelAttempt(id coord.AttemptID, cause coord.CancelCause, by coord.Actor) (coord.Attempt, error) {
	a, err := tx.Attempt(coord.AttemptRef{ID: id})
	if err != nil {
		return a, err
	}
	if a, err = a.RequestCancel(cause, by, tx.Now()); err != nil {
		return a, err
	}
	if err := tx.loseRequests(a, "the attempt is being cancelled"); err != nil {
		return a, err
	}
	if a.Sent == nil && a.Generation == tx.Generation() {
		a, err = a.Apply(coord.Change{On: coord.AttemptCancel, At: tx.Now(), Generation: tx.Generation(),
			Cause: string(cause), Reason: "cancelled before anything was sent"})
		if err != nil {
			return a, err
		}
	}
	return a, tx.settle(a, &by)
}

// DeclineCancel records that the attempt's route cannot cancel; the attempt is
// then unknown and may run.
func (tx *Tx) DeclineCancel(id coord.AttemptID) error {
	a, err := tx.Attempt(coord.AttemptRef{ID: id})
	if err != nil {
		return err
	}
	if a, err = a.DeclineCancel(tx.Now()); err != nil {
		return err
	}
	a, err = a.Apply(coord.Change{On: coord.AttemptLose, At: tx.Now(), Generation: tx.Generation(), Activity: coord.MayRun,
		Cause: "cancel_unsupported", Reason: "the agent cannot be asked to stop; it may still run"})
	if err != nil {
		return err
	}
	return tx.settle(a, nil)
}

// ResolveAttempt records the operator's statement about an unknown attempt.
func (tx *Tx) ResolveAttempt(id coord.AttemptID, r coord.Resolution) (coord.Attempt, error) {
	a, err := tx.Attempt(coord.AttemptRef{ID: id})
	if err != nil {
		return a, err
	}
	r.At = tx.Now()
	if a, err = a.Resolve(r); err != nil {
		return a, err
	}
	return a, tx.settle(a, &r.By)
}

// EditAttempt stores what edit makes of the attempt: facts that move no state,
// such as usage and evidence.
func (tx *Tx) EditAttempt(id coord.AttemptID, edit func(coord.Attempt) coord.Attempt) error {
	a, err := tx.Attempt(coord.AttemptRef{ID: id})
	if err != nil {
		return err
	}
	a = edit(a)
	return tx.settle(a, nil)
}

// settle stores an attempt and everything that follows from its state.
func (tx *Tx) settle(a coord.Attempt, by *coord.Actor) error {
	if !a.Live() {
		if err := tx.loseRequests(a, "the attempt is "+string(a.State)); err != nil {
			return err
		}
		if err := tx.seal(a); err != nil {
			return err
		}
	}
	switch {
	case !a.HoldsLeases():
		if err := tx.Release(a.ID); err != nil {
			return err
		}
	case a.State == coord.AttemptUnknown:
		// An unknown frees its slot; the agent and the workspace stay taken
		// while it may run.
		if err := tx.ReleaseOne("run", a.ID); err != nil {
			return err
		}
	}
	if err := tx.putAttempt(a, by); err != nil {
		return err
	}
	t, err := tx.Task(coord.TaskRef{ID: a.Task})
	if err != nil {
		return err
	}
	on, reason := t.Follow(a)
	if on == "" || t.Attempt != a.ID {
		return nil
	}
	return tx.moveTask(t, on, reason)
}

func (tx *Tx) putAttempt(a coord.Attempt, by *coord.Actor) error {
	doc, err := encode(tx, a)
	if err != nil {
		return err
	}
	open := a.Live() || a.State == coord.AttemptUnknown && a.Resolution == nil
	if err := tx.putMoved(
		`UPDATE attempts SET state = $2, doc = $4 WHERE id = $1 AND open = $3`,
		`UPDATE attempts SET state = $2, open = $3, doc = $4 WHERE id = $1`, a.ID, a.State, flag(open), doc); err != nil {
		return err
	}
	return tx.tellAttempt(a, by)
}

func (tx *Tx) tellAttempt(a coord.Attempt, by *coord.Actor) error {
	return tx.Tell(coord.Event{Kind: coord.AttemptChanged, Job: a.Job, Task: a.Task, Attempt: a.ID, Agent: a.Agent, By: by}, struct {
		Key        string               `json:"key"`
		Number     int                  `json:"number"`
		State      coord.AttemptState   `json:"state"`
		Cancel     coord.CancelState    `json:"cancel"`
		Handed     coord.HandedOver     `json:"handed,omitempty"`
		Receipt    *coord.Receipt       `json:"receipt,omitempty"`
		Activity   coord.ActivityState  `json:"activity,omitempty"`
		Cause      string               `json:"cause,omitempty"`
		Reason     string               `json:"reason,omitempty"`
		Reconciled bool                 `json:"reconciled,omitempty"`
		Resolved   coord.ResolutionKind `json:"resolved,omitempty"`
		Usage      coord.Usage          `json:"usage,omitzero"`
	}{a.Key, a.Number, a.State, a.Cancel.State, a.Handed, a.Receipt, a.Activity, a.Cause, a.Reason, a.Reconciled, resolved(a), a.Usage})
}

func resolved(a coord.Attempt) coord.ResolutionKind {
	if a.Resolution == nil {
		return ""
	}
	return a.Resolution.How
}
