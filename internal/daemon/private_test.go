package daemon

import (
	"errors"
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
