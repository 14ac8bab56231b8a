package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"

	"signalbox/internal/coord"
)

// The descriptors that a worker inherits beside the standard streams.
const (
	linkFD   = 3 // one end of the socket pair
	reportFD = 4 // the writing end of the pipe of reports
)

// errNoLink: the worker was started by hand.
var errNoLink = coord.Errorf(coord.Invalid, "a worker is started by the front door: use signalbox serve")

// connection makes a net.Conn of a socket and closes the file.
func connection(f *os.File) (net.Conn, error) {
	c, err := net.FileConn(f) // a copy of the descriptor
	return c, errors.Join(err, f.Close())
}

// inherited gives the descriptors that the front door handed to this worker,
// and makes sure that no child of the worker inherits them in turn.
func inherited() (link net.Conn, report *os.File, err error) {
	syscall.CloseOnExec(linkFD)
	syscall.CloseOnExec(reportFD)
	if link, err = connection(os.NewFile(linkFD, "link")); err != nil {
		return nil, nil, errNoLink
	}
	return link, os.NewFile(reportFD, "report"), nil
}

// oneConn is a listener of one connection that exists already.
type oneConn struct {
	conn   net.Conn
	give   chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func listenOn(c net.Conn) *oneConn {
	l := &oneConn{conn: c, give: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.give <- c
	return l
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.give:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

// maxLinkStreams bounds the requests under way on the link: the event streams
// and what else goes on beside them.
const maxLinkStreams = coord.MaxStreams + 512

// linkWindow is how much of one answer the front door takes before its reader
// does. Go's own 4 MiB would let event streams that hardly read hold 2 GiB in
// memory; this much of each is 64 MiB, and a large answer loses no speed on a
// socket pair.
const linkWindow = 64 << 10

// serverOn makes the worker's server: HTTP/2 streams on the one connection.
// gone is called when that has ended.
func serverOn(h http.Handler, gone func()) *http.Server {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: h, Protocols: &p,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxLinkStreams},
		ReadHeaderTimeout: coord.WriteTimeout,
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				gone()
			}
		},
	}
}

// greet speaks first, before anybody asks anything. To the worker's server a
// link on which nothing comes for some seconds is a client that never speaks,
// which it would end, and the worker with it: one that waits for another owner
// of the journal, or that nobody has a question for.
func greet(ctx context.Context, worker http.RoundTripper) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://worker/", nil)
	if err != nil {
		return // it cannot be: the address is a constant
	}
	// The answer says nothing. Without one the worker is gone, which its exit tells.
	if res, err := worker.RoundTrip(req); err == nil {
		_ = res.Body.Close()
	}
}

// transportOn makes the front door's side of the link. A request after the
// connection has ended fails and is never sent again: there is nothing to dial.
func transportOn(c net.Conn) *http.Transport {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	give := make(chan net.Conn, 1)
	give <- c
	return &http.Transport{
		Protocols:          &p,
		HTTP2:              &http.HTTP2Config{MaxReceiveBufferPerStream: linkWindow},
		DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case c := <-give:
				return c, nil
			default:
				return nil, io.ErrClosedPipe
			}
		},
	}
}
