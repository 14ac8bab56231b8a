// Command goagent is a test peer: an agent on github.com/coder/acp-go-sdk, a
// connection that nobody of this project wrote. It lives in a module of its
// own so that the SDK never becomes a dependency of the product.
//
// It echoes the text of the prompt in chunks of eight characters. When the
// prompt contains the word "ask" it first asks for a permission, with the
// options "allow" (allow_once) and "reject" (reject_once); allowed, it echoes,
// otherwise it says "declined" and ends the turn. When the prompt contains the
// word "wait" it says "waiting" and then nothing until it is cancelled. A
// cancelled turn ends with the stop reason cancelled.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/coder/acp-go-sdk"
)

// chunk is the length of one piece of the echo, in characters.
const chunk = 8

// agent holds the turns that may be cancelled. The methods that it does not
// define answer "method not found", as an agent without the capability must.
type agent struct {
	conn *acp.AgentSideConnection

	mu       sync.Mutex
	sessions map[acp.SessionId]*session
}

type session struct {
	cancel context.CancelCauseFunc
	// cancelled remembers a cancel that overtook its prompt: this SDK hands
	// requests to goroutines, so the order of the wire is lost.
	cancelled bool
}

func (a *agent) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return acp.InitializeResponse{
		ProtocolVersion: acp.ProtocolVersionNumber,
		AgentInfo:       &acp.Implementation{Name: "goagent", Version: "1.0.0"},
		AuthMethods:     []acp.AuthMethod{},
	}, nil
}

func (a *agent) NewSession(context.Context, acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := acp.SessionId(fmt.Sprintf("session-%d-%d", os.Getpid(), len(a.sessions)+1))
	a.sessions[id] = &session{}
	return acp.NewSessionResponse{SessionId: id}, nil
}

func (a *agent) Cancel(_ context.Context, params acp.CancelNotification) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.sessions[params.SessionId]
	if !ok {
		return nil
	}
	s.cancelled = true
	if s.cancel != nil {
		s.cancel(context.Canceled)
	}
	return nil
}

func (a *agent) Prompt(_ context.Context, params acp.PromptRequest) (acp.PromptResponse, error) {
	ctx, done, err := a.begin(params.SessionId)
	if err != nil {
		return acp.PromptResponse{}, err
	}
	defer done()
	err = a.turn(ctx, params)
	if ctx.Err() != nil {
		return acp.PromptResponse{StopReason: acp.StopReasonCancelled}, nil
	}
	if err != nil {
		return acp.PromptResponse{}, err
	}
	return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, nil
}

// begin registers the turn of a session, so that Cancel finds it. The caller
// calls done when the turn is over.
func (a *agent) begin(id acp.SessionId) (ctx context.Context, done func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.sessions[id]
	if !ok {
		return nil, nil, acp.NewInvalidParams(map[string]any{"error": "unknown session"})
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s.cancel = cancel
	if s.cancelled {
		cancel(context.Canceled)
	}
	return ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		s.cancel, s.cancelled = nil, false
		cancel(nil)
	}, nil
}

func (a *agent) turn(ctx context.Context, params acp.PromptRequest) error {
	text := promptText(params.Prompt)
	words := strings.Fields(strings.ToLower(text))
	if slices.Contains(words, "ask") {
		allowed, err := a.ask(ctx, params.SessionId)
		if err != nil {
			return err
		}
		if !allowed {
			return a.say(ctx, params.SessionId, "declined")
		}
	}
	if slices.Contains(words, "wait") {
		if err := a.say(ctx, params.SessionId, "waiting"); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for piece := range slices.Chunk([]rune(text), chunk) {
		if err := a.say(ctx, params.SessionId, string(piece)); err != nil {
			return err
		}
	}
	return nil
}

// ask requests a permission and reports whether the option "allow" was chosen.
func (a *agent) ask(ctx context.Context, id acp.SessionId) (bool, error) {
	const call = acp.ToolCallId("call_1")
	answer, err := a.conn.RequestPermission(ctx, acp.RequestPermissionRequest{
		SessionId: id,
		ToolCall: acp.ToolCallUpdate{
			ToolCallId: call,
			Title:      acp.Ptr("Echo the prompt"),
			Kind:       acp.Ptr(acp.ToolKindOther),
			Status:     acp.Ptr(acp.ToolCallStatusPending),
			RawInput:   map[string]any{"action": "echo"},
		},
		Options: []acp.PermissionOption{
			{Kind: acp.PermissionOptionKindAllowOnce, Name: "Allow this echo", OptionId: "allow"},
			{Kind: acp.PermissionOptionKindRejectOnce, Name: "Decline it", OptionId: "reject"},
		},
	})
	if err != nil {
		return false, err
	}
	return answer.Outcome.Selected != nil && answer.Outcome.Selected.OptionId == "allow", nil
}

func (a *agent) say(ctx context.Context, id acp.SessionId, text string) error {
	return a.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: id, Update: acp.UpdateAgentMessageText(text)})
}

// promptText joins the text blocks of a prompt and the addresses of its links.
func promptText(blocks []acp.ContentBlock) string {
	var parts []string
	for _, b := range blocks {
		switch {
		case b.Text != nil:
			parts = append(parts, b.Text.Text)
		case b.ResourceLink != nil:
			parts = append(parts, b.ResourceLink.Uri)
		}
	}
	return strings.Join(parts, "\n")
}

func (a *agent) Authenticate(context.Context, acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return acp.AuthenticateResponse{}, acp.NewMethodNotFound(acp.AgentMethodAuthenticate)
}

func (a *agent) CloseSession(context.Context, acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	return acp.CloseSessionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionClose)
}

func (a *agent) ListSessions(context.Context, acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	return acp.ListSessionsResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionList)
}

func (a *agent) ResumeSession(context.Context, acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	return acp.ResumeSessionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionResume)
}

func (a *agent) SetSessionConfigOption(context.Context, acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	return acp.SetSessionConfigOptionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetConfigOption)
}

func (a *agent) SetSessionMode(context.Context, acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	return acp.SetSessionModeResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetMode)
}

func main() {
	a := &agent{sessions: map[acp.SessionId]*session{}}
	// The SDK answers from its own goroutines as soon as it is made, so the
	// agent must not use conn before this assignment; the first request that
	// does is a prompt, which needs two answers first.
	a.conn = acp.NewAgentSideConnection(a, os.Stdout, os.Stdin)
	a.conn.SetLogger(slog.New(slog.DiscardHandler))
	<-a.conn.Done()
}
