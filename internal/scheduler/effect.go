package scheduler

import (
	"context"
	"errors"
	"io"

	"signalbox/internal/coord"
	"signalbox/internal/fault"
	"signalbox/internal/journal"
	"signalbox/internal/scheduler/workbench"
)

// perform carries out what was approved, beside whatever runs. That it begins
// is committed first, with the check that the attempt is live and not being
// cancelled, and with what is needed to find out after a crash how far it got.
func (o *owner) perform(r coord.Request) bool {
	if o.tools == nil || !o.s.take(r.ID) {
		return false
	}
	o.crew.start(func() {
		defer o.s.leave(r.ID)
		var done coord.Done
		if r.Kind == coord.WriteFile {
			done.Steps = workbench.Plan(r)
		}
		fault.Point("effect.start.before")
		if !o.commit(func(tx *journal.Tx) error { return startEffect(tx, r.ID, done) }) {
			return
		}
		fault.Point("effect.start.after")
		if r.Kind == coord.WriteFile {
			o.writeFile(r, done)
		} else {
			o.runTests(r)
		}
		fault.Point("effect.end.after")
	})
	return true
}

// startEffect begins an effect that may still begin.
func startEffect(tx *journal.Tx, id coord.RequestID, done coord.Done) error {
	r, err := tx.Request(coord.RequestRef{ID: id})
	if err != nil {
		return err
	}
	a, err := tx.Attempt(coord.AttemptRef{ID: r.Attempt})
	if err != nil {
		return err
	}
	if !a.Live() || a.Cancel.State != coord.CancelNone || !r.Undone() {
		return coord.Errorf(coord.Conflict, "the attempt no longer has effects")
	}
	if r, err = r.Perform(coord.EffectApply, done); err != nil {
		return err
	}
	return tx.PutRequest(r, nil)
}

// endEffect records how an effect came out.
func (s *Scheduler) endEffect(ctx context.Context, id coord.RequestID, on coord.EffectEvent, done coord.Done) (bool, error) {
	return s.commit(ctx, func(tx *journal.Tx) error {
		r, err := tx.Request(coord.RequestRef{ID: id})
		if err != nil {
			return err
		}
		if r, err = r.Perform(on, done); err != nil {
			return err
		}
		return tx.PutRequest(r, nil)
	})
}

func (o *owner) writeFile(r coord.Request, done coord.Done) {
	ctx := context.WithoutCancel(o.ctx)
	for i, step := range done.Steps {
		if i > 0 && done.Steps[i-1].State != coord.StepLanded {
			step.State = coord.StepSkipped
		} else {
			step = workbench.Take(ctx, o.tools.base, o.s.Contents, step)
		}
		done.Steps[i] = step
	}
	fault.Point("effect.write.after")
	on, note := workbench.Outcome(done.Steps)
	done.Note = note
	if _, err := o.s.endEffect(ctx, r.ID, on, done); err != nil {
		o.s.Logger.Error("a write could not be recorded", "request", r.ID, "code", coord.CodeOf(err), "err", err)
	}
}

func (o *owner) runTests(r coord.Request) {
	report, output, err := o.tools.bench.Test(o.testing, *r.Test)
	fault.Point("effect.tests.after")
	if err != nil {
		report = coord.TestReport{Outcome: coord.TestsRefused, Reason: told(err, "the tests could not be run")}
	}
	ctx := context.WithoutCancel(o.ctx)
	file := coord.Artifact{Job: o.job, Task: o.task, Attempt: o.id, Agent: o.agent, Name: "tests.txt", Media: "text/plain; charset=utf-8", Origin: "made"}
	if len(output) > 0 {
		if err := o.keep(&file, output); err != nil {
			report.Reason = told(err, "the output could not be kept")
			file = coord.Artifact{}
		}
	}
	on := coord.EffectSucceed
	if report.Outcome == coord.TestsRefused {
		on = coord.EffectFail
	}
	_, err = o.s.commit(ctx, func(tx *journal.Tx) error {
		if file.SHA256 != "" {
			kept, err := tx.AddArtifact(file)
			if err != nil {
				return err
			}
			report.Output = kept.ID
		}
		now, err := tx.Request(coord.RequestRef{ID: r.ID})
		if err != nil {
			return err
		}
		a, err := tx.Attempt(coord.AttemptRef{ID: r.Attempt})
		if err != nil {
			return err
		}
		report = endedBy(report, a.Cancel)
		if now, err = now.Perform(on, coord.Done{Report: &report}); err != nil {
			return err
		}
		return tx.PutRequest(now, nil)
	})
	if err != nil {
		o.s.Logger.Error("a run of tests could not be recorded", "request", r.ID, "code", coord.CodeOf(err), "err", err)
	}
}

// endedBy is the report of a run whose attempt was stopped meanwhile: what the
// deadline ended took too long, and was not cancelled by anybody.
func endedBy(r coord.TestReport, c coord.Cancellation) coord.TestReport {
	if r.Outcome == coord.TestsCancelled && c.Cause == coord.CauseDeadline {
		r.Outcome, r.Reason = coord.TestsTimedOut, "The deadline of the job passed"
	}
	return r
}

// examine finds out how far an effect got that an earlier process began. It
// takes no step again.
func (s *Scheduler) examine(ctx context.Context, r coord.Request) (bool, error) {
	if r.Kind != coord.WriteFile || r.Done == nil {
		return s.endEffect(ctx, r.ID, coord.EffectLose, coord.Done{Note: "Signalbox ended while the tests ran; they ended with it"})
	}
	space, err := s.spaceOf(ctx, r.Task)
	if err != nil {
		return false, err
	}
	done := *r.Done
	done.Steps = append([]coord.LandingStep(nil), done.Steps...)
	for i, step := range done.Steps {
		done.Steps[i] = workbench.Examine(ctx, space, s.Contents, step)
	}
	on, note := workbench.Outcome(done.Steps)
	if on == coord.EffectFail && done.Steps[0].State == coord.StepForeign {
		on = coord.EffectDiverge
	}
	done.Note = note
	return s.endEffect(ctx, r.ID, on, done)
}

// spaceOf is the workspace that was approved for a task.
func (s *Scheduler) spaceOf(ctx context.Context, id coord.TaskID) (coord.WorkspaceIdentity, error) {
	var space coord.WorkspaceIdentity
	err := s.Journal.View(ctx, func(v *journal.View) error {
		_, _, frozen, err := frozenTask(v, id)
		if err == nil && frozen.Space != nil {
			space = *frozen.Space
		}
		return err
	})
	return space, err
}

// take marks a request as being worked on; false when it is already.
func (s *Scheduler) take(id coord.RequestID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[id] {
		return false
	}
	s.busy[id] = true
	return true
}

// leave ends that and lets Run look again.
func (s *Scheduler) leave(id coord.RequestID) {
	s.mu.Lock()
	delete(s.busy, id)
	s.mu.Unlock()
	s.nudge()
}

// output reads what a run of tests wrote.
func (s *Scheduler) output(ctx context.Context, id coord.ArtifactID) (string, error) {
	var a coord.Artifact
	err := s.Journal.View(ctx, func(v *journal.View) (err error) {
		a, err = v.Artifact(id)
		return err
	})
	if err != nil {
		return "", err
	}
	r, _, err := s.Store.Open(a.SHA256)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(r, coord.MaxTestOutput))
	return string(b), errors.Join(err, r.Close())
}
