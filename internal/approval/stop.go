package approval

import (
	"context"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

const cancelledReason = "cancelled by the operator"

// CancelJob asks for everything of a job to stop: what was not started is
// cancelled at once, and each live attempt gets a request to stop, which only
// the agent confirms. A task of unknown outcome stays unknown. Asking again
// changes nothing; a job that ended otherwise, or never ran, is a Conflict.
func (p *Approval) CancelJob(ctx context.Context, ref coord.JobRef, by coord.Actor) (coord.Job, error) {
	if err := operator(by); err != nil {
		return coord.Job{}, err
	}
	var job coord.Job
	err := p.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if job, err = tx.Job(ref); err != nil {
			return err
		}
		switch {
		case job.State == coord.JobCancelled:
			return nil
		case job.State == coord.JobDraft:
			return coord.Errorf(coord.Conflict, "job %d is a draft: throw it away with signalbox job discard %d", job.Number, job.Number)
		case coord.Jobs.Final(job.State):
			return coord.Errorf(coord.Conflict, "job %d is %s: there is nothing to cancel", job.Number, job.State)
		}
		tasks, err := tx.Tasks(job.ID)
		if err != nil {
			return err
		}
		// What has not started goes first, so that no end of a live attempt can
		// let a dependant go.
		for _, t := range tasks {
			if undispatched(t) {
				if err := tx.MoveTask(t.ID, coord.TaskCancel, cancelledReason); err != nil {
					return err
				}
			}
		}
		for _, t := range tasks {
			if err := cancelAttempt(tx, t, by); err != nil {
				return err
			}
		}
		if job, err = tx.Job(coord.JobRef{ID: job.ID}); err != nil {
			return err
		}
		return tx.Answer(job)
	})
	return job, err
}

// CancelTask asks for one task to stop, as CancelJob does for all. What needs
// it is skipped then.
func (p *Approval) CancelTask(ctx context.Context, ref coord.TaskRef, by coord.Actor) (coord.Task, error) {
	if err := operator(by); err != nil {
		return coord.Task{}, err
	}
	var task coord.Task
	err := p.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if task, err = tx.Task(ref); err != nil {
			return err
		}
		switch {
		case task.State == coord.TaskCancelled:
			return nil
		case task.State == coord.TaskUnknown:
			return coord.Errorf(coord.Conflict, "the outcome of task %s is unknown, so there is nobody to ask to stop: reconcile or resolve its attempt", task.Key)
		case coord.Tasks.Final(task.State):
			return coord.Errorf(coord.Conflict, "task %s is %s: there is nothing to cancel", task.Key, task.State)
		case undispatched(task):
			err = tx.MoveTask(task.ID, coord.TaskCancel, cancelledReason)
		default:
			err = cancelAttempt(tx, task, by)
		}
		if err != nil {
			return err
		}
		if task, err = tx.Task(coord.TaskRef{ID: task.ID}); err != nil {
			return err
		}
		return tx.Answer(task)
	})
	return task, err
}

// cancelAttempt asks the live attempt of a task to stop, once.
func cancelAttempt(tx *journal.Tx, t coord.Task, by coord.Actor) error {
	if t.Attempt == "" {
		return nil
	}
	a, err := tx.Attempt(coord.AttemptRef{ID: t.Attempt})
	if err != nil || !a.Live() || a.Cancel.State != coord.CancelNone {
		return err
	}
	_, err = tx.CancelAttempt(a.ID, coord.CauseOperator, by)
	return err
}
