package jsonl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"signalbox/internal/coord"
)

var (
	// ErrWriteTimeout says that the peer did not take the frame in time.
	ErrWriteTimeout = &coord.Error{Code: coord.Unavailable, Message: "The peer did not read its input within the write timeout."}
	// ErrBroken says that an earlier frame was cut, so nothing more can be
	// written: the peer would take the next frame for the rest of that one.
	ErrBroken = &coord.Error{Code: coord.Unavailable, Message: "An earlier message to the peer was cut off; the connection cannot be used any more."}
	// ErrClosed says that the Writer was closed.
	ErrClosed = &coord.Error{Code: coord.Unavailable, Message: "The connection to the peer is closed."}
)

// deadliner is what a pollable pipe or a socket offers (os.File, net.Conn).
type deadliner interface{ SetWriteDeadline(time.Time) error }

// Writer puts whole frames on a byte stream. Its methods may be called from
// any goroutine; frames are written one after another.
type Writer struct {
	dst     io.WriteCloser
	max     int
	timeout time.Duration

	// turn holds one token; who takes it may write. A mutex would not do:
	// waiting for it could not be ended by a context or by Close.
	turn   chan struct{}
	broken bool // guarded by turn

	closing   sync.Once
	closed    chan struct{}
	closeFail error
}

// NewWriter makes the one Writer of dst, which it owns from then on. A frame
// is at most maxFrame bytes, line end not counted.
//
// A write is given up after timeout, or when its context ends, if dst has
// write deadlines as pipes made by os.Pipe do. Without them (a regular file, a
// terminal, an inherited blocking descriptor) a started write ends only when
// the peer reads or Close is called.
func NewWriter(dst io.WriteCloser, maxFrame int, timeout time.Duration) *Writer {
	w := &Writer{dst: dst, max: maxFrame, timeout: timeout, turn: make(chan struct{}, 1), closed: make(chan struct{})}
	w.turn <- struct{}{}
	return w
}

// Write writes one frame, given without a line end, and LF.
//
// It returns how many bytes were handed over, LF included. With an error, zero
// means that the peer cannot have seen any of the frame and the Writer remains
// usable unless the error says otherwise; more than zero means that the frame
// was cut, and every later Write fails with ErrBroken. The error is one of
// this package's, the cause of the context, or that of dst.
func (w *Writer) Write(ctx context.Context, frame []byte) (int, error) {
	switch {
	case len(frame) > w.max:
		return 0, coord.Errorf(coord.Limit, "The message for the peer has %d bytes; at most %d can be sent.", len(frame), w.max)
	case bytes.ContainsAny(frame, "\r\n") || !utf8.Valid(frame):
		return 0, coord.Errorf(coord.Invalid, "The message for the peer is not one line of UTF-8.")
	}
	// Frame and LF leave in one call, so that a peer which reads what is there
	// sees whole lines whenever the pipe has room.
	line := make([]byte, 0, len(frame)+1)
	return w.write(ctx, append(append(line, frame...), '\n'))
}

// WriteJSON encodes v as one frame and writes it as Write does.
func (w *Writer) WriteJSON(ctx context.Context, v any) (int, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	// Escaping for HTML would only make frames longer.
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return 0, &coord.Error{Code: coord.Internal, Message: "A message for the peer could not be encoded.", Err: err}
	}
	if b.Len()-1 > w.max {
		return 0, coord.Errorf(coord.Limit, "The message for the peer has %d bytes; at most %d can be sent.", b.Len()-1, w.max)
	}
	return w.write(ctx, b.Bytes())
}

func (w *Writer) write(ctx context.Context, line []byte) (int, error) {
	select {
	case <-w.closed:
		return 0, ErrClosed
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-w.turn:
	}
	defer func() { w.turn <- struct{}{} }()
	// The select above picks at random when several are ready.
	select {
	case <-w.closed:
		return 0, ErrClosed
	default:
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if w.broken {
		return 0, ErrBroken
	}
	release := w.limit(ctx)
	n, err := w.dst.Write(line)
	release()
	if n == len(line) {
		return n, nil
	}
	w.broken = n > 0
	return n, w.explain(ctx, err)
}

// limit makes the write end at the timeout and at the end of ctx. The returned
// function must be called after the write; when it returns, nothing of this
// write can touch the deadline any more.
func (w *Writer) limit(ctx context.Context) (release func()) {
	d, ok := w.dst.(deadliner)
	if !ok || d.SetWriteDeadline(time.Now().Add(w.timeout)) != nil {
		return func() {}
	}
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		_ = d.SetWriteDeadline(time.Unix(1, 0)) // in the past: ends the write at once
	})
	return func() {
		if !stop() {
			<-fired
		}
	}
}

func (w *Writer) explain(ctx context.Context, err error) error {
	select {
	case <-w.closed:
		return ErrClosed
	default:
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrWriteTimeout
	case err == nil:
		return io.ErrShortWrite
	}
	return err
}

// Close closes the stream. It does not wait for a blocked Write but ends it.
// Further calls return what the first did.
func (w *Writer) Close() error {
	w.closing.Do(func() {
		close(w.closed)
		w.closeFail = w.dst.Close()
	})
	return w.closeFail
}
