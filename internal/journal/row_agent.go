package journal

import (
	"github.com/oklog/ulid/v2"

	"signalbox/internal/coord"
)

// Agent gives the directory's entry, or NotFound.
func (v *View) Agent(id coord.AgentID) (coord.Agent, error) {
	return find[coord.Agent](v, "agent "+string(id), `SELECT doc FROM agents WHERE id = $1`, id)
}

// Agents gives every entry that was not removed, by id.
func (v *View) Agents() ([]coord.Agent, error) {
	return list[coord.Agent](v, `SELECT doc FROM agents WHERE removed = 0 ORDER BY id`)
}

// AgentRevision gives one revision of an agent's configuration, or NotFound.
func (v *View) AgentRevision(id coord.AgentID, revision int) (coord.AgentConfig, error) {
	return find[coord.AgentConfig](v, "that revision of agent "+string(id),
		`SELECT doc FROM agent_revisions WHERE agent = $1 AND revision = $2`, id, revision)
}

// PutAgent stores the entry and the revision of its configuration that it
// names, and tells of it.
func (tx *Tx) PutAgent(a coord.Agent, by coord.Actor) error {
	a.Changed = tx.Now()
	doc, err := encode(tx, a)
	if err != nil {
		return err
	}
	if err := tx.put(`INSERT INTO agents (id, removed, doc) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET removed = excluded.removed, doc = excluded.doc`, a.ID, flag(a.Removed), doc); err != nil {
		return err
	}
	config, err := encode(tx, a.Config)
	if err != nil {
		return err
	}
	if err := tx.put(`INSERT INTO agent_revisions (agent, revision, doc) VALUES ($1, $2, $3)
		ON CONFLICT (agent, revision) DO NOTHING`, a.ID, a.Revision, config); err != nil {
		return err
	}
	return tx.Tell(coord.Event{Kind: coord.AgentChanged, Agent: a.ID, By: &by}, struct {
		Name     string `json:"name"`
		Revision int    `json:"revision"`
		Enabled  bool   `json:"enabled"`
		Removed  bool   `json:"removed,omitempty"`
	}{a.Name, a.Revision, a.Enabled, a.Removed})
}

// PutInspection stores what was observed, if the agent still has the revision
// that was inspected; otherwise it is Stale.
func (tx *Tx) PutInspection(i coord.Inspection) error {
	a, err := tx.Agent(i.Agent)
	if err != nil {
		return err
	}
	if a.Revision != i.Revision {
		return coord.Errorf(coord.Stale, "agent %s changed while it was inspected; inspect it again", i.Agent)
	}
	a.Inspection = &i
	doc, err := encode(tx, a)
	if err != nil {
		return err
	}
	if err := tx.put(`UPDATE agents SET doc = $2 WHERE id = $1`, a.ID, doc); err != nil {
		return err
	}
	return tx.Tell(coord.Event{Kind: coord.AgentInspected, Agent: a.ID}, struct {
		Revision int             `json:"revision"`
		Auth     coord.AuthState `json:"auth"`
		Problem  string          `json:"problem,omitempty"`
	}{i.Revision, i.Auth, i.Problem})
}

// find is get with the thing named in the NotFound error.
func find[T any](v *View, what, query string, args ...any) (T, error) {
	out, err := get[T](v, query, args...)
	if coord.CodeOf(err) == coord.NotFound {
		return out, coord.Errorf(coord.NotFound, "there is no %s", what)
	}
	return out, err
}

// put runs one writing statement for its effect.
func (tx *Tx) put(query string, args ...any) error {
	_, err := tx.exec(query, args...)
	return err
}

// putMoved runs stay, which leaves the columns of indexes alone, and only when
// it finds them changed, move, with the same arguments. SQLite writes every
// index of a column that it is told to set, whether the value is new or not, and
// most changes of a row move it nowhere.
func (tx *Tx) putMoved(stay, move string, args ...any) error {
	res, err := tx.exec(stay, args...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return tx.put(move, args...)
}

// next gives the one number of a query.
func (tx *Tx) next(query string) (int64, error) { return scalar[int64](&tx.View, query) }

// newID makes a typed id: prefix and a ULID of the present moment, greater than
// every one that this owner made before, whatever the clock does.
func (tx *Tx) newID(prefix string) string {
	tx.j.newest = max(tx.j.newest, ulid.Timestamp(tx.Now().Wall))
	return prefix + ulid.MustNew(tx.j.newest, tx.j.entropy).String()
}

// flag is a truth value as the database keeps it.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
