package journal

import (
	"fmt"
	"slices"

	"signalbox/internal/coord"
)

var changeSetNumbers = numbered{"change_sets", "last_change_set"}

const pendingChangeSets = `SELECT doc FROM change_sets WHERE pending = 1 ORDER BY number`

// ChangeSet gives a change set, or NotFound.
func (v *View) ChangeSet(ref coord.ChangeSetRef) (coord.ChangeSet, error) {
	if ref.ID != "" {
		return find[coord.ChangeSet](v, "change set "+string(ref.ID), `SELECT doc FROM change_sets WHERE id = $1`, ref.ID)
	}
	return find[coord.ChangeSet](v, fmt.Sprintf("change set c%d", ref.Number), `SELECT doc FROM change_sets WHERE number = $1`, ref.Number)
}

// ChangeSets gives up to limit change sets, newest first, with numbers below
// before (0: from the newest).
func (v *View) ChangeSets(before int64, limit int) ([]coord.ChangeSet, error) {
	if before <= 0 {
		before = 1 << 62
	}
	return list[coord.ChangeSet](v, `SELECT doc FROM change_sets WHERE number < $1 ORDER BY number DESC LIMIT $2`, before, limit)
}

// PendingChangeSets gives those that wait for a decision or have not landed
// yet, oldest first.
func (v *View) PendingChangeSets() ([]coord.ChangeSet, error) {
	return list[coord.ChangeSet](v, pendingChangeSets)
}

// JobChangeSets gives the change sets of a job, oldest first.
func (v *View) JobChangeSets(job coord.JobID) ([]coord.ChangeSet, error) {
	return list[coord.ChangeSet](v, `SELECT doc FROM change_sets WHERE job = $1 ORDER BY number`, job)
}

// Staged gives what a running attempt wrote so far, or NotFound.
func (v *View) Staged(id coord.AttemptID) (coord.ChangeSet, error) {
	return find[coord.ChangeSet](v, "staged change of attempt "+string(id), `SELECT doc FROM staged WHERE attempt = $1`, id)
}

// ChangedContents gives the SHA-256, in hex, of every content that a change set
// or a staged change names. Others in the store of contents are left over.
func (v *View) ChangedContents() (map[string]bool, error) {
	out := map[string]bool{}
	for _, query := range []string{`SELECT doc FROM change_sets`, `SELECT doc FROM staged`} {
		sets, err := list[coord.ChangeSet](v, query)
		if err != nil {
			return nil, err
		}
		for _, c := range sets {
			for _, f := range c.Files {
				out[f.Before], out[f.After] = true, true
			}
		}
	}
	return out, nil
}

// Stage keeps what a live attempt wrote so far; contents are durable before. It
// is a Conflict when the attempt is over or being cancelled, and Invalid when a
// path looks like a secret, which is never kept.
func (tx *Tx) Stage(c coord.ChangeSet) error {
	a, err := tx.Attempt(coord.AttemptRef{ID: c.Attempt})
	if err != nil {
		return err
	}
	if !a.Live() || a.Cancel.State != coord.CancelNone {
		return coord.Errorf(coord.Conflict, "the attempt no longer changes files")
	}
	c.Job = a.Job
	kept, err := redacted(tx, c)
	if err != nil {
		return err
	}
	if !slices.Equal(kept.Files, c.Files) {
		return coord.Errorf(coord.Invalid, "a path among the changes looks like a secret, so they cannot be kept exactly: delete that file, or rename it")
	}
	doc, err := encode(tx, kept)
	if err != nil {
		return err
	}
	return tx.put(`INSERT INTO staged (attempt, job, doc) VALUES ($1, $2, $3) ON CONFLICT (attempt) DO UPDATE SET doc = excluded.doc`, a.ID, a.Job, doc)
}

// seal makes a change set of what an attempt that is over has staged, however
// it ended: what it wrote is there to be looked at.
func (tx *Tx) seal(a coord.Attempt) error {
	c, err := tx.Staged(a.ID)
	switch {
	case coord.CodeOf(err) == coord.NotFound:
		return nil
	case err != nil:
		return err
	}
	if err := tx.put(`DELETE FROM staged WHERE attempt = $1`, a.ID); err != nil {
		return err
	}
	if len(c.Files) == 0 {
		return nil
	}
	n, err := tx.nextNumber(changeSetNumbers)
	if err != nil {
		return err
	}
	c.ID, c.Number, c.Opened = coord.ChangeSetID(tx.newID(coord.ChangeSetPrefix)), n, tx.Now()
	c.Job, c.Task, c.Key, c.Attempt, c.Agent = a.Job, a.Task, a.Key, a.ID, a.Agent
	c.State = coord.ChangeSets.Initial
	c.Digest = c.ComputeDigest()
	if err := tx.put(`INSERT INTO change_sets (id, number, job, attempt, state, pending, doc) VALUES ($1, $2, $3, $4, $5, 1, '{}')`,
		c.ID, c.Number, c.Job, c.Attempt, c.State); err != nil {
		return err
	}
	return tx.PutChangeSet(c, nil)
}

// PutChangeSet stores a change set and tells of it.
func (tx *Tx) PutChangeSet(c coord.ChangeSet, by *coord.Actor) error {
	doc, err := encode(tx, c)
	if err != nil {
		return err
	}
	pending := !coord.ChangeSets.Final(c.State)
	if err := tx.put(`UPDATE change_sets SET state = $2, pending = $3, doc = $4 WHERE id = $1`, c.ID, c.State, flag(pending), doc); err != nil {
		return err
	}
	return tx.Tell(coord.Event{Kind: coord.ChangesMoved, Job: c.Job, Task: c.Task, Attempt: c.Attempt, Agent: c.Agent, By: by}, struct {
		ChangeSet coord.ChangeSetID    `json:"change_set"`
		Number    int64                `json:"number"`
		Key       string               `json:"key"`
		Digest    string               `json:"digest"`
		State     coord.ChangeSetState `json:"state"`
		Files     int                  `json:"files"`
		Comment   string               `json:"comment,omitempty"`
		Steps     []coord.LandingStep  `json:"steps,omitempty"`
	}{c.ID, c.Number, c.Key, c.Digest, c.State, len(c.Files), c.Comment, c.Steps})
}

// DecideChangeSet applies the first decision.
func (tx *Tx) DecideChangeSet(id coord.ChangeSetID, r coord.Review) (coord.ChangeSet, error) {
	c, err := tx.ChangeSet(coord.ChangeSetRef{ID: id})
	if err != nil {
		return c, err
	}
	r.At = tx.Now()
	if c, err = c.Decide(r); err != nil {
		return c, err
	}
	return c, tx.PutChangeSet(c, &r.By)
}
