package codex_test

import (
	"testing"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
	"signalbox/internal/provider"
)

// BenchmarkPrepare measures the way to a thread of its own for a program whose
// hash is remembered: the list of its models, its start and what is in force.
func BenchmarkPrepare(b *testing.B) {
	for _, version := range peers.CodexVersions() {
		b.Run(version, func(b *testing.B) {
			r := newReal(b, version, "mock-model", modelserver.Options{})
			w := r.work("1", "Work.", tools()...)
			for b.Loop() {
				s, err := r.adapter.Prepare(b.Context(), w)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if _, err := s.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkTurn measures a turn with one call of a tool, from Send to the end,
// with a model that answers at once.
func BenchmarkTurn(b *testing.B) {
	for _, version := range peers.CodexVersions() {
		b.Run(version, func(b *testing.B) {
			r := newReal(b, version, "mock-model", script(calls(call("workspace_read", `{"path":"a"}`))))
			w := r.work("1", "Work.", tools()...)
			for b.Loop() {
				b.StopTimer()
				s, err := r.adapter.Prepare(b.Context(), w)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if _, err := s.Send(b.Context()); err != nil {
					b.Fatal(err)
				}
				for over := false; !over; {
					e, err := s.Next(b.Context())
					switch {
					case err != nil:
						b.Fatal(err)
					case e.Call != nil:
						_, err = s.Respond(b.Context(), provider.Answer{Request: e.Call.Origin.Request, Result: &provider.Result{Text: "x"}})
					case e.End != nil:
						over = true
						if e.End.State != coord.AttemptCompleted {
							b.Fatal(e.End.Reason)
						}
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				if _, err := s.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
