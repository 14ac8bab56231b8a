// Package bridge is the worker's end of the tools of an ACP agent: a Unix
// socket on which the tool server that the agent starts asks for them.
//
// It promises: only who holds the attempt's token is listened to; a caller can
// list the tools and call them, and nothing else; what callers send, and how
// many they are, is bounded before it is held; a caller who goes has withdrawn
// its calls; and after Close nothing is accepted and the socket is gone.
//
// A socket with mode 0600 in a folder with mode 0700 keeps other users out. An
// agent that runs as another user, or in a sandbox that hides the folder,
// cannot reach it, and its tool server says so.
package bridge

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/jsonl"
	"signalbox/internal/toolwire"
)

const (
	// maxStrangers bounds the connections that did not show the token yet. One
	// more ends the oldest, so that a flood cannot keep an agent out that
	// shows its token at once.
	maxStrangers = 32
	// maxCallers bounds the connections that did. Agents start a tool server
	// for the turn, and some another for a title or a helper.
	maxCallers = 8
	// helloTimeout is how long a stranger may take; the tool server shows its
	// token before anything else.
	helloTimeout = 5 * time.Second
)

// Handler is told what callers do, by one goroutine a caller.
type Handler interface {
	// Called takes a call of an offered tool. Caller answers it.
	Called(c Caller, tool string, arguments json.RawMessage)
	// Withdrawn tells that nobody waits for the answer any more.
	Withdrawn(c Caller)
	// Ignored counts a connection that was not served, or was ended for what it
	// sent, by why.
	Ignored(why string)
}

// Options are the bounds in time; zero values are the product's.
type Options struct {
	Hello time.Duration
	Write time.Duration
}

// Server offers tools on one socket.
type Server struct {
	tools   []toolwire.Tool
	handler Handler
	o       Options
	socket  *socket
	token   string
	digest  [sha256.Size]byte

	mu sync.Mutex
	// strangers are in the order of their arrival.
	strangers []*conn
	callers   map[*conn]bool
	last      int
	reached   bool
	closed    bool
	done      chan struct{} // closed with closed
	all       sync.WaitGroup
}

// New listens on a new socket in dir, which it makes if it is not there. The
// errors name dir and are for the operator.
func New(dir string, tools []toolwire.Tool, handler Handler, o Options) (*Server, error) {
	if o.Hello == 0 {
		o.Hello = helloTimeout
	}
	if o.Write == 0 {
		o.Write = coord.WriteTimeout
	}
	socket, err := listen(dir)
	if err != nil {
		return nil, err
	}
	var token [32]byte
	_, _ = rand.Read(token[:]) // never fails, see crypto/rand
	s := &Server{tools: tools, handler: handler, o: o, socket: socket, token: hex.EncodeToString(token[:]), callers: map[*conn]bool{}, done: make(chan struct{})}
	s.digest = sha256.Sum256([]byte(s.token))
	s.all.Go(s.accept)
	return s, nil
}

// Socket is the absolute path of the socket.
func (s *Server) Socket() string { return s.socket.path }

// Token is what a caller must show.
func (s *Server) Token() string { return s.token }

// Reached reports whether anybody ever showed the token.
func (s *Server) Reached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached
}

// Close removes the socket and ends all connections. It does not wait, and may
// be called again.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.done)
	open := slices.Clone(s.strangers)
	for c := range s.callers {
		open = append(open, c)
	}
	s.mu.Unlock()
	s.socket.close()
	for _, c := range open {
		_ = c.w.Close()
	}
}

// Wait waits until nothing of a closed server runs any more. Handlers must not
// be held up by then.
func (s *Server) Wait() { s.all.Wait() }

func (s *Server) accept() {
	for {
		raw, err := s.socket.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			// Out of descriptors: others may give some back.
			s.handler.Ignored("tool_accept")
			select {
			case <-s.done:
				return
			case <-time.After(50 * time.Millisecond):
				continue
			}
		}
		c, oldest := s.admit(raw)
		if oldest != nil {
			s.handler.Ignored("tool_connections")
			_ = oldest.w.Close()
		}
		if c == nil {
			_ = raw.Close()
			return
		}
		s.all.Go(c.serve)
	}
}

// admit makes a stranger of a connection, and gives the one that has to go for
// it. It gives nil when the server was closed.
func (s *Server) admit(raw net.Conn) (c, oldest *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil
	}
	if len(s.strangers) == maxStrangers {
		oldest = s.strangers[0]
		s.strangers = s.strangers[1:]
	}
	s.last++
	c = &conn{server: s, raw: raw, number: s.last, w: jsonl.NewWriter(raw, toolwire.MaxReply, s.o.Write), open: map[int64]bool{}}
	s.strangers = append(s.strangers, c)
	return c, oldest
}

// promote makes a caller of a stranger, if there may be one more.
func (s *Server) promote(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.strangers, c)
	switch {
	case s.closed || at < 0:
		return net.ErrClosed
	case len(s.callers) == maxCallers:
		return fmt.Errorf("at most %d tool servers may be connected for one attempt", maxCallers)
	}
	s.strangers = slices.Delete(s.strangers, at, at+1)
	s.callers[c] = true
	s.reached = true
	return nil
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.callers, c)
	s.strangers = slices.DeleteFunc(s.strangers, func(other *conn) bool { return other == c })
}

// admits compares digests, so that neither the bytes of the token nor its
// length can be learned from how long the comparison takes.
func (s *Server) admits(token string) bool {
	given := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(given[:], s.digest[:]) == 1
}

func (s *Server) offers(tool string) bool {
	return slices.ContainsFunc(s.tools, func(t toolwire.Tool) bool { return t.Name == tool })
}

// socket is a listening socket and its name.
type socket struct {
	listener *net.UnixListener
	path     string
}

func (s *socket) close() {
	_ = s.listener.Close()
	_ = os.Remove(s.path)
}

// allowance is a reader that gives a stranger's first bytes only.
type allowance struct {
	from io.Reader
	// left is how many bytes may still be read, below zero for no bound.
	left int
}

func (a *allowance) Read(p []byte) (int, error) {
	if a.left < 0 {
		return a.from.Read(p)
	}
	if a.left == 0 {
		return 0, jsonl.ErrFrameTooLarge
	}
	n, err := a.from.Read(p[:min(len(p), a.left)])
	a.left -= n
	return n, err
}

// Caller is who waits for the answer to one call.
type Caller struct {
	conn *conn
	id   int64
}

// ID names the call, uniquely within the server.
func (c Caller) ID() string { return fmt.Sprintf("call-%d-%d", c.conn.number, c.id) }

// Answer writes what became of the call. It returns how many bytes were handed
// over; the caller may be gone, which is an error.
func (c Caller) Answer(ctx context.Context, text string, failed bool) (int, error) {
	return c.conn.answer(ctx, toolwire.Result{ID: c.id, Text: text, Failed: failed})
}
