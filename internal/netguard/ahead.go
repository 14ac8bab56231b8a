package netguard

import (
	"context"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Connect makes the connection for the next request of its own that a allows
// (req.Close) ahead of it: what keeps it from being made is known before
// anything is sent, and the request waits for no DNS, dial or handshake. If none
// comes within coord.NetKeep, it is closed. Its errors are *Unsent.
func (g *Guard) Connect(ctx context.Context, a Access) error {
	if err := a.check(); err != nil {
		return unsent(err)
	}
	p, err := g.peer(a)
	if err != nil {
		return unsent(err)
	}
	c, err := g.dial(ctx, a)
	if err != nil {
		return unsent(explain(ctx, a.Origin, err))
	}
	p.ahead.keep(c, g.limits.keep)
	return nil
}

// ahead holds connections that were made before their requests.
type ahead struct {
	mu     sync.Mutex
	closed bool
	conns  map[*conn]*time.Timer
}

// keep holds a connection for a while.
func (h *ahead) keep(c *conn, span time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		_ = c.Close() // nobody used it
		return
	}
	if h.conns == nil {
		h.conns = map[*conn]*time.Timer{}
	}
	h.conns[c] = time.AfterFunc(span, func() {
		if h.remove(c) {
			_ = c.Close() // nobody used it
		}
	})
}

// take gives a connection that the peer has not closed, nil without one.
func (h *ahead) take() *conn {
	for {
		c := h.any()
		if c == nil || c.open() {
			return c
		}
		_ = c.Close() // the peer did
	}
}

// any removes one of the connections and gives it.
func (h *ahead) any() *conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c, timer := range h.conns {
		timer.Stop()
		delete(h.conns, c)
		return c
	}
	return nil
}

func (h *ahead) remove(c *conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, held := h.conns[c]
	delete(h.conns, c)
	return held
}

// close ends all of them, and those that come later.
func (h *ahead) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	for c := h.any(); c != nil; c = h.any() {
		_ = c.Close() // nobody used it
	}
}

// open reports whether the peer has not closed its side, as far as this side
// knows by now. What a peer of TLS sent after the handshake stays to be read.
func (c *conn) open() bool {
	socket, ok := c.socket.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		open = n > 0 || err == unix.EAGAIN
		return true
	})
	return err == nil && open
}
