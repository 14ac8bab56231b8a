package tincan

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// sendGrace is how long a hand-over that has begun may still take after its
// attempt was stopped: killing it would lose the request's id for certain.
const sendGrace = 10 * time.Second

// progress is how far a session is.
type progress int

const (
	prepared progress = iota
	sending
	// unsent: the text certainly did not leave, and will not.
	unsent
	// following: there is a request that may be worked on.
	following
	// unknown: it is not known whether there is one.
	unknown
	ended
)

// session is one attempt.
type session struct {
	a      *Adapter
	d      requestHandle
	handle coord.Handle
	text   string
	q      *stdio.Queue
	logger *slog.Logger
	// ctx ends when the session is closed.
	ctx      context.Context
	end      context.CancelCauseFunc
	routines sync.WaitGroup

	mu        sync.Mutex
	at        progress
	cancelled bool
	closed    bool

	// What follows belongs to the following goroutine. untouched is set while
	// every claim would have been seen and none was, seen is the last look.
	untouched bool
	seen      coord.Moment
	claimed   bool
}

var errClosed = errors.New("the session was closed")

func newSession(a *Adapter, attempt coord.AttemptID, d requestHandle, h coord.Handle, text string) *session {
	ctx, end := context.WithCancelCause(context.Background())
	return &session{a: a, d: d, handle: h, text: text, q: stdio.NewQueue(), logger: a.o.Logger.With("attempt", attempt), ctx: ctx, end: end}
}

// Handle names the profile, the peer and the text.
func (s *session) Handle() coord.Handle { return s.handle }

// Next gives the next event.
func (s *session) Next(ctx context.Context) (provider.Event, error) { return s.q.Take(ctx) }

// Send runs ask once and waits for its end. It is never repeated, whatever the
// program says: there is no key by which a relay knows a text that it has.
func (s *session) Send(ctx context.Context) (coord.HandedOver, error) {
	s.mu.Lock()
	if handed, err := provider.Unsendable(ctx, s.at != prepared, s.cancelled || s.closed); err != nil {
		if handed == coord.HandedNothing {
			s.at = unsent
		}
		s.mu.Unlock()
		return handed, err
	}
	s.at = sending
	s.routines.Add(1) // Close waits; it began before
	s.mu.Unlock()
	defer s.routines.Done()

	args := []string{"ask", "--json", "--wait", "0s", "--", s.d.Peer, s.text}
	if s.d.Dialect == dialectText {
		args = append([]string{"ask"}, args[2:]...)
	}
	sendCtx, done := s.whileSending(ctx)
	out, failed := s.a.run(sendCtx, programOf(s.d.Identity), args...)
	done()
	s.text = ""
	switch {
	case failed != nil && failed.unstarted:
		s.reach(unsent)
		return coord.HandedNothing, coord.Errorf(coord.Unavailable, "%s", failed.reason)
	case failed != nil:
		return s.lose(failed.reason)
	case len(out.stdout) == 0:
		return s.lose(fmt.Sprintf("tincan ended with code %d and no answer%s.", out.code, out.hint.because()))
	}
	// That it contradicts itself about the status does not matter yet: the
	// request is there and has an id.
	first, err := parse(asked{dialect: s.d.Dialect, agent: s.d.Agent, peer: s.d.Peer}, out)
	if first.id == "" {
		return s.lose(err.Error())
	}
	s.untouched, s.seen = true, s.a.o.Clock()
	s.q.Put(provider.Event{Kind: provider.EventReceipt, Receipt: &coord.Receipt{Kind: receiptKind, Reference: first.id, At: s.seen}}, 0)
	s.follow(first)
	return coord.HandedAll, nil
}

// whileSending gives the context of the hand-over: it ends with the session, and
// sendGrace after ctx.
func (s *session) whileSending(ctx context.Context) (context.Context, func()) {
	sendCtx, cancel := context.WithCancelCause(s.ctx)
	var timer *time.Timer
	var mu sync.Mutex
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		timer = time.AfterFunc(sendGrace, func() { cancel(context.Cause(ctx)) })
	})
	return sendCtx, func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		if timer != nil {
			timer.Stop()
		}
		cancel(nil)
	}
}

// lose ends an attempt whose text may have been submitted under an id that is
// not known.
func (s *session) lose(why string) (coord.HandedOver, error) {
	s.reach(unknown)
	reason := stdio.Reason("Whether the peer got the text is not known, and tincan cannot be asked without a request's id. " + why)
	s.q.Finish(provider.Event{Kind: provider.EventLost, Lost: &provider.Lost{Cause: provider.CauseGone, Reason: reason, Activity: coord.MayRun}})
	s.q.End()
	return coord.HandedUnknown, coord.Errorf(coord.Unavailable, "%s", reason)
}

func (s *session) reach(at progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = at
}

// resume follows a request of an earlier process, which may have seen a claim.
func (s *session) resume(id string) {
	s.seen = s.a.o.Clock()
	s.follow(answer{id: id})
}

// follow starts the goroutine that looks after a request.
func (s *session) follow(first answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = following
	if !s.closed {
		s.routines.Go(func() { s.watch(first) })
	}
}

// watch looks at the request until it has ended, with pauses that grow.
func (s *session) watch(now answer) {
	pause := s.a.o.Timing.First
	failures := 0
	for !s.take(now) {
		if !s.wait(pause) {
			return
		}
		found, err := s.a.look(s.ctx, s.d, now.id)
		if s.ctx.Err() != nil {
			return
		}
		if l := permanent(err); l != nil {
			s.lost(*l)
			return
		}
		if err != nil {
			failures++
			s.logger.Warn("a Tincan request could not be looked at and will be again", "failures", failures, "error", err)
			pause, now.status = min(2*pause, s.a.o.Timing.Failed), ""
			continue
		}
		if failures > 0 {
			failures, pause = 0, s.a.o.Timing.First
		}
		pause = min(pause*3/2, s.a.o.Timing.Most)
		now = found
		at := s.a.o.Clock()
		s.untouched = s.untouched && at.Since(s.seen) < coord.TincanClaim
		s.seen = at
	}
}

// permanent gives the loss that an error stands for, nil for one that may pass.
func permanent(err error) *provider.Lost {
	var u *provider.Unsent
	var f *failure
	switch {
	case errors.As(err, &u):
		return &provider.Lost{Cause: u.Cause, Activity: coord.MayRun, Reason: stdio.Reason("The request can no longer be followed. " + u.Message)}
	case errors.As(err, &f) && (f.cause == provider.CauseFrame || f.cause == provider.CauseSpawn && !f.transient):
		return &provider.Lost{Cause: f.cause, Activity: coord.MayRun, Reason: stdio.Reason("The request can no longer be followed. " + f.reason)}
	}
	return nil
}

// wait waits for a pause to be over; false when the session was closed.
func (s *session) wait(pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// take tells what a look found; true when it was the last.
func (s *session) take(n answer) bool {
	switch {
	case n.status == claimed && !s.claimed:
		s.claimed, s.untouched = true, false
		s.act(n, "took the request")
	case n.status == queued && s.claimed:
		// Who takes it next begins anew, though it was sent once.
		s.claimed = false
		s.act(n, "did not finish in the time of its claim; the relay offers the request again")
	case n.status == expired && n.end(s.untouched) == nil:
		s.lost(provider.Lost{Cause: causeExpired, Reason: reasonExpired, Activity: coord.MayRun})
		return true
	}
	end := n.end(s.untouched)
	if end == nil {
		return false
	}
	if n.body != "" {
		s.q.Put(provider.Event{Kind: provider.EventText, Text: &coord.Text{Channel: coord.ChannelMessage, Text: n.body}}, len(n.body))
	}
	for _, c := range n.contents() {
		s.q.Put(provider.Event{Kind: provider.EventContent, Content: &c}, 0)
	}
	s.reach(ended)
	s.q.Finish(provider.Event{Kind: provider.EventEnd, End: end})
	s.q.End()
	return true
}

func (s *session) act(n answer, what string) {
	s.q.Put(provider.Event{Kind: provider.EventActivity, Activity: &coord.Activity{
		ID: n.id, Kind: receiptKind, Title: stdio.Clip(s.d.Peer+" "+what, coord.MaxTitle), Status: string(n.status),
	}}, 0)
}

func (s *session) lost(l provider.Lost) {
	s.q.Finish(provider.Event{Kind: provider.EventLost, Lost: &l})
	s.q.End()
}

// Respond has nothing to answer: a Tincan peer asks the operator nothing.
func (s *session) Respond(context.Context, provider.Answer) (provider.Delivery, error) {
	return provider.Undeliverable, coord.Errorf(coord.Unsupported, "a Tincan peer takes no answers")
}

// Cancel prevents the hand-over if it did not begin. Afterwards there is no way
// to stop a peer: tincan can withdraw what no peer has taken, and nothing else.
func (s *session) Cancel(context.Context) (provider.CancelOutcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return provider.CancelUnknown, coord.Errorf(coord.Unavailable, "the session is closed")
	case s.at == prepared || s.at == unsent:
		s.cancelled = true
		return provider.CancelAsked, nil
	}
	return provider.CancelUnsupported, nil
}

// Close stops following. A process that runs is ended; the peer is not.
func (s *session) Close(context.Context) (coord.ActivityState, error) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(errClosed)
	s.q.Unblock()
	s.routines.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	activity := coord.MayRun
	if s.at == prepared || s.at == unsent || s.at == ended {
		activity = coord.Ended
	}
	s.lost(provider.Lost{Cause: provider.CauseShutdown, Reason: "Signalbox no longer follows the request.", Activity: activity})
	return activity, nil
}
