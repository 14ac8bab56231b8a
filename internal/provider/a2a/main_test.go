package a2a

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signalbox/internal/coord"
	"signalbox/internal/netguard"
	"signalbox/internal/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fast are bounds for peers on this machine.
var fast = Timing{
	Setup: 10 * time.Second, Receipt: time.Minute, Call: 2 * time.Second, Quiet: 300 * time.Millisecond,
	Poll: 10 * time.Millisecond, PollMax: 100 * time.Millisecond, Stalled: 400 * time.Millisecond, Gone: 300 * time.Millisecond, Settle: time.Second,
}

var errPatience = errors.New("nothing came within 90 s")

// newAdapter makes an adapter with a guard of its own, which ends with the test.
func newAdapter(t testing.TB, timing Timing) *Adapter {
	t.Helper()
	guard := netguard.New(netguard.Options{})
	t.Cleanup(guard.Close)
	return New(guard, Options{Timing: timing})
}

// attempt is one attempt under test.
type attempt struct {
	testing.TB
	adapter *Adapter
	work    provider.Work
	session provider.Session
}

// prepare inspects a registered peer, approves what is there and prepares work.
func prepare(t testing.TB, a *Adapter, config coord.A2AConfig, prompt string) *attempt {
	t.Helper()
	agent := coord.AgentConfig{Route: coord.RouteA2A, A2A: &config}
	in, err := a.Inspect(t.Context(), provider.Target{Agent: "peer", Config: agent})
	if err != nil || in.Problem != "" {
		t.Fatalf("Inspect: %v, %q", err, in.Problem)
	}
	at := &attempt{TB: t, adapter: a, work: provider.Work{Attempt: "att_1", Config: agent, Identity: in.Identity, Prompt: prompt}}
	if at.session, err = a.Prepare(t.Context(), at.work); err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	t.Cleanup(at.close)
	return at
}

func (a *attempt) close() {
	if _, err := a.session.Close(context.WithoutCancel(a.Context())); err != nil {
		a.Errorf("Close: %v", err)
	}
}

// send hands the work over.
func (a *attempt) send() *attempt {
	a.Helper()
	if got, err := a.session.Send(a.Context()); got != coord.HandedAll || err != nil {
		a.Fatalf("Send gave %q, %v", got, err)
	}
	return a
}

// next gives the next event.
func (a *attempt) next() provider.Event {
	a.Helper()
	ctx, cancel := context.WithTimeoutCause(a.Context(), 90*time.Second, errPatience)
	defer cancel()
	e, err := a.session.Next(ctx)
	if err != nil {
		a.Fatalf("Next: %v", err)
	}
	return e
}

// until gives all events to the first of a kind, or to the last.
func (a *attempt) until(kind provider.EventKind) []provider.Event {
	a.Helper()
	var all []provider.Event
	for {
		e := a.next()
		all = append(all, e)
		if e.Kind == kind {
			return all
		}
		if e.End != nil || e.Lost != nil {
			a.Fatalf("the last event came before a %s: %s", kind, told1(e))
		}
	}
}

// last gives the events to the end or the loss.
func (a *attempt) last() (provider.Event, []provider.Event) {
	a.Helper()
	var all []provider.Event
	for {
		e := a.next()
		all = append(all, e)
		if e.End != nil || e.Lost != nil {
			return e, all
		}
	}
}

// ends checks that the attempt ends in a state, and gives the answer.
func (a *attempt) ends(want coord.AttemptState) string {
	a.Helper()
	e, all := a.last()
	if e.End == nil || e.End.State != want {
		a.Fatalf("it ended with %s; want %s", told1(e), want)
	}
	if all[0].Kind != provider.EventReceipt {
		a.Errorf("the first event is %s", told1(all[0]))
	}
	return answerOf(all)
}

// loses checks that the attempt is lost, and may run.
func (a *attempt) loses() provider.Lost {
	a.Helper()
	e, _ := a.last()
	if e.Lost == nil || e.Lost.Activity != coord.MayRun || e.Lost.Reason == "" {
		a.Fatalf("it ended with %s; want a loss", told1(e))
	}
	return *e.Lost
}

// answerOf is the answer that the events add up to.
func answerOf(all []provider.Event) string {
	var b strings.Builder
	for _, e := range all {
		if e.Text != nil && e.Text.Channel == coord.ChannelMessage {
			b.WriteString(e.Text.Text)
		}
		if e.End != nil && e.End.Answer != nil {
			return *e.End.Answer
		}
	}
	return b.String()
}

func told1(e provider.Event) string {
	switch {
	case e.End != nil:
		return fmt.Sprintf("the end %+v", *e.End)
	case e.Lost != nil:
		return fmt.Sprintf("the loss %+v", *e.Lost)
	}
	return "an event of the kind " + string(e.Kind)
}

// cutBody gives what one read gives, and then the end.
type cutBody struct {
	io.ReadCloser
	read bool
}

// Read gives one piece.
func (c *cutBody) Read(p []byte) (int, error) {
	if c.read {
		return 0, io.EOF
	}
	c.read = true
	return c.ReadCloser.Read(p)
}

func asUnsent(err error) *provider.Unsent {
	u, _ := errors.AsType[*provider.Unsent](err)
	return u
}

func base64url(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
