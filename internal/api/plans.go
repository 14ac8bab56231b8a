package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"signalbox/internal/coord"
)

// planBody is a plan as it came. huma checks its shape, with every unknown or
// missing member; its content is checked in the same pass by Resolve, so that
// all faults are told at once.
type planBody struct{ raw json.RawMessage }

// Schema is that of a plan.
func (planBody) Schema(r huma.Registry) *huma.Schema { return r.Schema(typeOf[coord.Plan](), true, "") }

// UnmarshalJSON keeps the text.
func (p *planBody) UnmarshalJSON(b []byte) error {
	p.raw = append(json.RawMessage(nil), b...)
	return nil
}

// MarshalJSON writes the plan in one form, whatever spaces it came with.
func (p planBody) MarshalJSON() ([]byte, error) {
	plan, err := p.plan()
	if err != nil {
		return nil, err
	}
	return json.Marshal(plan)
}

// plan reads the text. What fits the schema and no Go value, such as a whole
// number beyond 64 bits, is the client's fault.
func (p planBody) plan() (plan coord.Plan, err error) {
	if err := json.Unmarshal(p.raw, &plan); err != nil {
		return plan, &coord.Error{Code: coord.Invalid, Message: "the plan has a value that is too large or of the wrong type", Err: err}
	}
	return plan, nil
}

type planInput struct {
	Keyed
	Body planBody
}

// Resolve adds the faults of the plan's content to those of its shape.
func (in *planInput) Resolve(ctx huma.Context) []error { return in.Body.faults(ctx) }

type validateInput struct{ Body planBody }

// Resolve adds the faults of the plan's content to those of its shape.
func (in *validateInput) Resolve(ctx huma.Context) []error { return in.Body.faults(ctx) }

type revisePlanInput struct {
	Keyed
	Revised
	JobPath
	Body planBody
}

type continueInput struct {
	Keyed
	JobPath
	Body planBody
}

// Resolve adds the faults of the plan's content to those of its shape.
func (in *continueInput) Resolve(ctx huma.Context) []error { return in.Body.faults(ctx) }

func (p planBody) faults(ctx huma.Context) []error {
	plan, err := p.plan()
	a, ok := ctx.Context().Value(apiKey{}).(*API)
	if err != nil || !ok {
		return nil // the shape is wrong, and that is told already
	}
	_, err = a.Planning.Validate(ctx.Context(), plan)
	var e *coord.Error
	if !errors.As(err, &e) || e.Code != coord.Invalid {
		return nil // the operation meets the same error and tells of it
	}
	out := make([]error, len(e.Fields))
	for i, f := range e.Fields {
		out[i] = fault(f)
	}
	return out
}

func (a *API) addPlans() {
	op := func(id, method, path, summary string) operation {
		return operation{id: id, method: method, path: path, summary: summary, tag: "jobs", role: coord.RoleDraft}
	}
	read(a, op("validate-plan", http.MethodPost, "/plans/validate", "Check a plan and fill in its defaults; nothing is kept"),
		func(ctx context.Context, in *validateInput) (coord.Plan, error) {
			plan, err := in.Body.plan()
			if err != nil {
				return plan, err
			}
			return a.Planning.Validate(ctx, plan)
		})
	draft := op("draft-job", http.MethodPost, "/jobs", "Draft a job")
	draft.status = http.StatusCreated
	write(a, draft, func(ctx context.Context, in *planInput) (coord.Job, error) {
		plan, err := in.Body.plan()
		if err != nil {
			return coord.Job{}, err
		}
		return a.Planning.Draft(ctx, plan, actor(ctx))
	})
	write(a, op("revise-job", http.MethodPut, "/jobs/{job}", "Replace a draft's plan"),
		func(ctx context.Context, in *revisePlanInput) (coord.Job, error) {
			ref, err := in.ref()
			if err != nil {
				return coord.Job{}, err
			}
			revision, err := in.revision()
			if err != nil {
				return coord.Job{}, err
			}
			plan, err := in.Body.plan()
			if err != nil {
				return coord.Job{}, err
			}
			return a.Planning.Revise(ctx, ref, revision, plan, actor(ctx))
		})
	again := op("continue-job", http.MethodPost, "/jobs/{job}/continue", "Draft a new job that gets this one's results as data")
	again.status = http.StatusCreated
	write(a, again, func(ctx context.Context, in *continueInput) (coord.Job, error) {
		ref, err := in.ref()
		if err != nil {
			return coord.Job{}, err
		}
		plan, err := in.Body.plan()
		if err != nil {
			return coord.Job{}, err
		}
		return a.Planning.Continue(ctx, ref, plan, actor(ctx))
	})
}
