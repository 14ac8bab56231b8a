package netguard

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"signalbox/internal/coord"
)

// Unsent says that a request failed before any byte of it was written, for
// certain: a refusal, or a failure of the DNS, of connecting or of TLS.
type Unsent struct {
	// Err is a refusal with its code, or Unavailable.
	Err *coord.Error
	// Transient failures may pass by themselves.
	Transient bool
}

// Error gives the sentence of the cause.
func (e *Unsent) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Unsent) Unwrap() error { return e.Err }

// ReadAll reads a body of at most limit bytes. A longer one is Limit, and what
// fails in between is Unavailable.
func ReadAll(body io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, coord.Errorf(coord.Limit, "the peer's answer is longer than %d bytes", limit)
	}
	return b, nil
}

// accept gives a response to the caller, unless it is one that nobody follows.
func accept(ctx context.Context, a Access, res *http.Response) (*http.Response, error) {
	if res.StatusCode >= 200 && (res.StatusCode < 300 || res.StatusCode >= 400) {
		res.Body = &body{ReadCloser: res.Body, ctx: ctx, origin: a.Origin}
		return res, nil
	}
	location := res.Header.Get("Location")
	_ = res.Body.Close() // nothing of it is wanted
	if res.StatusCode < 200 {
		return nil, coord.Errorf(coord.Unavailable, "%s switched to another protocol, which nobody asked for", a.Origin)
	}
	where := ""
	// Cut before the parse: a query may hold a secret, and only the origin counts.
	location, _, _ = strings.Cut(location, "?")
	location, _, _ = strings.Cut(location, "#")
	if u, err := ParseURL(location); err == nil && OriginOf(u) != a.Origin {
		where = " to " + OriginOf(u)
	}
	return nil, coord.Errorf(coord.Forbidden, "%s answered with a redirect (%d)%s, and none is followed: register the address itself", a.Origin, res.StatusCode, where)
}

// body tells failures of reading in our words.
type body struct {
	io.ReadCloser
	ctx    context.Context
	origin string
}

// Read gives io.EOF at the proper end alone.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, explain(b.ctx, b.origin, err)
}

// unsent wraps what failed before the first byte.
func unsent(err error) *Unsent {
	e, ok := errors.AsType[*coord.Error](err)
	if !ok {
		e = told(coord.Internal, "the request could not be made", err)
	}
	return &Unsent{Err: e, Transient: e.Code == coord.Unavailable}
}

// told makes an error of our words, which keeps of its cause what can be asked
// for and holds nothing of a peer.
func told(code coord.Code, message string, cause error) *coord.Error {
	return &coord.Error{Code: code, Message: message, Err: plain(cause)}
}

// explain tells a failure of the transport in our words: its own may repeat
// what a peer wrote.
func explain(ctx context.Context, origin string, err error) error {
	if ctx.Err() != nil {
		// The cause may be a coord.Error with a code of its own.
		return &coord.Error{Code: coord.Unavailable, Message: "the request to " + origin + " was given up: its time was over, or it was stopped", Err: context.Cause(ctx)}
	}
	if e, ok := errors.AsType[*coord.Error](err); ok {
		return e
	}
	var timeout net.Error
	switch {
	case strings.Contains(err.Error(), "server response headers exceeded"):
		return coord.Errorf(coord.Limit, "the header of %s is larger than %d bytes", origin, coord.MaxNetHeaders)
	case errors.As(err, &timeout) && timeout.Timeout():
		return told(coord.Unavailable, origin+" gave nothing for too long", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return told(coord.Unavailable, "the connection to "+origin+" was cut", err)
	}
	return told(coord.Unavailable, origin+" does not answer as HTTP says", err)
}

// plain reduces an error to what of it is not a peer's text.
func plain(err error) error {
	for _, known := range []error{
		context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF, io.EOF, net.ErrClosed,
		syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ETIMEDOUT,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return context.DeadlineExceeded
	}
	return nil
}
