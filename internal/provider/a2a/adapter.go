package a2a

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/netguard"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// Timing holds the bounds of waiting.
type Timing struct {
	// Setup bounds each request before the work is sent.
	Setup time.Duration
	// Receipt is how long the peer may take from the work to its first word: one
	// that ignores the wish not to wait answers at the end of the work.
	Receipt time.Duration
	// Call bounds each request about a task.
	Call time.Duration
	// Quiet is how long a stream may bring no event before the task is asked
	// for beside it.
	Quiet time.Duration
	// Poll and PollMax are the shortest and the longest time between two
	// requests for a task that says nothing by itself.
	Poll, PollMax time.Duration
	// Stalled is how long a task may show no progress before that is told.
	Stalled time.Duration
	// Gone is how long a peer may be out of reach, or not know the task, before
	// the attempt is unknown. Replicas and restarts need minutes.
	Gone time.Duration
	// Settle is the time for finding out what became of an answer, and for the
	// last look at a task that a stream says is over.
	Settle time.Duration
}

// DefaultTiming is what the product uses.
var DefaultTiming = Timing{
	Setup: coord.SetupTimeout, Receipt: 2 * time.Minute, Call: 30 * time.Second, Quiet: time.Minute,
	Poll: time.Second, PollMax: 30 * time.Second, Stalled: 10 * time.Minute, Gone: 15 * time.Minute, Settle: 5 * time.Second,
}

// Options are what an Adapter may be given; zero values are the product's.
type Options struct {
	Timing Timing
	Clock  coord.Clock
	Logger *slog.Logger
}

// Adapter carries out the A2A route.
type Adapter struct {
	guard Guard
	o     Options
}

// New makes an Adapter whose requests leave through guard.
func New(guard Guard, o Options) *Adapter {
	if o.Timing == (Timing{}) {
		o.Timing = DefaultTiming
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Adapter{guard: guard, o: o}
}

// Route is a2a.
func (a *Adapter) Route() coord.Route { return coord.RouteA2A }

// handle is what a handle of version 1 holds.
type handle struct {
	MessageID string `json:"message_id"`
	Version   string `json:"version"`
	URL       string `json:"url"`
	Tenant    string `json:"tenant,omitempty"`
	Streaming bool   `json:"streaming,omitempty"`
}

// openHandle reads a handle of ours.
func openHandle(h coord.Handle) (handle, error) {
	var d handle
	if h.Version != 1 || json.Unmarshal(h.Data, &d) != nil || d.MessageID == "" || methodsOf[d.Version] == (methods{}) {
		return d, coord.Errorf(coord.Invalid, "the attempt's handle is not one of this version")
	}
	return d, nil
}

// endpoint is where the handle's work went. The origin is the registered one
// whatever the handle says, and the guard holds the address to it.
func (a *Adapter) endpoint(c coord.A2AConfig, d handle) *endpoint {
	return &endpoint{guard: a.guard, url: d.URL, version: d.Version, tenant: d.Tenant,
		access: netguard.Access{Origin: c.Origin, Private: c.Private, CA: c.CA, Credential: c.Credential}}
}

// Prepare fetches the card anew, holds it to what was approved, asks the
// interface for a task that cannot exist, and connects: what can go wrong goes
// wrong before anything was sent.
func (a *Adapter) Prepare(ctx context.Context, w provider.Work) (provider.Session, error) {
	if len(w.Tools) > 0 {
		return nil, &provider.Unsent{Cause: provider.CauseConfig, Message: "A peer on the network takes no tools of Signalbox, so it can do research only."}
	}
	c, err := configOf(w.Config)
	if err != nil {
		return nil, err
	}
	k, err := a.fetchCard(ctx, c)
	if err != nil {
		return nil, unsent(ctx, "its card", err)
	}
	now, err := k.identity(c)
	if err := stdio.Stale(w.Identity, now, err); err != nil {
		return nil, err
	}
	d := handle{MessageID: rand.Text(), Version: c.Version, Streaming: k.Capabilities.Streaming}
	if d.URL, d.Tenant, err = k.choose(c); err != nil {
		return nil, err
	}
	if k.wantsCredential() && c.Credential == "" {
		return nil, &provider.Unsent{Cause: provider.CauseAuth, Message: "The peer's card asks for a credential, and none is configured; see 'agent inspect'."}
	}
	e := a.endpoint(c, d)
	if err := e.probe(ctx, a.o.Timing.Setup); err != nil {
		return nil, unsent(ctx, "a task that does not exist", err)
	}
	if err := a.guard.Connect(ctx, e.access); err != nil {
		return nil, unsent(ctx, "a connection", err)
	}
	h, err := provider.EncodeHandle(1, d)
	if err != nil {
		return nil, err
	}
	return newSession(a, e, h, d, w), nil
}

// Reattach follows a task by its id. It reads only.
func (a *Adapter) Reattach(_ context.Context, w provider.Work, h coord.Handle, r *coord.Receipt) (provider.Session, error) {
	d, err := openHandle(h)
	if err != nil {
		return nil, err
	}
	c, err := configOf(w.Config)
	if err != nil {
		return nil, err
	}
	if r == nil || r.Kind != receiptTask {
		return nil, provider.ErrGone // there is no task that could be asked for
	}
	s := newSession(a, a.endpoint(c, d), h, d, w)
	s.resume(r.Reference, w)
	return s, nil
}

func configOf(c coord.AgentConfig) (coord.A2AConfig, error) {
	if c.A2A == nil || methodsOf[c.A2A.Version] == (methods{}) {
		return coord.A2AConfig{}, &provider.Unsent{Cause: provider.CauseConfig, Message: `The agent is not registered as a peer that speaks A2A "0.3" or "1.0".`}
	}
	return *c.A2A, nil
}

// unsent says why preparation failed; what was asked for is a noun.
func unsent(ctx context.Context, what string, err error) *provider.Unsent {
	var known *provider.Unsent
	var status *httpError
	var rpc *rpcError
	var fault *faultError
	var before *netguard.Unsent
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &status):
		return status.unsent(what)
	case errors.As(err, &rpc):
		return &provider.Unsent{Cause: provider.CauseProtocol, Message: clip("The peer answered the request for "+what+" with "+rpc.Error()+".", coord.MaxReason)}
	case errors.As(err, &fault):
		return &provider.Unsent{Cause: fault.cause, Message: clip("The request for "+what+" failed: "+fault.reason+".", coord.MaxReason)}
	case errors.Is(err, errSilent):
		return &provider.Unsent{Cause: provider.CauseSetupTimeout, Message: "The peer gave no answer to the request for " + what + " in time.", Transient: true}
	case ctx.Err() != nil:
		return stdio.GivenUp(ctx)
	case errors.As(err, &before):
		return &provider.Unsent{Cause: provider.CauseConfig, Message: "The peer cannot be reached: " + told(err) + ".", Transient: before.Transient}
	case coord.CodeOf(err) == coord.Forbidden: // a redirect
		return &provider.Unsent{Cause: provider.CauseConfig, Message: "The peer cannot be used: " + told(err) + "."}
	}
	return &provider.Unsent{Cause: provider.CauseGone, Message: "The peer gave no answer to the request for " + what + ": " + told(err) + ".", Transient: true}
}

// unsent says what a status means before anything was sent.
func (e *httpError) unsent(what string) *provider.Unsent {
	u := &provider.Unsent{Cause: provider.CauseProtocol, Message: clip("The peer answered the request for "+what+" with "+e.Error()+".", coord.MaxReason)}
	switch {
	case e.status == 401 || e.status == 403:
		u.Cause = provider.CauseAuth
	case e.status == 429 || e.status >= 500:
		u.Transient = true
	}
	return u
}

// told is a sentence of ours about an error, without its end.
func told(err error) string {
	if e, ok := errors.AsType[*coord.Error](err); ok && e.Code != coord.Internal {
		return e.Message
	}
	switch f := err.(type) { //nolint:errorlint // these two are never wrapped
	case *rpcError, *httpError:
		return "the peer answered with " + f.Error()
	case *faultError:
		return f.reason
	}
	return "the connection failed"
}

func clip(s string, limit int) string { return stdio.Clip(s, limit) }

func probeID() string { return rand.Text() }

func countOf(n int, what string) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n) + " " + what + ". "
}

var _ provider.Adapter = (*Adapter)(nil)
