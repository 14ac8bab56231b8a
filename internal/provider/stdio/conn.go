package stdio

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
	"signalbox/internal/jsonwalk"
	"signalbox/internal/process"
	"signalbox/internal/provider"
)

// maxReplies bounds the messages that wait to be written to an agent that asks
// faster than it reads; then we stop reading it.
const maxReplies = 64

// Handler is what a connection tells its owner, all from one goroutine.
type Handler interface {
	// Notify takes a notification, whose params are good during the call.
	Notify(method string, params json.RawMessage)
	// Ask takes a request, which is to be answered by Reply or Write.
	Ask(id json.RawMessage, method string, params json.RawMessage)
	// Gone is the last call: the agent can not be followed any more.
	Gone(provider.Lost)
}

// Options of a connection.
type Options struct {
	Timing provider.Timing
	// JSONRPC is the member "jsonrpc" of what is sent, and demanded of what
	// arrives; with "" none is sent, and any or none is taken.
	JSONRPC string
	// Ended, which may be nil, is called once, when nothing of the agent is left.
	Ended func()
}

// Conn is one running agent. A reading goroutine takes what it writes and a
// replying one answers what it asks, so that reading never waits for an agent
// that does not read. Close ends both.
type Conn struct {
	proc    *process.Process
	w       *jsonl.Writer
	h       Handler
	o       Options
	replies chan Outgoing

	mu    sync.Mutex
	last  int64
	calls map[int64]func(Message)
	// dropped counts what was ignored, by why.
	dropped map[string]int
	fault   *Fault
	closing bool

	stop    chan struct{} // closed by Close
	mute    chan struct{} // closed when no answer is written any more
	dead    chan struct{} // closed when reading ended
	read    sync.WaitGroup
	turn    chan struct{} // one token; who holds it is in Close
	closed  bool          // guarded by turn
	closeIs coord.ActivityState
}

// Fault is why a connection can not be used any more.
type Fault struct{ Cause, Reason string }

// Error gives the reason.
func (f *Fault) Error() string { return f.Reason }

// Unsent says that the preparation failed by it. Another try may help with an
// agent that went or was slow.
func (f *Fault) Unsent() *provider.Unsent {
	u := &provider.Unsent{Cause: f.Cause, Message: f.Reason, Transient: f.Cause == provider.CauseGone || f.Cause == provider.CauseSetupTimeout}
	if f.Cause == provider.CauseGone {
		u.Cause = provider.CauseSpawn
	}
	return u
}

// NewConn takes over a process; bind gets the connection before anything is
// read and gives its handler.
func NewConn(p *process.Process, o Options, bind func(*Conn) Handler) *Conn {
	c := &Conn{
		proc: p, w: jsonl.NewWriter(p.Stdin, coord.MaxFrame, o.Timing.Write), o: o,
		replies: make(chan Outgoing, maxReplies), calls: map[int64]func(Message){}, dropped: map[string]int{},
		stop: make(chan struct{}), mute: make(chan struct{}), dead: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	c.turn <- struct{}{}
	c.h = bind(c)
	c.read.Go(c.readLoop)
	c.read.Go(c.replyLoop)
	c.read.Go(c.exitLoop)
	return c
}

// Drop counts something that is ignored.
func (c *Conn) Drop(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped[why]++
}

// Noise is how many lines were no messages.
func (c *Conn) Noise() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped["noise"]
}

// Ignored gives how much was dropped and why, as attributes for a log.
func (c *Conn) Ignored() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []any
	for _, why := range slices.Sorted(maps.Keys(c.dropped)) {
		out = append(out, slog.Int(why, c.dropped[why]))
	}
	return out
}

// Fail records the first fault; after the message that is being handled the
// agent is ended.
func (c *Conn) Fail(cause, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault == nil {
		c.fault = &Fault{cause, reason}
	}
}

// readLoop reads until the stream ends or a bound is passed, ends the whole
// tree, and then says what is certain.
func (c *Conn) readLoop() {
	c.Fail(c.readFrames())
	f := c.current()
	activity := coord.Ended
	exit, exited := c.awaitExit()
	// Loss by our own decision or a stream that ended: either way nothing may
	// go on unseen.
	if err := c.proc.Kill(context.Background()); err != nil {
		activity = coord.MayRun
	}
	text := f.Reason
	if f.Cause == provider.CauseGone {
		text = describeExit(exit, exited)
	}
	c.mu.Lock()
	c.fault = &Fault{f.Cause, text}
	c.mu.Unlock()
	close(c.dead)
	c.h.Gone(provider.Lost{Cause: f.Cause, Reason: Reason(text), Activity: activity})
}

// exitLoop ends what an agent leaves behind when it exits: its children may
// hold the output open, which would then never end.
func (c *Conn) exitLoop() {
	select {
	case <-c.proc.Done():
		// The reading goroutine calls Kill too, and reports its failure.
		_ = c.proc.Kill(context.Background())
	case <-c.dead:
	}
}

// awaitExit gives an agent whose output ended the time to exit by itself, so
// that its own status is seen.
func (c *Conn) awaitExit() (process.Exit, bool) {
	if c.current().Cause != provider.CauseGone {
		return process.Exit{}, false
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), c.o.Timing.Grace, errors.New("it still runs"))
	defer cancel()
	exit, err := c.proc.Wait(ctx)
	return exit, err == nil
}

func describeExit(exit process.Exit, exited bool) string {
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

func (c *Conn) current() *Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

func (c *Conn) readFrames() (cause, why string) {
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
					return f.Cause, f.Reason
				}
				continue
			}
		case !errors.Is(err, jsonl.ErrInvalidUTF8):
			return provider.CauseGone, ""
		}
		c.Drop("noise")
		if bad++; bad > coord.MaxNoiseLines {
			return provider.CauseNoise, fmt.Sprintf("The agent printed more than %d lines that are not protocol on its standard output; it was ended.", coord.MaxNoiseLines)
		}
	}
}

// dispatch takes one line; false means that it is not protocol. The line is
// valid during the call only, so what may be remembered is kept.
func (c *Conn) dispatch(line []byte) bool {
	m, k := classify(line, c.o.JSONRPC)
	switch k {
	case noise:
		return false
	case notification:
		c.h.Notify(m.Method, m.Params)
	case request:
		m = m.keep()
		c.h.Ask(m.ID, m.Method, m.Params)
	case response:
		c.answer(m.keep())
	}
	return true
}

// answer hands a response to who called. Ids that are not ours, or were
// answered already, are ignored: a string "1" is not the integer 1.
func (c *Conn) answer(m Message) {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	c.mu.Lock()
	done := c.calls[id]
	delete(c.calls, id)
	c.mu.Unlock()
	if err != nil || done == nil {
		c.Drop("response")
		return
	}
	done(m)
}

// Reply queues a message to the agent, and waits while too many wait. It is for
// the handler, whose goroutine must go on to see the end of an agent that takes
// nothing.
func (c *Conn) Reply(m Outgoing) {
	select {
	case c.replies <- m:
	case <-c.mute:
	case <-c.stop:
	}
}

// Refuse queues an error in answer to a request.
func (c *Conn) Refuse(id json.RawMessage, code int, message string) {
	c.Reply(Outgoing{ID: id, Error: &RPCError{Code: code, Message: message}})
}

// RefuseReused queues the refusal of a request under the id of an earlier one,
// which is being answered or was. That answer goes first, because the refusal
// would be taken for it.
func (c *Conn) RefuseReused(earlier *Pending, id json.RawMessage) {
	select {
	case <-earlier.settled:
	case <-c.dead:
	case <-c.stop:
	}
	c.Refuse(id, CodeInvalidRequest, "this request id was used before")
}

// replyLoop writes what the reading goroutine decided.
func (c *Conn) replyLoop() {
	defer close(c.mute)
	for {
		select {
		case m := <-c.replies:
			if _, err := c.Write(context.Background(), m); err != nil {
				// An agent that does not take its answers is stuck for good.
				c.Broken(err)
				return
			}
		case <-c.stop:
			return
		case <-c.dead:
			return
		}
	}
}

// Broken ends an agent that cannot be written to. The reading goroutine then
// meets the end of the stream and reports.
func (c *Conn) Broken(err error) {
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	if closing {
		return
	}
	if errors.Is(err, jsonl.ErrWriteTimeout) || errors.Is(err, jsonl.ErrBroken) {
		c.Fail(provider.CauseWriteTimeout, "The agent did not read its input in time; it was ended.")
		_ = c.proc.Kill(context.Background())
	}
	// Otherwise the pipe broke because the agent is going, and its own status,
	// which the reading goroutine will see, says more.
}

// Write writes one message and returns how many bytes left.
func (c *Conn) Write(ctx context.Context, m Outgoing) (int, error) {
	m.JSONRPC = c.o.JSONRPC
	return c.w.WriteJSON(ctx, m)
}

// Begin registers a call and gives its id; done runs in the reading goroutine.
func (c *Conn) Begin(done func(Message)) json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.calls[c.last] = done
	return json.RawMessage(strconv.FormatInt(c.last, 10))
}

// Call sends a request and waits for its result, for at most Timing.Setup.
// Errors are *RPCError, *Fault, or the cause of the context.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	late := &Fault{provider.CauseSetupTimeout, fmt.Sprintf("The agent did not answer %s within %s.", method, c.o.Timing.Setup)}
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.Timing.Setup, late)
	defer cancel()
	got := make(chan Message, 1)
	id := c.Begin(func(m Message) { got <- m })
	if _, err := c.Write(ctx, Outgoing{ID: id, Method: method, Params: params}); err != nil {
		return c.setupFault(ctx, err)
	}
	select {
	case m := <-got:
		return Unpack(m, method, result)
	case <-c.dead:
		return c.current()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// setupFault says why a write failed; an agent that is going tells more.
func (c *Conn) setupFault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.Broken(err)
	select {
	case <-c.dead:
		return c.current()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unpack reads a response into result, which is a structure or nil for a result
// that does not matter. Errors are *RPCError and *Fault.
func Unpack(m Message, method string, result any) error {
	if m.Error != nil && string(m.Error) != "null" {
		e := &RPCError{}
		if Decode(m.Error, e) != nil {
			e.Message = "an error that cannot be read"
		}
		return e
	}
	if result != nil && (!jsonwalk.IsObject(m.Result) || Decode(m.Result, result) != nil) {
		return &Fault{provider.CauseProtocol, "The agent's answer to " + method + " is not what the protocol asks for."}
	}
	return nil
}

// Exit waits for the process's exit.
func (c *Conn) Exit(ctx context.Context) (process.Exit, error) { return c.proc.Wait(ctx) }

// Dead is closed when nothing more is read.
func (c *Conn) Dead() <-chan struct{} { return c.dead }

// Stderr is the end of what the process wrote to its standard error.
func (c *Conn) Stderr() string { return c.proc.Stderr() }

// Close ends the agent and all that it started and returns when nothing of it
// is left. An agent gets Timing.Grace, or until ctx ends, to exit by itself
// once its input is closed.
func (c *Conn) Close(ctx context.Context) (coord.ActivityState, error) {
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
	grace, cancel := context.WithTimeoutCause(ctx, c.o.Timing.Grace, errors.New("it still runs"))
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
	if c.o.Ended != nil {
		c.o.Ended()
	}
	c.closed, c.closeIs = true, coord.Ended
	return c.closeIs, nil
}
