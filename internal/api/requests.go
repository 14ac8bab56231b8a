package api

import (
	"context"
	"net/http"
	"strconv"

	"signalbox/internal/approval"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// RequestPath names the request of an operation.
type RequestPath struct {
	Request string `path:"request" maxLength:"100" doc:"r7 or req_…"`
}

type requestsInput struct {
	Before int64 `query:"before" minimum:"0" doc:"Only requests with lower numbers; 0 is the newest on"`
	Limit  int   `query:"limit" minimum:"0" maximum:"200" doc:"At most this many; 0 is 50"`
	Open   bool  `query:"open" doc:"Only those that wait for a decision, oldest first and all of them"`
}

type decideInput struct {
	Keyed
	RequestPath
	Body approval.Decision
}

// Verdict is one decision of a list.
type Verdict struct {
	Request string `json:"request" maxLength:"100" doc:"r7 or req_…"`
	approval.Decision
}

type decideAllInput struct {
	Keyed
	Body struct {
		Decisions []Verdict `json:"decisions" minItems:"1"`
	} `nameHint:"Decisions"`
}

// Outcome is what became of one decision of a list.
type Outcome struct {
	// Request is as it is now, when the decision was recorded.
	Request *coord.Request `json:"request,omitempty"`
	// Problem says why it was not recorded.
	Problem *Problem `json:"problem,omitempty"`
}

// Inbox is everything that waits for the operator.
type Inbox struct {
	Drafts   []coord.Job     `json:"drafts" doc:"Newest first, without their plans"`
	Requests []coord.Request `json:"requests" doc:"Oldest first"`
	// ChangeSets wait for a review.
	ChangeSets []coord.ChangeSet `json:"change_sets" doc:"Oldest first"`
	Unknowns   []coord.Attempt   `json:"unknowns" doc:"Attempts of unknown outcome that nobody resolved, oldest first"`
	Count      InboxCount        `json:"count"`
}

// InboxCount counts what waits. Drafts counts up to coord.MaxPage.
type InboxCount struct {
	Drafts     int `json:"drafts"`
	Requests   int `json:"requests"`
	ChangeSets int `json:"change_sets"`
	Unknowns   int `json:"unknowns"`
}

func (a *API) addRequests() {
	op := func(id, method, path, summary string, role coord.Role) operation {
		return operation{id: id, method: method, path: path, summary: summary, tag: "requests", role: role}
	}
	list(a, op("list-requests", http.MethodGet, "/requests", "Requests of agents, newest first", coord.RoleRead), a.requests)
	read(a, op("get-request", http.MethodGet, "/requests/{request}", "One request", coord.RoleRead),
		func(ctx context.Context, in *RequestPath) (out coord.Request, err error) {
			ref, err := coord.ParseRequestRef(in.Request)
			if err != nil {
				return out, err
			}
			err = a.journal.View(ctx, func(v *journal.View) (err error) {
				out, err = v.Request(ref)
				return err
			})
			return out, err
		})
	write(a, op("decide-request", http.MethodPost, "/requests/{request}/decide", "Decide a request, as it was displayed", coord.RoleOperator),
		func(ctx context.Context, in *decideInput) (out coord.Request, err error) {
			ref, err := coord.ParseRequestRef(in.Request)
			if err != nil {
				return out, err
			}
			return a.Approval.Decide(ctx, ref, in.Body, actor(ctx))
		})
	write(a, op("decide-requests", http.MethodPost, "/decisions", "Decide several requests; each has its own outcome", coord.RoleOperator), a.decideAll)
	read(a, op("inbox", http.MethodGet, "/inbox", "Everything that waits for the operator", coord.RoleRead), a.inbox)
}

func (a *API) requests(ctx context.Context, in *requestsInput) (out []coord.Request, next int64, err error) {
	limit := pageLength(in.Limit)
	err = a.journal.View(ctx, func(v *journal.View) (err error) {
		if in.Open {
			out, err = v.OpenRequests()
			return err
		}
		if out, err = v.Requests(in.Before, limit); len(out) == limit {
			next = out[limit-1].Number
		}
		return err
	})
	return out, next, err
}

func (a *API) decideAll(ctx context.Context, in *decideAllInput) ([]Outcome, error) {
	list := make([]approval.Answered, len(in.Body.Decisions))
	for i, d := range in.Body.Decisions {
		ref, err := coord.ParseRequestRef(d.Request)
		if err != nil {
			return nil, coord.InvalidFields("the list has faults", []coord.Field{{Pointer: "/decisions/" + strconv.Itoa(i) + "/request", Message: "not a request: write its number (r7) or its id (req_…)"}})
		}
		list[i] = approval.Answered{Ref: ref, Decision: d.Decision}
	}
	outcomes, err := a.Approval.DecideAll(ctx, list, actor(ctx))
	if err != nil {
		return nil, err
	}
	out := make([]Outcome, len(outcomes))
	for i, o := range outcomes {
		if o.Err != nil {
			out[i].Problem = a.problem(ctx, "decide-requests", o.Err)
		} else {
			out[i].Request = &o.Request
		}
	}
	return out, nil
}

func (a *API) inbox(ctx context.Context, _ *nothing) (out Inbox, err error) {
	err = a.journal.View(ctx, func(v *journal.View) (err error) {
		if out.Drafts, err = v.Jobs(0, coord.MaxPage, coord.JobDraft); err != nil {
			return err
		}
		if out.Requests, err = v.OpenRequests(); err != nil {
			return err
		}
		pending, err := v.PendingChangeSets()
		if err != nil {
			return err
		}
		out.ChangeSets = []coord.ChangeSet{}
		for _, c := range pending {
			if c.State == coord.ChangeSetOpen {
				out.ChangeSets = append(out.ChangeSets, c)
			}
		}
		open, err := v.OpenAttempts()
		for _, at := range open {
			if at.State == coord.AttemptUnknown {
				out.Unknowns = append(out.Unknowns, at)
			}
		}
		return err
	})
	out.Count = InboxCount{len(out.Drafts), len(out.Requests), len(out.ChangeSets), len(out.Unknowns)}
	return out, err
}
