package planning

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// Agents is what planning asks of the directory.
type Agents interface {
	// Get gives an agent as it is known, or NotFound.
	Get(ctx context.Context, id coord.AgentID) (coord.Agent, error)
	// Usable gives an agent with a fresh inspection without a problem, and
	// inspects it anew when it must.
	Usable(ctx context.Context, id coord.AgentID) (coord.Agent, error)
}

// Certifier says which operations beyond an agent's inspection are proven on
// this machine now, and why not the others; testing, for the files of tests that
// a task is granted.
type Certifier interface {
	Certified(ctx context.Context, a coord.Agent, tests []string) ([]coord.Operation, map[coord.Operation]string)
}

// Options of a planner. Without a Certifier nothing is proven beyond
// inspections.
type Options struct {
	Certifier Certifier
	// DataDir is the folder with the journal: no workspace may hold it or lie
	// in it, or an agent could write its own approvals. "" where there is none.
	DataDir string
}

// Planner drafts and freezes plans. It is safe for concurrent use.
type Planner struct {
	journal *journal.Journal
	agents  Agents
	proven  Certifier
	dataDir string
}

// New makes a planner.
func New(j *journal.Journal, agents Agents, o Options) *Planner {
	dir := o.DataDir
	if dir != "" {
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
	}
	return &Planner{journal: j, agents: agents, proven: o.Certifier, dataDir: dir}
}

// Draft validates a plan and keeps it as a new job. Faults are Invalid, all at
// once. Secrets in the plan are replaced before it is kept; the job that is
// given back shows what is kept.
func (p *Planner) Draft(ctx context.Context, plan coord.Plan, by coord.Actor) (coord.Job, error) {
	if err := mayDraft(by); err != nil {
		return coord.Job{}, err
	}
	return p.draft(ctx, plan, nil, nil, by)
}

// draft keeps a plan as a new job; inputs are those that its tasks may carry,
// by key.
func (p *Planner) draft(ctx context.Context, plan coord.Plan, from *coord.JobOrigin, inputs map[string][]coord.Input, by coord.Actor) (coord.Job, error) {
	plan, err := p.validate(ctx, plan, inputs)
	if err != nil {
		return coord.Job{}, err
	}
	var job coord.Job
	err = p.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if job, err = tx.AddJob(coord.Job{Plan: plan, From: from, By: by}); err != nil {
			return err
		}
		// The answer and the draft are one: asked twice, there is one draft.
		return tx.Answer(job)
	})
	return job, err
}

// Revise replaces the plan of a draft. It is Stale when ifRevision is not the
// draft's, and a Conflict when the job is no draft any more. What was frozen is
// frozen no longer. The inputs that Retry or Continue gave to a task stay with
// its key.
func (p *Planner) Revise(ctx context.Context, ref coord.JobRef, ifRevision int, plan coord.Plan, by coord.Actor) (coord.Job, error) {
	if err := mayDraft(by); err != nil {
		return coord.Job{}, err
	}
	job, err := p.job(ctx, ref)
	if err != nil {
		return job, err
	}
	if err := revisable(job, ifRevision); err != nil {
		return job, err
	}
	inputs := map[string][]coord.Input{}
	for _, t := range job.Plan.Tasks {
		inputs[t.Key] = t.Inputs
	}
	if plan, err = p.validate(ctx, plan, inputs); err != nil {
		return job, err
	}
	err = p.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if job, err = tx.Job(ref); err != nil {
			return err
		}
		if err := revisable(job, ifRevision); err != nil {
			return err
		}
		job.Plan, job.Frozen = plan, nil
		job.Revision++
		if err := tx.PutPlan(&job); err != nil {
			return err
		}
		return tx.PutJob(job, &by)
	})
	return job, err
}

// Discard throws a draft away; it ends as cancelled. Doing it again changes
// nothing.
func (p *Planner) Discard(ctx context.Context, ref coord.JobRef, by coord.Actor) (coord.Job, error) {
	if err := mayDraft(by); err != nil {
		return coord.Job{}, err
	}
	var job coord.Job
	err := p.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if job, err = tx.Job(ref); err != nil {
			return err
		}
		if job.State == coord.JobCancelled && job.Started == nil {
			return nil
		}
		switch {
		case coord.Jobs.Final(job.State):
			return coord.Errorf(coord.Conflict, "job %d is %s: only a draft is discarded, and what ran stays on record", job.Number, job.State)
		case job.State != coord.JobDraft:
			return coord.Errorf(coord.Conflict, "job %d is %s: only a draft is discarded; stop it with signalbox job cancel %d", job.Number, job.State, job.Number)
		}
		if job, err = job.Apply(coord.JobDiscard, tx.Now()); err != nil {
			return err
		}
		return tx.PutJob(job, &by)
	})
	return job, err
}

// job reads a job with its plan.
func (p *Planner) job(ctx context.Context, ref coord.JobRef) (coord.Job, error) {
	var job coord.Job
	err := p.journal.View(ctx, func(v *journal.View) (err error) {
		job, err = v.Job(ref)
		return err
	})
	return job, err
}

// revisable refuses what is no draft of this revision.
func revisable(job coord.Job, revision int) error {
	if job.State != coord.JobDraft {
		return coord.Errorf(coord.Conflict, "job %d is %s: only a draft is revised; retry or continue it as a new job", job.Number, job.State)
	}
	if job.Revision != revision {
		return coord.Errorf(coord.Stale, "job %d is at revision %d, not %d: look at it again before changing it", job.Number, job.Revision, revision)
	}
	return nil
}

// mayDraft refuses roles that cannot draft. The doors do so too; this holds
// should one of them forget.
func mayDraft(by coord.Actor) error {
	if !by.Role.Allows(coord.RoleDraft) {
		return coord.Errorf(coord.Forbidden, "drafting needs a credential of role %s or %s", coord.RoleDraft, coord.RoleOperator)
	}
	return nil
}

// keepInputs puts the inputs that belong to each task into the plan and tells
// of those that do not: nobody but Retry and Continue says what an earlier job
// resulted in.
func keepInputs(plan *coord.Plan, inputs map[string][]coord.Input) []coord.Field {
	var f []coord.Field
	for i := range plan.Tasks {
		t := &plan.Tasks[i]
		if len(t.Inputs) > 0 && !slices.Equal(t.Inputs, inputs[t.Key]) {
			f = append(f, coord.Field{Pointer: fmt.Sprintf("/tasks/%d/inputs", i), Message: "made by retry and continue only; leave it out"})
		}
		t.Inputs = inputs[t.Key]
	}
	return f
}
