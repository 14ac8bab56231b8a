package daemon_test

import (
	"io"
	"net/http"
	"testing"
)

// A request with a token costs one round trip to the worker, which finds out who
// asks and answers.
func BenchmarkRequestThroughTheDoor(b *testing.B) {
	s := serve(b)
	for b.Loop() {
		res := s.do(http.MethodGet, "/api/status", "", nil)
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			b.Fatal(err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
			b.Fatalf("status %d, %v", res.StatusCode, err)
		}
	}
}
