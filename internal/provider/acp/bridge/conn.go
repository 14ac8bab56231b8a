package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/jsonl"
	"signalbox/internal/toolwire"
)

// errCaller is the cause of ending a connection for what came from it.
var errCaller = errors.New("the message is not one of the protocol")

// conn is one connection.
type conn struct {
	server *Server
	raw    net.Conn
	number int
	w      *jsonl.Writer

	mu sync.Mutex
	// open holds the calls that nobody answered yet.
	open map[int64]bool
	last int64
}

// serve takes what comes until the connection ends.
func (c *conn) serve() {
	defer c.leave()
	first := &allowance{from: c.raw, left: toolwire.MaxHello}
	lines := jsonl.NewReader(first, toolwire.MaxCall)
	_ = c.raw.SetReadDeadline(time.Now().Add(c.server.o.Hello))
	if why, reason := c.greet(lines); why != "" {
		c.server.handler.Ignored(why)
		if reason != "" {
			_, _ = c.w.WriteJSON(context.Background(), toolwire.Reply{Refused: &toolwire.Refused{Reason: reason}})
		}
		return
	}
	first.left = -1
	_ = c.raw.SetReadDeadline(time.Time{})
	if _, err := c.w.WriteJSON(context.Background(), toolwire.Reply{Welcome: &toolwire.Welcome{Version: toolwire.Version, Tools: c.server.tools}}); err != nil {
		return
	}
	for {
		line, err := lines.Next()
		if err == nil {
			err = c.take(line)
		}
		switch {
		case errors.Is(err, jsonl.ErrFrameTooLarge), errors.Is(err, jsonl.ErrInvalidUTF8), errors.Is(err, errCaller):
			// The tool server checks both, so this is somebody else with the token.
			c.server.handler.Ignored("tool_protocol")
			return
		case err != nil:
			return
		}
	}
}

// greet takes the hello. What is not served has a word for it, and a sentence
// if somebody may be there to read it.
func (c *conn) greet(lines *jsonl.Reader) (why, reason string) {
	line, err := lines.Next()
	if err != nil {
		return "tool_stranger", ""
	}
	r, err := toolwire.ReadRequest(line)
	switch {
	case err != nil || r.Hello == nil:
		return "tool_stranger", "The first message must be a hello."
	// The token comes first: a stranger learns nothing, not even the version.
	case !c.server.admits(r.Hello.Token):
		return "tool_token", "The token is not the one of this attempt."
	case r.Hello.Version != toolwire.Version:
		return "tool_version", fmt.Sprintf("The worker speaks version %d; the tool server is of another release of Signalbox.", toolwire.Version)
	}
	if err := c.server.promote(c); err != nil {
		return "tool_connections", fmt.Sprintf("The connection is not accepted: %v.", err)
	}
	return "", ""
}

// take takes one message of a caller.
func (c *conn) take(line []byte) error {
	r, err := toolwire.ReadRequest(line)
	switch {
	case err != nil || r.Hello != nil:
		return errCaller
	case r.Withdraw != nil:
		if c.remove(r.Withdraw.ID) {
			c.server.handler.Withdrawn(Caller{c, r.Withdraw.ID})
		}
		return nil
	}
	caller := Caller{c, r.Call.ID}
	if !c.add(r.Call.ID) {
		return errCaller
	}
	refusal := ""
	switch {
	case !c.server.offers(r.Call.Tool):
		refusal = "There is no such tool."
	case len(r.Call.Arguments) > coord.MaxCallArguments:
		refusal = fmt.Sprintf("The arguments have %d bytes; at most %d are taken.", len(r.Call.Arguments), coord.MaxCallArguments)
	}
	if refusal != "" {
		_, err := caller.Answer(context.Background(), refusal, true)
		return err
	}
	if r.Call.Arguments == nil {
		r.Call.Arguments = json.RawMessage("{}")
	}
	c.server.handler.Called(caller, r.Call.Tool, r.Call.Arguments)
	return nil
}

// add opens a call. Numbers only grow, so that an answer can never be taken for
// that to another call.
func (c *conn) add(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id <= c.last {
		return false
	}
	c.last = id
	c.open[id] = true
	return true
}

// remove closes a call, once.
func (c *conn) remove(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.open[id]
	delete(c.open, id)
	return was
}

func (c *conn) answer(ctx context.Context, r toolwire.Result) (int, error) {
	if !c.remove(r.ID) {
		return 0, coord.Errorf(coord.NotFound, "the agent does not wait for this answer any more")
	}
	n, err := c.w.WriteJSON(ctx, toolwire.Reply{Result: &r})
	if coord.CodeOf(err) == coord.Limit {
		// The caller must not wait for what can never come.
		r.Text, r.Failed = "The answer is too long to be handed over.", true
		return c.w.WriteJSON(ctx, toolwire.Reply{Result: &r})
	}
	if err != nil {
		// A caller who does not read is gone for us.
		_ = c.w.Close()
	}
	return n, err
}

// leave ends the connection and withdraws its calls.
func (c *conn) leave() {
	_ = c.w.Close()
	c.server.forget(c)
	c.mu.Lock()
	var left []int64
	for id := range c.open {
		left = append(left, id)
	}
	clear(c.open)
	c.mu.Unlock()
	for _, id := range left {
		c.server.handler.Withdrawn(Caller{c, id})
	}
}
