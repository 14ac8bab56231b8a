package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/acp/bridge"
	"signalbox/internal/provider/stdio"
)

const (
	// holdFor is how long a permission request that says nothing of what it is
	// for waits for the update that does. OpenCode sends it about 1 ms later.
	holdFor = 250 * time.Millisecond
	// maxAsked bounds the permission requests of one attempt whose outcome is
	// remembered; a person decides far fewer in two hours.
	maxAsked = 2000
)

// pending is one permission request of the agent, or one call of a tool.
type pending struct {
	stdio.Pending
	id json.RawMessage
	// caller is set for a call.
	caller *bridge.Caller
	// taken is guarded by the session's mutex: who set it answers.
	taken bool
}

// Ask takes a request of the agent.
func (s *session) Ask(id json.RawMessage, method string, params json.RawMessage) {
	if method != methodPermission {
		refuse(s.c, id, method)
		return
	}
	s.ask(id, params)
}

// refuse answers a request for what is not offered.
func refuse(c *stdio.Conn, id json.RawMessage, method string) {
	c.Refuse(id, stdio.CodeNoMethod, "this client does not offer "+stdio.Cut(method, stdio.MaxQuote))
}

// ask takes a session/request_permission.
func (s *session) ask(id, params json.RawMessage) {
	var p permissionParams
	session, sent, ended := s.phase()
	if stdio.Decode(params, &p) != nil || p.SessionID != session {
		s.c.Drop("foreign")
		s.c.Refuse(id, stdio.CodeInvalidParams, "no such session")
		return
	}
	if !sent || ended {
		if ended {
			s.q.PutLate(methodPermission)
		}
		s.c.Reply(stdio.Outgoing{ID: id, Result: chosen("")})
		return
	}
	s.receive("request")
	switch verdict := s.admit(id); verdict {
	case admitted:
		s.present(id, p)
	case withdrawn:
		s.c.Reply(stdio.Outgoing{ID: id, Result: chosen("")})
		s.q.Put(s.request(id, p, s.remember(p.ToolCall)), len(params))
		s.q.Put(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: string(id)}, 0)
	case tooMany:
		s.c.Reply(stdio.Outgoing{ID: id, Result: chosen("")})
		s.q.Put(provider.Event{Kind: provider.EventActivity, Activity: &coord.Activity{
			Kind: "request", Title: stdio.Clip(p.ToolCall.Title, coord.MaxTitle), Status: "refused",
			Detail: fmt.Sprintf("answered as cancelled by Signalbox: more than %d requests were open", coord.MaxPendingRequests),
		}}, 0)
	case flood:
		s.c.Fail(provider.CauseRequests, "The agent asked for more permissions than a person can decide; it was ended.")
	case reused:
		s.c.Drop("reused_id")
		s.c.RefuseReused(&s.earlier(id).Pending, id)
	case ambiguous:
		// Any answer would be taken for that to the first of the two.
		s.c.Drop("reused_id")
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

// earlier is the request that had this id before.
func (s *session) earlier(id json.RawMessage) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[string(id)]
}

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
	p := &pending{Pending: stdio.NewPending(), id: id}
	s.asked[string(id)] = p
	if s.cancelled {
		p.taken = true
		p.Settle(provider.Undeliverable)
		return withdrawn
	}
	s.open++
	return admitted
}

// request makes the event of a permission request from all that is known of
// its tool call.
func (s *session) request(id json.RawMessage, p permissionParams, call toolCall) provider.Event {
	options, dropped := p.options()
	if dropped > 0 {
		s.c.Drop("unknown_option")
	}
	return provider.Event{Kind: provider.EventRequest, Request: &provider.Request{
		Kind:    coord.Permission,
		Origin:  coord.RequestOrigin{Session: s.id, Item: stdio.Cut(p.ToolCall.ID, maxID), Request: string(id)},
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
		s.q.Put(e, weight)
		return
	}
	s.q.HoldBack(stdio.Hold{Due: time.Now().Add(holdFor), About: call.ID, Request: e.Request, Size: weight})
}

// withdraw takes a $/cancel_request of one of the agent's requests.
func (s *session) withdraw(id json.RawMessage) {
	p := s.claim(string(id))
	if p == nil {
		return
	}
	s.q.Flush(false)
	s.c.Reply(stdio.Outgoing{ID: p.id, Result: chosen("")})
	p.Settle(provider.Undeliverable)
	s.q.Put(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: string(p.id)}, 0)
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
	s.take(p)
	return p
}

// take makes the caller, who holds the mutex, the one that answers.
func (s *session) take(p *pending) {
	p.taken = true
	if p.caller != nil {
		s.calls--
	} else {
		s.open--
	}
}

// Respond writes the answer to a permission request, or the result of a call.
func (s *session) Respond(ctx context.Context, a provider.Answer) (provider.Delivery, error) {
	if p := s.claim(a.Request); p != nil {
		outcome, err := s.deliver(ctx, p, a)
		p.Settle(outcome)
		return outcome, err
	}
	s.mu.Lock()
	p := s.asked[a.Request]
	s.mu.Unlock()
	if p == nil {
		return provider.Undeliverable, coord.Errorf(coord.NotFound, "the agent has no such request")
	}
	return p.Outcome(ctx)
}

func (s *session) deliver(ctx context.Context, p *pending, a provider.Answer) (provider.Delivery, error) {
	if p.caller != nil {
		return s.result(ctx, p, a)
	}
	option := a.Option
	if a.Decision != coord.DecisionApproved && a.Decision != coord.DecisionDenied {
		option = ""
	}
	if _, _, ended := s.phase(); ended || s.q.Over() {
		return provider.Undeliverable, nil
	}
	return s.c.Answer(ctx, p.id, chosen(option))
}
