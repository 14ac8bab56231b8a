package netguard

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/internal/coord"
)

// Access is what one registration allows: one exact origin, and how it is
// reached. It is comparable: requests with equal ones share connections.
type Access struct {
	// Origin is the one that requests may go to, in the form of ParseOrigin.
	Origin string
	// Private says that the host's addresses must all be private or loopback,
	// and none may otherwise be. It is the only way for http.
	Private bool
	// CA is the absolute path of a PEM file whose certificates are trusted in
	// place of the system's, read at each connection. "" trusts the system's.
	CA string
	// Credential names what is sent as a bearer token, "" for none.
	Credential string
}

// Resolver gives the addresses of a name; *net.Resolver is one.
type Resolver interface {
	// LookupNetIP gives them for the network "ip4" or "ip6".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Credentials gives the values of credentials.
type Credentials interface {
	// Token reads the value now. An error for another origin than the one that
	// the name is bound to is Forbidden.
	Token(name, origin string) (string, error)
}

// Options are what a guard stands on.
type Options struct {
	// Resolver is the system's when nil.
	Resolver Resolver
	// Credentials may be nil: then each Access that names one is refused.
	Credentials Credentials
}

// Guard sends requests to peers. It is safe for concurrent use.
type Guard struct {
	options Options
	limits  limits
	// ctx ends with Close, and every connecting with it.
	ctx  context.Context
	stop context.CancelCauseFunc
	// connecting holds a token for each connection that is being made.
	connecting chan struct{}

	mu       sync.Mutex
	closed   bool
	peers    map[Access]*peer
	dialling sync.WaitGroup
}

// limits are those of coord; tests have shorter ones.
type limits struct {
	lookup, dial, handshake, header, idle, write, keep time.Duration
	conns, peers                                       int
}

// peer holds the connections for one Access.
type peer struct {
	access Access
	kept   *http.Transport
	// alone makes a connection for each request, or takes one that was made ahead.
	// A peer that is only asked has none.
	alone func() *http.Transport
	ahead ahead
}

var errClosed = coord.Errorf(coord.Unavailable, "Signalbox is stopping: nothing is sent any more")

// New makes a guard. Close it.
func New(o Options) *Guard {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	ctx, stop := context.WithCancelCause(context.Background())
	return &Guard{options: o, ctx: ctx, stop: stop, connecting: make(chan struct{}, coord.MaxNetDials), peers: map[Access]*peer{}, limits: limits{
		lookup: coord.NetLookup, dial: coord.NetDial, handshake: coord.NetHandshake, header: coord.NetHeader,
		idle: coord.NetIdle, write: coord.WriteTimeout, keep: coord.NetKeep, conns: coord.MaxNetConns, peers: coord.MaxNetPeers,
	}}
}

// Close ends idle connections and whatever connects, and waits for the latter.
// Later requests are refused. Responses that are being read belong to their
// readers.
func (g *Guard) Close() {
	g.mu.Lock()
	g.closed = true
	peers := g.peers
	g.peers = map[Access]*peer{}
	g.mu.Unlock()
	g.stop(errClosed)
	for _, p := range peers {
		p.close()
	}
	g.dialling.Wait()
}

// Do sends one request as a allows, and gives the response when its header is
// there. The caller bounds the body (ReadAll does) and closes it. With
// req.Close set the request has a connection of its own: work goes so, because
// the peer may be about to close one that is kept.
//
// The errors: *Unsent, which wraps a coord.Error, for what failed before a byte of
// the request was written; otherwise a coord.Error that is Unavailable, Forbidden
// for a redirect, or Limit for a header beyond its bound. The deadline is that of
// ctx, beside the bounds on each step.
func (g *Guard) Do(ctx context.Context, a Access, req *http.Request) (*http.Response, error) {
	out, err := g.prepare(ctx, a, req)
	if err != nil {
		closeBody(req)
		return nil, unsent(err)
	}
	p, err := g.peer(a)
	if err != nil {
		closeBody(req)
		return nil, unsent(err)
	}
	// One request is one request: the transport's own second try for one that
	// met a closed connection finds the second connection sealed.
	var used atomic.Pointer[conn]
	var before int64
	out = out.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		c, _ := info.Conn.(*conn)
		if c == nil {
			return
		}
		if used.CompareAndSwap(nil, c) {
			before = c.written()
			return
		}
		c.seal(c.written())
	}}))
	transport := p.kept
	if req.Close {
		transport = p.alone()
	}
	res, err := transport.RoundTrip(out)
	if err != nil {
		c := used.Load()
		told := explain(ctx, a.Origin, err)
		if c == nil || c.seal(before) {
			return nil, unsent(told)
		}
		return nil, told
	}
	res.Request = req // the one that was sent holds the credential
	return accept(ctx, a, res)
}

// prepare makes the request that is sent, or says why there is none.
func (g *Guard) prepare(ctx context.Context, a Access, req *http.Request) (*http.Request, error) {
	if err := ctx.Err(); err != nil {
		return nil, explain(ctx, a.Origin, err)
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	u, err := ParseURL(req.URL.String())
	if err != nil {
		return nil, err
	}
	if OriginOf(u) != a.Origin {
		return nil, coord.Errorf(coord.Forbidden, "the address %s is not at the registered origin %s: nothing is sent there", OriginOf(u), a.Origin)
	}
	if req.Host != "" && req.Host != req.URL.Host {
		return nil, coord.Errorf(coord.Forbidden, "a request to %s names another host", a.Origin)
	}
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie", "Connection", "Upgrade", "Expect"} {
		if _, has := req.Header[name]; has {
			return nil, coord.Errorf(coord.Forbidden, "a request to %s sets the header %s, which is not the caller's to set", a.Origin, name)
		}
	}
	out := req.Clone(ctx)
	out.URL, out.Host, out.GetBody = u, "", nil
	if out.Header == nil {
		out.Header = http.Header{}
	}
	if a.Credential == "" {
		return out, nil
	}
	if g.options.Credentials == nil {
		return nil, coord.Errorf(coord.Forbidden, "the credential %q is not known", a.Credential)
	}
	token, err := g.options.Credentials.Token(a.Credential, a.Origin)
	if err != nil {
		return nil, err
	}
	out.Header.Set("Authorization", "Bearer "+token)
	return out, nil
}

// check holds an Access to its own rules, whoever made it.
func (a Access) check() error {
	origin, err := ParseOrigin(a.Origin)
	switch {
	case err != nil:
		return err
	case origin != a.Origin:
		return coord.Errorf(coord.Forbidden, "the registered origin is not in its canonical form, %s", origin)
	case !a.Private && !isHTTPS(origin):
		return coord.Errorf(coord.Forbidden, "%s is http, which is allowed to private addresses alone (private = true)", origin)
	}
	return nil
}

// peer gives the connections for an Access.
func (g *Guard) peer(a Access) (*peer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errClosed
	}
	if p := g.peers[a]; p != nil {
		return p, nil
	}
	if len(g.peers) >= g.limits.peers {
		for other, p := range g.peers {
			delete(g.peers, other)
			p.close() // what it is doing goes on
			break
		}
	}
	dial := func(ctx context.Context) (net.Conn, error) {
		c, err := g.dial(ctx, a)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	p := &peer{access: a, kept: g.transport(true, dial)}
	p.alone = sync.OnceValue(func() *http.Transport {
		return g.transport(false, func(ctx context.Context) (net.Conn, error) {
			if c := p.ahead.take(); c != nil {
				return c, nil
			}
			return dial(ctx)
		})
	})
	g.peers[a] = p
	return p, nil
}

func (p *peer) close() {
	p.kept.CloseIdleConnections()
	p.ahead.close()
}

// transport is one without what the standard one does by itself: no proxy, no
// compression (a small body may then become a huge one), no HTTP/2 (whose
// frames have no bounds that we could set), no dialling but ours.
func (g *Guard) transport(keep bool, connect func(context.Context) (net.Conn, error)) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) }
	return &http.Transport{
		DialContext: dial, DialTLSContext: dial, Protocols: protocols,
		DisableCompression: true, DisableKeepAlives: !keep,
		MaxConnsPerHost: g.limits.conns, MaxIdleConnsPerHost: 1, IdleConnTimeout: g.limits.keep,
		ResponseHeaderTimeout: g.limits.header, MaxResponseHeaderBytes: coord.MaxNetHeaders,
		// Large buffers for each of a thousand peers would be most of the memory.
		ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10,
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // nobody reads it
	}
}
