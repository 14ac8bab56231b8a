package a2a

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
	"signalbox/internal/netguard"
	"signalbox/internal/provider"
)

func registered(p peers.A2A) coord.A2AConfig {
	return coord.A2AConfig{Card: p.Card(), Origin: p.Origin, Version: p.Version, Private: true}
}

// TestRealPeers runs what a task can go through against the five endpoints that
// other people wrote. Each looks at how often the peer was asked to work.
func TestRealPeers(t *testing.T) {
	for _, p := range peers.A2AEndpoints(t) {
		for _, c := range realCases {
			t.Run(p.Name+"/"+c.name, func(t *testing.T) {
				before := p.Submissions(t)
				c.run(t, p)
				if n := p.Submissions(t) - before; n != 1 {
					t.Errorf("the peer was asked to work %d times", n)
				}
			})
		}
	}
}

// cutting is a guard that cuts streams after their first piece.
type cutting struct {
	*netguard.Guard
	mu   sync.Mutex
	cuts int // streams to be cut after their first event
}

// Do cuts streams.
func (c *cutting) Do(ctx context.Context, a netguard.Access, req *http.Request) (*http.Response, error) {
	res, err := c.Guard.Do(ctx, a, req)
	if err != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return res, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cuts > 0 {
		c.cuts--
		res.Body = &cutBody{ReadCloser: res.Body}
	}
	return res, nil
}

var realCases = []struct {
	name string
	run  func(t *testing.T, p peers.A2A)
}{
	{"a task is streamed to its end", func(t *testing.T, p peers.A2A) {
		at := prepare(t, newAdapter(t, fast), registered(p), "slow 3").send()
		if got := at.ends(coord.AttemptCompleted); got != "chunk0 chunk1 chunk2 " {
			t.Errorf("the answer is %q", got)
		}
	}},
	{"a task is followed by asking for it", func(t *testing.T, p peers.A2A) {
		at := prepare(t, newAdapter(t, fast), registered(p), "slow 3")
		at.withoutStreams()
		if got := at.send().ends(coord.AttemptCompleted); got != "chunk0 chunk1 chunk2 " {
			t.Errorf("the answer is %q", got)
		}
	}},
	{"a message is an answer without a task", func(t *testing.T, p peers.A2A) {
		at := prepare(t, newAdapter(t, fast), registered(p), "msg hello").send()
		if got := at.ends(coord.AttemptCompleted); got != "direct: msg hello" {
			t.Errorf("the answer is %q", got)
		}
	}},
	{"a failure is the peer's", func(t *testing.T, p peers.A2A) {
		prepare(t, newAdapter(t, fast), registered(p), "fail").send().ends(coord.AttemptFailed)
	}},
	{"a rejection is the peer's", func(t *testing.T, p peers.A2A) {
		prepare(t, newAdapter(t, fast), registered(p), "reject").send().ends(coord.AttemptRejected)
	}},
	{"a cancellation is confirmed by the task's state", func(t *testing.T, p peers.A2A) {
		at := prepare(t, newAdapter(t, fast), registered(p), "slow 50").send()
		at.until(provider.EventText)
		for range 2 {
			if got, err := at.session.Cancel(t.Context()); got != provider.CancelAsked || err != nil {
				t.Errorf("Cancel gave %q, %v", got, err)
			}
		}
		if e, _ := at.last(); e.End == nil || e.End.State != coord.AttemptCancelled {
			t.Errorf("it ended with %s", told1(e))
		}
	}},
	{"a question is answered in the same task", func(t *testing.T, p peers.A2A) {
		at := prepare(t, newAdapter(t, fast), registered(p), "ask me").send()
		all := at.until(provider.EventRequest)
		r := all[len(all)-1].Request
		if r.Content.Title != "which colour?" {
			t.Errorf("the question is %+v", r.Content)
		}
		got, err := at.session.Respond(t.Context(), provider.Answer{Request: r.Origin.Request, Decision: coord.DecisionAnswered, Text: "red"})
		if got != provider.Delivered || err != nil {
			t.Errorf("Respond gave %q, %v", got, err)
		}
		if e, rest := at.last(); e.End == nil || e.End.State != coord.AttemptCompleted || answerOf(rest) != "answer: red" {
			t.Errorf("it ended with %s, %q", told1(e), answerOf(rest))
		}
	}},
	{"a stream that is cut after its first event loses nothing", func(t *testing.T, p peers.A2A) {
		guard := &cutting{Guard: netguard.New(netguard.Options{}), cuts: 1}
		t.Cleanup(guard.Close)
		at := prepare(t, New(guard, Options{Timing: fast}), registered(p), "slow 4").send()
		if got := at.ends(coord.AttemptCompleted); got != "chunk0 chunk1 chunk2 chunk3 " {
			t.Errorf("the answer is %q", got)
		}
	}},
	{"a later process follows the task", func(t *testing.T, p peers.A2A) {
		at := prepare(t, newAdapter(t, fast), registered(p), "slow 4").send()
		receipt := at.until(provider.EventReceipt)[0].Receipt
		at.close()
		var err error
		if at.session, err = at.adapter.Reattach(t.Context(), at.work, at.session.Handle(), receipt); err != nil {
			t.Fatal(err)
		}
		e, all := at.last()
		if e.End == nil || e.End.State != coord.AttemptCompleted || answerOf(all) != "chunk0 chunk1 chunk2 chunk3 " {
			t.Errorf("it ended with %s, %q", told1(e), answerOf(all))
		}
		v, err := at.adapter.Reconcile(t.Context(), at.work, at.session.Handle(), receipt)
		if err != nil || v.Finding != provider.FoundEnded || v.Text != "chunk0 chunk1 chunk2 chunk3 " {
			t.Errorf("Reconcile gave %+v, %v", v, err)
		}
	}},
}

// withoutStreams has the session ask for the task as for one of a peer that
// cannot stream.
func (a *attempt) withoutStreams() {
	s, ok := a.session.(*session)
	if !ok {
		a.Fatal("another session")
	}
	s.d.Streaming = false
}
