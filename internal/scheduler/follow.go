package scheduler

import (
	"context"
	"errors"
	"strings"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/fault"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
)

// lateWait is how long an ended attempt's session is still listened to: what
// comes then is kept apart.
const lateWait = 200 * time.Millisecond

// follow pulls the provider's events and commits each before the next, until
// the attempt is over or the owner is to leave.
func (o *owner) follow(session provider.Session) {
	defer o.wait.end()
	for {
		ev, err := o.next(session)
		switch {
		case err == nil:
			if !o.take(ev) {
				if o.over {
					o.listenLate(session)
				}
				return
			}
		case errors.Is(err, errTextWait):
			if !o.flush() {
				return
			}
		case errors.Is(context.Cause(o.ctx), errGiveUp):
			o.drain(session)
			return
		case o.ctx.Err() != nil:
			return
		default:
			// The stream ended without an end: what became of the work is not known.
			o.lost(provider.Lost{Cause: provider.CauseGone, Reason: "the connection to the agent ended", Activity: coord.MayRun})
			return
		}
	}
}

// next waits for an event, but not longer than text may wait to be committed.
func (o *owner) next(session provider.Session) (provider.Event, error) {
	if !o.answer.waiting() {
		o.wait.end()
		return session.Next(o.ctx)
	}
	ctx := o.wait.until(o.ctx, o.answer.due)
	ev, err := session.Next(ctx)
	if err != nil && o.ctx.Err() == nil && errors.Is(context.Cause(ctx), errTextWait) {
		return ev, errTextWait
	}
	return ev, err
}

// textWait is the context of the wait for more text. Text comes in many small
// pieces, and they share one.
type textWait struct {
	due  time.Time
	ctx  context.Context
	stop context.CancelFunc
}

// until gives a context that ends when text is due, by errTextWait.
func (w *textWait) until(ctx context.Context, due time.Time) context.Context {
	if w.stop == nil || w.due != due {
		w.end()
		w.due = due
		w.ctx, w.stop = context.WithDeadlineCause(ctx, due, errTextWait)
	}
	return w.ctx
}

func (w *textWait) end() {
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// drain takes what the provider has already said, then records that its end
// was not seen.
func (o *owner) drain(session provider.Session) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(o.ctx), coord.TextFlush, errTextWait)
	defer cancel()
	for {
		ev, err := session.Next(ctx)
		if err != nil {
			break
		}
		if !o.take(ev) {
			return
		}
	}
	o.lost(provider.Lost{Cause: "cancel_unconfirmed", Activity: coord.MayRun,
		Reason: "the agent did not confirm that it stopped within " + coord.Duration(coord.CancelWindow).String()})
}

// listenLate keeps what comes after the end apart, until the session has no
// more or the wait is over.
func (o *owner) listenLate(session provider.Session) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(o.ctx), lateWait, errOver)
	defer cancel()
	for o.late < coord.MaxActivities {
		ev, err := session.Next(ctx)
		if err != nil {
			break
		}
		if ev.Kind == provider.EventLate {
			o.keepLate(ev.Late)
		}
	}
}

// take commits one event; false when it was the last.
func (o *owner) take(ev provider.Event) bool {
	switch ev.Kind {
	case provider.EventText:
		o.answer.add(*ev.Text, time.Now())
		if o.answer.full() {
			return o.flush()
		}
		return true
	case provider.EventEnd:
		o.finish(*ev.End)
		return false
	case provider.EventLost:
		o.lost(*ev.Lost)
		return false
	case provider.EventContent:
		o.files++
		switch {
		case o.files == coord.MaxContents+1:
			return o.notKept(ev.Content.Name, "one attempt may give no more than is kept already")
		case o.files > coord.MaxContents:
			return true
		}
		return o.content(*ev.Content)
	case provider.EventLate:
		o.keepLate(ev.Late)
		return true
	case provider.EventActivity:
		o.actions++
		if o.actions > coord.MaxActivities {
			return true
		}
	case provider.EventUsage:
		o.spent++
		if o.spent > coord.MaxActivities {
			// Only the latest counts, and the end commits it.
			o.usage = ev.Usage
			return true
		}
	case provider.EventCall:
		return o.call(*ev.Call)
	case provider.EventReceipt, provider.EventRequest, provider.EventWithdrawn:
	}
	fault.Point("event." + string(ev.Kind) + ".before")
	texts := o.answer.take(false)
	var asked coord.Request
	did := o.commit(func(tx *journal.Tx) (err error) {
		if err := o.write(tx, texts); err != nil {
			return err
		}
		asked, err = o.event(tx, ev)
		return err
	})
	fault.Point("event." + string(ev.Kind) + ".after")
	if asked.ID != "" {
		o.asked[asked.Origin.Request] = asked.ID
	}
	return did
}

// event writes one event that is neither text nor an end.
func (o *owner) event(tx *journal.Tx, ev provider.Event) (coord.Request, error) {
	switch ev.Kind {
	case provider.EventReceipt:
		r := *ev.Receipt
		r.At = tx.Now()
		_, err := tx.MoveAttempt(o.id, coord.Change{On: coord.AttemptReceive, Receipt: &r})
		return coord.Request{}, err
	case provider.EventActivity:
		if ev.Activity.Status != coord.ActivityStalled { // that says the opposite
			if err := o.progress(tx); err != nil {
				return coord.Request{}, err
			}
		}
		return coord.Request{}, o.tell(tx, coord.AttemptActed, ev.Activity)
	case provider.EventRequest:
		if waits, err := o.waits(tx, ev.Request.Origin.Request); err != nil || waits {
			return coord.Request{}, err // it was asked before a restart, and is asked still
		}
		return tx.AddRequest(coord.Request{Attempt: o.id, Kind: ev.Request.Kind, Origin: ev.Request.Origin,
			Content: ev.Request.Content, Options: ev.Request.Options})
	case provider.EventWithdrawn:
		id, ok := o.asked[ev.Withdrawn]
		if !ok {
			return coord.Request{}, nil
		}
		_, err := tx.DecideRequest(id, coord.Choice{On: coord.DecisionWithdraw, Reason: "the agent took it back", By: coord.WorkerActor})
		if coord.CodeOf(err) == coord.Conflict {
			err = nil // it was decided before, which stands
		}
		return coord.Request{}, err
	case provider.EventUsage:
		return coord.Request{}, tx.EditAttempt(o.id, func(a coord.Attempt) coord.Attempt {
			a.Usage = *ev.Usage
			return a
		})
	case provider.EventText, provider.EventCall, provider.EventContent, provider.EventLate, provider.EventEnd, provider.EventLost:
	}
	return coord.Request{}, nil
}

// waits reports whether a request of the provider is there and not over.
func (o *owner) waits(tx *journal.Tx, origin string) (bool, error) {
	id, known := o.asked[origin]
	if !known {
		return false, nil
	}
	r, err := tx.Request(coord.RequestRef{ID: id})
	return err == nil && !over(r), err
}

// over reports whether nothing more becomes of a request's answer.
func over(r coord.Request) bool { return r.Decision != coord.DecisionOpen && !r.Undelivered() }

// flush commits the text that waits.
func (o *owner) flush() bool { return o.say(o.answer.take(false)) }

// say commits text.
func (o *owner) say(texts []coord.Text) bool {
	if len(texts) == 0 {
		return true
	}
	fault.Point("event.text.before")
	err := o.s.Journal.UpdateText(context.WithoutCancel(o.ctx), func(tx *journal.Tx) error { return o.write(tx, texts) })
	fault.Point("event.text.after")
	if err != nil {
		o.s.Logger.Error("an attempt's text could not be committed", "attempt", o.id, "code", coord.CodeOf(err), "err", err)
	}
	return err == nil
}

// write appends text and lets the attempt work.
func (o *owner) write(tx *journal.Tx, texts []coord.Text) error {
	if len(texts) == 0 {
		return nil
	}
	for _, t := range texts {
		if err := o.tell(tx, coord.AttemptText, t); err != nil {
			return err
		}
	}
	return o.progress(tx)
}

// progress lets an accepted attempt work.
func (o *owner) progress(tx *journal.Tx) error {
	a, err := tx.Attempt(coord.AttemptRef{ID: o.id})
	if err != nil || a.State != coord.AttemptAccepted {
		return err
	}
	_, err = tx.MoveAttempt(o.id, coord.Change{On: coord.AttemptProgress})
	return err
}

func (o *owner) tell(tx *journal.Tx, kind coord.EventKind, data any) error {
	return tx.Tell(coord.Event{Kind: kind, Job: o.job, Task: o.task, Attempt: o.id, Agent: o.agent}, data)
}

// content keeps bytes that the agent sent, or the address that it named.
func (o *owner) content(c provider.Content) bool {
	a := coord.Artifact{Job: o.job, Task: o.task, Attempt: o.id, Agent: o.agent, Name: c.Name, Media: c.Media, Origin: "said", Reference: c.Reference}
	if len(c.Bytes) > 0 {
		if err := o.keep(&a, c.Bytes); err != nil {
			return o.notKept(c.Name, told(err, "it could not be stored"))
		}
	}
	fault.Point("event.content.before")
	texts := o.answer.take(false)
	did := o.commit(func(tx *journal.Tx) error {
		if err := o.write(tx, texts); err != nil {
			return err
		}
		_, err := tx.AddArtifact(a)
		return err
	})
	fault.Point("event.content.after")
	return did
}

// notKept tells that content of the agent is not there, and why.
func (o *owner) notKept(name, why string) bool {
	return o.take(provider.Event{Kind: provider.EventActivity, Activity: &coord.Activity{
		Kind: "artifact", Title: name, Status: "not kept", Detail: why}})
}

// spend writes the latest usage that was held back.
func (o *owner) spend(tx *journal.Tx) error {
	if o.usage == nil {
		return nil
	}
	return tx.EditAttempt(o.id, func(a coord.Attempt) coord.Attempt {
		a.Usage = *o.usage
		return a
	})
}

// keep stores bytes within the job's quota and completes the artifact's row.
// They are redacted first, so that the space is reserved for what is stored.
func (o *owner) keep(a *coord.Artifact, b []byte) error {
	safe := o.s.Redactor.String(string(b))
	space, err := o.s.Quota.Reserve(o.job, int64(len(safe)))
	if err != nil {
		return err
	}
	defer space.Release()
	ref, err := o.s.Store.Put(context.WithoutCancel(o.ctx), strings.NewReader(safe), int64(len(safe)))
	if err != nil {
		return err
	}
	a.Size, a.SHA256, a.Redacted = ref.Size, ref.SHA256, ref.Redacted || safe != string(b)
	return space.Commit(ref.Size)
}

// keepLate counts what came after the end, and keeps a bounded part of it.
func (o *owner) keepLate(what string) {
	o.late++
	if o.late > coord.MaxActivities {
		return
	}
	what, _ = cutText(o.s.Redactor.String(what), coord.MaxReason)
	fault.Point("event.late.before")
	o.commit(func(tx *journal.Tx) error {
		if err := tx.EditAttempt(o.id, func(a coord.Attempt) coord.Attempt { a.Late++; return a }); err != nil {
			return err
		}
		return o.tell(tx, coord.AttemptLate, coord.Text{Channel: "late", Text: what})
	})
	fault.Point("event.late.after")
}

// finish commits the provider's own end with all that the agent said.
func (o *owner) finish(end provider.End) {
	fault.Point("event.end.before")
	texts := o.answer.take(true)
	c := endChange(end)
	var file coord.Artifact
	if c.On == coord.AttemptComplete {
		if end.Answer != nil {
			o.answer.restate(*end.Answer)
		}
		c.Statement = statement(o.agent, o.answer.text.String(), o.answer.dropped, o.s.Journal.Now())
		if c.Statement.Bytes > coord.MaxTextChunk && o.say(texts) {
			texts = nil // the last of a long answer need not wait until the whole is stored
		}
		if c.Statement.Bytes > 0 {
			file = coord.Artifact{Job: o.job, Task: o.task, Attempt: o.id, Agent: o.agent, Name: "answer.md", Media: "text/markdown; charset=utf-8", Origin: "said"}
			if err := o.keep(&file, []byte(o.answer.text.String())); err != nil {
				o.s.Logger.Warn("an answer could not be kept as an artifact", "attempt", o.id, "err", err)
				file = coord.Artifact{}
			}
		}
	}
	o.over = o.commit(func(tx *journal.Tx) error {
		if err := errors.Join(o.write(tx, texts), o.spend(tx)); err != nil {
			return err
		}
		if file.SHA256 != "" {
			kept, err := tx.AddArtifact(file)
			if err != nil {
				return err
			}
			c.Statement.Artifact = kept.ID
		}
		_, err := tx.MoveAttempt(o.id, c)
		return err
	})
	fault.Point("event.end.after")
}

// lost commits that the provider can no longer be followed.
func (o *owner) lost(l provider.Lost) {
	fault.Point("event.lost.before")
	texts := o.answer.take(true)
	o.commit(func(tx *journal.Tx) error {
		if err := errors.Join(o.write(tx, texts), o.spend(tx)); err != nil {
			return err
		}
		_, err := tx.MoveAttempt(o.id, coord.Change{On: coord.AttemptLose, Cause: l.Cause, Reason: l.Reason, Activity: l.Activity})
		return err
	})
	fault.Point("event.lost.after")
}

// endChange is what a provider's end means for the attempt.
func endChange(end provider.End) coord.Change {
	on := map[coord.AttemptState]coord.AttemptEvent{
		coord.AttemptCompleted: coord.AttemptComplete, coord.AttemptRejected: coord.AttemptReject, coord.AttemptCancelled: coord.AttemptCancel,
	}[end.State]
	if on == "" {
		on = coord.AttemptFail
	}
	reason, _ := cutText(end.Reason, coord.MaxReason)
	return coord.Change{On: on, Cause: end.Cause, Reason: reason}
}

// statement is what an agent said in the end.
func statement(agent coord.AgentID, text string, dropped int64, at coord.Moment) *coord.Statement {
	shown, cut := cutText(text, coord.MaxStatement)
	return &coord.Statement{Agent: agent, By: "agent", Text: shown, Bytes: int64(len(text)), SHA256: digest(text),
		Cut: cut || dropped > 0, Dropped: dropped, At: at}
}
