package codex

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// session is one attempt.
type session struct {
	c        *stdio.Conn
	launched launched
	q        *stdio.Queue
	clock    coord.Clock
	logger   *slog.Logger
	handle   coord.Handle
	attempt  string
	prompt   string
	// tools are the offered tools by the names that the model knows.
	tools map[string]string

	// What follows belongs to the reading goroutine.
	usage    coord.Usage
	messages map[string]*answer
	speaking string // the message that spoke last
	failure  fault

	mu     sync.Mutex
	thread string
	// turn is set with the first evidence of it, which is the receipt.
	turn string
	// sent is set before the first byte of the prompt may leave, written is
	// closed when no more of it will.
	sent      bool
	written   chan struct{}
	said      bool
	ended     bool
	cancelled bool
	closed    bool
	asked     map[string]*pending
	calls     int
	questions int
	// routines are those that insist on an interruption.
	routines  sync.WaitGroup
	cancel    sync.Once
	cancelOut provider.CancelOutcome
	cancelErr error
}

func newSession(clock coord.Clock, logger *slog.Logger, w provider.Work) *session {
	return &session{
		q: stdio.NewQueue(), clock: clock, logger: logger, attempt: string(w.Attempt), prompt: w.Prompt, written: make(chan struct{}),
		tools: map[string]string{}, messages: map[string]*answer{}, asked: map[string]*pending{},
	}
}

// offer makes Codex's description of the tools.
func (s *session) offer(tools []provider.Tool) ([]dynamicTool, error) {
	out := make([]dynamicTool, 0, len(tools))
	for _, t := range tools {
		name := toolPrefix + t.Name
		if t.Name == "" || len(name) > maxName || strings.Trim(t.Name, "abcdefghijklmnopqrstuvwxyz_") != "" || s.tools[name] != "" || !json.Valid(t.Schema) {
			return nil, &provider.Unsent{Cause: provider.CauseConfig, Message: "The tool " + stdio.Quote(t.Name) + " cannot be offered to Codex; this is a fault of Signalbox."}
		}
		s.tools[name] = t.Name
		out = append(out, dynamicTool{Type: "function", Name: name, Description: t.Description, Schema: t.Schema})
	}
	return out, nil
}

// Handle names the thread and the message.
func (s *session) Handle() coord.Handle { return s.handle }

// Next gives the next event.
func (s *session) Next(ctx context.Context) (provider.Event, error) { return s.q.Take(ctx) }

// Send starts the one turn of the attempt's thread. Codex would take a second
// one as steering of the first, so it is never sent.
func (s *session) Send(ctx context.Context) (coord.HandedOver, error) {
	s.mu.Lock()
	if handed, err := provider.Unsendable(ctx, s.sent, s.cancelled || s.closed); err != nil {
		s.mu.Unlock()
		return handed, err
	}
	s.sent = true
	s.mu.Unlock()
	s.q.SetSending(true)
	defer s.q.SetSending(false)
	defer close(s.written)
	id := s.c.Begin(s.started)
	return s.c.HandOver(ctx, stdio.Outgoing{ID: id, Method: methodTurn, Params: turnParams{
		Thread: s.thread, Message: s.attempt, Input: []textInput{{"text", s.prompt}},
	}})
}

// started takes the answer to turn/start.
func (s *session) started(m stdio.Message) {
	var r turnResult
	err := stdio.Unpack(m, methodTurn, &r)
	if rpc, ok := errors.AsType[*stdio.RPCError](err); ok {
		s.refused(rpc)
		return
	}
	if err != nil || r.Turn.ID == "" || len(r.Turn.ID) > maxID {
		s.c.Fail(provider.CauseProtocol, "Codex's answer to turn/start has no usable turn id; it was ended.")
		return
	}
	if !s.learn(r.Turn.ID) {
		s.c.Fail(provider.CauseProtocol, "Codex answered turn/start with another turn than the one that it had begun; it was ended.")
	}
}

// refused ends an attempt whose turn Codex did not start.
func (s *session) refused(rpc *stdio.RPCError) {
	s.mu.Lock()
	begun := s.turn != ""
	s.ended = true
	s.mu.Unlock()
	if !begun {
		s.q.Put(provider.Event{Kind: provider.EventReceipt, Receipt: &coord.Receipt{Kind: "answer", Reference: s.thread, At: s.clock()}}, 0)
	}
	s.q.Finish(provider.Event{Kind: provider.EventEnd, End: &provider.End{
		State: coord.AttemptFailed, Cause: provider.CauseProviderError, Reason: stdio.Reason("Codex did not start the turn: " + rpc.Error() + "."),
	}})
}

// learn binds the attempt to its turn and gives the receipt; false when it is
// bound to another.
func (s *session) learn(turn string) bool {
	s.mu.Lock()
	known, stop := s.turn, s.cancelled
	if known == "" {
		s.turn = turn
	}
	s.mu.Unlock()
	if known != "" {
		return known == turn
	}
	s.q.Put(provider.Event{Kind: provider.EventReceipt, Receipt: &coord.Receipt{Kind: "turn", Reference: turn, At: s.clock()}}, 0)
	if stop {
		// The cancellation came while nobody knew what to interrupt.
		s.insist(turn, nil)
	}
	return true
}

// interruptPause is between two requests to interrupt.
const interruptPause = 50 * time.Millisecond

// interrupt asks once, and gives whether Codex took it, later.
func (s *session) interrupt(ctx context.Context, turn string) (<-chan bool, error) {
	taken := make(chan bool, 1)
	id := s.c.Begin(func(m stdio.Message) { taken <- stdio.Unpack(m, methodInterrupt, nil) == nil })
	_, err := s.c.Write(ctx, stdio.Outgoing{ID: id, Method: methodInterrupt, Params: interruptParams{Thread: s.thread, Turn: turn}})
	return taken, err
}

// insist asks to interrupt until Codex takes it: for a moment after it began a
// turn, and told so, it answers that there is none (0.163.0 and 0.171.0). That
// it took the request proves nothing; only the end of the turn does. asked is
// what came of a first request, nil for none.
func (s *session) insist(turn string, asked <-chan bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.routines.Go(func() {
		for {
			if asked == nil {
				var err error
				if asked, err = s.interrupt(context.Background(), turn); err != nil {
					s.c.Broken(err)
					return
				}
			}
			select {
			case taken := <-asked:
				if taken || s.phase().ended {
					return
				}
			case <-s.c.Dead():
				return
			}
			pause := time.NewTimer(interruptPause)
			select {
			case <-pause.C:
			case <-s.c.Dead():
				pause.Stop()
				return
			}
			asked = nil
		}
	})
}

// phase is where the attempt is.
type phase struct {
	thread, turn           string
	sent, ended, cancelled bool
}

func (s *session) phase() phase {
	s.mu.Lock()
	defer s.mu.Unlock()
	return phase{s.thread, s.turn, s.sent, s.ended, s.cancelled}
}

// Cancel sends turn/interrupt, then answers what Codex asked meanwhile.
func (s *session) Cancel(ctx context.Context) (provider.CancelOutcome, error) {
	s.cancel.Do(func() { s.cancelOut, s.cancelErr = s.stop(ctx) })
	return s.cancelOut, s.cancelErr
}

func (s *session) stop(ctx context.Context) (provider.CancelOutcome, error) {
	s.mu.Lock()
	s.cancelled = true
	sent, ended := s.sent, s.ended
	s.mu.Unlock()
	if !sent || ended {
		return provider.CancelAsked, nil
	}
	// An interruption that overtook its prompt would be refused.
	select {
	case <-s.written:
	case <-ctx.Done():
		return provider.CancelUnknown, context.Cause(ctx)
	}
	s.mu.Lock()
	turn := s.turn
	open := s.take()
	s.mu.Unlock()
	if turn == "" {
		// It goes out as soon as the turn is known, if Codex still lives.
		select {
		case <-s.c.Dead():
			return provider.CancelUnknown, coord.Errorf(coord.Unavailable, "Codex is gone")
		default:
			return provider.CancelAsked, nil
		}
	}
	asked, err := s.interrupt(ctx, turn)
	for _, p := range open {
		if _, failed := s.c.Write(ctx, stdio.Outgoing{ID: p.id, Result: p.refusal("")}); failed != nil {
			err = errors.Join(err, failed)
		}
		p.Settle(provider.Undeliverable)
	}
	if err != nil {
		s.c.Broken(err)
		return provider.CancelUnknown, err
	}
	s.insist(turn, asked)
	return provider.CancelAsked, nil
}

// Gone takes the loss of Codex.
func (s *session) Gone(l provider.Lost) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed && l.Cause == provider.CauseGone {
		l.Cause = provider.CauseShutdown
	}
	s.q.Finish(provider.Event{Kind: provider.EventLost, Lost: &l})
	s.q.End()
	if ignored := s.c.Ignored(); len(ignored) > 0 {
		s.logger.Info("some of what Codex sent was ignored", ignored...)
	}
}

// Close ends Codex with all that it started, and removes its private folder.
func (s *session) Close(ctx context.Context) (coord.ActivityState, error) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.q.Unblock()
	activity := coord.Ended
	if s.c != nil {
		var err error
		if activity, err = s.c.Close(ctx); err != nil {
			return activity, err
		}
	}
	s.routines.Wait()
	if err := s.launched.discard(); err != nil {
		s.logger.Warn("the private folder of a Codex could not be removed", "error", err)
	}
	return activity, nil
}
