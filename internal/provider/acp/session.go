package acp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/acp/bridge"
	"signalbox/internal/provider/stdio"
)

// maxTools bounds the tool calls whose description is remembered for a later
// permission request, toolBytes each.
const (
	maxTools  = 128
	toolBytes = coord.MaxRequestContent
)

// session is one attempt.
type session struct {
	c      *stdio.Conn
	q      *stdio.Queue
	clock  coord.Clock
	logger *slog.Logger
	handle coord.Handle
	id     string
	prompt string

	// usage belongs to the reading goroutine.
	usage coord.Usage

	mu sync.Mutex
	// sent is set before the first byte of the prompt may leave, written is
	// closed when no more of it will.
	sent      bool
	written   chan struct{}
	received  bool
	said      bool
	ended     bool
	cancelled bool
	asked     map[string]*pending
	open      int
	refusals  int
	tools     *bridge.Server // nil while none are offered
	calls     int            // that are open
	called    int            // that ever were
	toolsOver bool
	known     map[string]toolCall
	knownSeen []string
	closed    bool
	cancel    sync.Once
	cancelOut provider.CancelOutcome
	cancelErr error
}

func newSession(clock coord.Clock, logger *slog.Logger, prompt string) *session {
	return &session{q: stdio.NewQueue(), clock: clock, logger: logger, prompt: prompt, written: make(chan struct{}), asked: map[string]*pending{}, known: map[string]toolCall{}}
}

// Handle names the agent's session.
func (s *session) Handle() coord.Handle { return s.handle }

// Next gives the next event.
func (s *session) Next(ctx context.Context) (provider.Event, error) { return s.q.Take(ctx) }

// Send writes the prompt. Only when not one byte of it left is it certain that
// nothing was sent.
func (s *session) Send(ctx context.Context) (coord.HandedOver, error) {
	s.mu.Lock()
	if handed, err := provider.Unsendable(ctx, s.sent, s.cancelled || s.closed); err != nil {
		s.mu.Unlock()
		return handed, err
	}
	s.sent = true
	s.mu.Unlock()
	s.q.SetSending(true)
	defer s.q.SetSending(false)
	defer close(s.written)
	id := s.c.Begin(s.finish)
	return s.c.HandOver(ctx, stdio.Outgoing{ID: id, Method: methodPrompt, Params: promptParams{SessionID: s.id, Prompt: []textBlock{{"text", s.prompt}}}})
}

// finish takes the answer to the prompt.
func (s *session) finish(m stdio.Message) {
	s.mu.Lock()
	said, asked := s.said, s.cancelled
	s.ended = true
	s.mu.Unlock()
	s.receive("answer")
	end, result := stopped(m, said, asked)
	if result != nil {
		s.spend(result.usage(s.usage))
	}
	s.tellUnreached(s.endTools())
	s.q.Finish(provider.Event{Kind: provider.EventEnd, End: end})
}

// spend puts what is known of the usage, if that is new.
func (s *session) spend(u coord.Usage) {
	if u != s.usage {
		s.usage = u
		s.q.Put(provider.Event{Kind: provider.EventUsage, Usage: &u}, 0)
	}
}

// receive puts the receipt before the first correlated event.
func (s *session) receive(kind string) {
	s.mu.Lock()
	first := !s.received
	s.received = true
	s.mu.Unlock()
	if first {
		s.q.Put(provider.Event{Kind: provider.EventReceipt, Receipt: &coord.Receipt{Kind: kind, Reference: s.id, At: s.clock()}}, 0)
	}
}

// phase is where the turn is: before the prompt, in it, or after its end.
func (s *session) phase() (id string, sent, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.sent, s.ended
}

// Notify takes a notification; those of other methods mean nothing here.
func (s *session) Notify(method string, params json.RawMessage) {
	switch method {
	case methodUpdate:
		s.update(params)
	case methodWithdraw:
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if stdio.Decode(params, &p) == nil && p.RequestID != nil {
			s.withdraw(p.RequestID)
		}
	}
}

// update takes a session/update.
func (s *session) update(params json.RawMessage) {
	p, err := readUpdate(params)
	if err != nil {
		s.c.Drop("unreadable")
		return
	}
	turn, known := variants[p.Update.Variant]
	id, sent, ended := s.phase()
	switch {
	case p.SessionID != id:
		s.c.Drop("foreign")
		return
	case !known:
		s.c.Drop("unknown_variant")
		return
	}
	if ended {
		s.q.PutLate(p.Update.late())
		return
	}
	if !sent {
		return
	}
	if turn {
		s.receive("update")
	}
	if p.Update.Variant == "tool_call" || p.Update.Variant == "tool_call_update" {
		p.Update.toolCall = s.learn(p.Update.toolCall)
	}
	if p.Update.Variant == "usage_update" {
		s.spend(p.Update.usage(s.usage))
		return
	}
	events := p.Update.events()
	for _, e := range events {
		s.note(e)
		s.q.Put(e, size(e, len(params)))
	}
}

// note remembers that the turn had an answer.
func (s *session) note(e provider.Event) {
	if e.Kind == provider.EventContent || e.Kind == provider.EventText && e.Text.Channel == coord.ChannelMessage && !blank(e.Text.Text) {
		s.mu.Lock()
		s.said = true
		s.mu.Unlock()
	}
}

func blank(text string) bool {
	for _, r := range text {
		if r != ' ' && r != '\n' && r != '\t' && r != '\r' {
			return false
		}
	}
	return true
}

// size is what an event weighs in the queue.
func size(e provider.Event, frame int) int {
	if e.Kind == provider.EventText {
		return len(e.Text.Text)
	}
	return frame
}

// learn keeps what is told of a tool call, gives it to a request that was held
// back for it, and returns all that is known of the call by now.
func (s *session) learn(t toolCall) toolCall {
	t = s.remember(t)
	for _, h := range s.q.Release(t.ID) {
		h.Request.Content = t.describe()
		s.q.Put(provider.Event{Kind: provider.EventRequest, Request: h.Request}, h.Size)
	}
	return t
}

// remember adds to what is known of a tool call, within bounds, and returns
// all of it. A call that is too long to be remembered whole is returned whole.
func (s *session) remember(t toolCall) toolCall {
	if t.ID == "" || len(t.ID) > maxID {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.known[t.ID]
	whole := before.merge(t)
	if !ok {
		if len(s.knownSeen) == maxTools {
			delete(s.known, s.knownSeen[0])
			s.knownSeen = s.knownSeen[1:]
		}
		s.knownSeen = append(s.knownSeen, t.ID)
	}
	kept := whole
	if len(kept.RawInput)+len(kept.Content)+len(kept.Locations) > toolBytes {
		kept.RawInput, kept.Content, kept.Locations, kept.long = nil, nil, nil, true
	}
	s.known[t.ID] = kept
	return whole
}

// Cancel sends session/cancel and answers every open request as cancelled.
func (s *session) Cancel(ctx context.Context) (provider.CancelOutcome, error) {
	s.cancel.Do(func() { s.cancelOut, s.cancelErr = s.stop(ctx) })
	return s.cancelOut, s.cancelErr
}

func (s *session) stop(ctx context.Context) (provider.CancelOutcome, error) {
	s.mu.Lock()
	s.cancelled = true
	sent, ended := s.sent, s.ended
	var open, calls []*pending
	for _, p := range s.asked {
		switch {
		case p.taken:
			continue
		case p.caller != nil:
			calls = append(calls, p)
		default:
			open = append(open, p)
		}
		s.take(p)
	}
	s.mu.Unlock()
	if !sent || ended {
		return provider.CancelAsked, nil
	}
	s.q.Flush(true)
	// A cancel that overtook its prompt would be ignored as idle.
	select {
	case <-s.written:
	case <-ctx.Done():
	}
	_, err := s.c.Write(ctx, stdio.Outgoing{Method: methodCancel, Params: cancelParams{s.id}})
	for _, p := range open {
		if _, failed := s.c.Write(ctx, stdio.Outgoing{ID: p.id, Result: chosen("")}); failed != nil {
			err = errors.Join(err, failed)
		}
		p.Settle(provider.Undeliverable)
	}
	for _, p := range calls {
		// A caller who cannot be told is gone, which says nothing of the agent.
		_, _ = p.caller.Answer(ctx, cancelledCall, true)
		p.Settle(provider.Undeliverable)
	}
	if err != nil {
		s.c.Broken(err)
		return provider.CancelUnknown, err
	}
	return provider.CancelAsked, nil
}

// Gone takes the loss of the agent.
func (s *session) Gone(l provider.Lost) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	s.endTools()
	if closed && l.Cause == provider.CauseGone {
		l.Cause = provider.CauseShutdown
	}
	s.q.Finish(provider.Event{Kind: provider.EventLost, Lost: &l})
	s.q.End()
	if ignored := s.c.Ignored(); len(ignored) > 0 {
		s.logger.Info("some of what an agent sent was ignored", ignored...)
	}
}

// Close ends the agent with all that it started.
func (s *session) Close(ctx context.Context) (coord.ActivityState, error) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	tools := s.endTools()
	s.q.Unblock()
	activity, err := s.c.Close(ctx)
	if tools != nil {
		tools.Wait()
	}
	return activity, err
}
