package stdio

import (
	"context"
	"encoding/json"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// Pending is what comes of a request of the agent. Who took the request settles
// it, and whoever answers it too waits for that.
type Pending struct {
	settled chan struct{}
	outcome provider.Delivery
}

// NewPending makes one that is not settled.
func NewPending() Pending { return Pending{settled: make(chan struct{})} }

// Settle tells the outcome; it is called once.
func (p *Pending) Settle(outcome provider.Delivery) {
	p.outcome = outcome
	close(p.settled)
}

// Outcome waits for it, until ctx ends, whose cause is the error then.
func (p *Pending) Outcome(ctx context.Context) (provider.Delivery, error) {
	select {
	case <-p.settled:
		return p.outcome, nil
	case <-ctx.Done():
		return provider.DeliveryLost, context.Cause(ctx)
	}
}

// HandOver writes a message and says how much of it the agent may have got.
// Only when not one byte left is it certain that it got nothing.
func (c *Conn) HandOver(ctx context.Context, m Outgoing) (coord.HandedOver, error) {
	n, err := c.Write(ctx, m)
	switch {
	case err == nil:
		return coord.HandedAll, nil
	case n == 0:
		return coord.HandedNothing, err
	}
	c.Broken(err)
	return coord.HandedUnknown, err
}

// Answer writes the result of a request of the agent.
func (c *Conn) Answer(ctx context.Context, id json.RawMessage, result any) (provider.Delivery, error) {
	handed, err := c.HandOver(ctx, Outgoing{ID: id, Result: result})
	switch handed {
	case coord.HandedAll:
		return provider.Delivered, nil
	case coord.HandedNothing:
		return provider.Undeliverable, err
	case coord.HandedUnknown:
	}
	return provider.DeliveryLost, err
}
