package scheduler

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/fault"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
	"signalbox/internal/workspace"
)

// owner is the one goroutine that follows an attempt, and what others may ask
// of it.
type owner struct {
	s     *Scheduler
	id    coord.AttemptID
	job   coord.JobID
	task  coord.TaskID
	agent coord.AgentID
	// ctx ends when the owner is to leave; its cause says why.
	ctx context.Context
	end context.CancelCauseFunc

	mu      sync.Mutex
	at      phase
	session provider.Session

	// tools is set before anything is sent. crew works for the attempt beside
	// this goroutine, writing keeps its writes in order, and testing ends its
	// runs of tests.
	tools   *tools
	crew    crew
	writing sync.Mutex
	testing context.Context
	endTest context.CancelCauseFunc

	// The rest belongs to the goroutine alone.
	answer  transcript
	wait    textWait
	asked   map[string]coord.RequestID // by the provider's request id
	actions int
	files   int          // pieces of content
	spent   int          // reports of usage
	usage   *coord.Usage // the latest report that is not committed yet
	late    int
	over    bool // an end was committed
}

func newOwner(ctx context.Context, s *Scheduler, a coord.Attempt, at phase) *owner {
	ctx, end := context.WithCancelCause(ctx)
	testing, endTest := context.WithCancelCause(ctx)
	return &owner{testing: testing, endTest: endTest, s: s, id: a.ID, job: a.Job, task: a.Task, agent: a.Agent, ctx: ctx, end: end, at: at,
		asked: map[string]coord.RequestID{}, answer: newTranscript(s.Redactor)}
}

func (o *owner) phase() phase {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at
}

// admitted notes that the attempt is committed, and has it looked at: another
// operation of the same commit may have ended it.
func (o *owner) admitted() {
	o.mu.Lock()
	if o.at == admitting {
		o.at = preparing
	}
	o.mu.Unlock()
	o.s.nudge()
}

// leave tells the goroutine to end for cause; false when it was told already.
func (o *owner) leave(cause error) bool {
	if o.ctx.Err() != nil {
		return false
	}
	o.end(cause)
	return true
}

// run makes the attempt from preparation to its end. err is why there is no order.
func (o *owner) run(w order, err error) {
	session, dir := o.prepare(w, err)
	defer dir()
	defer o.unequip()
	if session == nil {
		return
	}
	if o.send(session) {
		o.follow(session)
	}
	o.close(session)
}

// resume follows an attempt that an earlier process sent.
func (o *owner) resume() {
	var w order
	var a coord.Attempt
	err := o.s.Journal.View(o.ctx, func(v *journal.View) (err error) {
		if a, err = v.Attempt(coord.AttemptRef{ID: o.id}); err != nil {
			return err
		}
		w, err = orderOf(v, a)
		return err
	})
	if err == nil {
		err = w.check()
	}
	if err == nil {
		w.Answered, w.Waiting, err = o.recall()
	}
	if err == nil {
		var session provider.Session
		if session, err = o.s.Adapters[a.Route].Reattach(o.ctx, w.Work, *a.Handle, a.Receipt); err == nil {
			o.begin(session)
			o.follow(session)
			o.close(session)
			return
		}
	}
	o.commit(func(tx *journal.Tx) error {
		_, err := tx.MoveAttempt(o.id, coord.Change{On: coord.AttemptLose, Cause: provider.CauseGone, Activity: coord.MayRun,
			Reason: "the provider could not be followed again after a restart"})
		return err
	})
}

// recall takes over the requests of an earlier process. Those that are not over
// are kept in mind, for when the provider tells them again; of an answer that was
// on its way nobody knows any more whether it arrived. It gives the provider's
// ids of those that are over, and of those that are not.
func (o *owner) recall() (answered, waiting []string, err error) {
	err = o.s.Journal.Update(context.WithoutCancel(o.ctx), func(tx *journal.Tx) error {
		answered, waiting = nil, nil
		all, err := tx.JobRequests(o.job)
		if err != nil {
			return err
		}
		for _, r := range all {
			if r.Attempt != o.id {
				continue
			}
			if r.Delivery == coord.DeliveryDelivering {
				if r, err = r.Deliver(coord.DeliveryLose, "Signalbox ended while the answer was on its way"); err != nil {
					return err
				}
				if err := tx.PutRequest(r, nil); err != nil {
					return err
				}
			}
			if over(r) {
				answered = append(answered, r.Origin.Request)
			} else {
				waiting = append(waiting, r.Origin.Request)
				o.asked[r.Origin.Request] = r.ID
			}
		}
		return nil
	})
	return answered, waiting, err
}

// begin lets others speak to the session.
func (o *owner) begin(session provider.Session) {
	o.mu.Lock()
	o.session, o.at = session, following
	o.mu.Unlock()
	o.s.nudge()
}

// commit runs fn in the journal; false when the attempt is no longer ours to
// change or the journal failed.
func (o *owner) commit(fn func(tx *journal.Tx) error) bool {
	did, err := o.s.commit(context.WithoutCancel(o.ctx), fn)
	if err != nil {
		o.s.Logger.Error("an attempt's event could not be committed", "attempt", o.id, "code", coord.CodeOf(err), "err", err)
	}
	return did
}

// prepare gives a session that is ready to send, or nil when the attempt ended
// before; and what frees its folder.
func (o *owner) prepare(w order, err error) (provider.Session, func()) {
	nothing := func() {}
	if err == nil {
		err = w.check()
	}
	if err == nil {
		err = o.equip(&w)
	}
	if err != nil {
		o.unsent(err)
		return nil, nothing
	}
	adapter, ok := o.s.Adapters[w.Config.Route]
	if !ok {
		o.unsent(&provider.Unsent{Cause: provider.CauseConfig, Message: "the route " + string(w.Config.Route) + " is not carried out by this version"})
		return nil, nothing
	}
	dir, clean, err := o.s.folder(w.Dir, string(o.id))
	if err != nil {
		o.unsent(err)
		return nil, nothing
	}
	w.Dir = dir
	fault.Point("attempt.prepare.before")
	session, err := adapter.Prepare(o.ctx, w.Work)
	if err != nil {
		o.unsent(err)
		return nil, clean
	}
	fault.Point("attempt.prepare.after")
	handle := session.Handle()
	var now coord.Attempt
	intended := o.commit(func(tx *journal.Tx) (err error) {
		change := coord.Change{On: coord.AttemptIntend, Handle: &handle, Prompt: digest(w.Prompt)}
		if err := withinLimits(tx, o.job); err != nil {
			change = unsentChange(err)
		}
		now, err = tx.MoveAttempt(o.id, change)
		return err
	})
	if !intended || now.State != coord.AttemptSending {
		o.close(session)
		return nil, clean
	}
	fault.Point("attempt.intend.after")
	return session, clean
}

// send hands the work over, once; false when there is nothing to follow.
func (o *owner) send(session provider.Session) bool {
	handed, err := session.Send(o.ctx)
	fault.Point("attempt.send.after")
	switch handed {
	case coord.HandedAll:
		o.commit(func(tx *journal.Tx) error {
			return tx.EditAttempt(o.id, func(a coord.Attempt) coord.Attempt {
				a.Handed = handed
				return a
			})
		})
		o.begin(session)
		return true
	case coord.HandedNothing:
		o.commit(func(tx *journal.Tx) error {
			_, moved := tx.MoveAttempt(o.id, nothingHanded(o.ctx, err))
			return moved
		})
	case coord.HandedUnknown:
		o.commit(func(tx *journal.Tx) error {
			_, err := tx.MoveAttempt(o.id, coord.Change{On: coord.AttemptLose, Cause: provider.CauseWriteTimeout, Activity: coord.MayRun,
				Reason: told(err, "the agent took the work only in part, or it is not known whether it did")})
			return err
		})
	}
	return false
}

// close ends the session and notes what is then certain.
func (o *owner) close(session provider.Session) {
	fault.Point("attempt.close.before")
	activity, err := session.Close(context.WithoutCancel(o.ctx))
	fault.Point("attempt.close.after")
	if err != nil {
		o.s.Logger.Warn("a session could not be ended cleanly", "attempt", o.id, "err", err)
	}
	if activity != coord.Ended {
		o.s.mu.Lock()
		o.s.unproven[o.id] = true
		o.s.mu.Unlock()
		return
	}
	o.commit(func(tx *journal.Tx) error {
		a, err := tx.Attempt(coord.AttemptRef{ID: o.id})
		if err != nil || a.State != coord.AttemptUnknown || a.Activity != coord.MayRun {
			return err
		}
		return tx.EditAttempt(o.id, func(a coord.Attempt) coord.Attempt { return ended(a, tx.Now()) })
	})
}

// unsent records that nothing was sent, and why.
func (o *owner) unsent(err error) {
	if errors.Is(context.Cause(o.ctx), errOver) {
		return // why it is over is recorded, or its admission was undone
	}
	o.commit(func(tx *journal.Tx) error {
		_, err := tx.MoveAttempt(o.id, unsentChange(err))
		return err
	})
}

// nothingHanded tells why an agent took nothing of the work, by the error of Send
// and whether the owner was told to leave before.
func nothingHanded(ctx context.Context, err error) coord.Change {
	c := coord.Change{On: coord.AttemptNotSend, Cause: provider.CauseWriteTimeout, Reason: told(err, "the agent took nothing of the work"), Transient: true}
	switch {
	case ctx.Err() != nil:
		c.Cause, c.Reason = provider.CauseCancelled, "the attempt was stopped before the agent took anything of the work"
	case coord.CodeOf(err) == coord.Limit:
		c.Cause, c.Transient = provider.CauseFrame, false
	}
	return c
}

// unsentChange tells why nothing was sent.
func unsentChange(err error) coord.Change {
	c := coord.Change{On: coord.AttemptNotSend, Cause: string(coord.CodeOf(err)), Reason: told(err, "the attempt could not be prepared")}
	if u, ok := errors.AsType[*provider.Unsent](err); ok {
		c.Cause, c.Reason, c.Transient = u.Cause, u.Message, u.Transient
	}
	return c
}

// told is an error's text when it is meant to be shown, otherwise the text
// given.
func told(err error, otherwise string) string {
	var e *coord.Error
	if errors.As(err, &e) && e.Code != coord.Internal {
		return e.Message
	}
	return otherwise
}

// stop brings a cancellation to the provider, beside whatever runs.
func (o *owner) stop() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at != following {
		return false
	}
	o.at = stopped
	session := o.session
	o.s.work.Go(func() {
		// What is being done for the agent ends first.
		o.endTest(errOver)
		o.crew.wait()
		fault.Point("cancel.deliver.before")
		outcome, err := session.Cancel(o.ctx)
		fault.Point("cancel.deliver.after")
		if err != nil {
			o.s.Logger.Warn("a cancellation may not have reached the agent", "attempt", o.id, "err", err)
		}
		if outcome == provider.CancelUnsupported {
			o.commit(func(tx *journal.Tx) error { return tx.DeclineCancel(o.id) })
		}
	})
	return true
}

// deliver brings an answer to the provider, beside whatever runs. That it
// begins is committed first, together with the check that the attempt is live
// and not being cancelled.
func (o *owner) deliver(r coord.Request) bool {
	o.mu.Lock()
	session := o.session
	o.mu.Unlock()
	if session == nil || !o.s.take(r.ID) {
		return false
	}
	o.s.work.Go(func() {
		defer o.s.leave(r.ID)
		if !o.commit(func(tx *journal.Tx) error { return startDelivery(tx, r.ID) }) {
			return
		}
		fault.Point("answer.deliver.before")
		delivery, err := session.Respond(o.ctx, o.s.answerOf(o.ctx, r))
		fault.Point("answer.deliver.after")
		on, note := coord.DeliverySucceed, ""
		switch delivery {
		case provider.Delivered:
		case provider.Undeliverable:
			on, note = coord.DeliveryFail, told(err, "the agent no longer takes an answer")
		default:
			on, note = coord.DeliveryLose, told(err, "the answer may not have reached the agent")
		}
		o.commit(func(tx *journal.Tx) error {
			r, err := tx.Request(coord.RequestRef{ID: r.ID})
			if err != nil {
				return err
			}
			if r, err = r.Deliver(on, note); err != nil {
				return err
			}
			return tx.PutRequest(r, nil)
		})
	})
	return true
}

func startDelivery(tx *journal.Tx, id coord.RequestID) error {
	r, err := tx.Request(coord.RequestRef{ID: id})
	if err != nil {
		return err
	}
	a, err := tx.Attempt(coord.AttemptRef{ID: r.Attempt})
	if err != nil {
		return err
	}
	if !a.Live() || a.Cancel.State != coord.CancelNone {
		return coord.Errorf(coord.Conflict, "the attempt no longer takes answers")
	}
	if r, err = r.Deliver(coord.DeliveryStart, ""); err != nil {
		return err
	}
	return tx.PutRequest(r, nil)
}

// withinLimits is a Limit error when the job has used what its grant allows.
func withinLimits(tx *journal.Tx, id coord.JobID) error {
	j, err := tx.JobHead(coord.JobRef{ID: id})
	if err != nil || j.Limits.Tokens == 0 {
		return err
	}
	attempts, err := tx.Attempts(id)
	if err != nil {
		return err
	}
	var used int64
	for _, a := range attempts {
		used += a.Usage.Tokens()
	}
	if used >= j.Limits.Tokens {
		return coord.Errorf(coord.Limit, "the job has used %d tokens; its grant allows %d", used, j.Limits.Tokens)
	}
	return nil
}

// order is the work of an attempt with the text exactly as it is to be sent. Its
// folder is the workspace, or "" for one to be made: an agent that gets tools
// works through them alone, so that nothing in the workspace can configure it.
type order struct {
	provider.Work
	planned coord.PlanTask
	space   *coord.WorkspaceIdentity // as approved
	base    *coord.ChangeSet         // what the work starts from
	// frozenBase is what of it was approved, where the plan names it.
	frozenBase *coord.FrozenBase
}

func orderOf(v *journal.View, a coord.Attempt) (order, error) {
	t, planned, frozen, err := frozenTask(v, a.Task)
	if err != nil {
		return order{}, err
	}
	return orderFor(v, a, t, planned, frozen)
}

// orderFor is orderOf where the task is known, as planned and as frozen.
func orderFor(v *journal.View, a coord.Attempt, t coord.Task, planned coord.PlanTask, frozen coord.FrozenTask) (order, error) {
	sources, err := sources(v, t, planned)
	if err != nil {
		return order{}, err
	}
	w := order{planned: planned, space: frozen.Space, Work: provider.Work{Attempt: a.ID, Agent: a.Agent, Revision: frozen.Revision, Config: frozen.Config,
		Identity: frozen.Identity, Dir: planned.Workspace, Prompt: compose(planned.Instruction, sources)}}
	if w.tooled() {
		w.Dir, w.frozenBase = "", frozen.Base
		w.base, err = baseOf(v, t, planned, frozen)
	}
	return w, err
}

// check looks whether the workspace is the one that was approved.
func (w order) check() error {
	if w.space == nil {
		return nil
	}
	return sameSpace(*w.space)
}

// sameSpace is an Unsent error when another folder took the workspace's place.
func sameSpace(approved coord.WorkspaceIdentity) error {
	now, _, err := workspace.Identify(approved.Path)
	switch {
	case err != nil:
		return &provider.Unsent{Cause: provider.CauseStale, Message: "the workspace " + approved.Path + " cannot be used any more: " + told(err, "it cannot be read")}
	case now.Device != approved.Device || now.Inode != approved.Inode:
		return &provider.Unsent{Cause: provider.CauseStale, Message: "the workspace " + approved.Path + " is another folder than the one that was approved"}
	}
	return nil
}

// sources gives the results that a task gets as data: those of its needs, then
// the inputs of its plan.
func sources(v *journal.View, t coord.Task, planned coord.PlanTask) ([]source, error) {
	var out []source
	if len(t.Needs) > 0 {
		artifacts, err := v.Artifacts(t.Job)
		if err != nil {
			return nil, err
		}
		for _, key := range t.Needs {
			need, err := v.Task(coord.TaskRef{Job: coord.JobRef{ID: t.Job}, Key: key})
			if err != nil {
				return nil, err
			}
			a, err := v.Attempt(coord.AttemptRef{ID: need.Attempt})
			if err != nil {
				return nil, err
			}
			src := source{key: key, agent: a.Agent}
			if st := a.Statement; st != nil {
				src.by, src.text, src.sha256, src.cut = st.By, st.Text, st.SHA256, st.Cut
			}
			for _, f := range artifacts {
				if f.Attempt == a.ID && (a.Statement == nil || f.ID != a.Statement.Artifact) {
					src.artifacts = append(src.artifacts, f)
				}
			}
			out = append(out, src)
		}
	}
	for _, in := range planned.Inputs {
		out = append(out, source{key: in.Key, agent: in.Agent, text: in.Text, sha256: in.SHA256})
	}
	return out, nil
}

// folder gives the folder to work in: dir itself, or an empty one of its own
// that the function removes.
func (s *Scheduler) folder(dir, name string) (string, func(), error) {
	if dir != "" {
		return dir, func() {}, nil
	}
	dir = filepath.Join(s.Scratch, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", func() {}, &coord.Error{Code: coord.Unavailable, Message: "no folder could be made for the attempt in " + s.Scratch, Err: err}
	}
	return dir, func() {
		if err := os.RemoveAll(dir); err != nil {
			s.Logger.Warn("an attempt's folder could not be removed", "folder", dir, "err", err)
		}
	}, nil
}
