package a2a

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/netguard"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// declined is what a peer gets for a question that the operator did not answer:
// the protocol has no word for it.
const declined = "The operator declined to answer."

// settleHistory is how many messages of a task are asked for to find ours among
// them.
const settleHistory = 100

// maxAsked bounds the requests of one attempt; a person answers far fewer in two
// hours.
const maxAsked = 500

// ask is one time that the task waits for us, as a request to the operator.
type ask struct {
	stdio.Pending
	id   string // of the request
	base string // of what the peer asks
	// taken is set by who answers, settled once the outcome is known.
	taken, settled bool
	// again is set when the peer did not get the answer, so that the operator is
	// asked anew; unsettled when that could not be found out yet.
	again, unsettled bool
}

// asks are the requests of a session. A peer gives its questions no ids, so that
// of a request is made of the message that asks, with a number from the second
// time on. It is the same in a later process, which gets the ids that were
// answered before. The session's mutex guards it.
type asks struct {
	all     map[string]*ask
	numbers map[string]int // how often a base was asked
	now     *ask           // what the task waits for, if it does
	earlier map[string]bool
}

func newAsks(answered []string) asks {
	a := asks{all: map[string]*ask{}, numbers: map[string]int{}, earlier: map[string]bool{}}
	for _, id := range answered {
		base, n := split(id)
		a.numbers[base] = max(a.numbers[base], n)
		a.earlier[id] = true
	}
	return a
}

func split(id string) (base string, n int) {
	base, number, numbered := strings.Cut(id, "#")
	if n, err := strconv.Atoi(number); numbered && err == nil {
		return base, n
	}
	return base, 1
}

func join(base string, n int) string {
	if n == 1 {
		return base
	}
	return base + "#" + strconv.Itoa(n)
}

// next makes the next request for a base.
func (a *asks) next(base string) *ask {
	a.numbers[base]++
	p := &ask{Pending: stdio.NewPending(), base: base, id: join(base, a.numbers[base])}
	a.all[p.id], a.now = p, p
	return p
}

// settle tells the outcome, once.
func (p *ask) settle(d provider.Delivery) {
	if !p.settled {
		p.taken, p.settled = true, true
		p.Settle(d)
	}
}

// settleAll makes every request that nobody answers undeliverable.
func (a *asks) settleAll() {
	for _, p := range a.all {
		if !p.taken {
			p.settle(provider.Undeliverable)
		}
	}
}

// baseOf identifies what a peer asks: by its message and all that this says. The
// message's id alone would let a peer put another question under the one that
// the operator answers. A message without an id is told apart by its time.
func baseOf(st status) string {
	name := st.Stamp
	if st.Message != nil && st.Message.ID != "" {
		name = st.Message.ID
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", st.Word, name, st.Message.text()))
	return hex.EncodeToString(sum[:16])
}

// interrupt takes that the task waits for us.
func (s *session) interrupt(st status, history []message) {
	base := baseOf(st)
	s.mu.Lock()
	old := s.asks.now
	if old != nil && old.base == base && !old.again {
		s.mu.Unlock()
		return
	}
	if old == nil {
		// An answer of an earlier process may be what the peer works on now.
		if id := join(base, s.asks.numbers[base]); s.asks.earlier[id] && contains(history, s.answerID(id)) {
			p := &ask{Pending: stdio.NewPending(), base: base, id: id}
			p.settle(provider.Delivered)
			s.asks.all[id], s.asks.now = p, p
			s.mu.Unlock()
			return
		}
	}
	withdrawn := old != nil && !old.taken
	if withdrawn {
		old.settle(provider.Undeliverable)
	}
	if len(s.asks.all) >= maxAsked {
		s.mu.Unlock()
		s.lose(provider.CauseRequests, "The peer asked for more than a person can answer; it is not followed any more.")
		return
	}
	p := s.asks.next(base)
	cancelled := s.cancelled
	if cancelled {
		p.settle(provider.Undeliverable)
	}
	task, in := s.task, s.context
	s.mu.Unlock()
	if withdrawn {
		s.q.Put(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: old.id}, 0)
	}
	content := describe(st)
	s.q.Put(provider.Event{Kind: provider.EventRequest, Request: &provider.Request{
		Kind: coord.Question, Origin: coord.RequestOrigin{Session: in, Turn: task, Request: p.id}, Content: content,
	}}, len(content.Detail))
	if cancelled {
		s.q.Put(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: p.id}, 0)
		// It heard of the cancellation and asks all the same: it is told again.
		if err := s.callCancel(s.ctx); err != nil {
			s.logger.Info("a peer that asks after its cancellation could not be told again", "error", told(err))
		}
	}
}

// goOn takes that the task does not wait for us any more.
func (s *session) goOn() {
	s.mu.Lock()
	p := s.asks.now
	s.asks.now = nil
	withdrawn := p != nil && !p.taken
	if withdrawn {
		p.settle(provider.Undeliverable)
	}
	s.mu.Unlock()
	if withdrawn {
		s.q.Put(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: p.id}, 0)
	}
}

// describe puts what a peer asks in the words of a request.
func describe(st status) coord.RequestContent {
	text := strings.TrimSpace(st.Message.text())
	first, _, more := strings.Cut(text, "\n")
	c := coord.RequestContent{Title: clip(first, coord.MaxTitle)}
	if more || c.Title != first {
		c.Detail = text
	}
	if st.state == authRequired {
		c.Tool = "authorization"
		c.Title = or(c.Title, "The peer waits for an authorization.")
		c.Detail = strings.TrimSpace("It is given outside of Signalbox. Give it there and then answer; a secret does not belong into the answer, which is kept.\n" + c.Detail)
	}
	c.Title = or(c.Title, "The peer asks for input and does not say what for.")
	if len(c.Detail) > coord.MaxRequestContent {
		c.Detail, c.Cut = clip(c.Detail, coord.MaxRequestContent), true
	}
	return c
}

// answerID is that of the message with the answer to a request: the same in any
// process, so that it can be looked for.
func (s *session) answerID(request string) string {
	sum := sha256.Sum256([]byte(request))
	return s.d.MessageID + "-" + hex.EncodeToString(sum[:8])
}

// contains reports whether a message of ours is in a task's history.
func contains(history []message, id string) bool {
	for _, m := range history {
		if m.ID == id {
			return true
		}
	}
	return false
}

// Respond sends the answer as a message of the same task, once.
func (s *session) Respond(ctx context.Context, a provider.Answer) (provider.Delivery, error) {
	p, mine := s.claim(a.Request)
	if p == nil && s.resumed {
		// The answer may come before the task of an earlier process was seen.
		select {
		case <-s.looked:
		case <-s.over:
		case <-ctx.Done():
		}
		p, mine = s.claim(a.Request)
	}
	switch {
	case p == nil && s.resumed && !s.seen():
		return provider.Undeliverable, coord.Errorf(coord.Unavailable, "the answer was not sent: the peer could not be asked whether it still waits for it")
	case p == nil:
		return provider.Undeliverable, coord.Errorf(coord.NotFound, "the peer has no such question open")
	case !mine:
		return p.Outcome(ctx)
	}
	outcome, err := s.deliver(ctx, p, a)
	s.mu.Lock()
	p.settle(outcome)
	s.mu.Unlock()
	s.nudge()
	return outcome, err
}

// claim gives a request, and whether the caller is the one that answers it.
func (s *session) claim(id string) (*ask, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.asks.all[id]
	if p == nil || p.taken {
		return p, false
	}
	p.taken = true
	return p, true
}

func (s *session) deliver(ctx context.Context, p *ask, a provider.Answer) (provider.Delivery, error) {
	text := a.Text
	if a.Decision != coord.DecisionAnswered || text == "" {
		text = declined
	}
	id := s.answerID(p.id)
	m := newMessage(s.e.version, id, text)
	s.mu.Lock()
	m.TaskID, m.ContextID = s.task, s.context
	s.mu.Unlock()
	ctx, done := s.within(ctx)
	defer done()
	err := s.answer(ctx, sendParams{Tenant: s.e.tenant, Message: m, Configuration: nonblocking(s.e.version)})
	if err == nil {
		return provider.Delivered, nil
	}
	var rpc *rpcError
	_, unsent := errors.AsType[*netguard.Unsent](err)
	if unsent || errors.As(err, &rpc) && rpc.certain() {
		// Servers are known to refuse what they have taken already.
		if t, lookErr := s.e.get(ctx, s.timing.Call, m.TaskID, settleHistory); lookErr == nil && contains(t.History, id) {
			return provider.Delivered, nil
		}
		s.askAgain(p, true)
		return provider.Undeliverable, coord.Errorf(coord.Unavailable, "the peer did not take the answer: %s", told(err))
	}
	if s.settle(ctx, p, id) {
		return provider.Delivered, nil
	}
	return provider.DeliveryLost, coord.Errorf(coord.Unavailable, "whether the peer has the answer is not known: %s", told(err))
}

// answer sends the message and reads what the peer says to it.
func (s *session) answer(ctx context.Context, p sendParams) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timing.Call, errSilent)
	defer cancel()
	a, err := s.e.post(ctx, s.e.methods().send, p, true)
	if err != nil {
		return err
	}
	defer a.close()
	result, err := a.one()
	if err != nil {
		return err
	}
	n, err := readNews(s.e.version, result)
	if err != nil {
		return err
	}
	task, _ := n.ids()
	switch {
	case n.task == nil && n.message == nil:
		return malformed("neither a task nor a message in answer to a message")
	case task != "" && task != p.Message.TaskID:
		return malformed("the task " + quote(task) + " in answer to a message of the task " + quote(p.Message.TaskID) + "; that task is not followed")
	}
	return nil
}

// settle looks whether the peer has an answer that may have been lost. Where it
// has not and still waits, the operator is asked anew.
func (s *session) settle(ctx context.Context, p *ask, id string) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timing.Settle, errSilent)
	defer cancel()
	seen := false
	for wait := s.timing.Poll / 4; ; wait *= 2 {
		t, err := s.e.get(ctx, s.timing.Call, s.taskID(), settleHistory)
		if err == nil {
			seen = true
			if contains(t.History, id) {
				return true
			}
			if !t.Status.state.interrupted() || baseOf(t.Status) != p.base {
				return false
			}
		}
		if !pause(ctx, wait) {
			break
		}
	}
	s.askAgain(p, seen)
	return false
}

// askAgain lets the operator be asked anew once the task is seen to wait still:
// seen tells that the peer is known not to have the answer.
func (s *session) askAgain(p *ask, seen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.again, p.unsettled = seen, !seen
}
