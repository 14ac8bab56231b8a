package stdio

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// The bounds of what waits between the agent and the owner of an attempt. A
// full queue stops the reading, and the pipe stops the agent.
const (
	queueEvents = 256
	queueBytes  = 1 << 20
	// While the work is being written nobody takes events, and an agent that
	// writes before it reads must not stop the write that it is to read.
	sendingEvents = 1 << 15
	sendingBytes  = coord.MaxFrame
	// maxLate bounds what is kept after the end of the turn; more is dropped.
	maxLate = 64
)

// Queue holds events in order for one taker. Text that follows text of the same
// channel becomes one event with it, so that a taker who is slower than the
// agent takes more at a time instead of stopping it. Requests may be held back
// for a moment, for what the agent tells about them right after asking.
type Queue struct {
	mu      sync.Mutex
	items   []queued
	bytes   int
	late    int
	sending bool
	held    []held
	// added and taken count the items ever.
	added, taken int
	// over is set with the last event, an end or a loss.
	over bool
	// gone is set when nothing more can come.
	gone   bool
	closed bool
	some   chan struct{} // a token: look again
	room   chan struct{} // a token: there may be room
	stop   chan struct{} // closed: putting waits no more
}

type queued struct {
	event provider.Event
	text  []byte // of a text event, which gets it when it is taken
	size  int
}

// Hold is a request that is held back.
type Hold struct {
	// Due is when it waits no more.
	Due time.Time
	// About is the key of what may yet be told of it.
	About   string
	Request *provider.Request
	Size    int
}

type held struct {
	Hold
	after int // is taken first: what came before it
}

// NewQueue makes an empty Queue.
func NewQueue() *Queue {
	return &Queue{some: make(chan struct{}, 1), room: make(chan struct{}, 1), stop: make(chan struct{})}
}

func token(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Put adds an event that weighs size bytes and waits for room; after Unblock it
// drops what has none. After the last event it drops all.
func (q *Queue) Put(e provider.Event, size int) {
	for {
		q.mu.Lock()
		if q.over {
			q.mu.Unlock()
			return
		}
		if q.fits(size) {
			q.add(e, size)
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		select {
		case <-q.stop:
			return
		case <-q.room:
		}
	}
}

func (q *Queue) fits(size int) bool {
	events, bytes := queueEvents, queueBytes
	if q.sending {
		events, bytes = sendingEvents, sendingBytes
	}
	return len(q.items) == 0 || len(q.items) < events && q.bytes+size <= bytes
}

func (q *Queue) add(e provider.Event, size int) {
	q.bytes += size
	token(q.some)
	item := queued{event: e, size: size}
	if e.Kind == provider.EventText {
		if n := len(q.items); n > 0 {
			last := &q.items[n-1]
			if last.event.Kind == provider.EventText && last.event.Text.Channel == e.Text.Channel {
				last.text = append(last.text, e.Text.Text...)
				last.size += size
				return
			}
		}
		item.text = []byte(e.Text.Text)
	}
	q.items = append(q.items, item)
	q.added++
}

// PutLate adds what came after the end, while there is room, and never waits.
func (q *Queue) PutLate(what string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.late < maxLate {
		q.late++
		q.add(provider.Event{Kind: provider.EventLate, Late: what}, len(what))
	}
}

// Finish adds the last event whatever the room, with what was held back before
// it. Only the first call counts.
func (q *Queue) Finish(e provider.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	q.addHeld(false)
	q.over = true
	q.add(e, 0)
}

// End says that nothing more can come.
func (q *Queue) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = true
	token(q.some)
}

// Over reports whether the last event was put.
func (q *Queue) Over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.over
}

// SetSending widens the queue while the work is written.
func (q *Queue) SetSending(on bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sending = on
	token(q.room)
}

// Unblock makes Put wait no more.
func (q *Queue) Unblock() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.stop)
	}
}

// HoldBack keeps a request until it is due, or until Release or Flush. The
// caller bounds how many are held.
func (q *Queue) HoldBack(h Hold) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = append(q.held, held{h, q.added})
	token(q.some)
}

// Release takes out what is held back for news about a key.
func (q *Queue) Release(about string) []Hold {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []Hold
	q.held = slices.DeleteFunc(q.held, func(h held) bool {
		if h.About == about {
			out = append(out, h.Hold)
		}
		return h.About == about
	})
	return out
}

// Flush moves what is held back to the queue whatever the room, as withdrawn if
// so.
func (q *Queue) Flush(withdrawn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.over {
		q.addHeld(withdrawn)
	}
}

func (q *Queue) addHeld(withdrawn bool) {
	for _, h := range q.held {
		q.add(provider.Event{Kind: provider.EventRequest, Request: h.Request}, h.Size)
		if withdrawn {
			q.add(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: h.Request.Origin.Request}, 0)
		}
	}
	q.held = nil
}

// Take gives the next event, as Session.Next has to. It takes nothing when ctx
// ends.
func (q *Queue) Take(ctx context.Context) (provider.Event, error) {
	for {
		if ctx.Err() != nil {
			return provider.Event{}, context.Cause(ctx)
		}
		e, wait, ok, err := q.try(time.Now())
		if ok || err != nil {
			return e, err
		}
		if err := q.wait(ctx, wait); err != nil {
			return provider.Event{}, err
		}
	}
}

// try takes what is there, or tells how long to wait for what is held back, -1
// for nothing.
func (q *Queue) try(now time.Time) (e provider.Event, wait time.Duration, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wait = -1
	if len(q.held) > 0 {
		h := q.held[0]
		wait = max(0, h.Due.Sub(now))
		if wait == 0 && q.taken >= h.after {
			q.held = q.held[1:]
			return provider.Event{Kind: provider.EventRequest, Request: h.Request}, 0, true, nil
		}
	}
	switch {
	case len(q.items) > 0:
		return q.first(), 0, true, nil
	case q.gone:
		return e, 0, false, io.EOF
	}
	return e, wait, false, nil
}

// first takes the first of the items.
func (q *Queue) first() provider.Event {
	first := q.items[0]
	q.items[0] = queued{}
	if q.items = q.items[1:]; len(q.items) == 0 {
		q.items = nil
	}
	q.taken++
	q.bytes -= first.size
	token(q.room)
	if first.event.Kind == provider.EventText {
		first.event.Text = &coord.Text{Channel: first.event.Text.Channel, Text: string(first.text)}
	}
	return first.event
}

func (q *Queue) wait(ctx context.Context, d time.Duration) error {
	var due <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-q.some:
	case <-due:
	}
	return nil
}
