package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/jsonl"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// maxReplies bounds the answers that wait to be written to an agent that asks
// faster than it reads; then we stop reading it.
const maxReplies = 64

// handler is what a connection tells its owner, from its reading goroutine.
type handler interface {
	// update takes the params of session/update, which are good during the call.
	update(params json.RawMessage)
	// ask takes a session/request_permission, withdraw a $/cancel_request.
	ask(id, params json.RawMessage)
	withdraw(id json.RawMessage)
	// gone is the last call: the agent can not be followed any more.
	gone(provider.Lost)
}

// conn is one running agent. A reading goroutine takes what it writes and a
// replying one answers what it asks, so that reading never waits for an agent
// that does not read. Close ends both.
type conn struct {
	proc    *process.Process
	w       *jsonl.Writer
	h       handler
	timing  provider.Timing
	replies chan outgoing

	mu    sync.Mutex
	last  int64
	calls map[int64]func(envelope)
	// dropped counts what was ignored, by why.
	dropped map[string]int
	fault   *fault
	closing bool

	stop    chan struct{} // closed by Close
	mute    chan struct{} // closed when no answer is written any more
	dead    chan struct{} // closed when reading ended
	read    sync.WaitGroup
	turn    chan struct{} // one token; who holds it is in Close
	closed  bool          // guarded by turn
	closeIs coord.ActivityState
}

// fault is why a connection can not be used any more.
type fault struct{ cause, reason string }

func (f *fault) Error() string { return f.reason }

// newConn takes over a process; bind gets the connection before anything is
// read and gives its handler.
func newConn(p *process.Process, timing provider.Timing, bind func(*conn) handler) *conn {
	c := &conn{
		proc: p, w: jsonl.NewWriter(p.Stdin, coord.MaxFrame, timing.Write), timing: timing,
		replies: make(chan outgoing, maxReplies), calls: map[int64]func(envelope){}, dropped: map[string]int{},
		stop: make(chan struct{}), mute: make(chan struct{}), dead: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	c.turn <- struct{}{}
	c.h = bind(c)
	c.read.Go(c.readLoop)
	c.read.Go(c.replyLoop)
	c.read.Go(c.exitLoop)
	return c
}

// drop counts something that is ignored.
func (c *conn) drop(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped[why]++
}

// ignored gives how much was dropped and why, as attributes for a log.
func (c *conn) ignored() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []any
	for _, why := range slices.Sorted(maps.Keys(c.dropped)) {
		out = append(out, slog.Int(why, c.dropped[why]))
	}
	return out
}

// fail records the first fault.
func (c *conn) fail(cause, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault == nil {
		c.fault = &fault{cause, reason}
	}
}

// readLoop reads until the stream ends or a bound is passed, ends the whole
// tree, and then says what is certain.
func (c *conn) readLoop() {
	c.fail(c.readFrames())
	c.mu.Lock()
	f := c.fault
	c.mu.Unlock()
	activity := coord.Ended
	exit, exited := c.awaitExit()
	// Loss by our own decision or a stream that ended: either way nothing may
	// go on unseen.
	if err := c.proc.Kill(context.Background()); err != nil {
		activity = coord.MayRun
	}
	text := f.reason
	if f.cause == provider.CauseGone {
		text = c.describeExit(exit, exited)
	}
	c.mu.Lock()
	c.fault = &fault{f.cause, text}
	c.mu.Unlock()
	close(c.dead)
	c.h.gone(provider.Lost{Cause: f.cause, Reason: stdio.Reason(text), Activity: activity})
}

// exitLoop ends what an agent leaves behind when it exits: its children may
// hold the output open, which would then never end.
func (c *conn) exitLoop() {
	select {
	case <-c.proc.Done():
		// The reading goroutine calls Kill too, and reports its failure.
		_ = c.proc.Kill(context.Background())
	case <-c.dead:
	}
}

// awaitExit gives an agent whose output ended the time to exit by itself, so
// that its own status is seen.
func (c *conn) awaitExit() (process.Exit, bool) {
	if c.current().cause != provider.CauseGone {
		return process.Exit{}, false
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), c.timing.Grace, errors.New("it still runs"))
	defer cancel()
	exit, err := c.proc.Wait(ctx)
	return exit, err == nil
}

func (c *conn) describeExit(exit process.Exit, exited bool) string {
	switch {
	case !exited:
		return "The agent closed its output and was ended by Signalbox."
	case exit.Ending == process.AfterKill:
		return "The agent was ended by Signalbox."
	case exit.Ending == process.AfterClose:
		return fmt.Sprintf("The agent exited with status %d after Signalbox had closed its input.", exit.Code)
	case exit.Signal != "":
		return fmt.Sprintf("The agent was ended by signal %s, which Signalbox did not send.", exit.Signal)
	}
	return fmt.Sprintf("The agent exited by itself with status %d.", exit.Code)
}

func (c *conn) current() *fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

func (c *conn) readFrames() (cause, why string) {
	r := jsonl.NewReader(c.proc.Stdout, coord.MaxFrame)
	bad := 0
	for {
		line, err := r.Next()
		switch {
		case errors.Is(err, jsonl.ErrFrameTooLarge):
			return provider.CauseFrame, fmt.Sprintf("The agent sent a message of more than %d MiB; it was ended.", coord.MaxFrame>>20)
		case err == nil:
			if len(line) == 0 {
				continue
			}
			if c.dispatch(line) {
				if f := c.current(); f != nil {
					return f.cause, f.reason
				}
				continue
			}
		case !errors.Is(err, jsonl.ErrInvalidUTF8):
			return provider.CauseGone, ""
		}
		c.drop("noise")
		if bad++; bad > coord.MaxNoiseLines {
			return provider.CauseNoise, fmt.Sprintf("The agent printed more than %d lines that are not protocol on its standard output; it was ended.", coord.MaxNoiseLines)
		}
	}
}

// dispatch takes one line; false means that it is not protocol. The line is
// valid during the call only, so what is remembered is kept.
func (c *conn) dispatch(line []byte) bool {
	e, k := classify(line)
	switch k {
	case noise:
		return false
	case notification:
		switch e.Method {
		case methodUpdate:
			c.h.update(e.Params)
		case methodWithdraw:
			var p struct {
				RequestID json.RawMessage `json:"requestId"`
			}
			if decode(e.Params, &p) == nil && p.RequestID != nil {
				c.h.withdraw(p.RequestID)
			}
		}
	case request:
		e = e.keep()
		if e.Method == methodPermission {
			c.h.ask(e.ID, e.Params)
		} else {
			c.reply(outgoing{ID: e.ID, Error: &rpcError{Code: codeNoMethod, Message: "this client does not offer " + stdio.Cut(e.Method, stdio.MaxQuote)}})
		}
	case response:
		c.answer(e.keep())
	}
	return true
}

// answer hands a response to who called. Ids that are not ours, or were
// answered already, are ignored: a string "1" is not the integer 1.
func (c *conn) answer(e envelope) {
	id, err := strconv.ParseInt(string(e.ID), 10, 64)
	c.mu.Lock()
	done := c.calls[id]
	delete(c.calls, id)
	c.mu.Unlock()
	if err != nil || done == nil {
		c.drop("response")
		return
	}
	done(e)
}

// reply queues an answer to the agent, and waits while too many wait. It is
// called by the reading goroutine, which must go on to see the end of an agent
// that takes no answers.
func (c *conn) reply(m outgoing) {
	select {
	case c.replies <- m:
	case <-c.mute:
	case <-c.stop:
	}
}

// replyLoop writes the answers that the reading goroutine decided.
func (c *conn) replyLoop() {
	defer close(c.mute)
	for {
		select {
		case m := <-c.replies:
			if _, err := c.write(context.Background(), m); err != nil {
				// An agent that does not take its answers is stuck for good.
				c.broken(err)
				return
			}
		case <-c.stop:
			return
		case <-c.dead:
			return
		}
	}
}

// broken ends an agent that cannot be written to. The reading goroutine then
// meets the end of the stream and reports.
func (c *conn) broken(err error) {
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	if closing {
		return
	}
	if errors.Is(err, jsonl.ErrWriteTimeout) || errors.Is(err, jsonl.ErrBroken) {
		c.fail(provider.CauseWriteTimeout, "The agent did not read its input in time; it was ended.")
		_ = c.proc.Kill(context.Background())
	}
	// Otherwise the pipe broke because the agent is going, and its own status,
	// which the reading goroutine will see, says more.
}

// write writes one message and returns how many bytes left.
func (c *conn) write(ctx context.Context, m outgoing) (int, error) {
	m.JSONRPC = "2.0"
	return c.w.WriteJSON(ctx, m)
}

// start registers a call and gives its id; done runs in the reading goroutine.
func (c *conn) start(done func(envelope)) json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.calls[c.last] = done
	return json.RawMessage(strconv.FormatInt(c.last, 10))
}

// call sends a request and waits for its result, for at most timing.Setup.
// Errors are *rpcError, *fault, or the cause of the context.
func (c *conn) call(ctx context.Context, method string, params, result any) error {
	late := &fault{provider.CauseSetupTimeout, fmt.Sprintf("The agent did not answer %s within %s.", method, c.timing.Setup)}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timing.Setup, late)
	defer cancel()
	got := make(chan envelope, 1)
	id := c.start(func(e envelope) { got <- e })
	if _, err := c.write(ctx, outgoing{ID: id, Method: method, Params: params}); err != nil {
		return c.setupFault(ctx, err)
	}
	select {
	case e := <-got:
		return unpack(e, method, result)
	case <-c.dead:
		return c.current()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// setupFault says why a write failed; an agent that is going tells more.
func (c *conn) setupFault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.broken(err)
	select {
	case <-c.dead:
		return c.current()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unpack reads a response into result.
func unpack(e envelope, method string, result any) error {
	if e.Error != nil && string(e.Error) != "null" {
		rpc := &rpcError{}
		if err := decode(e.Error, rpc); err != nil {
			rpc.Message = "an error that cannot be read"
		}
		return rpc
	}
	if result == nil {
		return nil
	}
	if len(e.Result) == 0 || e.Result[0] != '{' || decode(e.Result, result) != nil {
		return &fault{provider.CauseProtocol, "The agent's answer to " + method + " is not what the protocol asks for."}
	}
	return nil
}

// close ends the agent and all that it started and returns when nothing of it
// is left. An agent gets timing.Grace, or until ctx ends, to exit by itself
// once its input is closed.
func (c *conn) close(ctx context.Context) (coord.ActivityState, error) {
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	if c.closed {
		return c.closeIs, nil
	}
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	c.mu.Unlock()
	if first {
		close(c.stop)
	}
	_ = c.w.Close()
	grace, cancel := context.WithTimeoutCause(ctx, c.timing.Grace, errors.New("it still runs"))
	defer cancel()
	_, _ = c.proc.Wait(grace)
	// A process must never outlive its session because somebody was in a hurry.
	err := c.proc.Kill(context.WithoutCancel(ctx))
	if err != nil {
		c.closeIs = coord.MayRun
		return c.closeIs, err
	}
	// What is in the pipe is read to its end; a descriptor that somebody else
	// holds open must not hold us.
	_ = c.proc.Stdout.SetReadDeadline(time.Now().Add(time.Second))
	c.read.Wait()
	c.proc.Close()
	c.closed, c.closeIs = true, coord.Ended
	return c.closeIs, nil
}
