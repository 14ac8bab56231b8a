package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

const (
	// holdFor is how long a permission request that says nothing of what it is
	// for waits for the update that does. OpenCode sends it about 1 ms later.
	holdFor = 250 * time.Millisecond
	// maxAsked bounds the permission requests of one attempt whose outcome is
	// remembered; a person decides far fewer in two hours.
	maxAsked = 2000
	// maxTools bounds the tool calls whose description is remembered for a
	// later permission request, toolBytes each.
	maxTools  = 128
	toolBytes = coord.MaxRequestContent
)

// session is one attempt.
type session struct {
	c      *conn
	q      *queue
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
	tools     map[string]toolCall
	toolOrder []string
	closed    bool
	cancel    sync.Once
	cancelOut provider.CancelOutcome
	cancelErr error
}

func newSession(clock coord.Clock, logger *slog.Logger, prompt string) *session {
	return &session{q: newQueue(), clock: clock, logger: logger, prompt: prompt, written: make(chan struct{}), asked: map[string]*pending{}, tools: map[string]toolCall{}}
}

// Handle names the agent's session.
func (s *session) Handle() coord.Handle { return s.handle }

// Next gives the next event.
func (s *session) Next(ctx context.Context) (provider.Event, error) { return s.q.take(ctx) }

// Send writes the prompt. Only when not one byte of it left is it certain that
// nothing was sent.
func (s *session) Send(ctx context.Context) (coord.HandedOver, error) {
	s.mu.Lock()
	switch {
	case s.sent:
		s.mu.Unlock()
		return coord.HandedUnknown, coord.Errorf(coord.Internal, "the prompt was sent already")
	case s.cancelled || s.closed:
		s.mu.Unlock()
		return coord.HandedNothing, coord.Errorf(coord.Unavailable, "the attempt was stopped before its prompt was sent")
	}
	s.sent = true
	s.mu.Unlock()
	s.q.setSending(true)
	defer s.q.setSending(false)
	defer close(s.written)
	id := s.c.start(s.finish)
	n, err := s.c.write(ctx, outgoing{ID: id, Method: methodPrompt, Params: promptParams{SessionID: s.id, Prompt: []textBlock{{"text", s.prompt}}}})
	switch {
	case err == nil:
		return coord.HandedAll, nil
	case n == 0:
		return coord.HandedNothing, err
	}
	s.c.broken(err)
	return coord.HandedUnknown, err
}

// finish takes the answer to the prompt.
func (s *session) finish(e envelope) {
	s.mu.Lock()
	said, asked := s.said, s.cancelled
	s.ended = true
	s.mu.Unlock()
	s.receive("answer")
	end, result := stopped(e, said, asked)
	if result != nil {
		s.spend(result.usage(s.usage))
	}
	s.q.finish(provider.Event{Kind: provider.EventEnd, End: end})
}

// spend puts what is known of the usage, if that is new.
func (s *session) spend(u coord.Usage) {
	if u != s.usage {
		s.usage = u
		s.q.put(provider.Event{Kind: provider.EventUsage, Usage: &u}, 0)
	}
}

// receive puts the receipt before the first correlated event.
func (s *session) receive(kind string) {
	s.mu.Lock()
	first := !s.received
	s.received = true
	s.mu.Unlock()
	if first {
		s.q.put(provider.Event{Kind: provider.EventReceipt, Receipt: &coord.Receipt{Kind: kind, Reference: s.id, At: s.clock()}}, 0)
	}
}

// phase is where the turn is: before the prompt, in it, or after its end.
func (s *session) phase() (id string, sent, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.sent, s.ended
}

// update takes a session/update.
func (s *session) update(params json.RawMessage) {
	var p updateParams
	if err := decode(params, &p); err != nil {
		s.c.drop("unreadable")
		return
	}
	turn, known := variants[p.Update.Variant]
	id, sent, ended := s.phase()
	switch {
	case p.SessionID != id:
		s.c.drop("foreign")
		return
	case !known:
		s.c.drop("unknown_variant")
		return
	}
	if ended {
		s.q.putLate(or(cut(p.Update.Variant, maxName), "update"))
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
		s.q.put(e, size(e, len(params)))
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
	for _, h := range s.q.release(t.ID) {
		h.event.Content = t.describe()
		s.q.put(provider.Event{Kind: provider.EventRequest, Request: h.event}, h.size)
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
	known, ok := s.tools[t.ID]
	whole := known.merge(t)
	if !ok {
		if len(s.toolOrder) == maxTools {
			delete(s.tools, s.toolOrder[0])
			s.toolOrder = s.toolOrder[1:]
		}
		s.toolOrder = append(s.toolOrder, t.ID)
	}
	kept := whole
	if len(kept.RawInput)+len(kept.Content)+len(kept.Locations) > toolBytes {
		kept.RawInput, kept.Content, kept.Locations, kept.long = nil, nil, nil, true
	}
	s.tools[t.ID] = kept
	return whole
}

// ask takes a session/request_permission.
func (s *session) ask(id, params json.RawMessage) {
	var p permissionParams
	session, sent, ended := s.phase()
	if decode(params, &p) != nil || p.SessionID != session {
		s.c.drop("foreign")
		s.c.reply(outgoing{ID: id, Error: &rpcError{Code: codeInvalidParams, Message: "no such session"}})
		return
	}
	if !sent || ended {
		if ended {
			s.q.putLate(methodPermission)
		}
		s.c.reply(outgoing{ID: id, Result: chosen("")})
		return
	}
	s.receive("request")
	switch verdict := s.admit(id); verdict {
	case admitted:
		s.present(id, p)
	case withdrawn:
		s.c.reply(outgoing{ID: id, Result: chosen("")})
		s.q.put(s.request(id, p, s.remember(p.ToolCall)), len(params))
		s.q.put(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: string(id)}, 0)
	case tooMany:
		s.c.reply(outgoing{ID: id, Result: chosen("")})
		s.q.put(provider.Event{Kind: provider.EventActivity, Activity: &coord.Activity{
			Kind: "request", Title: cut(p.ToolCall.Title, coord.MaxTitle), Status: "refused",
			Detail: fmt.Sprintf("answered as cancelled by Signalbox: more than %d requests were open", coord.MaxPendingRequests),
		}}, 0)
	case flood:
		s.c.fail(provider.CauseRequests, fmt.Sprintf("The agent kept asking while %d requests were open; it was ended.", coord.MaxPendingRequests))
	case reused:
		s.c.drop("reused_id")
		s.c.reply(outgoing{ID: id, Error: &rpcError{Code: codeInvalidRequest, Message: "this request id was used before"}})
	case ambiguous:
		// Any answer would be taken for that to the first of the two.
		s.c.drop("reused_id")
	}
}

// verdict is what becomes of a permission request.
type verdict int

const (
	admitted verdict = iota
	withdrawn
	tooMany
	flood
	reused
	ambiguous
)

// admit records a request, within the bounds.
func (s *session) admit(id json.RawMessage) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.asked[string(id)]; old != nil {
		if old.taken {
			return reused
		}
		return ambiguous
	}
	if s.open >= coord.MaxPendingRequests {
		if s.refusals++; s.refusals > coord.MaxPendingRequests {
			return flood
		}
		return tooMany
	}
	if len(s.asked) >= maxAsked {
		return flood
	}
	p := &pending{id: id, done: make(chan struct{})}
	s.asked[string(id)] = p
	if s.cancelled {
		p.taken = true
		p.settle(provider.Undeliverable)
		return withdrawn
	}
	s.open++
	return admitted
}

// settle tells the outcome; who took the request calls it once.
func (p *pending) settle(outcome provider.Delivery) {
	p.outcome = outcome
	close(p.done)
}

// request makes the event of a permission request from all that is known of
// its tool call.
func (s *session) request(id json.RawMessage, p permissionParams, call toolCall) provider.Event {
	options, dropped := p.options()
	if dropped > 0 {
		s.c.drop("unknown_option")
	}
	return provider.Event{Kind: provider.EventRequest, Request: &provider.Request{
		Kind:    coord.Permission,
		Origin:  coord.RequestOrigin{Session: s.id, Item: cut(p.ToolCall.ID, maxID), Request: string(id)},
		Content: call.describe(),
		Options: options,
	}}
}

// present puts a request, or holds it back while it does not say what it is
// for.
func (s *session) present(id json.RawMessage, p permissionParams) {
	call := s.remember(p.ToolCall)
	e := s.request(id, p, call)
	weight := len(e.Request.Content.Detail)
	if call.telling() || call.ID == "" {
		s.q.put(e, weight)
		return
	}
	s.q.holdBack(hold{due: time.Now().Add(holdFor), tool: call.ID, event: e.Request, size: weight})
}

// withdraw takes a $/cancel_request of one of the agent's requests.
func (s *session) withdraw(id json.RawMessage) {
	p := s.claim(string(id))
	if p == nil {
		return
	}
	s.q.flush(false)
	s.c.reply(outgoing{ID: p.id, Result: chosen("")})
	p.settle(provider.Undeliverable)
	s.q.put(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: string(p.id)}, 0)
}

// claim makes the caller the one that answers the request: nil when there is
// none, or somebody else is.
func (s *session) claim(id string) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.asked[id]
	if p == nil || p.taken {
		return nil
	}
	p.taken = true
	s.open--
	return p
}

// Respond writes the answer to a permission request.
func (s *session) Respond(ctx context.Context, a provider.Answer) (provider.Delivery, error) {
	p := s.claim(a.Request)
	if p == nil {
		s.mu.Lock()
		p = s.asked[a.Request]
		s.mu.Unlock()
		if p == nil {
			return provider.Undeliverable, coord.Errorf(coord.NotFound, "the agent has no such request")
		}
		select {
		case <-p.done:
			return p.outcome, nil
		case <-ctx.Done():
			return provider.DeliveryLost, context.Cause(ctx)
		}
	}
	outcome, err := s.deliver(ctx, p, a)
	p.settle(outcome)
	return outcome, err
}

func (s *session) deliver(ctx context.Context, p *pending, a provider.Answer) (provider.Delivery, error) {
	option := a.Option
	if a.Decision != coord.DecisionApproved && a.Decision != coord.DecisionDenied {
		option = ""
	}
	if _, _, ended := s.phase(); ended || s.q.isOver() {
		return provider.Undeliverable, nil
	}
	n, err := s.c.write(ctx, outgoing{ID: p.id, Result: chosen(option)})
	switch {
	case err == nil:
		return provider.Delivered, nil
	case n == 0:
		return provider.Undeliverable, err
	}
	s.c.broken(err)
	return provider.DeliveryLost, err
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
	var open []*pending
	for _, p := range s.asked {
		if !p.taken {
			p.taken = true
			s.open--
			open = append(open, p)
		}
	}
	s.mu.Unlock()
	if !sent || ended {
		return provider.CancelAsked, nil
	}
	s.q.flush(true)
	// A cancel that overtook its prompt would be ignored as idle.
	select {
	case <-s.written:
	case <-ctx.Done():
	}
	_, err := s.c.write(ctx, outgoing{Method: methodCancel, Params: cancelParams{s.id}})
	for _, p := range open {
		if _, failed := s.c.write(ctx, outgoing{ID: p.id, Result: chosen("")}); failed != nil {
			err = errors.Join(err, failed)
		}
		p.settle(provider.Undeliverable)
	}
	if err != nil {
		s.c.broken(err)
		return provider.CancelUnknown, err
	}
	return provider.CancelAsked, nil
}

// gone takes the loss of the agent.
func (s *session) gone(l provider.Lost) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed && l.Cause == provider.CauseGone {
		l.Cause = provider.CauseShutdown
	}
	s.q.finish(provider.Event{Kind: provider.EventLost, Lost: &l})
	s.q.end()
	if ignored := s.c.ignored(); len(ignored) > 0 {
		s.logger.Info("some of what an agent sent was ignored", ignored...)
	}
}

// Close ends the agent with all that it started.
func (s *session) Close(ctx context.Context) (coord.ActivityState, error) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.q.unblock()
	return s.c.close(ctx)
}
