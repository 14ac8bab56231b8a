package journal

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"signalbox/internal/coord"
)

// Artifact gives an artifact's row, or NotFound.
func (v *View) Artifact(id coord.ArtifactID) (coord.Artifact, error) {
	return find[coord.Artifact](v, "artifact "+string(id), `SELECT doc FROM artifacts WHERE id = $1`, id)
}

// Artifacts gives the artifacts of a job, oldest first.
func (v *View) Artifacts(job coord.JobID) ([]coord.Artifact, error) {
	return list[coord.Artifact](v, `SELECT doc FROM artifacts WHERE job = $1 ORDER BY id`, job)
}

// AllArtifacts gives every artifact whose bytes are kept.
func (v *View) AllArtifacts() ([]coord.Artifact, error) {
	return list[coord.Artifact](v, `SELECT doc FROM artifacts WHERE size > 0 ORDER BY id`)
}

// ArtifactSpace is what all kept artifacts take, in bytes, and what those of
// each job take that is not settled. It is asked at each start, so the history is
// summed from an index alone.
func (v *View) ArtifactSpace() (total int64, open map[coord.JobID]int64, err error) {
	if total, err = scalar[int64](v, `SELECT COALESCE(SUM(size), 0) FROM artifacts`); err != nil {
		return 0, nil, err
	}
	rows, err := v.q.QueryContext(v.ctx, `SELECT job, SUM(size) FROM artifacts WHERE job IN (SELECT id FROM jobs WHERE state IN ('running', 'needs_attention')) GROUP BY job HAVING SUM(size) > 0`)
	if err != nil {
		return 0, nil, fmt.Errorf("journal: read: %w", err)
	}
	defer rows.Close()
	open = map[coord.JobID]int64{}
	for rows.Next() {
		var job coord.JobID
		var size int64
		if err := rows.Scan(&job, &size); err != nil {
			return 0, nil, fmt.Errorf("journal: read: %w", err)
		}
		open[job] = size
	}
	if err := rows.Err(); err != nil {
		return 0, nil, fmt.Errorf("journal: read: %w", err)
	}
	return total, open, nil
}

// AddArtifact stores an artifact's row and gives it its id. The bytes are
// durable before.
func (tx *Tx) AddArtifact(a coord.Artifact) (coord.Artifact, error) {
	a.ID, a.At = coord.ArtifactID(tx.newID(coord.ArtifactPrefix)), tx.Now()
	doc, err := encode(tx, a)
	if err != nil {
		return a, err
	}
	if err := tx.put(`INSERT INTO artifacts (id, job, attempt, sha256, size, doc) VALUES ($1, $2, $3, $4, $5, $6)`,
		a.ID, a.Job, a.Attempt, a.SHA256, a.Size, doc); err != nil {
		return a, err
	}
	return a, tx.Tell(coord.Event{Kind: coord.ArtifactKept, Job: a.Job, Task: a.Task, Attempt: a.Attempt, Agent: a.Agent}, a)
}

// Credential gives the credential whose value has this SHA-256 in hex, or
// NotFound; revoked ones are not found.
func (v *View) Credential(hash string) (coord.Credential, error) {
	return find[coord.Credential](v, "the credential", `SELECT doc FROM credentials WHERE hash = $1 AND revoked = 0`, hash)
}

// Credentials gives every credential that was not revoked, oldest first.
func (v *View) Credentials() ([]coord.Credential, error) {
	return list[coord.Credential](v, `SELECT doc FROM credentials WHERE revoked = 0 ORDER BY id`)
}

// CredentialEnded reports whether a credential was revoked, or is that of a
// browser session which was made before t.
func (v *View) CredentialEnded(id coord.CredentialID, t time.Time) (bool, error) {
	c, err := find[coord.Credential](v, "", `SELECT doc FROM credentials WHERE id = $1`, id)
	if coord.CodeOf(err) == coord.NotFound {
		return false, nil // it never began
	}
	return c.Revoked != nil || c.Kind == "session" && c.Made.Wall.Before(t), err
}

// AddCredential stores a credential and gives it its id.
func (tx *Tx) AddCredential(c coord.Credential, by *coord.Actor) (coord.Credential, error) {
	c.ID, c.Made = coord.CredentialID(tx.newID(coord.CredentialPrefix)), tx.Now()
	doc, err := json.Marshal(c)
	if err != nil {
		return c, err
	}
	if err := tx.put(`INSERT INTO credentials (id, hash, revoked, doc) VALUES ($1, $2, 0, $3)`, c.ID, c.Hash, string(doc)); err != nil {
		return c, err
	}
	return c, tx.tellCredential(c, by)
}

// RevokeCredential ends a credential for good, or is NotFound.
func (tx *Tx) RevokeCredential(id coord.CredentialID, by coord.Actor) error {
	c, err := find[coord.Credential](&tx.View, "credential "+string(id), `SELECT doc FROM credentials WHERE id = $1 AND revoked = 0`, id)
	if err != nil {
		return err
	}
	now := tx.Now()
	c.Revoked = &now
	doc, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := tx.put(`UPDATE credentials SET revoked = 1, doc = $2 WHERE id = $1`, id, string(doc)); err != nil {
		return err
	}
	return tx.tellCredential(c, &by)
}

func (tx *Tx) tellCredential(c coord.Credential, by *coord.Actor) error {
	return tx.Tell(coord.Event{Kind: coord.CredentialMade, By: by}, struct {
		ID      coord.CredentialID `json:"id"`
		Name    string             `json:"name"`
		Role    coord.Role         `json:"role"`
		Kind    string             `json:"kind"`
		Revoked bool               `json:"revoked,omitempty"`
	}{c.ID, c.Name, c.Role, c.Kind, c.Revoked != nil})
}

// Paused reports whether the operator stopped admission.
func (v *View) Paused() (bool, error) {
	p, err := find[bool](v, "", `SELECT doc FROM settings WHERE name = 'paused'`)
	if coord.CodeOf(err) == coord.NotFound {
		return false, nil
	}
	return p, err
}

// SetPaused stops or opens admission.
func (tx *Tx) SetPaused(paused bool, by coord.Actor) error {
	doc, err := json.Marshal(paused)
	if err != nil {
		return err
	}
	if err := tx.put(`INSERT INTO settings (name, doc) VALUES ('paused', $1)
		ON CONFLICT (name) DO UPDATE SET doc = excluded.doc`, string(doc)); err != nil {
		return err
	}
	return tx.Tell(coord.Event{Kind: coord.AdmissionMoved, By: &by}, struct {
		Paused bool `json:"paused"`
	}{paused})
}

// Process is a child process as recorded before it was let go.
type Process struct {
	Generation int64           `json:"generation"`
	Identity   json.RawMessage `json:"identity"`
}

// Processes gives the recorded processes that are not known to have ended, of
// generations older than before.
func (v *View) Processes(before int64) ([]Process, error) {
	return list[Process](v, `SELECT doc FROM processes WHERE generation < $1 ORDER BY id`, before)
}

// AddProcess records a process before it is let go.
func (tx *Tx) AddProcess(identity json.RawMessage) error {
	doc, err := json.Marshal(Process{tx.Generation(), identity})
	if err != nil {
		return err
	}
	return tx.put(`INSERT INTO processes (id, generation, doc) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING`, string(identity), tx.Generation(), string(doc))
}

// EndProcess forgets a process that is known to have ended.
func (tx *Tx) EndProcess(identity json.RawMessage) error {
	return tx.put(`DELETE FROM processes WHERE id = $1`, string(identity))
}

// sortJobs orders jobs by number, newest first.
func sortJobs(jobs []coord.Job) {
	slices.SortFunc(jobs, func(a, b coord.Job) int { return int(b.Number - a.Number) })
}

// redacted is v as it will be kept: with its secrets replaced.
func redacted[T any](tx *Tx, v T) (T, error) {
	doc, err := encode(tx, v)
	if err != nil {
		return v, err
	}
	var kept T
	err = json.Unmarshal([]byte(doc), &kept)
	return kept, err
}
