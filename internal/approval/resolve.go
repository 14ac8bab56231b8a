package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// Resolve records the operator's statement about an attempt of unknown
// outcome; the attempt stays unknown and its task moves on. Adopting may carry
// the result as text, at most coord.MaxStatement bytes, which then stands as a
// statement of the operator. That the work never ran needs a written reason. A
// second resolution is a Conflict that names the first.
func (p *Approval) Resolve(ctx context.Context, ref coord.AttemptRef, how coord.ResolutionKind, reason, result string, by coord.Actor) (coord.Attempt, error) {
	if err := operator(by); err != nil {
		return coord.Attempt{}, err
	}
	reason = strings.TrimSpace(reason)
	if err := resolutionFaults(how, reason, result); err != nil {
		return coord.Attempt{}, err
	}
	var a coord.Attempt
	err := p.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if a, err = tx.Attempt(ref); err != nil {
			return err
		}
		if r := a.Resolution; r != nil {
			return coord.Errorf(coord.Conflict, "attempt %s was resolved already as %s by %s", a.ID, r.How, name(r.By))
		}
		said := coord.Resolution{How: how, Reason: reason, Text: result, By: by}
		if _, err := a.Resolve(said); err != nil {
			return err
		}
		if result != "" {
			if err := adopt(tx, a.ID, result); err != nil {
				return err
			}
		}
		if _, err := tx.ResolveAttempt(a.ID, said); err != nil {
			return err
		}
		if a, err = tx.Attempt(coord.AttemptRef{ID: a.ID}); err != nil {
			return err
		}
		return tx.Answer(a)
	})
	return a, err
}

func resolutionFaults(how coord.ResolutionKind, reason, result string) error {
	var f []coord.Field
	switch how {
	case coord.Adopted:
	case coord.NeverRan:
		if reason == "" {
			f = append(f, coord.Field{Pointer: "/reason", Message: "required: how it is known that the work never ran"})
		}
	case coord.Abandoned:
	default:
		f = append(f, coord.Field{Pointer: "/how", Message: "one of adopted, never_ran, abandoned"})
	}
	if result != "" && how != coord.Adopted {
		f = append(f, coord.Field{Pointer: "/text", Message: "only with adopted"})
	}
	f = append(f, text("/reason", reason, coord.MaxReason)...)
	f = append(f, text("/text", result, coord.MaxStatement)...)
	return coord.InvalidFields("the resolution has faults", f)
}

// adopt keeps the operator's word in place of the agent's.
func adopt(tx *journal.Tx, id coord.AttemptID, result string) error {
	state := func(text string) error {
		sum := sha256.Sum256([]byte(text))
		return tx.EditAttempt(id, func(a coord.Attempt) coord.Attempt {
			a.Statement = &coord.Statement{
				Agent: a.Agent, By: "operator", Text: text, Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), At: tx.Now(),
			}
			return a
		})
	}
	if err := state(result); err != nil {
		return err
	}
	kept, err := tx.Attempt(coord.AttemptRef{ID: id})
	if err != nil || kept.Statement.Text == result {
		return err
	}
	// A secret in it was replaced: the digest is that of what is kept.
	return state(kept.Statement.Text)
}
