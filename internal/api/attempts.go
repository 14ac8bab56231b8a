package api

import (
	"context"
	"encoding/json"
	"net/http"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/synthesis"
)

// AttemptPath names the attempt of an operation.
type AttemptPath struct {
	Attempt string `path:"attempt" maxLength:"200" doc:"12/fix (its latest), 12/fix/1 or att_…, with / written as %2F"`
}

func (in AttemptPath) ref() (coord.AttemptRef, error) { return coord.ParseAttemptRef(in.Attempt) }

type keyedAttemptInput struct {
	Keyed
	AttemptPath
}

type outputInput struct {
	AttemptPath
	After int64 `query:"after" minimum:"0" doc:"Only text after this event; 0 is the beginning"`
	Limit int   `query:"limit" minimum:"0" maximum:"200" doc:"At most this many pieces; 0 is 50"`
}

// Piece is a part of what an attempt's agent wrote.
type Piece struct {
	Seq int64        `json:"seq"`
	At  coord.Moment `json:"at"`
	coord.Text
}

type resolveInput struct {
	Keyed
	AttemptPath
	Body struct {
		How    coord.ResolutionKind `json:"how"`
		Reason string               `json:"reason,omitempty" doc:"Required with never_ran"`
		Text   string               `json:"text,omitempty" doc:"The result, with adopted"`
	} `nameHint:"Resolve"`
}

func (a *API) addAttempts() {
	op := func(id, method, path, summary string, role coord.Role) operation {
		return operation{id: id, method: method, path: "/attempts/{attempt}" + path, summary: summary, tag: "attempts", role: role}
	}
	read(a, op("get-attempt", http.MethodGet, "", "One attempt", coord.RoleRead),
		func(ctx context.Context, in *AttemptPath) (out coord.Attempt, err error) {
			ref, err := in.ref()
			if err != nil {
				return out, err
			}
			err = a.journal.View(ctx, func(v *journal.View) (err error) {
				out, err = v.Attempt(ref)
				return err
			})
			return out, err
		})
	read(a, op("explain-attempt", http.MethodGet, "/explain", "What is known of an attempt, what is not, and what to do", coord.RoleRead),
		func(ctx context.Context, in *AttemptPath) (out synthesis.Explanation, err error) {
			ref, err := in.ref()
			if err != nil {
				return out, err
			}
			return a.Synthesis.Explain(ctx, ref)
		})
	list(a, op("get-output", http.MethodGet, "/output", "What an attempt's agent wrote, in order; next continues it as ?after=", coord.RoleRead), a.output)
	write(a, op("reconcile-attempt", http.MethodPost, "/reconcile", "Ask the provider what became of an attempt; nothing is sent again", coord.RoleOperator),
		func(ctx context.Context, in *keyedAttemptInput) (out coord.Attempt, err error) {
			ref, err := in.ref()
			if err != nil {
				return out, err
			}
			return a.Scheduler.Reconcile(ctx, ref, actor(ctx))
		})
	write(a, op("resolve-attempt", http.MethodPost, "/resolve", "State what became of an attempt of unknown outcome", coord.RoleOperator),
		func(ctx context.Context, in *resolveInput) (out coord.Attempt, err error) {
			ref, err := in.ref()
			if err != nil {
				return out, err
			}
			return a.Approval.Resolve(ctx, ref, in.Body.How, in.Body.Reason, in.Body.Text, actor(ctx))
		})
}

// output reads pages of events until one page of text is full: what an agent
// does lies between what it writes.
func (a *API) output(ctx context.Context, in *outputInput) (out []Piece, next int64, err error) {
	ref, err := in.ref()
	if err != nil {
		return nil, 0, err
	}
	limit, after := pageLength(in.Limit), in.After
	var id coord.AttemptID
	for {
		var events []coord.Event
		err := a.journal.View(ctx, func(v *journal.View) error {
			at, err := v.Attempt(ref)
			if err != nil {
				return err
			}
			id = at.ID
			events, err = v.Events(after, journal.EventFilter{Job: at.Job, Attempt: id}, coord.EventPage)
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		for _, e := range events {
			after = e.Seq
			if e.Kind != coord.AttemptText {
				continue
			}
			p := Piece{Seq: e.Seq, At: e.At}
			if err := json.Unmarshal(e.Data, &p.Text); err != nil {
				return nil, 0, err
			}
			if out = append(out, p); len(out) == limit {
				return out, after, nil
			}
		}
		if len(events) < coord.EventPage {
			return out, 0, nil
		}
	}
}
