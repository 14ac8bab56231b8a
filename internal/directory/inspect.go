package directory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
)

var errInspectTimeout = coord.Errorf(coord.Unavailable, "the agent did not answer the inspection within %s: start it by hand to see why", coord.InspectTimeout)

// Inspect observes an agent now and stores what was seen. Only one inspection
// of an agent runs at a time: whoever asks while one runs gets its outcome. It
// is Stale when the agent was revised meanwhile.
func (d *Directory) Inspect(ctx context.Context, id coord.AgentID) (coord.Agent, error) {
	asked := d.journal.Now()
	turn := d.turn(id)
	select {
	case <-turn:
	case <-ctx.Done():
		return coord.Agent{}, context.Cause(ctx)
	}
	defer func() { turn <- struct{}{} }()
	a, err := d.Get(ctx, id)
	if err != nil {
		return a, err
	}
	if a.Removed {
		return a, coord.Errorf(coord.NotFound, "agent %s was removed: register it again to use it", id)
	}
	if i := a.Inspection; i != nil && i.Revision == a.Revision && i.At.BootID == asked.BootID && i.At.Boot > asked.Boot {
		return a, nil // somebody else's, begun or ended while this one waited
	}
	seen, err := d.observe(ctx, a)
	if err != nil {
		return a, err
	}
	err = d.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if err := tx.PutInspection(seen); err != nil {
			return err
		}
		a, err = tx.Agent(id)
		return err
	})
	return a, err
}

// turn gives the channel whose one token is the right to inspect the agent.
func (d *Directory) turn(id coord.AgentID) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.turns[id]
	if c == nil {
		c = make(chan struct{}, 1)
		c <- struct{}{}
		d.turns[id] = c
	}
	return c
}

// observe runs the adapter in an empty folder of its own, within bounds.
func (d *Directory) observe(ctx context.Context, a coord.Agent) (coord.Inspection, error) {
	adapter := d.adapters[a.Route]
	if adapter == nil {
		return coord.Inspection{}, coord.Errorf(coord.Unsupported, "agent %s is reached by route %s, which this program does not have", a.ID, a.Route)
	}
	scratch, err := os.MkdirTemp(d.options.Scratch, "inspect-*")
	if err != nil {
		return coord.Inspection{}, fmt.Errorf("making a folder for an inspection: %w", err)
	}
	defer func() {
		if err := os.RemoveAll(scratch); err != nil {
			d.options.Logger.Warn("the folder of an inspection could not be removed", "agent", a.ID, "err", err)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, coord.InspectTimeout, errInspectTimeout)
	defer cancel()
	seen, err := adapter.Inspect(ctx, provider.Target{Agent: a.ID, Revision: a.Revision, Config: a.Config, Scratch: scratch})
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			err = context.Cause(ctx)
		}
		return seen, err
	}
	seen.Agent, seen.Revision, seen.At = a.ID, a.Revision, d.journal.Now()
	if seen.Problem == "" && seen.Auth == coord.AuthRequired {
		seen.Problem = "it wants a login first"
	}
	return seen, nil
}

// Usable gives an agent that a plan may be frozen with: enabled, and inspected
// at its present revision within coord.InspectionTTL without a problem. An
// older inspection, or one that found a problem, is made anew. Otherwise the
// error says what is wrong and what would mend it.
func (d *Directory) Usable(ctx context.Context, id coord.AgentID) (coord.Agent, error) {
	a, err := d.Get(ctx, id)
	switch {
	case err != nil:
		return a, err
	case a.Removed:
		return a, coord.Errorf(coord.NotFound, "agent %s was removed: register it again to use it", id)
	case !a.Enabled:
		return a, coord.Errorf(coord.Conflict, "agent %s is disabled: enable it with 'signalbox agent enable %s'", id, id)
	case a.Inspection.Usable(d.journal.Now(), a.Revision):
		return a, nil
	}
	if a, err = d.Inspect(ctx, id); err != nil {
		return a, err
	}
	if !a.Inspection.Usable(d.journal.Now(), a.Revision) {
		return a, unusable(a)
	}
	return a, nil
}

// unusable says why an inspected agent cannot be used. It is no Unavailable, which
// clients take for a reason to ask again: each time would be an inspection.
func unusable(a coord.Agent) error {
	i := a.Inspection
	problem := strings.TrimSuffix(i.Problem, ".")
	switch {
	case i.Auth == coord.AuthRequired && i.AuthHint != "":
		return coord.Errorf(coord.Conflict, "agent %s cannot be used: %s; what you can do: %s", a.ID, problem, i.AuthHint)
	case i.Auth == coord.AuthRequired:
		return coord.Errorf(coord.Conflict, "agent %s cannot be used: %s; log it in with its own program, then inspect it again", a.ID, problem)
	case i.Problem != "":
		return coord.Errorf(coord.Conflict, "agent %s cannot be used: %s; mend that, then 'signalbox agent inspect %s'", a.ID, problem, a.ID)
	default:
		return coord.Errorf(coord.Stale, "agent %s changed while it was inspected: try again", a.ID)
	}
}
