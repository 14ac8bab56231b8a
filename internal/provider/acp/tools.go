package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/acp/bridge"
	"signalbox/internal/provider/stdio"
	"signalbox/internal/toolwire"
)

const (
	// serverName is how agents know our tool server. Models see it as a part of
	// the tools' names. Nothing here trusts it: an agent may give the name to
	// any tool.
	serverName = "signalbox"
	// maxCalled bounds the calls of one attempt, whose outcomes are remembered:
	// more than one a second for two hours.
	maxCalled = 10_000

	cancelledCall = "The work is being cancelled; the call was not carried out."
	endedCall     = "The turn is not running; the call was not carried out."
)

// offer opens the door for the tools and gives what the agent is to start for
// them: nothing when there are none.
func (a *Adapter) offer(s *session, tools []provider.Tool) ([]mcpServer, error) {
	if len(tools) == 0 {
		return []mcpServer{}, nil
	}
	if !filepath.IsAbs(a.o.Program) || a.o.Sockets == "" {
		return nil, &provider.Unsent{Cause: provider.CauseConfig, Message: "This worker was not set up to give tools to ACP agents."}
	}
	offered := make([]toolwire.Tool, len(tools))
	for i, t := range tools {
		offered[i] = toolwire.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema}
	}
	server, err := bridge.New(a.o.Sockets, offered, s, bridge.Options{Write: a.o.Timing.Write})
	if err != nil {
		return nil, &provider.Unsent{Cause: provider.CauseConfig, Message: stdio.Shown(err)}
	}
	a.o.Secret(toolwire.TokenEnv, server.Token())
	s.mu.Lock()
	s.tools = server
	s.mu.Unlock()
	return []mcpServer{{Name: serverName, Command: a.o.Program, Args: []string{toolwire.Command}, Env: []envVariable{
		{toolwire.SocketEnv, server.Socket()}, {toolwire.TokenEnv, server.Token()},
	}}}, nil
}

// Called takes a call of a tool.
func (s *session) Called(c bridge.Caller, tool string, arguments json.RawMessage) {
	if refusal := s.admitCall(c); refusal != "" {
		_, _ = c.Answer(context.Background(), refusal, true)
		return
	}
	s.receive("call")
	s.q.Put(provider.Event{Kind: provider.EventCall, Call: &provider.Call{
		Origin: coord.RequestOrigin{Session: s.id, Request: c.ID()}, Tool: tool, Arguments: arguments,
	}}, len(arguments))
}

// admitCall records a call, or says why it is refused.
func (s *session) admitCall(c bridge.Caller) (refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.sent || s.ended || s.toolsOver:
		return endedCall
	case s.cancelled:
		return cancelledCall
	case s.calls == coord.MaxCalls:
		return fmt.Sprintf("%d calls are not answered yet; wait for one of them.", coord.MaxCalls)
	case s.called == maxCalled:
		return fmt.Sprintf("The attempt has used up its %d calls.", maxCalled)
	}
	s.called++
	s.calls++
	s.asked[c.ID()] = &pending{Pending: stdio.NewPending(), caller: &c}
	return ""
}

// Withdrawn takes a call back whose caller went or gave it up.
func (s *session) Withdrawn(c bridge.Caller) {
	if p := s.claim(c.ID()); p != nil {
		p.Settle(provider.Undeliverable)
		s.q.Put(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: c.ID()}, 0)
	}
}

// Ignored counts what came to the socket and was not served.
func (s *session) Ignored(why string) { s.c.Drop(why) }

// result writes the result of a call.
func (s *session) result(ctx context.Context, p *pending, a provider.Answer) (provider.Delivery, error) {
	r := a.Result
	if r == nil {
		r = &provider.Result{Text: "The call was not carried out.", Failed: true}
	}
	n, err := p.caller.Answer(ctx, r.Text, r.Failed)
	switch {
	case err == nil:
		return provider.Delivered, nil
	case n == 0:
		return provider.Undeliverable, err
	}
	return provider.DeliveryLost, err
}

// endTools closes the door: nothing more is accepted, the socket is gone, and
// open calls are undeliverable. It does not wait, and gives what to wait for,
// nil when no tools were offered.
func (s *session) endTools() *bridge.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.toolsOver = true
	for _, p := range s.asked {
		if p.caller != nil && !p.taken {
			s.take(p)
			p.Settle(provider.Undeliverable)
		}
	}
	if s.tools != nil {
		s.tools.Close()
	}
	return s.tools
}

// tellUnreached tells the operator that the agent never used what it was given:
// it may not be able to.
func (s *session) tellUnreached(tools *bridge.Server) {
	if tools == nil || tools.Reached() {
		return
	}
	s.q.Put(provider.Event{Kind: provider.EventActivity, Activity: &coord.Activity{
		Kind: "tools", Title: "The agent never connected to the tools of Signalbox", Status: "unreached",
		Detail: "It may not support tool servers, run as another user, or be in a sandbox that hides the socket.",
	}}, 0)
}
