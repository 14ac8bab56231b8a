package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/jsonl"
)

// Agent is an ACP agent on standard input and output that asks for one
// permission and then tells what it was allowed. It does nothing to the
// machine: what it asks to do, it only pretends to do.
func Agent(ctx context.Context, in io.Reader, out *os.File) int {
	a := &agent{out: jsonl.NewWriter(out, coord.MaxFrame, coord.WriteTimeout)}
	defer a.out.Close()
	frames := jsonl.NewReader(in, coord.MaxFrame)
	for {
		frame, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return 0
		}
		if err != nil {
			return 1
		}
		if err := a.take(ctx, frame); err != nil {
			return 1
		}
	}
}

// agent is one process's state: one session, one turn.
type agent struct {
	out    *jsonl.Writer
	prompt json.RawMessage // the id of the turn that runs, nil for none
}

const sessionID = "demo"

// askID is the id of the one request that the agent makes.
const askID = "may-i"

// message is any JSON-RPC message, as far as this agent looks at it.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result struct {
		Outcome struct {
			Outcome  string `json:"outcome"`
			OptionID string `json:"optionId"`
		} `json:"outcome"`
	} `json:"result"`
}

func (a *agent) take(ctx context.Context, frame []byte) error {
	var m message
	if err := json.Unmarshal(frame, &m); err != nil {
		return a.fail(ctx, json.RawMessage("null"), -32700, "this line is not JSON")
	}
	switch {
	case m.Method == "initialize":
		return a.answer(ctx, m.ID, map[string]any{"protocolVersion": 1, "agentCapabilities": map[string]any{},
			"agentInfo": map[string]any{"name": "signalbox-demo-agent", "version": "1"}, "authMethods": []any{}})
	case m.Method == "session/new":
		return a.answer(ctx, m.ID, map[string]any{"sessionId": sessionID})
	case m.Method == "session/prompt" && a.prompt == nil:
		a.prompt = append(json.RawMessage(nil), m.ID...)
		return a.work(ctx)
	case m.Method == "session/cancel":
		return a.end(ctx, "cancelled")
	case m.Method == "" && string(m.ID) == `"`+askID+`"`:
		return a.decided(ctx, m.Result.Outcome.OptionID)
	case m.Method != "" && len(m.ID) > 0:
		return a.fail(ctx, m.ID, -32601, "this agent knows no "+m.Method)
	}
	return nil
}

// work says something and asks.
func (a *agent) work(ctx context.Context) error {
	if err := a.say(ctx, "I would like to look at the signal log before I say anything. "); err != nil {
		return err
	}
	call := map[string]any{"toolCallId": "call-1", "title": "Read the signal log", "kind": "read", "status": "pending",
		"rawInput": map[string]any{"path": "/var/log/signals.log", "lines": 20}}
	return a.write(ctx, map[string]any{"jsonrpc": "2.0", "id": askID, "method": "session/request_permission", "params": map[string]any{
		"sessionId": sessionID, "toolCall": call, "options": []any{
			map[string]any{"optionId": "always", "name": "Allow always", "kind": "allow_always"},
			map[string]any{"optionId": "once", "name": "Allow once", "kind": "allow_once"},
			map[string]any{"optionId": "no", "name": "Reject", "kind": "reject_once"},
		}}})
}

// decided goes on after the operator's decision.
func (a *agent) decided(ctx context.Context, option string) error {
	if a.prompt == nil {
		return nil
	}
	text := "I was not allowed to read the signal log, so I can only say that nobody has checked it."
	if option == "once" || option == "always" {
		text = "I was allowed to read the signal log. Twenty lines, no section was left occupied without a train in it."
	}
	for _, word := range strings.SplitAfter(text, " ") {
		if err := a.say(ctx, word); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(15 * time.Millisecond): // so that a person sees it being written
		}
	}
	return a.end(ctx, "end_turn")
}

func (a *agent) say(ctx context.Context, text string) error {
	return a.write(ctx, map[string]any{"jsonrpc": "2.0", "method": "session/update", "params": map[string]any{"sessionId": sessionID,
		"update": map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": text}}}})
}

// end ends the turn that runs, if one does.
func (a *agent) end(ctx context.Context, reason string) error {
	if a.prompt == nil {
		return nil
	}
	id := a.prompt
	a.prompt = nil
	return a.answer(ctx, id, map[string]any{"stopReason": reason})
}

func (a *agent) answer(ctx context.Context, id json.RawMessage, result any) error {
	return a.write(ctx, map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
}

func (a *agent) fail(ctx context.Context, id json.RawMessage, code int, text string) error {
	return a.write(ctx, map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text}})
}

func (a *agent) write(ctx context.Context, v any) error {
	_, err := a.out.WriteJSON(ctx, v)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
