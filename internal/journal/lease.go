package journal

import (
	"strings"

	"signalbox/internal/coord"
)

// Lease is one slot of a named thing that an attempt holds, such as
// "agent:codex" or one of the four of "run".
type Lease struct {
	Name   string          `json:"name"`
	Slot   int             `json:"slot"`
	Holder coord.AttemptID `json:"holder"`
	At     coord.Moment    `json:"at"`
}

// Acquire gives holder one of the limit slots of name. A holder that has one
// keeps it. When all are taken it is a Conflict that names the holders.
func (tx *Tx) Acquire(name string, holder coord.AttemptID, limit int) error {
	held, err := list[Lease](&tx.View, `SELECT doc FROM leases WHERE name = $1 ORDER BY slot`, name)
	if err != nil {
		return err
	}
	slot := 0
	for _, l := range held {
		if l.Holder == holder {
			return nil
		}
		if l.Slot == slot {
			slot++
		}
	}
	if slot >= limit {
		holders := make([]string, len(held))
		for i, l := range held {
			holders[i] = string(l.Holder)
		}
		return coord.Errorf(coord.Conflict, "%s is taken by %s: wait until it is free", name, strings.Join(holders, ", "))
	}
	doc, err := encode(tx, Lease{Name: name, Slot: slot, Holder: holder, At: tx.Now()})
	if err != nil {
		return err
	}
	_, err = tx.exec(`INSERT INTO leases (name, slot, holder, doc) VALUES ($1, $2, $3, $4)`, name, slot, holder, doc)
	return err
}

// Release frees every lease of holder; none is no error.
func (tx *Tx) Release(holder coord.AttemptID) error {
	_, err := tx.exec(`DELETE FROM leases WHERE holder = $1`, holder)
	return err
}

// ReleaseOne frees holder's lease of name; none is no error.
func (tx *Tx) ReleaseOne(name string, holder coord.AttemptID) error {
	_, err := tx.exec(`DELETE FROM leases WHERE name = $1 AND holder = $2`, name, string(holder))
	return err
}

// Leases lists all leases, by name and slot.
func (v *View) Leases() ([]Lease, error) {
	return list[Lease](v, allLeases)
}

const allLeases = `SELECT doc FROM leases ORDER BY name, slot`
