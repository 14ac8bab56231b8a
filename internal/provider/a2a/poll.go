package a2a

import (
	"context"
	"errors"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// maxSubscriptions bounds how often in a row a stream may bring nothing new
// before the task is only asked for.
const maxSubscriptions = 3

// follow asks for the task until it is over, and has its events streamed where
// the peer can do that. That a stream ends says nothing of the task.
func (s *session) follow() {
	wait, idle := s.timing.Poll, 0
	for s.ctx.Err() == nil && !s.isOver() {
		before := s.progress
		s.ask(false)
		if s.isOver() || s.ctx.Err() != nil {
			return
		}
		if s.d.Streaming && idle < maxSubscriptions && s.failing.IsZero() && !s.waits() {
			s.subscribe()
		}
		switch {
		case s.isOver():
			return
		case s.progress != before:
			wait, idle = s.timing.Poll, 0
		default:
			wait, idle = min(wait*3/2, s.timing.PollMax), idle+1
			s.stall()
		}
		if s.sleep(wait) {
			wait, idle = s.timing.Poll, 0
		}
	}
}

// waits reports whether the task waits for us.
func (s *session) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.asks.now
	return p != nil && !(p.settled && !p.again && !p.unsettled)
}

// sleep waits before the next look; true when it was cut short by a reason to
// look.
func (s *session) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.ctx.Done():
		return false
	case <-s.look:
		return true
	case <-t.C:
		return false
	}
}

// subscribe has the events of the task streamed again, until the stream is over.
func (s *session) subscribe() {
	life, giveUp := context.WithCancelCause(s.ctx)
	defer giveUp(errClosed)
	patience := time.AfterFunc(s.timing.Call, func() { giveUp(errSilent) })
	defer patience.Stop()
	a, err := s.e.post(life, s.e.methods().subscribe, taskParams{Tenant: s.e.tenant, ID: s.taskID()}, true)
	if err != nil {
		return // the request for the task will tell
	}
	if a.stream == nil {
		// An error: the task is over, or cannot be streamed. a2a-go says of one
		// that is over that it does not exist, so it decides nothing.
		_, _ = a.one()
		a.close()
		return
	}
	patience.Stop()
	s.after(s.consume(life, a, nil))
}

// after takes why a stream is over.
func (s *session) after(err error) {
	if f, ok := errors.AsType[*faultError](err); ok && f.cause == provider.CauseFrame {
		s.dropped["oversize"]++
		s.d.Streaming = false // what is too large comes again
	}
}

// ask asks for the task once. Beside a stream, which is followed all the same,
// a failure means nothing.
func (s *session) ask(beside bool) {
	p := s.unsettled()
	history := 0
	if p != nil || s.resumed && !s.seen() {
		history = settleHistory
	}
	t, err := s.e.get(s.ctx, s.timing.Call, s.taskID(), history)
	if s.ctx.Err() != nil {
		return
	}
	if err == nil && !s.ours(t) {
		err = malformed("our task in another context")
	}
	if err != nil {
		if !beside {
			s.miss(err)
		}
		return
	}
	s.failing = time.Time{}
	if p != nil {
		s.find(p, t)
	}
	s.take(news{task: t})
	s.closeIfOver()
	if s.resumed && !s.seen() {
		s.withdraw()
		close(s.looked)
	}
}

// withdraw takes back what an earlier process asked and the peer does not ask any
// more.
func (s *session) withdraw() {
	for _, id := range s.waiting {
		s.mu.Lock()
		still := s.asks.all[id] != nil
		s.mu.Unlock()
		if !still {
			s.q.Put(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: id}, 0)
		}
	}
}

func (s *session) seen() bool {
	select {
	case <-s.looked:
		return true
	default:
		return false
	}
}

// unsettled gives the request whose answer may have been lost.
func (s *session) unsettled() *ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.asks.now; p != nil && p.unsettled && p.settled {
		return p
	}
	return nil
}

// find settles what became of an answer that may have been lost.
func (s *session) find(p *ask, t *task) {
	has := contains(t.History, s.answerID(p.id))
	s.mu.Lock()
	p.unsettled, p.again = false, !has
	s.mu.Unlock()
	if has {
		s.q.Put(provider.Event{Kind: provider.EventActivity, Activity: &coord.Activity{Kind: "answer", Title: "The peer has the answer of which that was not known.", Status: "delivered"}}, 0)
	}
}

// miss takes that the task could not be asked for. A peer may be restarted, or
// its replica may not know the task yet; only when that lasts is the attempt
// unknown.
func (s *session) miss(err error) {
	if isFault(err) {
		s.drop("unreadable")
	}
	if s.failing.IsZero() {
		s.failing = time.Now()
	}
	f, isFrame := errors.AsType[*faultError](err)
	isFrame = isFrame && f.cause == provider.CauseFrame
	if !isFrame && time.Since(s.failing) < s.timing.Gone {
		return
	}
	cause, reason := provider.CauseGone, "The peer could not be asked for the task for "+coord.Duration(s.timing.Gone).String()+": "+told(err)+". It may run all the same."
	var rpc *rpcError
	var status *httpError
	switch {
	case isFrame:
		cause, reason = f.cause, "The task cannot be read: "+f.reason+". It may run all the same."
	case errors.As(err, &rpc) && rpc.code == codeNotFound:
		cause, reason = provider.CauseMissing, "The peer says that it does not know the task any more, which does not tell what became of it."
	case errors.As(err, &status) && (status.status == 401 || status.status == 403):
		cause = provider.CauseAuth
	case f != nil:
		cause = f.cause
	}
	s.lose(cause, stdio.Reason(reason))
}

// stall tells once that the task shows no progress. It fails nothing: only the
// peer knows whether it works.
func (s *session) stall() {
	s.mu.Lock()
	waits := s.asks.now != nil
	s.mu.Unlock()
	if s.stalled || waits || time.Since(s.progress) < s.timing.Stalled {
		return
	}
	s.stalled = true
	s.q.Put(provider.Event{Kind: provider.EventActivity, Activity: &coord.Activity{Kind: "status", Title: "The task shows no progress.", Status: coord.ActivityStalled,
		Detail: "For " + coord.Duration(s.timing.Stalled).String() + " the peer told nothing new; it still says that the task is " + s.status.state.String() + "."}}, 0)
}
