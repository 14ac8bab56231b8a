package netguard

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/internal/coord"
)

// raw is a peer that does with each connection what it likes.
type raw struct {
	port     string
	accepted atomic.Int32
	// requests are those that arrived whole, on all connections.
	requests atomic.Int32
}

// newRaw serves connections one after the other until the test ends.
func newRaw(t *testing.T, handle func(p *raw, c net.Conn)) *raw {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := &raw{port: port}
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.accepted.Add(1)
			mu.Lock()
			open[c] = true
			mu.Unlock()
			all.Go(func() {
				defer c.Close()
				handle(p, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return p
}

func (p *raw) access() Access { return Access{Origin: "http://127.0.0.1:" + p.port, Private: true} }

// read takes one request; it reports whether there was a whole one.
func (p *raw) read(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return false
	}
	p.requests.Add(1)
	return true
}

// answering reads one request, then writes what write does until it fails.
func answering(write func(w io.Writer) error) func(*raw, net.Conn) {
	return func(p *raw, c net.Conn) {
		r := bufio.NewReader(c)
		if p.read(r) && write(c) == nil {
			_, _ = r.ReadByte() // until the other side closes
		}
	}
}

// sent asserts that an error does not claim that nothing was sent, and that it
// repeats nothing of the peer.
func sent(t *testing.T, err error, code coord.Code) {
	t.Helper()
	var u *Unsent
	if err == nil || errors.As(err, &u) || coord.CodeOf(err) != code || strings.Contains(fmt.Sprintf("%v %+v", err, errors.Unwrap(err)), "EVIL") {
		t.Errorf("got %#v (%v), want %s of a request that was sent", err, err, code)
	}
}

// short has bounds that a test can wait for.
func short(t *testing.T, o Options) *Guard {
	t.Helper()
	g := guard(t, o)
	const bound = 500 * time.Millisecond // a loaded machine answers within it
	g.limits.header, g.limits.idle, g.limits.handshake, g.limits.write = bound, bound, bound, bound
	return g
}

// forever writes text again and again, in pieces large enough to be fast.
func forever(text string) func(io.Writer) error {
	text = strings.Repeat(text, 1+4096/len(text))
	return func(w io.Writer) error {
		for {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
		}
	}
}

func TestAPeerThatDoesNotAnswerAsHTTPSaysFailsTheRequestWithinBounds(t *testing.T) {
	drip := func(text string) func(io.Writer) error {
		return func(w io.Writer) error {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if _, err := io.WriteString(w, text); err != nil {
					return err
				}
			}
			return nil
		}
	}
	once := func(text string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	for name, c := range map[string]struct {
		write func(io.Writer) error
		code  coord.Code
	}{
		"1xx without end":               {forever("HTTP/1.1 103 Early Hints\r\nLink: <EVIL>\r\n\r\n"), coord.Limit},
		"100 without end":               {forever("HTTP/1.1 100 Continue\r\n\r\n"), coord.Limit},
		"1xx in drips":                  {drip("HTTP/1.1 102 Processing\r\n\r\n"), coord.Unavailable},
		"headers without end":           {func(w io.Writer) error { _ = once("HTTP/1.1 200 OK\r\n")(w); return forever("X-EVIL: EVIL\r\n")(w) }, coord.Limit},
		"a header without end":          {func(w io.Writer) error { _ = once("HTTP/1.1 200 OK\r\nX-EVIL: ")(w); return forever("EVIL")(w) }, coord.Limit},
		"a status line without end":     {func(w io.Writer) error { _ = once("HTTP/1.1 200 ")(w); return forever("EVIL")(w) }, coord.Limit},
		"headers in drips":              {func(w io.Writer) error { _ = once("HTTP/1.1 200 OK\r\n")(w); return drip("X-EVIL: EVIL\r\n")(w) }, coord.Unavailable},
		"no answer":                     {once(""), coord.Unavailable},
		"no HTTP":                       {once("220 EVIL ESMTP\r\n"), coord.Unavailable},
		"no number":                     {once("HTTP/1.1 EVIL OK\r\n\r\n"), coord.Unavailable},
		"another protocol":              {once("HTTP/1.1 101 Switching Protocols\r\nUpgrade: EVIL\r\nConnection: Upgrade\r\n\r\n"), coord.Unavailable},
		"two lengths":                   {once("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nEVIL"), coord.Unavailable},
		"a negative length":             {once("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nEVIL"), coord.Unavailable},
		"an encoding that nobody knows": {once("HTTP/1.1 200 OK\r\nTransfer-Encoding: EVIL\r\n\r\nEVIL"), coord.Unavailable},
		"the preface of HTTP/2":         {once("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), coord.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRaw(t, answering(c.write))
			g := short(t, Options{})
			if c.code == coord.Limit {
				g = guard(t, Options{}) // a slow machine must not run into time first
			}
			res, err := send(t, g, p.access(), "/")
			if err == nil {
				_ = res.Body.Close()
			}
			sent(t, err, c.code)
			if n := p.requests.Load(); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestABodyThatStopsOrIsCutIsNoWholeBody(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
	for name, c := range map[string]struct {
		answer string
		stay   bool
		code   coord.Code
	}{
		"nothing more comes":    {head + "half", true, coord.Unavailable},
		"cut":                   {head + "half", false, coord.Unavailable},
		"a chunk is cut":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal", false, coord.Unavailable},
		"no last chunk":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n", false, coord.Unavailable},
		"a chunk without sense": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nEVIL\r\n", true, coord.Unavailable},
		"too long":              {"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("a", 101), false, coord.Limit},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRaw(t, func(p *raw, conn net.Conn) {
				r := bufio.NewReader(conn)
				if !p.read(r) {
					return
				}
				_, _ = io.WriteString(conn, c.answer)
				if c.stay {
					_, _ = r.ReadByte()
				}
			})
			res, err := send(t, short(t, Options{}), p.access(), "/")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			_, err = ReadAll(res.Body, 100)
			sent(t, err, c.code)
			if name == "cut" && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("a cut is not told as one: %v", err)
			}
		})
	}
}

func TestACompressedBodyIsNotUnpacked(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 10<<20))
	_ = z.Close()
	port := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("it was asked for")
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	}))
	res, err := send(t, guard(t, Options{}), Access{Origin: "http://127.0.0.1:" + port, Private: true}, "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := ReadAll(res.Body, 1<<20); err != nil || !bytes.Equal(b, bomb.Bytes()) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestARedirectIsToldAndNotFollowed(t *testing.T) {
	followed := newRaw(t, answering(func(io.Writer) error { return nil }))
	for status := range 9 {
		status += 300
		for location, origin := range map[string]string{
			"http://127.0.0.1:" + followed.port + "/next?token=EVIL": "http://127.0.0.1:" + followed.port,
			"/same/EVIL":                 "",
			"":                           "",
			"https://user:EVIL@x.test/a": "",
			"javascript:EVIL":            "",
		} {
			p := newRaw(t, answering(func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "HTTP/1.1 %d Go\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status, location)
				return err
			}))
			_, err := send(t, guard(t, Options{}), p.access(), "/")
			where := ""
			if origin != "" {
				where = " to " + origin
			}
			if want := fmt.Sprintf("a redirect (%d)%s, and none is followed", status, where); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%d to %q: %v, want %q", status, location, err, want)
			}
			sent(t, err, coord.Forbidden)
			if n := p.requests.Load(); n != 1 {
				t.Errorf("%d to %q: %d requests", status, location, n)
			}
		}
	}
	if n := followed.accepted.Load(); n != 0 {
		t.Errorf("%d connections to where redirects point", n)
	}
}

func TestNoRequestIsSentTwiceOverAConnectionThatThePeerCloses(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) {
			// The first request is answered, the second one read and the line cut.
			p := newRaw(t, func(p *raw, c net.Conn) {
				r := bufio.NewReader(c)
				if p.read(r) {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					p.read(r)
				}
			})
			g := guard(t, Options{})
			ask := func() (*http.Response, error) {
				var body io.Reader
				if method == http.MethodPost {
					body = strings.NewReader("work")
				}
				req, err := http.NewRequestWithContext(t.Context(), method, p.access().Origin+"/", body)
				if err != nil {
					t.Fatal(err)
				}
				return g.Do(t.Context(), p.access(), req)
			}
			res, err := ask()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ReadAll(res.Body, 10); err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			_, err = ask()
			sent(t, err, coord.Unavailable)
			if n := p.requests.Load(); n != 2 {
				t.Errorf("the peer saw %d requests, want 2", n)
			}
			if n := p.accepted.Load(); n > 2 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

func TestARequestThatIsToBeAloneHasAConnectionOfItsOwn(t *testing.T) {
	p := newRaw(t, func(p *raw, c net.Conn) {
		for r := bufio.NewReader(c); p.read(r); {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	g := guard(t, Options{})
	for i, c := range []struct {
		alone bool
		conns int32
	}{{false, 1}, {false, 1}, {true, 2}, {true, 3}, {false, 3}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.access().Origin+"/", strings.NewReader("work"))
		if err != nil {
			t.Fatal(err)
		}
		req.Close = c.alone
		res, err := g.Do(t.Context(), p.access(), req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = ReadAll(res.Body, 10)
		_ = res.Body.Close()
		if n := p.accepted.Load(); n != c.conns {
			t.Errorf("after request %d: %d connections, want %d", i, n, c.conns)
		}
	}
}

func TestNothingOfTheEnvironmentAndNoCookieHasAPartInARequest(t *testing.T) {
	proxy := newRaw(t, answering(func(io.Writer) error { return nil }))
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://127.0.0.1:"+proxy.port)
	}
	t.Setenv("NO_PROXY", "")
	var cookies atomic.Int32
	port := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookies.Add(int32(len(r.Cookies())))
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
	}))
	g := guard(t, Options{Resolver: &names{answers: map[string][][]string{"peer.test": {{"127.0.0.1"}}}}})
	a := Access{Origin: "http://peer.test:" + port, Private: true}
	for range 2 {
		res, err := send(t, g, a, "/")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if proxy.accepted.Load() != 0 || cookies.Load() != 0 {
		t.Errorf("%d connections to the proxy, %d cookies", proxy.accepted.Load(), cookies.Load())
	}
	for _, header := range []string{"Cookie", "Authorization", "Proxy-Authorization", "Upgrade", "Connection", "Expect"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.Origin+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header, "x")
		_, err = g.Do(t.Context(), a, req)
		refused(t, err, coord.Forbidden, header)
	}
}

func TestAPeerThatIsNotThereIsToldAsNothingSent(t *testing.T) {
	gone := newRaw(t, func(*raw, net.Conn) {})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, closed, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	silent := newRaw(t, func(_ *raw, c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	plain := newRaw(t, func(_ *raw, c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 EVIL\r\n\r\n") })
	g := short(t, Options{Resolver: &names{}})
	for name, c := range map[string]struct {
		origin string
		say    string
	}{
		"nobody listens":              {"http://127.0.0.1:" + closed, "nothing answers"},
		"the name is nobody's":        {"https://nobody.test", "cannot be resolved"},
		"TLS is cut":                  {"https://127.0.0.1:" + gone.port, "no TLS handshake"},
		"TLS is not answered":         {"https://127.0.0.1:" + silent.port, "no TLS handshake"},
		"TLS is answered with no TLS": {"https://127.0.0.1:" + plain.port, "no TLS handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := send(t, g, Access{Origin: c.origin, Private: true}, "/")
			refused(t, err, coord.Unavailable, c.say)
			if strings.Contains(fmt.Sprintf("%+v", errors.Unwrap(errors.Unwrap(err))), "EVIL") {
				t.Errorf("the peer's text is in the cause: %v", err)
			}
		})
	}
}

// blocking is a resolver that answers when it is told to give up.
type blocking struct{ asked chan struct{} }

func (b blocking) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	b.asked <- struct{}{}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestClosingEndsWhatConnectsAndRefusesWhatComes(t *testing.T) {
	r := blocking{make(chan struct{}, 2)}
	g := guard(t, Options{Resolver: r})
	a := Access{Origin: "https://peer.test"}
	failed := make(chan error, 1)
	go func() {
		_, err := send(t, g, a, "/")
		failed <- err
	}()
	<-r.asked
	g.Close()
	refused(t, <-failed, coord.Unavailable, "")
	_, err := send(t, g, a, "/")
	refused(t, err, coord.Unavailable, "stopping")
}

func TestARequestThatIsGivenUpSaysWhetherItWasSent(t *testing.T) {
	why := coord.Errorf(coord.Conflict, "the operator cancelled")
	r := blocking{make(chan struct{}, 2)}
	g := guard(t, Options{Resolver: r})
	try := func(g *Guard, a Access, ready <-chan struct{}) error {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.Origin+"/", strings.NewReader("work"))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-ready
			cancel(why)
		}()
		_, err = g.Do(ctx, a, req)
		return err
	}
	err := try(g, Access{Origin: "https://peer.test"}, r.asked)
	refused(t, err, coord.Unavailable, "given up")
	if !errors.Is(err, why) {
		t.Errorf("the cause is lost: %v", err)
	}
	took := make(chan struct{}, 1)
	p := newRaw(t, answering(func(io.Writer) error { took <- struct{}{}; return nil }))
	err = try(g, p.access(), took)
	sent(t, err, coord.Unavailable)
	if !errors.Is(err, why) {
		t.Errorf("the cause is lost: %v", err)
	}
}
