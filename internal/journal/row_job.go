package journal

import (
	"encoding/json"
	"fmt"

	"signalbox/internal/coord"
)

// plans is the large part of a job, kept in a column of its own so that the
// scheduler, which looks at jobs often, does not read it.
type plans struct {
	Plan   coord.Plan    `json:"plan"`
	Frozen *coord.Frozen `json:"frozen,omitempty"`
}

// Job gives a job with its plan, or NotFound.
func (v *View) Job(ref coord.JobRef) (coord.Job, error) {
	j, err := v.JobHead(ref)
	if err != nil {
		return j, err
	}
	p, err := find[plans](v, "the plan of "+string(j.ID), `SELECT plan FROM jobs WHERE id = $1`, j.ID)
	j.Plan, j.Frozen = p.Plan, p.Frozen
	return j, err
}

// JobHead gives a job without its plan, or NotFound.
func (v *View) JobHead(ref coord.JobRef) (coord.Job, error) {
	if ref.ID != "" {
		return find[coord.Job](v, "job "+string(ref.ID), `SELECT doc FROM jobs WHERE id = $1`, ref.ID)
	}
	return find[coord.Job](v, fmt.Sprintf("job %d", ref.Number), `SELECT doc FROM jobs WHERE number = $1`, ref.Number)
}

// Jobs gives up to limit jobs without their plans, newest first, with numbers
// below before (0: from the newest), in one of states (none: all).
func (v *View) Jobs(before int64, limit int, states ...coord.JobState) ([]coord.Job, error) {
	if before <= 0 {
		before = 1 << 62
	}
	if len(states) == 0 {
		return list[coord.Job](v, `SELECT doc FROM jobs WHERE number < $1 ORDER BY number DESC LIMIT $2`, before, limit)
	}
	var out []coord.Job
	// The page is read state by state through the index and merged; there are
	// six states at most.
	for _, s := range states {
		jobs, err := list[coord.Job](v, `SELECT doc FROM jobs WHERE state = $1 AND number < $2 ORDER BY number DESC LIMIT $3`, s, before, limit)
		if err != nil {
			return nil, err
		}
		out = append(out, jobs...)
	}
	return newestFirst(out, limit), nil
}

// OpenJobs gives the jobs that run or need attention, without their plans, in
// the order of their numbers.
func (v *View) OpenJobs() ([]coord.Job, error) {
	return list[coord.Job](v, openJobs)
}

const openJobs = `SELECT doc FROM jobs WHERE state IN ('running', 'needs_attention') ORDER BY number`

// Tasks gives a job's tasks in the order of the plan.
func (v *View) Tasks(job coord.JobID) ([]coord.Task, error) {
	return list[coord.Task](v, `SELECT doc FROM tasks WHERE job = $1 ORDER BY idx`, job)
}

// Task gives one task, or NotFound.
func (v *View) Task(ref coord.TaskRef) (coord.Task, error) {
	if ref.ID != "" {
		return find[coord.Task](v, "task "+string(ref.ID), `SELECT doc FROM tasks WHERE id = $1`, ref.ID)
	}
	j, err := v.JobHead(ref.Job)
	if err != nil {
		return coord.Task{}, err
	}
	return find[coord.Task](v, fmt.Sprintf("task %d/%s", j.Number, ref.Key), `SELECT doc FROM tasks WHERE job = $1 AND key = $2`, j.ID, ref.Key)
}

// AddJob stores a new draft and gives it its id and number.
func (tx *Tx) AddJob(j coord.Job) (coord.Job, error) {
	n, err := tx.nextNumber(jobNumbers)
	if err != nil {
		return j, err
	}
	j.ID, j.Number, j.State, j.Revision, j.Drafted = coord.JobID(tx.newID(coord.JobPrefix)), n, coord.Jobs.Initial, 1, tx.Now()
	if err := tx.put(`INSERT INTO jobs (id, number, state, plan, doc) VALUES ($1, $2, $3, '{}', '{}')`, j.ID, j.Number, j.State); err != nil {
		return j, err
	}
	if err := tx.PutPlan(&j); err != nil {
		return j, err
	}
	return j, tx.PutJob(j, &j.By)
}

// PutPlan stores the job's plan and frozen plan, and brings j to what is kept:
// secrets in a plan are replaced before it is stored.
func (tx *Tx) PutPlan(j *coord.Job) error {
	doc, err := encode(tx, plans{j.Plan, j.Frozen})
	if err != nil {
		return err
	}
	var kept plans
	if err := json.Unmarshal([]byte(doc), &kept); err != nil {
		return err
	}
	j.Plan, j.Frozen = kept.Plan, kept.Frozen
	j.Title, j.Deadline, j.Limits = kept.Plan.Title, kept.Plan.Deadline, kept.Plan.Limits
	return tx.put(`UPDATE jobs SET plan = $2 WHERE id = $1`, j.ID, doc)
}

// PutJob stores the job but for its plan, and tells of it.
func (tx *Tx) PutJob(j coord.Job, by *coord.Actor) error {
	j.Plan, j.Frozen = coord.Plan{}, nil
	doc, err := encode(tx, j)
	if err != nil {
		return err
	}
	var ended any
	if j.Ended != nil {
		ended = j.Ended.Wall.UnixMilli()
	}
	if err := tx.putMoved(
		`UPDATE jobs SET doc = $4 WHERE id = $1 AND state = $2 AND ended IS $3`,
		`UPDATE jobs SET state = $2, ended = $3, doc = $4 WHERE id = $1`, j.ID, j.State, ended, doc); err != nil {
		return err
	}
	return tx.Tell(coord.Event{Kind: coord.JobChanged, Job: j.ID, By: by}, struct {
		Number   int64          `json:"number"`
		State    coord.JobState `json:"state"`
		Revision int            `json:"revision"`
		Title    string         `json:"title"`
	}{j.Number, j.State, j.Revision, j.Title})
}

// AddTask stores a new task, in the state that it has, and gives it its id.
func (tx *Tx) AddTask(t coord.Task) (coord.Task, error) {
	t.ID, t.Changed = coord.TaskID(tx.newID(coord.TaskPrefix)), tx.Now()
	doc, err := encode(tx, t)
	if err != nil {
		return t, err
	}
	if err := tx.put(`INSERT INTO tasks (id, job, key, idx, state, doc) VALUES ($1, $2, $3, $4, $5, $6)`, t.ID, t.Job, t.Key, t.Index, t.State, doc); err != nil {
		return t, err
	}
	return t, tx.tellTask(t)
}

func (tx *Tx) putTask(t coord.Task) error {
	doc, err := encode(tx, t)
	if err != nil {
		return err
	}
	if err := tx.put(`UPDATE tasks SET state = $2, doc = $3 WHERE id = $1`, t.ID, t.State, doc); err != nil {
		return err
	}
	return tx.tellTask(t)
}

func (tx *Tx) tellTask(t coord.Task) error {
	return tx.Tell(coord.Event{Kind: coord.TaskChanged, Job: t.Job, Task: t.ID, Agent: t.Agent}, struct {
		Key    string          `json:"key"`
		State  coord.TaskState `json:"state"`
		Reason string          `json:"reason,omitempty"`
	}{t.Key, t.State, t.Reason})
}

// MoveTask moves a task, and its job when that follows from it.
func (tx *Tx) MoveTask(id coord.TaskID, on coord.TaskEvent, reason string) error {
	t, err := tx.Task(coord.TaskRef{ID: id})
	if err != nil {
		return err
	}
	return tx.moveTask(t, on, reason)
}

func (tx *Tx) moveTask(t coord.Task, on coord.TaskEvent, reason string) error {
	t, err := t.Apply(on, reason, tx.Now())
	if err != nil {
		return err
	}
	if err := tx.putTask(t); err != nil {
		return err
	}
	return tx.followJob(t.Job)
}

// followJob moves a job to what its tasks' states mean for it.
func (tx *Tx) followJob(id coord.JobID) error {
	j, err := tx.JobHead(coord.JobRef{ID: id})
	if err != nil {
		return err
	}
	tasks, err := tx.Tasks(id)
	if err != nil {
		return err
	}
	on := j.Follow(tasks)
	if on == "" {
		return nil
	}
	if j, err = j.Apply(on, tx.Now()); err != nil {
		return err
	}
	return tx.PutJob(j, nil)
}

// newestFirst merges pages of jobs into one of at most limit.
func newestFirst(jobs []coord.Job, limit int) []coord.Job {
	sortJobs(jobs)
	if len(jobs) > limit {
		jobs = jobs[:limit]
	}
	return jobs
}
