package daemon

import (
	"errors"
	"net"
	"net/http"
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
