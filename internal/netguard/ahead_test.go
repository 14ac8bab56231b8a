package netguard

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"signalbox/internal/coord"
)

// line is a peer whose connections the test holds.
type line struct {
	listener net.Listener
	accepted chan net.Conn
}

func listen(t *testing.T, certs ...tls.Certificate) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if len(certs) > 0 {
		l = tls.NewListener(l, &tls.Config{Certificates: certs, MinVersion: tls.VersionTLS12})
	}
	p := &line{l, make(chan net.Conn, 8)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if secured, ok := c.(*tls.Conn); ok {
				_ = secured.Handshake() // what comes of it is seen at the other end
			}
			p.accepted <- c
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return p
}

func (p *line) origin(scheme string) string { return scheme + "://" + p.listener.Addr().String() }

// answer reads one request of a connection and answers it.
func answer(t *testing.T, c net.Conn) {
	t.Helper()
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, req.Body)
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
		t.Fatal(err)
	}
}

// work sends one request that is to be alone, and gives what came of it.
func work(ctx context.Context, g *Guard, a Access) chan error {
	done := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.Origin, strings.NewReader("work"))
		if err == nil {
			req.Close = true
			var res *http.Response
			if res, err = g.Do(ctx, a, req); err == nil {
				_, err = ReadAll(res.Body, 10)
				_ = res.Body.Close()
			}
		}
		done <- err
	}()
	return done
}

func TestAConnectionThatWasMadeAheadIsTakenByTheNextWork(t *testing.T) {
	ca := newAuthority(t)
	for name, certs := range map[string][]tls.Certificate{"http": nil, "https": {ca.issue(t, "127.0.0.1", time.Now().Add(time.Hour))}} {
		t.Run(name, func(t *testing.T) {
			p := listen(t, certs...)
			g := guard(t, Options{})
			a := Access{Origin: p.origin(name), Private: true}
			if len(certs) > 0 {
				a.CA = ca.file
			}
			if err := g.Connect(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			c := <-p.accepted
			defer c.Close()
			done := work(t.Context(), g, a)
			answer(t, c)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			// The next has its own.
			done = work(t.Context(), g, a)
			next := <-p.accepted
			defer next.Close()
			answer(t, next)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestAConnectionThatThePeerClosedMeanwhileIsNotTaken(t *testing.T) {
	p := listen(t)
	g := guard(t, Options{})
	a := Access{Origin: p.origin("http"), Private: true}
	if err := g.Connect(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := (<-p.accepted).Close(); err != nil {
		t.Fatal(err)
	}
	// The end of the stream is in this machine when close returns, since both
	// ends are on it.
	done := work(t.Context(), g, a)
	c := <-p.accepted
	defer c.Close()
	answer(t, c)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestAConnectionThatNobodyTakesIsClosed(t *testing.T) {
	for name, end := range map[string]func(*Guard){"by its time": func(g *Guard) {}, "with the guard": (*Guard).Close} {
		t.Run(name, func(t *testing.T) {
			p := listen(t)
			g := guard(t, Options{})
			if name == "by its time" {
				g.limits.keep = time.Millisecond
			}
			if err := g.Connect(t.Context(), Access{Origin: p.origin("http"), Private: true}); err != nil {
				t.Fatal(err)
			}
			c := <-p.accepted
			defer c.Close()
			end(g)
			if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
				t.Errorf("read %d bytes, %v", n, err)
			}
		})
	}
}

func TestWhatKeepsAConnectionFromBeingMadeIsToldAsNothingSent(t *testing.T) {
	g := guard(t, Options{Resolver: &names{answers: map[string][][]string{"peer.test": {{"169.254.169.254"}}}}})
	refused(t, g.Connect(t.Context(), Access{Origin: "http://peer.test", Private: true}), coord.Forbidden, "169.254.169.254")
	refused(t, g.Connect(t.Context(), Access{Origin: "http://peer.test"}), coord.Forbidden, "http")
	g.Close()
	err := g.Connect(t.Context(), Access{Origin: "https://peer.test"})
	refused(t, err, coord.Unavailable, "stopping")
}
