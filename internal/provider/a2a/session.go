package a2a

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptrace"
	"sync"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/netguard"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// The kinds of receipts.
const (
	receiptTask    = "task"
	receiptMessage = "message"
	receiptError   = "error"
)

// errClosed is the cause of what ends with the session.
var errClosed = coord.Errorf(coord.Unavailable, "the session was closed")

// session is one attempt. One goroutine, the follower, reads what the peer says
// and is alone in putting it into the queue.
type session struct {
	e      *endpoint
	timing Timing
	clock  coord.Clock
	logger *slog.Logger
	h      coord.Handle
	d      handle
	prompt string
	q      *stdio.Queue

	// ctx ends all requests of the session.
	ctx      context.Context
	stop     context.CancelCauseFunc
	follower sync.WaitGroup
	// look asks the follower to ask for the task now.
	look chan struct{}
	// received is closed with the receipt, looked when the task of an earlier
	// process was seen again, and over with the last event.
	received, looked, over chan struct{}
	// resumed sessions follow what an earlier process sent.
	resumed bool

	mu        sync.Mutex
	sent      bool // the work was or is being handed over
	unsent    bool // and certainly was not
	cancelled bool
	closed    bool
	ended     bool // with the peer's own end
	lost      bool
	task      string
	context   string
	asks      asks

	cancel    sync.Once
	cancelOut provider.CancelOutcome
	cancelErr error

	// The rest is the follower's.
	waiting  []string // requests of an earlier process that were open
	view     view
	status   status
	told     string    // the message that was last told as an activity
	progress time.Time // when there was something new
	stalled  bool      // that there is none was told
	failing  time.Time // since when the task cannot be asked for
	dropped  map[string]int
	drops    int
}

func newSession(a *Adapter, e *endpoint, h coord.Handle, d handle, w provider.Work) *session {
	ctx, stop := context.WithCancelCause(context.Background())
	return &session{e: e, timing: a.o.Timing, clock: a.o.Clock, logger: a.o.Logger.With("attempt", w.Attempt), h: h, d: d, prompt: w.Prompt,
		q: stdio.NewQueue(), ctx: ctx, stop: stop, look: make(chan struct{}, 1),
		received: make(chan struct{}), looked: make(chan struct{}), over: make(chan struct{}), asks: newAsks(nil), dropped: map[string]int{}}
}

// Handle names the message, and where it goes.
func (s *session) Handle() coord.Handle { return s.h }

// Next gives the next event.
func (s *session) Next(ctx context.Context) (provider.Event, error) { return s.q.Take(ctx) }

// Send hands the work over: as a stream where the peer's card says that it can
// stream, since the task's id comes first there, and else with the wish not to
// wait for the end. It answers when the last byte was written, or when that
// cannot be.
func (s *session) Send(ctx context.Context) (coord.HandedOver, error) {
	s.mu.Lock()
	if handed, err := provider.Unsendable(ctx, s.sent, s.cancelled || s.closed); err != nil {
		s.mu.Unlock()
		return handed, err
	}
	s.sent = true
	s.follower.Add(1)
	s.mu.Unlock()

	life, giveUp := context.WithCancelCause(s.ctx)
	patience := time.AfterFunc(s.timing.Receipt, func() { giveUp(errSilent) })
	wrote, answered := make(chan struct{}), make(chan struct{})
	var written sync.Once
	traced := httptrace.WithClientTrace(life, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
		if i.Err == nil {
			written.Do(func() { close(wrote) })
		}
	}})
	var err error
	go func() {
		defer s.follower.Done()
		defer giveUp(errClosed)
		defer patience.Stop()
		var a *answer
		a, err = s.e.post(traced, s.sending(), s.work(), true)
		close(answered)
		s.run(life, a, err, patience)
	}()
	select {
	case <-wrote:
		return coord.HandedAll, nil
	case <-answered:
	case <-ctx.Done():
		giveUp(context.Cause(ctx))
		<-answered
		if err == nil {
			err = context.Cause(ctx)
		}
	}
	if err == nil {
		return coord.HandedAll, nil
	}
	if _, ok := errors.AsType[*netguard.Unsent](err); ok {
		return coord.HandedNothing, err
	}
	// A quick peer may have cut the connection before the transport, which
	// writes elsewhere, came to say that it wrote all.
	late := time.NewTimer(wroteLate)
	defer late.Stop()
	select {
	case <-wrote:
		return coord.HandedAll, nil
	case <-late.C:
		return coord.HandedUnknown, err
	}
}

// wroteLate is how long the transport may take to say what it has done.
const wroteLate = 50 * time.Millisecond

// sending is the method that the work goes with.
func (s *session) sending() string {
	if s.d.Streaming {
		return s.e.methods().stream
	}
	return s.e.methods().send
}

// work is the message with the prompt.
func (s *session) work() sendParams {
	p := sendParams{Tenant: s.e.tenant, Message: newMessage(s.e.version, s.d.MessageID, s.prompt)}
	if !s.d.Streaming {
		p.Configuration = nonblocking(s.e.version)
	}
	return p
}

// resume follows a task that an earlier process sent.
func (s *session) resume(task string, w provider.Work) {
	s.resumed, s.sent, s.task, s.asks, s.waiting = true, true, task, newAsks(w.Answered), w.Waiting
	// What was shown before is not known here, so the end carries the answer.
	s.view.amended = true
	close(s.received)
	s.follower.Go(func() {
		defer s.leave()
		s.progress = time.Now()
		s.follow()
	})
}

// Close ends the connections. The peer works on: closing is no cancellation.
func (s *session) Close(context.Context) (coord.ActivityState, error) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.q.Unblock()
	s.stop(errClosed)
	s.follower.Wait()
	s.mu.Lock()
	activity := coord.MayRun
	if !s.sent || s.unsent || s.ended {
		activity = coord.Ended
	}
	s.mu.Unlock()
	s.finish(provider.Event{Kind: provider.EventLost, Lost: &provider.Lost{Cause: provider.CauseShutdown, Reason: "The session was closed.", Activity: activity}})
	s.q.End()
	return activity, nil
}

// finish puts the last event; only the first call counts. No answer is taken
// after it.
func (s *session) finish(e provider.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.lost {
		return
	}
	s.ended, s.lost = e.End != nil, e.Lost != nil
	s.asks.settleAll()
	s.q.Finish(e)
	close(s.over)
}

// lose ends the following. The peer may work on.
func (s *session) lose(cause, reason string) {
	if s.drops > 0 {
		s.logger.Info("some of what a peer sent was ignored", "dropped", s.dropped)
	}
	s.finish(provider.Event{Kind: provider.EventLost, Lost: &provider.Lost{Cause: cause, Reason: stdio.Reason(reason), Activity: coord.MayRun}})
}

// within gives a context that ends with ctx, and with the session.
func (s *session) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(s.ctx, func() { cancel(errClosed) })
	return ctx, func() { unhook(); cancel(errClosed) }
}

// nudge asks the follower to ask for the task now.
func (s *session) nudge() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}

// Cancel asks the peer to cancel the task. What the peer answers confirms
// nothing: the state of the task does.
func (s *session) Cancel(ctx context.Context) (provider.CancelOutcome, error) {
	s.cancel.Do(func() { s.cancelOut, s.cancelErr = s.cancelTask(ctx) })
	return s.cancelOut, s.cancelErr
}

func (s *session) cancelTask(ctx context.Context) (provider.CancelOutcome, error) {
	s.mu.Lock()
	s.cancelled = true
	sent, ended, gone := s.sent, s.ended, s.lost || s.closed
	s.asks.settleAll()
	s.mu.Unlock()
	switch {
	case gone:
		return provider.CancelUnknown, coord.Errorf(coord.Unavailable, "the peer is not followed any more")
	case !sent || ended:
		return provider.CancelAsked, nil
	}
	ctx, done := s.within(ctx)
	defer done()
	select {
	case <-s.received:
	case <-s.over:
		return provider.CancelUnknown, coord.Errorf(coord.Unavailable, "the peer is not followed any more")
	case <-ctx.Done():
		return provider.CancelUnknown, coord.Errorf(coord.Unavailable, "the peer named no task that could be cancelled")
	}
	defer s.nudge()
	err := s.callCancel(ctx)
	// Asking again is harmless, and a cut may have come before the peer heard.
	for n := 0; n < 2 && err != nil && !isRPC(err); n++ {
		if !pause(ctx, s.timing.Poll) {
			break
		}
		err = s.callCancel(ctx)
	}
	if rpc, ok := errors.AsType[*rpcError](err); ok && rpc.certain() {
		// A task that is over cannot be cancelled, and neither can one of a peer
		// that has no way to: only the task tells which.
		t, lookErr := s.e.get(ctx, s.timing.Call, s.taskID(), 0)
		switch {
		case lookErr == nil && t.Status.state.terminal():
			return provider.CancelAsked, nil
		case lookErr == nil && (rpc.code == codeNotCancelable || rpc.code == codeUnsupported || rpc.code == codeNoMethod):
			return provider.CancelUnsupported, nil
		}
	}
	if err != nil {
		return provider.CancelUnknown, coord.Errorf(coord.Unavailable, "the cancellation failed: %s", told(err))
	}
	return provider.CancelAsked, nil
}

// callCancel asks once.
func (s *session) callCancel(ctx context.Context) error {
	_, err := s.e.call(ctx, s.timing.Call, s.e.methods().cancel, taskParams{Tenant: s.e.tenant, ID: s.taskID()})
	return err
}

func isRPC(err error) bool {
	_, ok := errors.AsType[*rpcError](err)
	return ok
}

func (s *session) taskID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.task
}

// pause waits; false when ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
