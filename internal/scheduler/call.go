package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/fault"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
	"signalbox/internal/scheduler/workbench"
)

// tools is what an attempt has of Signalbox's own tools.
type tools struct {
	bench *workbench.Bench
	// base is what the attempt's changes are over.
	base   coord.WorkspaceIdentity
	parent coord.ChangeSetID
}

// tooled reports whether an attempt at the task gets tools.
func (w order) tooled() bool {
	return slices.ContainsFunc(w.planned.Operations, func(op coord.Operation) bool { return op != coord.Research })
}

// equip opens the workspace for an attempt whose task works in it.
func (o *owner) equip(w *order) error {
	switch {
	case !w.tooled():
		return nil
	case o.s.Contents == nil || w.space == nil:
		return &provider.Unsent{Cause: provider.CauseConfig, Message: "this task works in a folder, and none was approved for it"}
	}
	if err := o.certified(w); err != nil {
		return err
	}
	if w.frozenBase != nil {
		if why := w.frozenBase.Differs(*w.base); why != "" {
			return &provider.Unsent{Cause: provider.CauseStale, Message: "the task no longer starts from what was approved: " + why + " meanwhile; draft it again to start from what is there now"}
		}
	}
	options := workbench.Options{Space: *w.space, Operations: w.planned.Operations, Writes: w.planned.Writes,
		Tests: w.planned.Tests, TestRuns: w.planned.TestRuns, Contents: o.s.Contents, Tester: o.s.Tester}
	kit := &tools{base: *w.space}
	if w.base != nil {
		options.Base, kit.parent = w.base.Kept(), w.base.ID
	}
	var err error
	if kit.bench, err = workbench.Open(o.ctx, options); err != nil {
		return &provider.Unsent{Cause: provider.CauseStale, Message: told(err, "the workspace cannot be opened")}
	}
	o.tools, w.Tools = kit, kit.bench.Tools()
	return nil
}

// certified is an Unsent error when what was approved is no longer proven for
// the very program that was approved.
func (o *owner) certified(w *order) error {
	var a coord.Agent
	err := o.s.Journal.View(o.ctx, func(v *journal.View) (err error) {
		a, err = v.Agent(w.Agent)
		return err
	})
	if err != nil {
		return err
	}
	needed := slices.DeleteFunc(slices.Clone(w.planned.Operations), func(op coord.Operation) bool {
		// For reading, the inspection alone may be enough.
		return op == coord.Research || op == coord.Read && a.Inspection != nil && slices.Contains(a.Inspection.Operations, op)
	})
	if len(needed) == 0 {
		return nil
	}
	if a.Inspection != nil {
		seen := *a.Inspection
		seen.Identity = w.Identity
		a.Inspection = &seen
	}
	a.Revision = w.Revision
	// It is asked once: each answer looks at every program again.
	var can []coord.Operation
	why := map[coord.Operation]string{}
	if o.s.Certifier != nil {
		can, why = o.s.Certifier.Certified(o.ctx, a, w.planned.Tests)
	}
	for _, op := range needed {
		if !slices.Contains(can, op) {
			reason := why[op]
			if reason == "" {
				reason = "this worker certifies nothing"
			}
			return &provider.Unsent{Cause: provider.CauseStale, Message: fmt.Sprintf("the task may %s, which is no longer proven for agent %s: %s", op, a.ID, reason)}
		}
	}
	return nil
}

// baseOf gives the change set that a task starts from: the one its plan names,
// else the one that a need of it left for the same workspace and that nobody
// discarded.
func baseOf(v *journal.View, t coord.Task, planned coord.PlanTask, frozen coord.FrozenTask) (*coord.ChangeSet, error) {
	if frozen.Base != nil {
		c, err := v.ChangeSet(coord.ChangeSetRef{ID: frozen.Base.ChangeSet})
		if err != nil {
			return nil, &provider.Unsent{Cause: provider.CauseStale, Message: "the change set " + planned.Base + " that the task starts from is no longer kept"}
		}
		return &c, nil
	}
	sets, err := v.JobChangeSets(t.Job)
	if err != nil || planned.Writes == coord.Each {
		return nil, err
	}
	needed := map[string]bool{}
	for _, key := range t.Needs {
		needed[key] = true
	}
	// The newest stands upon those before it.
	for _, c := range slices.Backward(sets) {
		if needed[c.Key] && c.Base.Path == planned.Workspace && c.State != coord.ChangeSetDiscarded {
			return &c, nil
		}
	}
	return nil, nil
}

// call carries out a call of one of the attempt's tools, beside whatever runs;
// false when it could not be recorded.
func (o *owner) call(c provider.Call) bool {
	o.actions++
	// Looking changes nothing; beyond the bound it leaves no trace.
	quiet := o.actions > coord.MaxActivities
	if o.tools == nil {
		o.reply(c, provider.Result{Text: "no tools are offered here", Failed: true})
		return true
	}
	if texts := o.answer.take(false); len(texts) > 0 && !o.commit(func(tx *journal.Tx) error { return o.write(tx, texts) }) {
		return false
	}
	o.crew.start(func() {
		// Writes are recorded in the order in which they were made.
		o.writing.Lock()
		reply := o.tools.bench.Call(context.WithoutCancel(o.ctx), c)
		ok, err := o.record(c, reply, quiet)
		if coord.CodeOf(err) == coord.Invalid {
			// It cannot be kept as it is, which is no fault of the attempt.
			reply = workbench.Refused(reply.Did, err)
			ok, err = o.record(c, reply, quiet)
		}
		o.writing.Unlock()
		if err != nil {
			o.s.Logger.Error("a tool call could not be recorded", "attempt", o.id, "code", coord.CodeOf(err), "err", err)
		}
		switch {
		case !ok:
			o.reply(c, provider.Result{Text: "This attempt takes no more calls: it is over or being stopped.", Failed: true})
		case reply.Ask == nil:
			o.reply(c, reply.Result)
		}
	})
	return true
}

// record commits what a call did, or asks the operator. It is Invalid when that
// cannot be kept as it is.
func (o *owner) record(c provider.Call, reply workbench.Reply, quiet bool) (bool, error) {
	if reply.Ask == nil && !reply.Wrote && quiet {
		return true, nil
	}
	fault.Point("event.call.before")
	defer fault.Point("event.call.after")
	return o.s.commit(context.WithoutCancel(o.ctx), func(tx *journal.Tx) error {
		if err := o.progress(tx); err != nil {
			return err
		}
		if reply.Wrote {
			set := coord.ChangeSet{Attempt: o.id, Base: o.tools.base, Parent: o.tools.parent, Files: o.tools.bench.Changes()}
			if err := tx.Stage(set); err != nil {
				return err
			}
		}
		if reply.Ask != nil {
			return o.ask(tx, c, reply)
		}
		return o.tell(tx, coord.AttemptCalled, reply.Did)
	})
}

// ask makes a request of a call; what the plan grants is approved at once.
func (o *owner) ask(tx *journal.Tx, c provider.Call, reply workbench.Reply) error {
	r := *reply.Ask
	r.Attempt, r.Origin = o.id, c.Origin
	made, err := tx.AddRequest(r)
	if err != nil {
		return err
	}
	// Secrets are not kept, and what is not shown exactly cannot be approved.
	if r.Change != nil && (made.Change == nil || *made.Change != *r.Change || made.Content != r.Content) {
		return coord.Errorf(coord.Invalid, "the change holds what looks like a secret, so it cannot be shown to the operator exactly and was not asked for: write it without, for example with the name of a variable")
	}
	if reply.Granted == "" || made.Decision != coord.DecisionOpen {
		return nil
	}
	_, err = tx.DecideRequest(made.ID, coord.Choice{On: coord.DecisionApprove, Reason: reply.Granted, By: coord.WorkerActor})
	return err
}

// reply answers a call. That it may not arrive changes nothing: the call was
// recorded, and the agent's end will be seen.
func (o *owner) reply(c provider.Call, result provider.Result) {
	o.mu.Lock()
	session := o.session
	o.mu.Unlock()
	if session == nil {
		return
	}
	if _, err := session.Respond(context.WithoutCancel(o.ctx), provider.Answer{Request: c.Origin.Request, Result: &result}); err != nil {
		o.s.Logger.Info("a tool's answer did not reach the agent", "attempt", o.id, "err", err)
	}
}

// unequip waits for what works in the workspace and lets go of it.
func (o *owner) unequip() {
	if o.tools == nil {
		return
	}
	o.endTest(errOver)
	o.crew.wait()
	if err := o.tools.bench.Close(); err != nil {
		o.s.Logger.Warn("a workspace could not be closed", "attempt", o.id, "err", err)
	}
}

// answerOf is what the provider is told of a decided request.
func (s *Scheduler) answerOf(ctx context.Context, r coord.Request) provider.Answer {
	answer := provider.Answer{Request: r.Origin.Request, Decision: r.Decision, Option: r.Decided.Option, Text: r.Decided.Answer}
	if !r.Kind.Effective() {
		return answer
	}
	output := ""
	if r.Done != nil && r.Done.Report != nil && r.Done.Report.Output != "" {
		var err error
		if output, err = s.output(ctx, r.Done.Report.Output); err != nil {
			output = fmt.Sprintf("(the output is kept as %s and could not be read)", r.Done.Report.Output)
		}
	}
	result := workbench.Answer(r, output)
	answer.Result = &result
	return answer
}

// crew is what works for an attempt beside its owner.
type crew struct {
	mu   sync.Mutex
	work int
	idle []chan struct{} // closed when nothing works
}

// start runs fn in a goroutine of its own.
func (c *crew) start(fn func()) {
	c.mu.Lock()
	c.work++
	c.mu.Unlock()
	go func() {
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.work--; c.work > 0 {
				return
			}
			for _, idle := range c.idle {
				close(idle)
			}
			c.idle = nil
		}()
		fn()
	}()
}

// wait returns when nothing works.
func (c *crew) wait() {
	c.mu.Lock()
	if c.work == 0 {
		c.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	c.idle = append(c.idle, idle)
	c.mu.Unlock()
	<-idle
}
