package workspacemcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/jsonl"
	"signalbox/internal/toolwire"
)

// server is the agent's side: what it asks is answered here or by the worker.
type server struct {
	out     *jsonl.Writer
	version string

	// worker is nil when it was never reached, and why is the reason.
	worker *worker
	why    string

	mu sync.Mutex
	// calls are those that the worker has, by the number that it knows, and
	// numbers gives that for the agent's own id.
	calls   map[int64]json.RawMessage
	numbers map[string]int64
	last    int64
	// gone is set when the worker does not answer any more.
	gone bool
}

// Main serves until the end of in, and gives the status to exit with.
func Main(ctx context.Context, version string, in io.Reader, out io.WriteCloser, errOut io.Writer, getenv func(string) string) int {
	s := &server{out: jsonl.NewWriter(out, coord.MaxFrame, coord.WriteTimeout), version: version, calls: map[int64]json.RawMessage{}, numbers: map[string]int64{}}
	var reading sync.WaitGroup
	k, err := dial(getenv(toolwire.SocketEnv), getenv(toolwire.TokenEnv))
	if err != nil {
		s.why = sentence(err)
		// Agents show or keep what their tool servers print there.
		fmt.Fprintln(errOut, s.why)
	} else {
		s.worker = k
		reading.Go(func() { s.follow(ctx) })
	}
	err = s.serve(ctx, in)
	if k != nil {
		_ = k.w.Close()
	}
	reading.Wait()
	if s.why != "" || !errors.Is(err, io.EOF) {
		return 1
	}
	return 0
}

func sentence(err error) string {
	if e, ok := errors.AsType[*coord.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// serve reads what the agent asks. It returns io.EOF at the end of input.
func (s *server) serve(ctx context.Context, in io.Reader) error {
	lines := jsonl.NewReader(in, coord.MaxFrame)
	for {
		line, err := lines.Next()
		switch {
		case errors.Is(err, jsonl.ErrInvalidUTF8):
			err = s.fail(ctx, json.RawMessage("null"), codeParse, "the message is not UTF-8")
		case errors.Is(err, io.ErrUnexpectedEOF):
			return io.EOF
		case err == nil && len(line) > 0:
			err = s.take(ctx, line)
		}
		if err != nil {
			return err
		}
	}
}

// take takes one message. The line is valid during the call only, and
// RawMessage copies.
func (s *server) take(ctx context.Context, line []byte) error {
	var m incoming
	switch err := json.Unmarshal(line, &m); {
	case !json.Valid(line):
		return s.fail(ctx, json.RawMessage("null"), codeParse, "the message is not JSON")
	case err != nil || m.JSONRPC != "2.0" || m.ID != nil && !validID(m.ID):
		return s.fail(ctx, json.RawMessage("null"), codeInvalidRequest, "the message is not one request of JSON-RPC 2.0")
	case m.Method == "":
		return nil // a response; nothing was asked of the agent
	case m.ID == nil:
		return s.notified(ctx, m)
	}
	switch m.Method {
	case "initialize":
		var p initializeParams
		_ = json.Unmarshal(m.Params, &p) // a version that cannot be read is an unknown one
		return s.reply(ctx, m.ID, initializeResult{ProtocolVersion: negotiate(p.ProtocolVersion), ServerInfo: implementation{"signalbox", s.version}})
	case "ping":
		return s.reply(ctx, m.ID, struct{}{})
	case "tools/list":
		return s.list(ctx, m)
	case "tools/call":
		return s.call(ctx, m)
	}
	return s.fail(ctx, m.ID, codeNoMethod, "this server has tools only")
}

func (s *server) list(ctx context.Context, m incoming) error {
	if s.worker == nil {
		return s.fail(ctx, m.ID, codeInternal, s.why)
	}
	r := listResult{Tools: []tool{}}
	for _, t := range s.worker.tools {
		r.Tools = append(r.Tools, tool{t.Name, t.Description, t.Schema})
	}
	return s.reply(ctx, m.ID, r)
}

// call hands a call to the worker, or answers what the model can learn from.
func (s *server) call(ctx context.Context, m incoming) error {
	var p callParams
	if err := json.Unmarshal(m.Params, &p); err != nil || p.Name == "" {
		return s.fail(ctx, m.ID, codeInvalidParams, "a call needs the name of a tool")
	}
	if len(p.Arguments) == 0 || string(p.Arguments) == "null" {
		p.Arguments = json.RawMessage("{}")
	}
	refusal := ""
	switch {
	case s.worker == nil:
		refusal = s.why
	case !object(p.Arguments):
		refusal = "The arguments are not a JSON object."
	case len(p.Arguments) > coord.MaxCallArguments:
		refusal = fmt.Sprintf("The arguments have %d bytes; at most %d are taken.", len(p.Arguments), coord.MaxCallArguments)
	}
	var number int64
	if refusal == "" {
		number, refusal = s.open(m.ID)
	}
	if refusal != "" {
		return s.reply(ctx, m.ID, textResult(refusal, true))
	}
	n, err := s.worker.w.WriteJSON(ctx, toolwire.Request{Call: &toolwire.Call{ID: number, Tool: p.Name, Arguments: p.Arguments}})
	if err == nil {
		return nil
	}
	if id, ok := s.close(number); ok {
		text := goneReason
		if n == 0 && coord.CodeOf(err) == coord.Limit {
			text = "The call is too long to be handed over."
		}
		return s.reply(ctx, id, textResult(text, true))
	}
	return nil
}

// open gives a call its number, or says why there can be no more.
func (s *server) open(id json.RawMessage) (number int64, refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, used := s.numbers[string(id)]
	switch {
	case s.gone:
		return 0, goneReason
	case used:
		return 0, "A call with this id is not answered yet."
	case len(s.calls) == coord.MaxCalls:
		return 0, fmt.Sprintf("%d calls are not answered yet; wait for one of them.", coord.MaxCalls)
	}
	s.last++
	s.calls[s.last] = id
	s.numbers[string(id)] = s.last
	return s.last, ""
}

// close makes the caller the one that answers a call.
func (s *server) close(number int64) (id json.RawMessage, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok = s.calls[number]
	delete(s.calls, number)
	delete(s.numbers, string(id))
	return id, ok
}

// notified takes a notification. A cancelled request gets no answer.
func (s *server) notified(ctx context.Context, m incoming) error {
	var p cancelledParams
	if m.Method != "notifications/cancelled" {
		return nil
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return nil //nolint:nilerr // a notification has no answer, and names no call of ours
	}
	s.mu.Lock()
	number, open := s.numbers[string(p.RequestID)]
	s.mu.Unlock()
	if !open {
		return nil
	}
	if _, ok := s.close(number); ok {
		// A worker that cannot be told is gone, and its end withdraws all.
		_, _ = s.worker.w.WriteJSON(ctx, toolwire.Request{Withdraw: &toolwire.Withdraw{ID: number}})
	}
	return nil
}

// follow brings the worker's results to the agent, and its end to every open
// call.
func (s *server) follow(ctx context.Context) {
	for {
		line, err := s.worker.lines.Next()
		if err != nil {
			break
		}
		r, err := toolwire.ReadReply(line)
		if err != nil || r.Result == nil {
			break
		}
		if id, ok := s.close(r.Result.ID); ok {
			// An agent that does not read will end its input too.
			_ = s.reply(ctx, id, textResult(r.Result.Text, r.Result.Failed))
		}
	}
	s.mu.Lock()
	s.gone = true
	open := s.calls
	s.calls, s.numbers = map[int64]json.RawMessage{}, map[string]int64{}
	s.mu.Unlock()
	for _, id := range open {
		_ = s.reply(ctx, id, textResult(goneReason, true))
	}
	_ = s.worker.w.Close()
}

func (s *server) reply(ctx context.Context, id json.RawMessage, result any) error {
	_, err := s.out.WriteJSON(ctx, outgoing{JSONRPC: "2.0", ID: id, Result: result})
	if coord.CodeOf(err) == coord.Limit {
		return s.fail(ctx, id, codeInternal, "the answer is too long")
	}
	return err
}

func (s *server) fail(ctx context.Context, id json.RawMessage, code int, message string) error {
	_, err := s.out.WriteJSON(ctx, outgoing{JSONRPC: "2.0", ID: id, Error: &rpcError{code, message}})
	return err
}
