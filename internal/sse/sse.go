// Package sse reads and writes event streams (text/event-stream) within
// bounds.
//
// The reader promises that no peer can make it hold more than its limits, that
// it tells a stream that ended from one that was cut inside an event, and that
// it treats byte order marks, all three line ends, comments and empty data as
// the HTML Living Standard (section "Server-sent events", "Parsing an event
// stream") says. Libraries at hand lose events or bounds in one of these
// cases, and model APIs use all of them. The writer promises that nothing in
// an id, a name or a text can forge a frame.
package sse

import "signalbox/internal/coord"

// Errors of a Reader. Compare with errors.Is. At a clean end Next gives io.EOF;
// a failure of the source is passed on as it is.
var (
	// ErrLineTooLong: one line is longer than Limits.Line.
	ErrLineTooLong = coord.Errorf(coord.Limit, "a line of the event stream is longer than its bound; the sender must split it")
	// ErrEventTooLarge: the fields of one event are larger than Limits.Event.
	ErrEventTooLarge = coord.Errorf(coord.Limit, "an event of the stream is larger than its bound; the sender must split it")
	// ErrStreamTooLarge: the stream goes on after Limits.Total bytes.
	ErrStreamTooLarge = coord.Errorf(coord.Limit, "the event stream is larger than its bound; raise the bound or ask for less")
	// ErrIncomplete: the stream ended inside a line or before the blank line
	// that ends an event. What was cut is not delivered.
	ErrIncomplete = coord.Errorf(coord.Unavailable, "the event stream ended inside an event; the sender or the network cut it")
)

// Limits bounds what a Reader accepts, in bytes. Each must be positive.
type Limits struct {
	// Line bounds one line without its end, comments included.
	Line int
	// Event bounds the values of one event: data with its inner line ends,
	// type and fault together.
	Event int
	// Total bounds the whole stream. Events that lie within it are delivered
	// before ErrStreamTooLarge is.
	Total int64
}

// Event is one dispatched event.
type Event struct {
	// Type is the event's name, "message" when the stream gave none.
	Type string
	// Data is the payload, its lines joined by LF. It may be empty, and it is
	// valid until the next call of Next.
	Data []byte
	// Fault is the value of an "error" field, nil without one. The standard
	// ignores the field; servers based on llama.cpp before its pull request
	// 16109 report a failure with nothing else, so an event that has only this
	// is delivered as well. It is valid until the next call of Next.
	Fault []byte
}
