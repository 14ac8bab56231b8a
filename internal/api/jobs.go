package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// JobPath names the job of an operation.
type JobPath struct {
	Job string `path:"job" maxLength:"100" doc:"12 or job_…"`
}

type keyedJobInput struct {
	Keyed
	JobPath
}

func (in JobPath) ref() (coord.JobRef, error) { return coord.ParseJobRef(in.Job) }

type jobsInput struct {
	Before int64    `query:"before" minimum:"0" doc:"Only jobs with lower numbers; 0 is the newest on"`
	Limit  int      `query:"limit" minimum:"0" maximum:"200" doc:"At most this many; 0 is 50"`
	State  []string `query:"state" maxItems:"8" doc:"Only these states, separated by commas"`
}

// defaultPage is the length of a page that nobody asked another length of.
const defaultPage = 50

func pageLength(limit int) int {
	if limit == 0 {
		return defaultPage
	}
	return min(limit, coord.MaxPage)
}

type runInput struct {
	Keyed
	JobPath
	Body struct {
		Digest string `json:"digest" maxLength:"100" doc:"That of the frozen plan as it was displayed"`
	} `nameHint:"Run"`
}

type againInput struct {
	Keyed
	JobPath
	Body struct {
		Message string `json:"message" doc:"What is to be done differently"`
	} `nameHint:"Again"`
}

type taskInput struct {
	Keyed
	JobPath
	Key string `path:"task" maxLength:"64" doc:"The task's key in its plan"`
}

func (a *API) addJobs() {
	op := func(id, method, path, summary string, role coord.Role) operation {
		return operation{id: id, method: method, path: path, summary: summary, tag: "jobs", role: role}
	}
	list(a, op("list-jobs", http.MethodGet, "/jobs", "Jobs without their plans, newest first", coord.RoleRead), a.jobs)
	read(a, op("get-job", http.MethodGet, "/jobs/{job}", "One job with its plan", coord.RoleRead),
		func(ctx context.Context, in *JobPath) (j coord.Job, err error) {
			err = withJob(ctx, a, in, func(v *journal.View, ref coord.JobRef) (err error) {
				j, err = v.Job(ref)
				return err
			})
			return j, err
		})
	write(a, op("run-job", http.MethodPost, "/jobs/{job}/run", "Approve the frozen plan and start it", coord.RoleOperator),
		func(ctx context.Context, in *runInput) (coord.Job, error) {
			ref, err := in.ref()
			if err != nil {
				return coord.Job{}, err
			}
			return a.Approval.Run(ctx, ref, in.Body.Digest, actor(ctx))
		})
	for _, one := range []struct {
		id, summary string
		role        coord.Role
		status      int
		do          func() func(context.Context, coord.JobRef, coord.Actor) (coord.Job, error)
	}{
		{"discard", "Throw a draft away", coord.RoleDraft, http.StatusOK, func() func(context.Context, coord.JobRef, coord.Actor) (coord.Job, error) { return a.Planning.Discard }},
		{"freeze", "Make a draft exact, for review; agents may be inspected", coord.RoleDraft, http.StatusOK, func() func(context.Context, coord.JobRef, coord.Actor) (coord.Job, error) { return a.Planning.Freeze }},
		{"retry", "Draft the unfinished tasks as a new job", coord.RoleDraft, http.StatusCreated, func() func(context.Context, coord.JobRef, coord.Actor) (coord.Job, error) { return a.Planning.Retry }},
		{"cancel", "Ask for everything of a job to stop", coord.RoleOperator, http.StatusOK, func() func(context.Context, coord.JobRef, coord.Actor) (coord.Job, error) {
			return a.Approval.CancelJob
		}},
	} {
		o := op(one.id+"-job", http.MethodPost, "/jobs/{job}/"+one.id, one.summary, one.role)
		o.status = one.status
		write(a, o, func(ctx context.Context, in *keyedJobInput) (coord.Job, error) {
			ref, err := in.ref()
			if err != nil {
				return coord.Job{}, err
			}
			return one.do()(ctx, ref, actor(ctx))
		})
	}
	again := op("again-job", http.MethodPost, "/jobs/{job}/again", "Draft an ended job once more, on top of what it changed", coord.RoleDraft)
	again.status = http.StatusCreated
	write(a, again, func(ctx context.Context, in *againInput) (coord.Job, error) {
		ref, err := in.ref()
		if err != nil {
			return coord.Job{}, err
		}
		return a.Planning.Again(ctx, ref, in.Body.Message, actor(ctx))
	})
	write(a, op("cancel-task", http.MethodPost, "/jobs/{job}/tasks/{task}/cancel", "Ask for a task to stop", coord.RoleOperator),
		func(ctx context.Context, in *taskInput) (coord.Task, error) {
			ref, err := coord.ParseTaskRef(in.Job + "/" + in.Key)
			if err != nil {
				return coord.Task{}, err
			}
			return a.Approval.CancelTask(ctx, ref, actor(ctx))
		})
	a.addJobParts(op)
}

// addJobParts adds what a job consists of and what came of it.
func (a *API) addJobParts(op func(id, method, path, summary string, role coord.Role) operation) {
	list(a, op("list-tasks", http.MethodGet, "/jobs/{job}/tasks", "A job's tasks, in the order of the plan", coord.RoleRead), part(a, (*journal.View).Tasks))
	list(a, op("list-attempts", http.MethodGet, "/jobs/{job}/attempts", "A job's attempts, oldest first", coord.RoleRead), part(a, (*journal.View).Attempts))
	list(a, op("list-job-requests", http.MethodGet, "/jobs/{job}/requests", "A job's requests, oldest first", coord.RoleRead), part(a, (*journal.View).JobRequests))
	list(a, op("list-artifacts", http.MethodGet, "/jobs/{job}/artifacts", "A job's artifacts, oldest first", coord.RoleRead), part(a, (*journal.View).Artifacts))
	read(a, op("get-result", http.MethodGet, "/jobs/{job}/result", "What came of a job, each statement attributed", coord.RoleRead),
		func(ctx context.Context, in *JobPath) (coord.Result, error) {
			ref, err := in.ref()
			if err != nil {
				return coord.Result{}, err
			}
			return a.Synthesis.Result(ctx, ref)
		})
	a.addExport(op("export-job", http.MethodGet, "/jobs/{job}/export", "A job's evidence as one zip archive", coord.RoleRead))
}

// withJob runs fn in one read transaction with the reference of the input.
func withJob(ctx context.Context, a *API, in *JobPath, fn func(*journal.View, coord.JobRef) error) error {
	ref, err := in.ref()
	if err != nil {
		return err
	}
	return a.journal.View(ctx, func(v *journal.View) error { return fn(v, ref) })
}

// part reads something that belongs to a job.
func part[T any](a *API, of func(*journal.View, coord.JobID) ([]T, error)) func(context.Context, *JobPath) ([]T, int64, error) {
	return func(ctx context.Context, in *JobPath) (out []T, next int64, err error) {
		err = withJob(ctx, a, in, func(v *journal.View, ref coord.JobRef) error {
			j, err := v.JobHead(ref)
			if err != nil {
				return err
			}
			out, err = of(v, j.ID)
			return err
		})
		return out, 0, err
	}
}

func (a *API) jobs(ctx context.Context, in *jobsInput) (out []coord.Job, next int64, err error) {
	states := make([]coord.JobState, len(in.State))
	for i, s := range in.State {
		states[i] = coord.JobState(s)
		if !slices.Contains(coord.Jobs.States(), states[i]) {
			return nil, 0, coord.InvalidFields("the jobs cannot be listed", []coord.Field{{Pointer: "/query/state", Message: "no state of a job; one of draft, running, needs_attention, completed, failed, cancelled"}})
		}
	}
	limit := pageLength(in.Limit)
	err = a.journal.View(ctx, func(v *journal.View) (err error) {
		out, err = v.Jobs(in.Before, limit, states...)
		return err
	})
	if len(out) == limit {
		next = out[limit-1].Number
	}
	return out, next, err
}

// addExport streams an archive. A failure in the middle cuts the connection,
// because the status has been sent; the manifest, which comes last, is then
// missing.
func (a *API) addExport(o operation) {
	d := a.describe(o)
	d.Responses = map[string]*huma.Response{"200": {
		Description: "The archive", Content: map[string]*huma.MediaType{"application/zip": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
	}}
	huma.Register(a.huma, d, func(ctx context.Context, in *JobPath) (*huma.StreamResponse, error) {
		var j coord.Job
		err := withJob(ctx, a, in, func(v *journal.View, ref coord.JobRef) (err error) {
			j, err = v.JobHead(ref)
			return err
		})
		if err != nil {
			return nil, a.problem(ctx, o.id, err)
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			_, w := humago.Unwrap(c)
			attach(w, exportName(j), "application/zip")
			if err := a.Synthesis.Export(ctx, coord.JobRef{ID: j.ID}, w); err != nil {
				p := a.problem(ctx, o.id, err)
				a.log.Warn("an export was cut off", "job", j.ID, "code", p.Code)
				panic(http.ErrAbortHandler)
			}
		}}, nil
	})
}
