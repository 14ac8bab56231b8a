package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// Harness is what an adapter's tests give to Run.
type Harness struct {
	// New makes an adapter whose peers play the script. What it starts is
	// cleaned up by the test's end.
	New func(t *testing.T, s Script) Subject
	// Tools tells that the route offers Signalbox's tools to agents. Work that
	// comes with tools is refused by the others.
	Tools bool
	// Questions tells that what the route's agents ask of the operator are
	// questions, and never permissions.
	Questions bool
	// Cannot are steps that the route's protocol has no words for, Unready ways
	// in which its preparation cannot go. Without Ask it has no requests, and
	// without Crash nothing shows of a peer that is gone.
	Cannot  []Do
	Unready []Setup
	// NoCancel tells that the route has no way to stop a peer.
	NoCancel bool
	// Whole tells that the receipt comes with Send and the answer at once with
	// the end, so that nothing shows while a peer works.
	Whole bool
}

// ask is a step that asks the operator.
func (h Harness) ask(name, title string) Step {
	s := Step{Do: Ask, Name: name, Text: title}
	if !h.Questions {
		s.Options = YesNo()
	}
	return s
}

// answer is the operator's to a request, and what the peer gets of it: an
// option, or words where the route asks questions.
func (h Harness) answer(name, request, word string) (provider.Answer, Answered) {
	if h.Questions {
		return provider.Answer{Request: request, Decision: coord.DecisionAnswered, Text: word}, Answered{Name: name, Text: word}
	}
	return provider.Answer{Request: request, Decision: coord.DecisionApproved, Option: word}, Answered{Name: name, Option: word}
}

// yes is such an answer that the peer's getting of is not looked at.
func (h Harness) yes(request string) provider.Answer {
	a, _ := h.answer("", request, "yes")
	return a
}

// plays reports whether the route's peers can do something.
func (h Harness) plays(d Do) bool { return !slices.Contains(h.Cannot, d) }

// can leaves out the steps that the route cannot play.
func (h Harness) can(steps ...Step) []Step {
	return slices.DeleteFunc(steps, func(s Step) bool { return !h.plays(s.Do) })
}

// Subject is an adapter with its peers.
type Subject struct {
	Adapter provider.Adapter
	// Work may be prepared; Prompt is set by the suite.
	Work provider.Work
	// Prompts gives every prompt that a peer got so far, Answers what it was
	// answered. A peer of its own process may be a moment behind.
	Prompts func() []string
	Answers func() []Answered
	// Left names what is left of peers, where closing ends them.
	Left func() []string
}

// patience bounds how long the suite waits for something that must happen.
const patience = 20 * time.Second

// Run holds an adapter to the promises of the port.
func Run(t *testing.T, h Harness) {
	groups := []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"prepare", testPrepare}, {"send", testSend}, {"events", testEvents}, {"requests", testRequests}, {"calls", testCalls},
		{"cancel", testCancel}, {"loss", testLoss}, {"bad peers", testBadPeers}, {"close", testClose}, {"afterwards", testAfterwards},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) { g.run(t, h) })
	}
}

// trial is one attempt under test.
type trial struct {
	*testing.T
	Subject
	session provider.Session
}

// begin makes a subject and prepares an attempt.
func (h Harness) begin(t *testing.T, s Script) *trial {
	t.Helper()
	tr := &trial{T: t, Subject: h.New(t, s)}
	tr.Work.Prompt = "the work of " + t.Name()
	var err error
	if tr.session, err = tr.Adapter.Prepare(t.Context(), tr.Work); err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	t.Cleanup(func() {
		tr.close()
		if left := tr.Left(); len(left) > 0 {
			t.Errorf("after Close there is left: %q", left)
		}
		if n := len(tr.Prompts()); n > 1 {
			t.Errorf("the peer got %d prompts for one attempt", n)
		}
	})
	return tr
}

// send prepares and sends.
func (h Harness) send(t *testing.T, steps ...Step) *trial {
	t.Helper()
	return h.sendScript(t, Script{Steps: steps})
}

func (h Harness) sendScript(t *testing.T, s Script) *trial {
	t.Helper()
	tr := h.begin(t, s)
	if got, err := tr.session.Send(t.Context()); got != coord.HandedAll || err != nil {
		t.Fatalf("Send gave %q, %v", got, err)
	}
	return tr
}

func (tr *trial) close() coord.ActivityState {
	tr.Helper()
	a, err := tr.session.Close(context.WithoutCancel(tr.Context()))
	if err != nil {
		tr.Errorf("Close: %v", err)
	}
	return a
}

// ended is what must be certain of an attempt that was lost or closed before
// its end.
func (tr *trial) ended() coord.ActivityState {
	if tr.Adapter.Route().Askable() {
		return coord.MayRun
	}
	return coord.Ended
}

// next gives the next event and checks its form.
func (tr *trial) next() provider.Event {
	tr.Helper()
	ctx, cancel := context.WithTimeoutCause(tr.Context(), patience, errors.New("no event came"))
	defer cancel()
	e, err := tr.session.Next(ctx)
	if err != nil {
		tr.Fatalf("Next: %v", err)
	}
	if err := wellFormed(e); err != nil {
		tr.Errorf("%v in %+v", err, e)
	}
	return e
}

// wellFormed checks that exactly the member of its kind is set.
func wellFormed(e provider.Event) error {
	set := map[provider.EventKind]bool{
		provider.EventReceipt: e.Receipt != nil, provider.EventText: e.Text != nil, provider.EventActivity: e.Activity != nil,
		provider.EventRequest: e.Request != nil, provider.EventCall: e.Call != nil, provider.EventWithdrawn: e.Withdrawn != "", provider.EventUsage: e.Usage != nil,
		provider.EventContent: e.Content != nil, provider.EventLate: e.Late != "", provider.EventEnd: e.End != nil, provider.EventLost: e.Lost != nil,
	}
	for kind, is := range set {
		if is != (kind == e.Kind) {
			return fmt.Errorf("an event of kind %q with the member of %q set = %v", e.Kind, kind, is)
		}
	}
	if e.Request != nil && e.Request.Origin.Request == "" || e.Call != nil && e.Call.Origin.Request == "" {
		return errors.New("a request without the provider's id")
	}
	return nil
}

// until gives all events up to the first of a kind.
func (tr *trial) until(kind provider.EventKind) []provider.Event {
	tr.Helper()
	var all []provider.Event
	for {
		e := tr.next()
		all = append(all, e)
		if e.Kind == kind {
			return all
		}
		if e.End != nil {
			tr.Fatalf("the end came before a %s: %+v", kind, *e.End)
		}
		if e.Lost != nil {
			tr.Fatalf("the loss came before a %s: %+v", kind, *e.Lost)
		}
	}
}

// working reads to where it shows that a peer which has said something works.
func (tr *trial) working(h Harness) {
	tr.Helper()
	if h.Whole {
		tr.until(provider.EventReceipt)
		return
	}
	tr.until(provider.EventText)
}

// finish reads to the end and gives it with the text of the answer.
func (tr *trial) finish() (provider.End, string) {
	tr.Helper()
	all := tr.until(provider.EventEnd)
	return *all[len(all)-1].End, textOf(all)
}

// lost reads to the loss, after which there is nothing.
func (tr *trial) lost() provider.Lost {
	tr.Helper()
	all := tr.until(provider.EventLost)
	if _, err := tr.session.Next(tr.Context()); !errors.Is(err, io.EOF) {
		tr.Errorf("after the loss Next gave %v", err)
	}
	return *all[len(all)-1].Lost
}

// request reads to the next request.
func (tr *trial) request() provider.Request {
	tr.Helper()
	all := tr.until(provider.EventRequest)
	return *all[len(all)-1].Request
}

// respond answers a request and checks the outcome.
func (tr *trial) respond(a provider.Answer, want provider.Delivery) {
	tr.Helper()
	if got, err := tr.session.Respond(tr.Context(), a); got != want || err != nil {
		tr.Errorf("Respond gave %q, %v; want %q", got, err, want)
	}
}

// answered waits until the peer has exactly these answers.
func (tr *trial) answered(want ...Answered) {
	tr.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		got := tr.Answers()
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			tr.Fatalf("the peer was answered %+v; want %+v", got, want)
		}
	}
}

// cancel asks to stop.
func (tr *trial) cancel() {
	tr.Helper()
	if got, err := tr.session.Cancel(tr.Context()); got != provider.CancelAsked || err != nil {
		tr.Fatalf("Cancel gave %q, %v", got, err)
	}
}

func textOf(all []provider.Event) string {
	var b strings.Builder
	for _, e := range all {
		if e.Text != nil && e.Text.Channel == coord.ChannelMessage {
			b.WriteString(e.Text.Text)
		}
	}
	return b.String()
}

// again is a handle as a later process reads it.
func again(t *testing.T, h coord.Handle) coord.Handle {
	t.Helper()
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var out coord.Handle
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
