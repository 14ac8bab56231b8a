package netguard

import (
	"net"
	"sync"
	"time"

	"signalbox/internal/coord"
)

// timed bounds each read and write of a socket, so that a peer that gives or
// takes nothing is noticed.
type timed struct {
	net.Conn
	limits limits
}

// Read bounds the wait for the next byte.
func (c *timed) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limits.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write bounds the time that the peer takes b.
func (c *timed) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.limits.write)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// conn counts the bytes of requests that were handed to it, above TLS.
type conn struct {
	net.Conn
	// socket is what is below everything.
	socket net.Conn

	mu     sync.Mutex
	count  int64
	sealed bool
}

// errSealed is told when the transport tries a request a second time.
var errSealed = coord.Errorf(coord.Unavailable, "the peer closed the connection before it answered, and no request is sent twice")

// Write counts before it writes: what may have left has been counted.
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.sealed {
		c.mu.Unlock()
		return 0, errSealed
	}
	c.count += int64(len(b))
	c.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *conn) written() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// seal reports whether nothing was written since count was n, and makes sure
// that this stays so.
func (c *conn) seal(n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count != n {
		return false
	}
	c.sealed = true
	return true
}
