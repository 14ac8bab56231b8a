package daemon

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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
