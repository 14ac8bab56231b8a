package providertest

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// session is one side's view of a peer.
type session struct {
	fake *Fake
	peer *peer

	// All below is guarded by the fake's mutex.
	sent     bool
	ended    bool
	lost     bool
	isClosed bool
	closed   chan struct{}
}

// Handle names the attempt.
func (s *session) Handle() coord.Handle {
	h, _ := provider.EncodeHandle(1, handle{Session: s.peer.session(), Attempt: s.peer.work.Attempt})
	return h
}

// Send starts the peer's steps.
func (s *session) Send(ctx context.Context) (coord.HandedOver, error) {
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	switch {
	case s.sent:
		return coord.HandedUnknown, coord.Errorf(coord.Internal, "the work was sent already")
	case s.isClosed || s.peer.cancels > 0:
		return coord.HandedNothing, coord.Errorf(coord.Unavailable, "the attempt was stopped before it was sent")
	case ctx.Err() != nil:
		return coord.HandedNothing, context.Cause(ctx)
	}
	s.sent = true
	switch s.peer.script.Send {
	case coord.HandedNothing:
		return coord.HandedNothing, coord.Errorf(coord.Unavailable, "the agent took nothing")
	case coord.HandedUnknown:
		s.peer.start(time.Now())
		return coord.HandedUnknown, coord.Errorf(coord.Unavailable, "the agent took a part only")
	case coord.HandedAll, "":
	}
	s.peer.start(time.Now())
	s.peer.wake()
	return coord.HandedAll, nil
}

// Next plays what is due and gives the next event.
func (s *session) Next(ctx context.Context) (provider.Event, error) {
	for {
		if ctx.Err() != nil {
			return provider.Event{}, context.Cause(ctx)
		}
		s.fake.mu.Lock()
		due := s.peer.advance(time.Now())
		e, ok, err := s.take()
		changed := s.peer.changed
		s.fake.mu.Unlock()
		if ok || err != nil {
			return e, err
		}
		if err := s.wait(ctx, changed, due); err != nil {
			return provider.Event{}, err
		}
	}
}

func (s *session) wait(ctx context.Context, changed <-chan struct{}, due time.Time) error {
	var timer <-chan time.Time
	if !due.IsZero() {
		t := time.NewTimer(time.Until(due))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-changed:
	case <-s.closed:
	case <-timer:
	}
	return nil
}

// take gives what is there.
func (s *session) take() (provider.Event, bool, error) {
	p := s.peer
	if len(p.queue) > 0 && !s.lost {
		e := p.queue[0]
		p.queue = p.queue[1:]
		if e.Kind == provider.EventEnd {
			s.ended, p.endTaken = true, true
		}
		return e, true, nil
	}
	switch {
	case s.lost || s.ended && (s.isClosed || p.crashed):
		return provider.Event{}, false, io.EOF
	case s.ended:
		return provider.Event{}, false, nil
	case p.lost != nil:
		return s.lose(*p.lost)
	case p.cut:
		return s.lose(provider.Lost{Cause: provider.CauseGone, Reason: "the connection was cut", Activity: coord.MayRun})
	case s.isClosed:
		return s.lose(provider.Lost{Cause: provider.CauseShutdown, Reason: "the session was closed", Activity: s.activity()})
	}
	return provider.Event{}, false, nil
}

func (s *session) lose(l provider.Lost) (provider.Event, bool, error) {
	s.lost = true
	return provider.Event{Kind: provider.EventLost, Lost: &l}, true, nil
}

// activity is what is certain once the session is closed.
func (s *session) activity() coord.ActivityState {
	if s.fake.route.Askable() && s.peer.got && s.peer.end == nil {
		return coord.MayRun
	}
	return coord.Ended
}

// Respond answers a request of the peer.
func (s *session) Respond(_ context.Context, a provider.Answer) (provider.Delivery, error) {
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	p := s.peer
	p.advance(time.Now())
	q := p.asks[a.Request]
	switch {
	case q == nil:
		return provider.Undeliverable, coord.Errorf(coord.NotFound, "the agent has no such request")
	case q.done:
		return q.outcome, nil
	case s.isClosed || p.crashed || p.end != nil:
		q.done, q.outcome = true, provider.Undeliverable
		return q.outcome, nil
	}
	var name string
	_ = json.Unmarshal([]byte(a.Request), &name) // made by requestID
	got := Answered{Name: name, Option: a.Option, Text: a.Text}
	if q.call {
		got = Answered{Name: name, Failed: true}
		if a.Result != nil {
			got.Text, got.Failed = a.Result.Text, a.Result.Failed
		}
	}
	p.answer(a.Request, got, provider.Delivered)
	p.advance(time.Now())
	p.wake()
	return provider.Delivered, nil
}

// Cancel asks the peer to stop.
func (s *session) Cancel(context.Context) (provider.CancelOutcome, error) {
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	if s.isClosed || s.peer.crashed {
		return provider.CancelUnknown, coord.Errorf(coord.Unavailable, "the agent is gone")
	}
	out := s.peer.cancel(time.Now())
	s.peer.wake()
	return out, nil
}

// Close ends the session; on local routes the peer with it.
func (s *session) Close(context.Context) (coord.ActivityState, error) {
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	if !s.isClosed {
		s.isClosed = true
		close(s.closed)
		s.fake.open--
		s.peer.advance(time.Now())
		if !s.fake.route.Askable() {
			s.peer.crashed = true
		}
	}
	return s.activity(), nil
}
