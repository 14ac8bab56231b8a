package acp

import (
	"context"
	"io"
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
	// sendingEvents and sendingBytes hold while the prompt is being written,
	// when nobody takes events: an agent that writes before it reads must not
	// stop the write that it is to read.
	sendingEvents = 1 << 15
	sendingBytes  = coord.MaxFrame
	// maxLate bounds what is kept after the end of the turn; more is dropped.
	maxLate = 64
)

// queue holds events in order for one taker. Text that follows text of the same
// channel is one event with it, so that a taker who is slower than the agent
// takes more at a time instead of stopping it. Requests may be held back in the
// queue for a moment, for what the agent tells about them right after asking.
type queue struct {
	mu      sync.Mutex
	items   []item
	bytes   int
	late    int
	sending bool
	held    []hold
	// added and taken count the items ever.
	added, taken int
	// over is set with the last event: End or Lost was put.
	over bool
	// gone is set when nothing more can come.
	gone   bool
	closed bool
	some   chan struct{} // a token: look again
	room   chan struct{} // a token: there may be room
	stop   chan struct{} // closed: putting waits no more
}

type item struct {
	event provider.Event
	text  []byte // of a text event, which gets it when it is taken
	size  int
}

// hold is a request held back until due and until what came before it is taken.
type hold struct {
	due   time.Time
	after int
	tool  string
	event *provider.Request
	size  int
}

func newQueue() *queue {
	return &queue{some: make(chan struct{}, 1), room: make(chan struct{}, 1), stop: make(chan struct{})}
}

func token(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// put adds an event and waits for room; after unblock it drops what has none.
func (q *queue) put(e provider.Event, size int) {
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

func (q *queue) fits(size int) bool {
	events, bytes := queueEvents, queueBytes
	if q.sending {
		events, bytes = sendingEvents, sendingBytes
	}
	return len(q.items) == 0 || len(q.items) < events && q.bytes+size <= bytes
}

func (q *queue) add(e provider.Event, size int) {
	q.bytes += size
	if e.Kind == provider.EventText {
		q.addText(e, size)
	} else {
		q.items = append(q.items, item{event: e, size: size})
		q.added++
	}
	token(q.some)
}

func (q *queue) addText(e provider.Event, size int) {
	if n := len(q.items); n > 0 {
		last := &q.items[n-1]
		if last.event.Kind == provider.EventText && last.event.Text.Channel == e.Text.Channel {
			last.text = append(last.text, e.Text.Text...)
			last.size += size
			return
		}
	}
	q.items = append(q.items, item{event: e, text: []byte(e.Text.Text), size: size})
	q.added++
}

// putLate adds what came after the end, while there is room, and never waits.
func (q *queue) putLate(what string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.late < maxLate {
		q.late++
		q.add(provider.Event{Kind: provider.EventLate, Late: what}, len(what))
	}
}

// finish adds the last event whatever the room, with what was held back before
// it. Only the first call counts.
func (q *queue) finish(e provider.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	q.addHeld(false)
	q.over = true
	q.add(e, 0)
}

// end says that nothing more can come.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = true
	token(q.some)
}

// flush moves what is held back to the queue whatever the room (there are at
// most coord.MaxPendingRequests), as withdrawn if so.
func (q *queue) flush(withdrawn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.over {
		q.addHeld(withdrawn)
	}
}

func (q *queue) addHeld(withdrawn bool) {
	for _, h := range q.held {
		q.add(provider.Event{Kind: provider.EventRequest, Request: h.event}, h.size)
		if withdrawn {
			q.add(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: h.event.Origin.Request}, 0)
		}
	}
	q.held = nil
}

// isOver reports whether the last event was put.
func (q *queue) isOver() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.over
}

// setSending widens the queue while the prompt is written.
func (q *queue) setSending(on bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sending = on
	token(q.room)
}

// unblock makes put wait no more.
func (q *queue) unblock() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.stop)
	}
}

// holdBack keeps a request until due, or until release.
func (q *queue) holdBack(h hold) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h.after = q.added
	q.held = append(q.held, h)
	token(q.some)
}

// release takes the requests about a tool call out of the held ones.
func (q *queue) release(tool string) []hold {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out, stay []hold
	for _, h := range q.held {
		if h.tool == tool {
			out = append(out, h)
		} else {
			stay = append(stay, h)
		}
	}
	q.held = stay
	return out
}

// take gives the next event. It takes nothing when ctx ends.
func (q *queue) take(ctx context.Context) (provider.Event, error) {
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

// try takes what is there, or tells how long to wait for what is held back.
func (q *queue) try(now time.Time) (e provider.Event, wait time.Duration, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wait = -1
	if len(q.held) > 0 {
		h := q.held[0]
		wait = max(0, h.due.Sub(now))
		if wait == 0 && q.taken >= h.after {
			q.held = q.held[1:]
			return provider.Event{Kind: provider.EventRequest, Request: h.event}, 0, true, nil
		}
	}
	switch {
	case len(q.items) > 0:
		first := q.items[0]
		q.items[0] = item{}
		if q.items = q.items[1:]; len(q.items) == 0 {
			q.items = nil
		}
		q.taken++
		q.bytes -= first.size
		token(q.room)
		if first.event.Kind == provider.EventText {
			first.event.Text.Text = string(first.text)
		}
		return first.event, 0, true, nil
	case q.gone:
		return provider.Event{}, 0, false, io.EOF
	}
	return provider.Event{}, wait, false, nil
}

func (q *queue) wait(ctx context.Context, d time.Duration) error {
	var timer <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-q.some:
	case <-timer:
	}
	return nil
}
