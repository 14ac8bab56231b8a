package approval

import (
	"context"
	"fmt"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// Decision is what the operator decides of one request.
type Decision struct {
	// Decision is coord.DecisionApprove, DecisionDeny or DecisionAnswer.
	Decision coord.DecisionEvent `json:"decision"`
	// Option is the id of one of the agent's own options, where there is more
	// than one way to approve or deny.
	Option string `json:"option,omitempty"`
	// Answer is the answer to a question, at most coord.MaxAnswer bytes.
	Answer string `json:"answer,omitempty"`
	// Reason is a comment, at most coord.MaxReason bytes.
	Reason string `json:"reason,omitempty"`
	// Digest is that of the request as it was displayed.
	Digest string `json:"digest"`
}

// Decide records the first decision about a request; bringing it to the agent
// is the scheduler's. It is a Conflict that names the first decision and who
// made it when there is one already, and Stale when the digest is not that of
// what is asked.
func (p *Approval) Decide(ctx context.Context, ref coord.RequestRef, d Decision, by coord.Actor) (coord.Request, error) {
	if err := operator(by); err != nil {
		return coord.Request{}, err
	}
	if err := d.validate(); err != nil {
		return coord.Request{}, err
	}
	var r coord.Request
	err := p.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if r, err = tx.Request(ref); err != nil {
			return err
		}
		switch {
		case r.Decision != coord.DecisionOpen:
			return taken(r)
		case d.Digest == "":
			return coord.Errorf(coord.Invalid, "a decision needs the digest of the request as it was displayed; see 'signalbox request show r%d'", r.Number)
		case d.Digest != r.Digest:
			return coord.Errorf(coord.Stale, "request r%d asks for something else than what was displayed: look at it again", r.Number)
		}
		r, err = tx.DecideRequest(r.ID, coord.Choice{On: d.Decision, Option: d.Option, Answer: d.Answer, Reason: d.Reason, By: by})
		if err != nil {
			return err
		}
		return tx.Answer(r)
	})
	return r, err
}

// validate gives every fault of a decision that does not depend on its request.
func (d Decision) validate() error {
	var f []coord.Field
	fault := func(pointer, message string) { f = append(f, coord.Field{Pointer: pointer, Message: message}) }
	switch d.Decision {
	case coord.DecisionApprove, coord.DecisionDeny:
		if d.Answer != "" {
			fault("/answer", "only with the decision answer")
		}
	case coord.DecisionAnswer:
		if d.Answer == "" {
			fault("/answer", "required: what to tell the agent")
		}
		if d.Option != "" {
			fault("/option", "only with the decisions approve and deny")
		}
	default:
		fault("/decision", "one of approve, deny, answer")
	}
	f = append(f, text("/option", d.Option, coord.MaxReason)...)
	f = append(f, text("/answer", d.Answer, coord.MaxAnswer)...)
	f = append(f, text("/reason", d.Reason, coord.MaxReason)...)
	return coord.InvalidFields("the decision has faults", f)
}

// taken tells of the decision that was first.
func taken(r coord.Request) error {
	if r.Decided == nil {
		return coord.Errorf(coord.Conflict, "request r%d is %s already", r.Number, r.Decision)
	}
	because := ""
	if r.Decided.By.Door == coord.WorkerActor.Door && r.Decided.Reason != "" {
		because = ": " + r.Decided.Reason
	}
	return coord.Errorf(coord.Conflict, "request r%d was %s already by %s at %s%s",
		r.Number, r.Decision, name(r.Decided.By), r.Decided.At.Wall.UTC().Format("2006-01-02 15:04:05Z"), because)
}

// Answered is one entry of a list of decisions.
type Answered struct {
	Ref      coord.RequestRef
	Decision Decision
}

// Outcome is what became of one decision of a list.
type Outcome struct {
	Ref     coord.RequestRef
	Request coord.Request
	// Err says why this decision was not recorded; the others may be.
	Err error
}

// DecideAll decides requests one by one, in order. Each is its own transaction
// with its own outcome: a request that somebody else decided must not keep the
// rest of a review from counting. The error is only for the list as a whole.
func (p *Approval) DecideAll(ctx context.Context, list []Answered, by coord.Actor) ([]Outcome, error) {
	if err := operator(by); err != nil {
		return nil, err
	}
	if len(list) > coord.MaxDecisions {
		return nil, coord.Errorf(coord.Limit, "%d decisions at once; at most %d", len(list), coord.MaxDecisions)
	}
	seen := map[coord.RequestRef]int{}
	for i, one := range list {
		if first, twice := seen[one.Ref]; twice {
			return nil, coord.InvalidFields("the list has faults", []coord.Field{{
				Pointer: fmt.Sprintf("/%d", i), Message: fmt.Sprintf("decides the request of entry %d again", first+1)}})
		}
		seen[one.Ref] = i
	}
	// The list has one answer of its own; none of its parts may leave it.
	ctx = journal.WithKey(ctx, journal.Key{})
	out := make([]Outcome, len(list))
	for i, one := range list {
		r, err := p.Decide(ctx, one.Ref, one.Decision, by)
		out[i] = Outcome{one.Ref, r, err}
	}
	return out, nil
}
