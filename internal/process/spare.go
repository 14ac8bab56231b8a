package process

import (
	"context"
	"errors"
	"sync"
)

// Spare is a Starter that keeps a gate to spare: after a program has ended, the
// gate of the next one is started and recorded, and waits. Why, and what it
// costs, is in docs/adr/0013-a-gate-waits.md.
type Spare struct {
	starter *Starter

	mu      sync.Mutex
	waiting *gated // nil while there is none
	making  bool   // one is being made
	closed  bool
	makers  sync.WaitGroup
}

// NewSpare makes a Spare of gates of s. Call Close at the end.
func NewSpare(s *Starter) *Spare { return &Spare{starter: s} }

// Start is Starter.Start, with its errors, by the gate that waits if there is
// one. What is in the ledger then was recorded before anybody knew what the gate
// would become. It may be called from several goroutines, and still after Close.
func (s *Spare) Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	p, err := s.start(ctx, spec)
	if err == nil {
		p.over = s.prepare
	}
	return p, err
}

func (s *Spare) start(ctx context.Context, spec Spec) (*Process, error) {
	if g := s.take(); g != nil {
		p, err := g.become(ctx, spec)
		if !errors.Is(err, errGateGone) {
			return p, err
		}
		// Somebody ended it or stopped it while it waited; it is dead now.
	}
	return s.starter.launch(ctx, spec)
}

// take gives the gate that waits, if there is one.
func (s *Spare) take() *gated {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.waiting
	s.waiting = nil
	return g
}

// prepare starts a gate unless one waits. Why none can be started is told by the
// next Start, which tries again.
func (s *Spare) prepare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.making || s.waiting != nil {
		return
	}
	s.making = true
	s.makers.Go(func() {
		g, err := s.starter.begin(context.Background())
		s.mu.Lock()
		defer s.mu.Unlock()
		s.making = false
		if err == nil {
			s.waiting = g
		}
	})
}

// Close ends the gate that waits, and no other will wait after it. The error says
// that the ledger still holds it.
func (s *Spare) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.makers.Wait()
	if g := s.take(); g != nil {
		return g.discard(context.Background())
	}
	return nil
}
