package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/api"
	"signalbox/internal/coord"
)

func TestALinkOnWhichNobodyAsksStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		gone := make(chan struct{})
		server := serverOn(http.HandlerFunc(starting), func() { close(gone) })
		served := make(chan error, 1)
		go func() { served <- server.Serve(listenOn(theirs)) }()
		transport := transportOn(ours)
		greet(t.Context(), transport)
		select {
		case <-gone:
			t.Error("the link ended though the front door is there")
		case <-time.After(time.Hour):
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://worker/", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatalf("the first question after an hour: %v", err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("it is answered with %d (%v)", res.StatusCode, err)
		}
		transport.CloseIdleConnections()
		<-gone
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// lateBody is a link that sends a body on only when its answer has begun.
type lateBody struct {
	http.RoundTripper
	begun <-chan struct{}
}

func (l lateBody) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = &late{ReadCloser: r.Body, begun: l.begun}
	}
	return l.RoundTripper.RoundTrip(r)
}

type late struct {
	io.ReadCloser
	begun <-chan struct{}
}

func (l *late) Read(b []byte) (int, error) {
	<-l.begun
	return l.ReadCloser.Read(b)
}

func TestAnAnswerThatBeginsBeforeTheBodyWasSentOnIsWhole(t *testing.T) {
	ours, theirs := net.Pipe()
	worker := serverOn(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Half of the answer, then the whole body, then the rest.
		_, err := io.WriteString(w, "asked ")
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		var body []byte
		if err == nil {
			body, err = io.ReadAll(r.Body)
		}
		if err == nil {
			_, err = w.Write(body)
		}
		if err != nil {
			t.Error(err)
		}
	}), func() {})
	served := make(chan error, 1)
	go func() { served <- worker.Serve(listenOn(theirs)) }()
	link := transportOn(ours)
	defer func() {
		link.CloseIdleConnections()
		if err := worker.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	front := httptest.NewUnstartedServer(nil)
	host := front.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(host)
	begun := make(chan struct{})
	front.Config.Handler = newDoor(lateBody{link, begun}, slog.New(slog.DiscardHandler), host, port, "test", 1)
	front.Start()
	defer front.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/api/jobs", strings.NewReader("this"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+api.TokenPrefix+"any")
	res, err := front.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, len("asked "))
	if _, err := io.ReadFull(res.Body, first); err != nil {
		t.Fatal(err)
	}
	close(begun)
	if rest, err := io.ReadAll(res.Body); err != nil || string(first)+string(rest) != "asked this" {
		t.Errorf("the answer is %q and %q, %v", first, rest, err)
	}
}

func TestFewLargeBodiesAreHeldAtOnceEachForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reached atomic.Int64
		worker := answers(func(r *http.Request) (*http.Response, error) {
			reached.Add(1)
			_, err := io.Copy(io.Discard, r.Body)
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, err
		})
		front := newDoor(worker, slog.New(slog.DiscardHandler), "127.0.0.1:7717", "7717", "test", 1)
		got := make(chan string, 4*maxLarge)
		ask := func(size int, body string) {
			ours, theirs := net.Pipe()
			server := &http.Server{Handler: front, ReadHeaderTimeout: coord.WriteTimeout}
			go func() { _ = server.Serve(listenOn(theirs)) }()
			go func() {
				defer server.Close()
				defer ours.Close()
				_, err := fmt.Fprintf(ours, "POST /api/jobs HTTP/1.1\r\nHost: localhost:7717\r\nAuthorization: Bearer %sany\r\nContent-Length: %d\r\n\r\n%s", api.TokenPrefix, size, body)
				if err != nil {
					t.Error(err)
				}
				res, err := http.ReadResponse(bufio.NewReader(ours), nil)
				if err != nil {
					got <- err.Error()
					return
				}
				got <- res.Status
				_ = res.Body.Close()
			}()
		}
		for range maxLarge {
			ask(1<<20, "half of it")
		}
		synctest.Wait()
		ask(smallBody+1, strings.Repeat("x", smallBody+1))
		synctest.Wait()
		if n := reached.Load(); n != 0 || len(got) != 0 {
			t.Errorf("%d requests reached the worker, %d were answered", n, len(got))
		}
		ask(smallBody, strings.Repeat("x", smallBody))
		synctest.Wait()
		select {
		case status := <-got:
			if status != "204 No Content" {
				t.Errorf("a small one beside them: %s", status)
			}
		default:
			t.Error("a small one waits")
		}
		<-time.After(coord.WriteTimeout)
		synctest.Wait()
		all := map[string]int{}
		for range maxLarge + 1 {
			all[<-got]++
		}
		if all["422 Unprocessable Entity"] != maxLarge || all["204 No Content"] != 1 {
			t.Errorf("the large ones: %v", all)
		}

		// Who waits behind two rounds of such is told so.
		for range 2*maxLarge + 1 {
			ask(1<<20, "half of it")
		}
		<-time.After(largeWait)
		synctest.Wait()
		clear(all)
		for range 2*maxLarge + 1 {
			all[<-got]++
		}
		if all["422 Unprocessable Entity"] != 2*maxLarge || all["503 Service Unavailable"] != 1 {
			t.Errorf("two rounds of large ones, and one behind them: %v", all)
		}
		if len(front.large) != 0 {
			t.Errorf("%d places are taken", len(front.large))
		}
	})
}

// answers is a worker.
type answers func(r *http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func TestAReaderThatDoesNotReadHoldsLittleOfItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		var written atomic.Int64
		server := serverOn(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for {
				n, err := w.Write(make([]byte, 8<<10))
				if written.Add(int64(n)); err != nil {
					return
				}
			}
		}), func() {})
		served := make(chan error, 1)
		go func() { served <- server.Serve(listenOn(theirs)) }()
		transport := transportOn(ours)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://worker/", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the worker cannot write on
		// What the server has not handed over yet counts as written, too.
		if n := written.Load(); n < linkWindow || n > linkWindow+32<<10 {
			t.Errorf("%d bytes were taken of which none is read, want about %d", n, linkWindow)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}
