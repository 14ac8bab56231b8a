package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// Run approves the frozen plan of a job by its digest and starts it: the
// grant, the tasks and the job's new state are one transaction. It is Stale
// when digest is not that of the plan as frozen now, and a Conflict when the
// job is no draft, was never frozen, or names an agent that was disabled or
// removed since. Approving what runs by the same digest already gives the job.
func (p *Approval) Run(ctx context.Context, ref coord.JobRef, digest string, by coord.Actor) (coord.Job, error) {
	if err := operator(by); err != nil {
		return coord.Job{}, err
	}
	var job coord.Job
	err := p.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if job, err = tx.Job(ref); err != nil {
			return err
		}
		if job.Grant != nil && job.Grant.Digest == digest {
			return nil
		}
		if err := runnable(job, digest); err != nil {
			return err
		}
		if err := willing(tx, job); err != nil {
			return err
		}
		var tasks []coord.Task
		if job, tasks, err = start(tx, job, by); err != nil {
			return err
		}
		if err := tx.Answer(job); err != nil || p.admit == nil {
			return err
		}
		// Last: it starts programs, and nothing after it may refuse the approval.
		return p.admit(tx, job, tasks)
	})
	return job, err
}

// runnable refuses a job that cannot be started by this digest.
func runnable(job coord.Job, digest string) error {
	switch {
	case job.State != coord.JobDraft:
		return coord.Errorf(coord.Conflict, "job %d is %s: only a draft is run; retry or continue it as a new job", job.Number, job.State)
	case job.Frozen == nil:
		return coord.Errorf(coord.Conflict, "job %d is not frozen, so there is nothing exact to approve: freeze and review it first", job.Number)
	case job.Frozen.Digest != digest:
		return coord.Errorf(coord.Stale, "job %d is frozen as %s, and %s was approved: review it again", job.Number, short(job.Frozen.Digest), shown(digest))
	}
	// What the row holds must be what its digest says.
	b, err := job.Frozen.Digestible()
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != digest {
		return coord.Errorf(coord.Stale, "the frozen plan of job %d does not match its digest %s any more: freeze and review it again", job.Number, short(digest))
	}
	return nil
}

// shown gives a digest from outside without repeating a long input.
func shown(digest string) string {
	if len(digest) != 2*sha256.Size {
		return "something that is no digest"
	}
	return short(digest)
}

// willing refuses a plan whose agents the operator switched off since. Their
// configuration may have changed: what runs is the frozen copy.
func willing(tx *journal.Tx, job coord.Job) error {
	for _, t := range job.Frozen.Tasks {
		a, err := tx.Agent(t.Agent)
		switch {
		case err != nil && coord.CodeOf(err) != coord.NotFound:
			return err
		case err != nil || a.Removed:
			return coord.Errorf(coord.Conflict, "agent %s of task %s was removed since job %d was frozen: revise the plan", t.Agent, t.Key, job.Number)
		case !a.Enabled:
			return coord.Errorf(coord.Conflict, "agent %s of task %s is disabled: enable it with 'signalbox agent enable %s', or revise the plan", t.Agent, t.Key, t.Agent)
		}
	}
	return nil
}

// start makes the tasks, of which those that need nothing are ready.
func start(tx *journal.Tx, job coord.Job, by coord.Actor) (coord.Job, []coord.Task, error) {
	now := tx.Now()
	job, err := job.Apply(coord.JobRun, now)
	if err != nil {
		return job, nil, err
	}
	job.Grant = &coord.Grant{Digest: job.Frozen.Digest, By: by, At: now}
	job.Started = &now
	if err := tx.PutJob(job, &by); err != nil {
		return job, nil, err
	}
	tasks := make([]coord.Task, len(job.Frozen.Plan.Tasks))
	for i, t := range job.Frozen.Plan.Tasks {
		task := coord.Task{
			Job: job.ID, Key: t.Key, Index: i, Agent: t.Agent, State: coord.Tasks.Initial,
			Needs: t.Needs, Writes: slices.Contains(t.Operations, coord.Write),
		}
		if len(t.Needs) == 0 {
			if task, err = task.Apply(coord.TaskUnblock, "", now); err != nil {
				return job, nil, err
			}
		}
		if tasks[i], err = tx.AddTask(task); err != nil {
			return job, nil, err
		}
	}
	return job, tasks, nil
}
