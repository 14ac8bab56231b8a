package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"signalbox/internal/coord"
)

func TestCloseWaitsForRequestsUnderWayAndRefusesLaterOnes(t *testing.T) {
	a := New(Options{})
	began, release := make(chan struct{}), make(chan struct{})
	a.mux.HandleFunc("GET /api/slow", func(http.ResponseWriter, *http.Request) {
		close(began)
		<-release
	})
	ask := func() int {
		r := httptest.NewRequest(http.MethodGet, "/api/slow", nil)
		r = r.WithContext(As(r.Context(), coord.Actor{Role: coord.RoleRead, Door: "api", Presence: "none"}))
		rec := httptest.NewRecorder()
		a.ServeHTTP(rec, r)
		return rec.Code
	}
	answered, closed := make(chan int, 1), make(chan struct{})
	go func() { answered <- ask() }()
	<-began
	go func() {
		a.Close()
		close(closed)
	}()
	// Refused requests show that the closing has begun.
	<-a.ending.Done()
	if status := ask(); status != http.StatusServiceUnavailable {
		t.Errorf("a request after the closing began gives %d", status)
	}
	select {
	case <-closed:
		t.Error("it closed while a request was under way")
	default:
	}
	close(release)
	<-closed
	if status := <-answered; status != http.StatusOK {
		t.Errorf("the request under way gives %d", status)
	}
	a.Close()
}
