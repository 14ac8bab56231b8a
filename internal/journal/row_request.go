package journal

import (
	"fmt"

	"signalbox/internal/coord"
)

// Request gives a request, or NotFound.
func (v *View) Request(ref coord.RequestRef) (coord.Request, error) {
	if ref.ID != "" {
		return find[coord.Request](v, "request "+string(ref.ID), `SELECT doc FROM requests WHERE id = $1`, ref.ID)
	}
	return find[coord.Request](v, fmt.Sprintf("request r%d", ref.Number), `SELECT doc FROM requests WHERE number = $1`, ref.Number)
}

// OpenRequests gives the requests that wait for a decision, oldest first.
func (v *View) OpenRequests() ([]coord.Request, error) {
	return list[coord.Request](v, `SELECT doc FROM requests WHERE pending = 1 AND decision = 'open' ORDER BY number`)
}

// PendingRequests gives the requests that wait for a decision, or whose answer
// still waits to be delivered, oldest first.
func (v *View) PendingRequests() ([]coord.Request, error) {
	return list[coord.Request](v, pendingRequests)
}

const pendingRequests = `SELECT doc FROM requests WHERE pending = 1 ORDER BY number`

// Requests gives up to limit requests, newest first, with numbers below before
// (0: from the newest).
func (v *View) Requests(before int64, limit int) ([]coord.Request, error) {
	if before <= 0 {
		before = 1 << 62
	}
	return list[coord.Request](v, `SELECT doc FROM requests WHERE number < $1 ORDER BY number DESC LIMIT $2`, before, limit)
}

// JobRequests gives the requests of a job, oldest first.
func (v *View) JobRequests(job coord.JobID) ([]coord.Request, error) {
	return list[coord.Request](v, `SELECT doc FROM requests WHERE job = $1 ORDER BY number`, job)
}

func (v *View) pendingOf(a coord.AttemptID) ([]coord.Request, error) {
	return list[coord.Request](v, `SELECT doc FROM requests WHERE attempt = $1 AND pending = 1 ORDER BY number`, a)
}

// AddRequest stores what an attempt asks, gives it its id, number and digest,
// and lets the attempt wait. When the attempt is being cancelled the request is
// born withdrawn.
func (tx *Tx) AddRequest(r coord.Request) (coord.Request, error) {
	a, err := tx.Attempt(coord.AttemptRef{ID: r.Attempt})
	if err != nil {
		return r, err
	}
	n, err := tx.nextNumber(requestNumbers)
	if err != nil {
		return r, err
	}
	r.ID, r.Number, r.Opened = coord.RequestID(tx.newID(coord.RequestPrefix)), n, tx.Now()
	r.Job, r.Task, r.Key, r.Agent = a.Job, a.Task, a.Key, a.Agent
	r.Decision, r.Effect, r.Delivery = coord.Decisions.Initial, coord.Effects.Initial, coord.Deliveries.Initial
	// The digest covers what is kept and shown, so secrets go first.
	if r, err = redacted(tx, r); err != nil {
		return r, err
	}
	r.Digest = r.ComputeDigest()
	if a.Cancel.State != coord.CancelNone || !a.Live() {
		r = r.Lose("the attempt was being cancelled when this was asked", tx.Now())
	}
	if err := tx.put(`INSERT INTO requests (id, number, job, attempt, decision, pending, doc) VALUES ($1, $2, $3, $4, $5, 1, '{}')`,
		r.ID, r.Number, r.Job, r.Attempt, r.Decision); err != nil {
		return r, err
	}
	if err := tx.PutRequest(r, nil); err != nil {
		return r, err
	}
	if r.Decision == coord.DecisionOpen && a.State != coord.AttemptWaiting {
		_, err = tx.MoveAttempt(a.ID, coord.Change{On: coord.AttemptAsk})
	}
	return r, err
}

// PutRequest stores a request and tells of it.
func (tx *Tx) PutRequest(r coord.Request, by *coord.Actor) error {
	doc, err := encode(tx, r)
	if err != nil {
		return err
	}
	pending := r.Decision == coord.DecisionOpen || r.Undone() || r.Effect == coord.EffectApplying || r.Undelivered() || r.Delivery == coord.DeliveryDelivering
	if err := tx.put(`UPDATE requests SET decision = $2, pending = $3, doc = $4 WHERE id = $1`, r.ID, r.Decision, flag(pending), doc); err != nil {
		return err
	}
	return tx.Tell(coord.Event{Kind: coord.RequestChanged, Job: r.Job, Task: r.Task, Attempt: r.Attempt, Request: r.ID, Agent: r.Agent, By: by}, struct {
		Number   int64               `json:"number"`
		Key      string              `json:"key"`
		Kind     coord.RequestKind   `json:"kind"`
		Title    string              `json:"title"`
		Digest   string              `json:"digest"`
		Decision coord.DecisionState `json:"decision"`
		Effect   coord.EffectState   `json:"effect"`
		Delivery coord.DeliveryState `json:"delivery"`
		Reason   string              `json:"reason,omitempty"`
	}{r.Number, r.Key, r.Kind, r.Content.Title, r.Digest, r.Decision, r.Effect, r.Delivery, decidedReason(r)})
}

func decidedReason(r coord.Request) string {
	if r.Decided == nil {
		return ""
	}
	return r.Decided.Reason
}

// DecideRequest applies the first decision; the attempt works again when it was
// the last open request.
func (tx *Tx) DecideRequest(id coord.RequestID, c coord.Choice) (coord.Request, error) {
	r, err := tx.Request(coord.RequestRef{ID: id})
	if err != nil {
		return r, err
	}
	c.At = tx.Now()
	if r, err = r.Decide(c); err != nil {
		return r, err
	}
	if err := tx.PutRequest(r, &c.By); err != nil {
		return r, err
	}
	return r, tx.resume(r.Attempt)
}

// resume lets a waiting attempt work again when none of its requests is open.
func (tx *Tx) resume(id coord.AttemptID) error {
	a, err := tx.Attempt(coord.AttemptRef{ID: id})
	if err != nil || a.State != coord.AttemptWaiting {
		return err
	}
	pending, err := tx.pendingOf(id)
	if err != nil {
		return err
	}
	for _, r := range pending {
		if r.Decision == coord.DecisionOpen {
			return nil
		}
	}
	_, err = tx.MoveAttempt(id, coord.Change{On: coord.AttemptProgress})
	return err
}

// loseRequests settles every pending request of an attempt that is over, lost
// or being cancelled.
func (tx *Tx) loseRequests(a coord.Attempt, reason string) error {
	pending, err := tx.pendingOf(a.ID)
	if err != nil {
		return err
	}
	for _, r := range pending {
		if r.Decision == coord.DecisionOpen && a.Cancel.Cause == coord.CauseDeadline {
			if r, err = r.Decide(coord.Choice{On: coord.DecisionExpire, Reason: "the deadline passed", By: coord.WorkerActor, At: tx.Now()}); err != nil {
				return err
			}
		}
		if err := tx.PutRequest(r.Lose(reason, tx.Now()), nil); err != nil {
			return err
		}
	}
	return nil
}
