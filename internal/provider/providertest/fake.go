package providertest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// Fake is an adapter whose peers live in memory. It starts no goroutine and
// keeps time with package time only, so it works inside synctest bubbles. It
// stands for the whole outside world: dropping its sessions without Close is
// what a worker's death looks like, and peers of askable routes live on.
type Fake struct {
	// Timing bounds the preparation of silent peers.
	Timing provider.Timing
	// OnInspect, if set, answers Inspect. Set it before use.
	OnInspect func(provider.Target) (coord.Inspection, error)

	route  coord.Route
	script func(provider.Work) Script

	mu       sync.Mutex
	peers    map[coord.AttemptID]*peer
	sent     []Sent
	prepared []coord.AttemptID
	open     int
	released map[string]chan struct{}
}

// Sent is one prompt that reached a peer.
type Sent struct {
	Attempt coord.AttemptID
	Prompt  string
	At      time.Time
}

// NewFake makes a fake of a route; each Prepare asks script what the attempt's
// peer does.
func NewFake(route coord.Route, script func(provider.Work) Script) *Fake {
	return &Fake{
		Timing: provider.DefaultTiming, route: route, script: script,
		peers: map[coord.AttemptID]*peer{}, released: map[string]chan struct{}{},
	}
}

// Always is a script for every attempt.
func Always(s Script) func(provider.Work) Script {
	return func(provider.Work) Script { return s }
}

// Sent gives every prompt that a peer got, in order.
func (f *Fake) Sent() []Sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.sent)
}

// Prepared gives the attempt of every Prepare, in order, failed ones included.
func (f *Fake) Prepared() []coord.AttemptID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.prepared)
}

// Open is how many sessions are not closed.
func (f *Fake) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

// Answered gives what the peer of an attempt was answered.
func (f *Fake) Answered(id coord.AttemptID) []Answered {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.peers[id]; p != nil {
		return slices.Clone(p.answered)
	}
	return nil
}

// Cancelled is how often the peer of an attempt was asked to stop.
func (f *Fake) Cancelled(id coord.AttemptID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.peers[id]; p != nil {
		return p.cancels
	}
	return 0
}

// Release lets every peer pass its Hold of that name, now and later.
func (f *Fake) Release(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := f.hold(name)
	select {
	case <-ch:
	default:
		close(ch)
	}
	for _, p := range f.peers {
		p.wake()
	}
}

func (f *Fake) hold(name string) chan struct{} {
	if f.released[name] == nil {
		f.released[name] = make(chan struct{})
	}
	return f.released[name]
}

// Route is the fake's route.
func (f *Fake) Route() coord.Route { return f.route }

// Inspect finds a usable agent that may research, or asks OnInspect.
func (f *Fake) Inspect(_ context.Context, t provider.Target) (coord.Inspection, error) {
	if f.OnInspect != nil {
		return f.OnInspect(t)
	}
	return coord.Inspection{
		Agent: t.Agent, Revision: t.Revision, Auth: coord.AuthReady,
		Operations:   []coord.Operation{coord.Research},
		Capabilities: []coord.Capability{{Name: "prompt", Has: true, Evidence: coord.Declared}},
	}, nil
}

// handle is what the fake's handles hold.
type handle struct {
	Session string          `json:"session"`
	Attempt coord.AttemptID `json:"attempt"`
}

// Prepare makes the peer of the attempt.
func (f *Fake) Prepare(ctx context.Context, w provider.Work) (provider.Session, error) {
	s := f.script(w)
	f.mu.Lock()
	f.prepared = append(f.prepared, w.Attempt)
	f.mu.Unlock()
	if len(w.Tools) > 0 && f.Route() == coord.RouteTincan {
		return nil, &provider.Unsent{Cause: provider.CauseConfig, Message: "the agent cannot be offered tools"}
	}
	if err := pause(ctx, s.SetupDelay); err != nil {
		return nil, &provider.Unsent{Cause: provider.CauseShutdown, Message: "the preparation was given up"}
	}
	switch s.Setup {
	case SetupReady:
	case SetupCrash:
		return nil, &provider.Unsent{Cause: provider.CauseSpawn, Message: "the agent ended before it was ready", Transient: true}
	case SetupSilent:
		if err := pause(ctx, f.Timing.Setup); err != nil {
			return nil, &provider.Unsent{Cause: provider.CauseShutdown, Message: "the preparation was given up"}
		}
		return nil, &provider.Unsent{Cause: provider.CauseSetupTimeout, Message: "the agent did not answer in time", Transient: true}
	case SetupAuth:
		return nil, &provider.Unsent{Cause: provider.CauseAuth, Message: "the agent wants a login first"}
	case SetupVersion:
		return nil, &provider.Unsent{Cause: provider.CauseVersion, Message: "the agent speaks another version of its protocol"}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &peer{fake: f, work: w, script: s, steps: s.Steps, changed: make(chan struct{}), asks: map[string]*ask{}}
	f.peers[w.Attempt] = p
	f.open++
	return &session{fake: f, peer: p, closed: make(chan struct{})}, nil
}

// Reattach follows a peer of an askable route; others are gone.
func (f *Fake) Reattach(_ context.Context, _ provider.Work, h coord.Handle, _ *coord.Receipt) (provider.Session, error) {
	if !f.route.Askable() {
		return nil, provider.ErrGone
	}
	p, err := f.find(h)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p == nil || !p.got || p.crashed {
		return nil, coord.Errorf(coord.NotFound, "the peer knows no such work")
	}
	f.open++
	p.cut = false
	p.askAgain()
	if p.endTaken {
		// Its taker may have died before it could keep it.
		end := *p.end
		p.endTaken = false
		p.queue = append([]provider.Event{{Kind: provider.EventEnd, End: &end}}, p.queue...)
	}
	return &session{fake: f, peer: p, closed: make(chan struct{}), sent: true}, nil
}

// Reconcile tells what is so on askable routes, and nothing on others.
func (f *Fake) Reconcile(_ context.Context, _ provider.Work, h coord.Handle, _ *coord.Receipt) (provider.Verdict, error) {
	p, err := f.find(h)
	if err != nil {
		return provider.Verdict{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case p != nil && p.script.Verdict != nil:
		return *p.script.Verdict, nil
	case !f.route.Askable():
		return provider.Verdict{Finding: provider.FoundNothing, Evidence: []string{"The process that had the work is gone and cannot be asked."}}, nil
	case p == nil || !p.got || p.crashed:
		return provider.Verdict{Finding: provider.NotFound, Evidence: []string{"The peer knows no such work."}}, nil
	}
	p.advance(time.Now())
	if p.end != nil {
		end := *p.end
		return provider.Verdict{Finding: provider.FoundEnded, End: &end, Text: p.said.String(), Activity: coord.Ended}, nil
	}
	return provider.Verdict{Finding: provider.FoundWorking, Text: p.said.String(), Activity: coord.MayRun}, nil
}

func (f *Fake) find(h coord.Handle) (*peer, error) {
	var d handle
	if err := json.Unmarshal(h.Data, &d); err != nil || h.Version != 1 {
		return nil, coord.Errorf(coord.Invalid, "the handle is not one of the fake's")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peers[d.Attempt], nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
