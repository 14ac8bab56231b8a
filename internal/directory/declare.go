package directory

import (
	"context"
	"fmt"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// Declared is an agent of the configuration file.
type Declared struct {
	ID     coord.AgentID
	Config coord.AgentConfig
}

// configActor is the configuration file as the one who did it: only whoever
// may write that file can change it.
var configActor = coord.Actor{Role: coord.RoleOperator, Door: "config", Presence: "none"}

// Declare imports the agents of the configuration file at start, in one
// transaction. One whose configuration differs gets a new revision. Becoming
// declared enables an agent; staying declared keeps what the operator set. An
// agent that is declared no longer is disabled and becomes an ordinary entry,
// which may be enabled again, revised or removed by hand: a line lost from a
// file must not delete anything, and must not leave running what nobody
// declares.
//
// Faults of all declarations are told at once as Invalid, with pointers into
// the file's list. A missing executable is none: inspection tells of it, and
// one agent that is not installed here must not keep Signalbox from starting.
func (d *Directory) Declare(ctx context.Context, agents []Declared) error {
	var faults []coord.Field
	seen := map[coord.AgentID]int{}
	for i, a := range agents {
		at := fmt.Sprintf("/agents/%d", i)
		if !coord.ValidAgentID(string(a.ID)) {
			faults = append(faults, coord.Field{Pointer: at + "/id", Message: "1 to 64 of a-z, 0-9, '.', '_', '-', starting with a letter or digit"})
		} else if n, twice := seen[a.ID]; twice {
			faults = append(faults, coord.Field{Pointer: at + "/id", Message: fmt.Sprintf("the id of agent %d again; ids are unique", n+1)})
		} else {
			seen[a.ID] = i
		}
		for _, f := range d.faults(a.Config) {
			faults = append(faults, coord.Field{Pointer: at + f.Pointer, Message: f.Message})
		}
	}
	if err := coord.InvalidFields("the configuration file declares agents that cannot be registered", faults); err != nil {
		return err
	}
	return d.journal.Update(ctx, func(tx *journal.Tx) error {
		for _, a := range agents {
			if err := d.declare(tx, a); err != nil {
				return err
			}
		}
		return undeclare(tx, seen)
	})
}

func (d *Directory) declare(tx *journal.Tx, one Declared) error {
	a, err := tx.Agent(one.ID)
	if err != nil && coord.CodeOf(err) != coord.NotFound {
		return err
	}
	known := err == nil && !a.Removed
	if known && a.Declared && same(a.Config, completed(one.Config)) {
		return nil
	}
	if !known || !a.Declared {
		a.Enabled = true
	}
	if !known || !same(a.Config, completed(one.Config)) {
		a.Revision++
	}
	a.ID, a.Declared = one.ID, true
	_, err = d.put(tx, a, one.Config, configActor)
	return err
}

// undeclare disables every declared agent that is not in the file.
func undeclare(tx *journal.Tx, declared map[coord.AgentID]int) error {
	all, err := tx.Agents()
	if err != nil {
		return err
	}
	for _, a := range all {
		if _, stays := declared[a.ID]; stays || !a.Declared {
			continue
		}
		a.Declared, a.Enabled = false, false
		if err := tx.PutAgent(a, configActor); err != nil {
			return err
		}
	}
	return nil
}
