package planning

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// ended is a job as it came out.
type ended struct {
	job     coord.Job
	tasks   []coord.Task
	results map[string]coord.Input // of completed tasks, by key
}

// Retry drafts the unfinished tasks of a job again, as a new job. Completed
// results that they need become inputs: bounded text with the digest of the
// whole. It is a Conflict while the job runs, while an unknown outcome of it is
// unresolved (the work might then be done twice), when nothing is left, and when
// the plan fits no longer, for example because its agent was disabled.
func (p *Planner) Retry(ctx context.Context, ref coord.JobRef, by coord.Actor) (coord.Job, error) {
	if err := mayDraft(by); err != nil {
		return coord.Job{}, err
	}
	e, err := p.ended(ctx, ref)
	if err != nil {
		return coord.Job{}, err
	}
	if e.job.State == coord.JobAttention {
		return e.job, coord.Errorf(coord.Conflict, "job %d has a task of unknown outcome: resolve it first, or its work might be done twice", e.job.Number)
	}
	plan, inputs := e.unfinished()
	if len(plan.Tasks) == 0 {
		return e.job, coord.Errorf(coord.Conflict, "every task of job %d completed: there is nothing to retry; continue it instead", e.job.Number)
	}
	job, err := p.draft(ctx, plan, &coord.JobOrigin{Job: e.job.ID, Number: e.job.Number, How: "retry"}, inputs, by)
	return job, outdated(e.job, err)
}

// outdated tells the faults of a plan that nobody gave as what they are: the world
// is another one than when the job was planned.
func outdated(job coord.Job, err error) error {
	e, ok := errors.AsType[*coord.Error](err)
	if !ok || e.Code != coord.Invalid || len(e.Fields) == 0 {
		return err
	}
	var why []string
	for _, f := range e.Fields {
		if !slices.Contains(why, f.Message) {
			why = append(why, f.Message)
		}
	}
	return coord.Errorf(coord.Conflict, "job %d cannot be made again as it was planned: %s", job.Number, cut(strings.Join(why, "; "), coord.MaxReason))
}

// Continue drafts a new job from plan whose first tasks, those that need no
// other, get the results of an earlier job as data. It is a Conflict while
// that job runs, and when none of its tasks completed.
func (p *Planner) Continue(ctx context.Context, ref coord.JobRef, plan coord.Plan, by coord.Actor) (coord.Job, error) {
	if err := mayDraft(by); err != nil {
		return coord.Job{}, err
	}
	e, err := p.ended(ctx, ref)
	if err != nil {
		return coord.Job{}, err
	}
	if len(e.results) == 0 {
		return e.job, coord.Errorf(coord.Conflict, "no task of job %d completed, so there is no result to continue from: retry it, or draft a new job", e.job.Number)
	}
	var results []coord.Input
	for _, t := range e.tasks {
		if in, ok := e.results[t.Key]; ok {
			results = append(results, in)
		}
	}
	plan = plan.Completed()
	inputs := map[string][]coord.Input{}
	for _, t := range plan.Tasks {
		if len(t.Needs) == 0 {
			inputs[t.Key] = bounded(results)
		}
	}
	return p.draft(ctx, plan, &coord.JobOrigin{Job: e.job.ID, Number: e.job.Number, How: "continue"}, inputs, by)
}

// Again drafts a job once more with what the operator has to say of it: the
// same tasks, each on top of the changes that it made and that nobody
// discarded, with its result as data. It is a Conflict while that job runs, and
// when its plan fits no longer.
func (p *Planner) Again(ctx context.Context, ref coord.JobRef, message string, by coord.Actor) (coord.Job, error) {
	if err := mayDraft(by); err != nil {
		return coord.Job{}, err
	}
	wrong := func(format string, args ...any) error {
		return coord.InvalidFields("the job cannot be drafted again", []coord.Field{{Pointer: "/message", Message: fmt.Sprintf(format, args...)}})
	}
	switch {
	case strings.TrimSpace(message) == "":
		return coord.Job{}, wrong("required: what is to be done differently")
	case !utf8.ValidString(message):
		return coord.Job{}, wrong("not valid UTF-8")
	}
	e, err := p.ended(ctx, ref)
	if err != nil {
		return coord.Job{}, err
	}
	if e.job.State == coord.JobAttention {
		return e.job, coord.Errorf(coord.Conflict, "job %d has a task of unknown outcome: resolve it first, or its work might be done twice", e.job.Number)
	}
	var sets []coord.ChangeSet
	err = p.journal.View(ctx, func(v *journal.View) (err error) {
		sets, err = v.JobChangeSets(e.job.ID)
		return err
	})
	if err != nil {
		return e.job, err
	}
	plan := e.job.Plan
	plan.Tasks = slices.Clone(plan.Tasks)
	inputs := map[string][]coord.Input{}
	for i := range plan.Tasks {
		t := &plan.Tasks[i]
		t.Instruction = strings.TrimRight(t.Instruction, "\n") + "\n\n" + message
		if n := len(t.Instruction); n > coord.MaxInstruction {
			return e.job, wrong("with the instruction of task %s it is %d bytes; at most %d", t.Key, n, coord.MaxInstruction)
		}
		if base := newest(sets, t.Key); base != nil && t.Writes == coord.Staged {
			t.Base = fmt.Sprintf("c%d", base.Number)
		}
		ins := slices.Clone(t.Inputs)
		if in, done := e.results[t.Key]; done {
			ins = append(ins, in)
		}
		t.Inputs = nil
		inputs[t.Key] = bounded(ins)
	}
	job, err := p.draft(ctx, plan, &coord.JobOrigin{Job: e.job.ID, Number: e.job.Number, How: "again"}, inputs, by)
	return job, outdated(e.job, err)
}

// newest gives the last change set of a task that nobody discarded.
func newest(sets []coord.ChangeSet, key string) *coord.ChangeSet {
	for i := len(sets) - 1; i >= 0; i-- {
		if sets[i].Key == key && sets[i].State != coord.ChangeSetDiscarded {
			return &sets[i]
		}
	}
	return nil
}

// ended reads a job that was started, does not run, and is kept whole.
func (p *Planner) ended(ctx context.Context, ref coord.JobRef) (ended, error) {
	e := ended{results: map[string]coord.Input{}}
	err := p.journal.View(ctx, func(v *journal.View) (err error) {
		if e.job, err = v.Job(ref); err != nil {
			return err
		}
		switch {
		case e.job.Started == nil:
			return coord.Errorf(coord.Conflict, "job %d never ran: draft it anew", e.job.Number)
		case e.job.State == coord.JobRunning:
			return coord.Errorf(coord.Conflict, "job %d still runs: wait for it or cancel it", e.job.Number)
		}
		switch _, err := v.Summary(e.job.ID); coord.CodeOf(err) {
		case "":
			return coord.Errorf(coord.Conflict, "job %d ended so long ago that only its result is kept: read it with 'signalbox job result %d' and draft a new job", e.job.Number, e.job.Number)
		case coord.NotFound:
		default:
			return err
		}
		if e.tasks, err = v.Tasks(e.job.ID); err != nil {
			return err
		}
		for _, t := range e.tasks {
			if t.State != coord.TaskCompleted {
				continue
			}
			a, err := v.Attempt(coord.AttemptRef{ID: t.Attempt})
			if err != nil {
				return err
			}
			e.results[t.Key] = result(a)
		}
		return nil
	})
	return e, err
}

// result is what a completed task's attempt leaves for others.
func result(a coord.Attempt) coord.Input {
	in := coord.Input{Job: a.Job, Key: a.Key, Agent: a.Agent}
	switch {
	case a.Statement != nil:
		in.Text, in.SHA256 = a.Statement.Text, a.Statement.SHA256
	case a.Resolution != nil:
		in.Text = a.Resolution.Text
	}
	if in.SHA256 == "" {
		sum := sha256.Sum256([]byte(in.Text))
		in.SHA256 = hex.EncodeToString(sum[:])
	}
	in.Text = cut(in.Text, coord.MaxProjection)
	return in
}

// unfinished gives the plan of the tasks that did not complete, and the inputs
// that take the place of their completed needs.
func (e ended) unfinished() (coord.Plan, map[string][]coord.Input) {
	plan := e.job.Plan
	plan.Tasks = nil
	inputs := map[string][]coord.Input{}
	for _, t := range e.job.Plan.Tasks {
		if _, done := e.results[t.Key]; done {
			continue
		}
		ins := slices.Clone(t.Inputs)
		t.Needs = slices.DeleteFunc(slices.Clone(t.Needs), func(need string) bool {
			in, done := e.results[need]
			if done {
				ins = append(ins, in)
			}
			return done
		})
		t.Inputs = nil
		plan.Tasks = append(plan.Tasks, t)
		inputs[t.Key] = bounded(ins)
	}
	return plan, inputs
}

// bounded cuts inputs so that one task's stay within coord.MaxProjectionTotal
// together. Each keeps the digest of its whole text.
func bounded(ins []coord.Input) []coord.Input {
	if len(ins) == 0 {
		return nil
	}
	out := slices.Clone(ins)
	each := min(coord.MaxProjection, coord.MaxProjectionTotal/len(out))
	for i := range out {
		out[i].Text = cut(out[i].Text, each)
	}
	return out
}

// cut gives at most n bytes of s, whole characters only.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
