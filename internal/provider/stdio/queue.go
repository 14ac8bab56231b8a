package stdio

import (
	"context"
	"io"
	"sync"

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
// agent takes more at a time.
type Queue struct {
	mu      sync.Mutex
	items   []queued
	bytes   int
	late    int
	sending bool
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
	if e.Kind != provider.EventText {
		q.items = append(q.items, queued{event: e, size: size})
		return
	}
	if n := len(q.items); n > 0 {
		last := &q.items[n-1]
		if last.event.Kind == provider.EventText && last.event.Text.Channel == e.Text.Channel {
			last.text = append(last.text, e.Text.Text...)
			last.size += size
			return
		}
	}
	q.items = append(q.items, queued{event: e, text: []byte(e.Text.Text), size: size})
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

// Finish adds the last event whatever the room. Only the first call counts.
func (q *Queue) Finish(e provider.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.over {
		q.over = true
		q.add(e, 0)
	}
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

// Take gives the next event, as Session.Next has to.
func (q *Queue) Take(ctx context.Context) (provider.Event, error) {
	for {
		if ctx.Err() != nil {
			return provider.Event{}, context.Cause(ctx)
		}
		if e, ok, err := q.try(); ok || err != nil {
			return e, err
		}
		select {
		case <-ctx.Done():
			return provider.Event{}, context.Cause(ctx)
		case <-q.some:
		}
	}
}

func (q *Queue) try() (e provider.Event, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		if q.gone {
			err = io.EOF
		}
		return e, false, err
	}
	first := q.items[0]
	q.items[0] = queued{}
	if q.items = q.items[1:]; len(q.items) == 0 {
		q.items = nil
	}
	q.bytes -= first.size
	token(q.room)
	if first.event.Kind == provider.EventText {
		first.event.Text = &coord.Text{Channel: first.event.Text.Channel, Text: string(first.text)}
	}
	return first.event, true, nil
}
