package netguard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"signalbox/internal/coord"
)

// errSlow is the cause when a step of connecting takes longer than its bound.
var errSlow = coord.Errorf(coord.Unavailable, "connecting took too long")

func isHTTPS(origin string) bool { return strings.HasPrefix(origin, "https://") }

// dial connects to the peer of an Access, with TLS where its origin is https.
// Every failure of it is before the first byte of a request.
func (g *Guard) dial(ctx context.Context, a Access) (*conn, error) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil, errClosed
	}
	g.dialling.Add(1)
	g.mu.Unlock()
	defer g.dialling.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.ctx, func() { cancel(context.Cause(g.ctx)) })()

	select {
	case g.connecting <- struct{}{}:
		defer func() { <-g.connecting }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	u, err := url.Parse(a.Origin)
	if err != nil {
		return nil, wrong("it cannot be read")
	}
	addrs, err := g.resolve(ctx, a, u.Hostname())
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[isHTTPS(a.Origin)]
	}
	raw, err := g.connect(ctx, a, addrs, port)
	if err != nil {
		return nil, err
	}
	bounded := &timed{Conn: raw, limits: g.limits}
	if !isHTTPS(a.Origin) {
		return &conn{Conn: bounded, socket: raw}, nil
	}
	secured, err := g.secure(ctx, a, u.Hostname(), bounded)
	if err != nil {
		_ = raw.Close() // the handshake's error is the one to tell
		return nil, err
	}
	return &conn{Conn: secured, socket: raw}, nil
}

// resolve gives the addresses of a host, after a look at every one: one that is
// not allowed among them refuses the name.
func (g *Guard) resolve(ctx context.Context, a Access, host string) ([]netip.Addr, error) {
	addrs, err := g.lookup(ctx, a, host)
	if err != nil {
		return nil, err
	}
	if len(addrs) > coord.MaxNetAnswers {
		return nil, coord.Errorf(coord.Forbidden, "the name of %s has more than %d addresses", a.Origin, coord.MaxNetAnswers)
	}
	for _, addr := range addrs {
		if why := allowed(addr, a.Private); why != "" {
			return nil, coord.Errorf(coord.Forbidden, "%s is at the address %s, which %s", a.Origin, addr, why)
		}
	}
	return addrs, nil
}

func (g *Guard) lookup(ctx context.Context, a Access, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, g.limits.lookup, errSlow)
	defer cancel()
	// In one question of both families the standard resolver does not tell a
	// mapped answer from an IPv4 one.
	var four, six []netip.Addr
	var fourErr, sixErr error
	var both sync.WaitGroup
	both.Go(func() { four, fourErr = g.options.Resolver.LookupNetIP(ctx, "ip4", host) })
	both.Go(func() { six, sixErr = g.options.Resolver.LookupNetIP(ctx, "ip6", host) })
	both.Wait()
	for i, addr := range four {
		four[i] = addr.Unmap()
	}
	if addrs := append(four, six...); len(addrs) > 0 {
		return addrs, nil
	}
	err := errors.Join(fourErr, sixErr)
	if ctx.Err() != nil {
		return nil, told(coord.Unavailable, "the name of "+a.Origin+" was not resolved in time", context.Cause(ctx))
	}
	return nil, told(coord.Unavailable, "the name of "+a.Origin+" cannot be resolved: check it, and the network of this machine", err)
}

// connect gives a connection to one of addrs, tried in turn, each with its
// share of the time that is left.
func (g *Guard) connect(ctx context.Context, a Access, addrs []netip.Addr, port string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.limits.dial, errSlow)
	defer cancel()
	var failures []error
	for i, addr := range addrs {
		deadline, _ := ctx.Deadline()
		var dialer net.Dialer
		dialer.Timeout = max(time.Until(deadline)/time.Duration(len(addrs)-i), time.Millisecond)
		c, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(addr.String(), port))
		if err == nil {
			return c, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, told(coord.Unavailable, "nothing answers at "+a.Origin, errors.Join(failures...))
}

// secure makes a connection one of TLS with the peer that the host's name says.
func (g *Guard) secure(ctx context.Context, a Access, host string, raw net.Conn) (net.Conn, error) {
	roots, err := trusted(a.CA)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, g.limits.handshake, errSlow)
	defer cancel()
	c := tls.Client(raw, &tls.Config{ServerName: host, RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	err = c.HandshakeContext(ctx)
	if err == nil {
		return c, nil
	}
	var wrongName x509.HostnameError
	var stranger x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &wrongName):
		return nil, coord.Errorf(coord.Forbidden, "the certificate at %s is for another name", a.Origin)
	case errors.As(err, &stranger):
		return nil, coord.Errorf(coord.Forbidden, "the certificate at %s is signed by nobody who is trusted: a private one needs ca", a.Origin)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return nil, coord.Errorf(coord.Forbidden, "the certificate at %s is not valid at this time", a.Origin)
	case errors.As(err, &verification):
		return nil, coord.Errorf(coord.Forbidden, "the certificate at %s does not hold", a.Origin)
	}
	return nil, told(coord.Unavailable, "there was no TLS handshake with "+a.Origin, err)
}

// trusted reads the roots of an Access; nil are the system's.
func trusted(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // as tls.Config means it
	}
	if !filepath.IsAbs(path) {
		return nil, coord.Errorf(coord.Invalid, "the file of certificates %s must be an absolute path", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, told(coord.Forbidden, "the file of certificates "+path+" cannot be read", err)
	}
	defer file.Close()
	pem, err := io.ReadAll(io.LimitReader(file, coord.MaxCA+1))
	pool := x509.NewCertPool()
	if err != nil || len(pem) > coord.MaxCA || !pool.AppendCertsFromPEM(pem) {
		return nil, coord.Errorf(coord.Forbidden, "the file of certificates %s has no PEM certificate, or more than %d bytes", path, coord.MaxCA)
	}
	return pool, nil
}
