package directory

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
)

// Adapters are the ways to agents that this process has.
type Adapters map[coord.Route]provider.Adapter

// Options say where a directory is and what it may use. All but Presets are
// required.
type Options struct {
	// Host names the machine that its local agents run on.
	Host string
	// Scratch is an existing folder in which inspections get an empty one each.
	Scratch string
	Logger  *slog.Logger
	// Presets are what Discover looks for.
	Presets []Preset
	// Credentials tells of the credentials that a peer may be registered with.
	Credentials Credentials
}

// Credentials is what the operator bound to origins on the network. Values are
// none of the directory's business.
type Credentials interface {
	// Bound is an error that says what to do, unless the credential is bound to
	// exactly the origin.
	Bound(name, origin string) error
}

// Directory is the list of agents. It is safe for concurrent use.
type Directory struct {
	journal  *journal.Journal
	adapters Adapters
	options  Options

	mu sync.Mutex
	// turns holds a token for each agent that was inspected: whoever has it may
	// inspect.
	turns map[coord.AgentID]chan struct{}
}

// New makes the directory that the journal holds.
func New(j *journal.Journal, a Adapters, o Options) *Directory {
	return &Directory{journal: j, adapters: a, options: o, turns: map[coord.AgentID]chan struct{}{}}
}

// List gives every agent that was not removed, by id.
func (d *Directory) List(ctx context.Context) ([]coord.Agent, error) {
	var out []coord.Agent
	err := d.journal.View(ctx, func(v *journal.View) (err error) {
		out, err = v.Agents()
		return err
	})
	return out, err
}

// Get gives one agent, or NotFound. A removed one is found, so that history
// can be explained.
func (d *Directory) Get(ctx context.Context, id coord.AgentID) (coord.Agent, error) {
	var out coord.Agent
	err := d.journal.View(ctx, func(v *journal.View) (err error) {
		out, err = v.Agent(id)
		return err
	})
	return out, err
}

// Add registers an agent. Every fault of id and configuration is told at once
// as Invalid. An id in use is a Conflict; that of a removed agent may be used
// again, and its revisions go on counting.
func (d *Directory) Add(ctx context.Context, id coord.AgentID, cfg coord.AgentConfig, by coord.Actor) (coord.Agent, error) {
	faults := d.faults(cfg)
	if !coord.ValidAgentID(string(id)) {
		faults = append([]coord.Field{{Pointer: "/id", Message: "1 to 64 of a-z, 0-9, '.', '_', '-', starting with a letter or digit"}}, faults...)
	}
	faults = append(faults, executableFaults(cfg.Executable)...)
	if err := coord.InvalidFields("the agent cannot be registered", faults); err != nil {
		return coord.Agent{}, err
	}
	var a coord.Agent
	err := d.journal.Update(ctx, func(tx *journal.Tx) error {
		old, err := tx.Agent(id)
		switch {
		case err == nil && !old.Removed:
			return coord.Errorf(coord.Conflict, "there is an agent %s already: change it with signalbox agent edit %s, or take another id", id, id)
		case err != nil && coord.CodeOf(err) != coord.NotFound:
			return err
		}
		a = coord.Agent{ID: id, Revision: old.Revision + 1, Enabled: true}
		if a, err = d.put(tx, a, cfg, by); err != nil {
			return err
		}
		return tx.Answer(a)
	})
	return a, err
}

// Revise gives an agent a new configuration as its next revision. It is Stale
// when ifRevision is not the present one, and a Conflict for an agent that the
// configuration file declares. The same configuration again changes nothing.
func (d *Directory) Revise(ctx context.Context, id coord.AgentID, ifRevision int, cfg coord.AgentConfig, by coord.Actor) (coord.Agent, error) {
	faults := append(d.faults(cfg), executableFaults(cfg.Executable)...)
	if err := coord.InvalidFields("the agent cannot be revised", faults); err != nil {
		return coord.Agent{}, err
	}
	var a coord.Agent
	err := d.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if a, err = present(tx, id); err != nil {
			return err
		}
		switch {
		case a.Declared:
			return declared(id)
		case a.Revision != ifRevision:
			return coord.Errorf(coord.Stale, "agent %s is at revision %d, not %d: look at it again before changing it", id, a.Revision, ifRevision)
		case same(a.Config, completed(cfg)):
			return nil
		}
		a.Revision++
		if a, err = d.put(tx, a, cfg, by); err != nil {
			return err
		}
		return tx.Answer(a)
	})
	return a, err
}

// SetEnabled lets plans name the agent, or no longer. What runs goes on. It
// works on declared agents too: stopping one must not need an editor, and a
// restart keeps what was set.
func (d *Directory) SetEnabled(ctx context.Context, id coord.AgentID, enabled bool, by coord.Actor) (coord.Agent, error) {
	var a coord.Agent
	err := d.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if a, err = present(tx, id); err != nil || a.Enabled == enabled {
			return err
		}
		a.Enabled = enabled
		if err := tx.PutAgent(a, by); err != nil {
			return err
		}
		a, err = tx.Agent(id)
		return err
	})
	return a, err
}

// Remove takes an agent out of the directory. Its entry stays for the history
// that names it, and running jobs go on with the copy in their frozen plan. A
// declared agent is a Conflict.
func (d *Directory) Remove(ctx context.Context, id coord.AgentID, by coord.Actor) error {
	return d.journal.Update(ctx, func(tx *journal.Tx) error {
		a, err := present(tx, id)
		if err != nil {
			return err
		}
		if a.Declared {
			return declared(id)
		}
		a.Removed, a.Enabled = true, false
		if err := tx.PutAgent(a, by); err != nil {
			return err
		}
		if a, err = tx.Agent(id); err != nil {
			return err
		}
		return tx.Answer(a)
	})
}

// put stores a with its next configuration, and refuses when the journal would
// not keep the configuration as it is: a replaced secret makes another one.
func (d *Directory) put(tx *journal.Tx, a coord.Agent, cfg coord.AgentConfig, by coord.Actor) (coord.Agent, error) {
	cfg = completed(cfg)
	a.Config, a.Route, a.Locality, a.Host = cfg, cfg.Route, cfg.Locality, d.options.Host
	a.Name = cfg.Name
	if a.Name == "" {
		a.Name = string(a.ID)
	}
	a.Removed, a.Inspection = false, nil
	if err := tx.PutAgent(a, by); err != nil {
		return a, err
	}
	kept, err := tx.Agent(a.ID)
	if err != nil {
		return a, err
	}
	return kept, coord.InvalidFields("the agent's configuration holds a secret, which is never kept", replaced(cfg, kept.Config))
}

// present gives an agent that was not removed.
func present(tx *journal.Tx, id coord.AgentID) (coord.Agent, error) {
	a, err := tx.Agent(id)
	if err == nil && a.Removed {
		err = coord.Errorf(coord.NotFound, "agent %s was removed: register it again to use it", id)
	}
	return a, err
}

func declared(id coord.AgentID) error {
	return coord.Errorf(coord.Conflict, "agent %s is declared in the configuration file (signalbox.toml in the data directory): change it there and restart", id)
}

// completed fills in what a configuration left out.
func completed(cfg coord.AgentConfig) coord.AgentConfig {
	switch {
	case cfg.Locality != "":
	case cfg.Route.Askable():
		cfg.Locality = coord.LocalityRemote
	default:
		cfg.Locality = coord.LocalityLocal
	}
	return cfg
}

// same compares two configurations; empty and absent lists are the same.
func same(a, b coord.AgentConfig) bool {
	lists := slices.Equal(a.Args, b.Args) && slices.Equal(a.RandomEnv, b.RandomEnv) && slices.Equal(a.State, b.State) &&
		maps.Equal(a.Env, b.Env) && maps.Equal(a.EnvFromEnv, b.EnvFromEnv)
	a.Args, a.RandomEnv, a.State, a.Env, a.EnvFromEnv = nil, nil, nil, nil, nil
	b.Args, b.RandomEnv, b.State, b.Env, b.EnvFromEnv = nil, nil, nil, nil, nil
	return lists && reflect.DeepEqual(a, b)
}
