package codex_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
	"signalbox/internal/provider"
)

// exists reports whether a file is in the home.
func (r *real) exists(name string) bool {
	_, err := os.Stat(filepath.Join(r.home, name))
	return err == nil
}

// asked waits until the model got n requests.
func (r *real) asked(n int) {
	r.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for tick := time.NewTicker(5 * time.Millisecond); r.model.Count() < n; <-tick.C {
		if time.Now().After(deadline) {
			r.t.Fatalf("the model was asked %d times; want %d", r.model.Count(), n)
		}
	}
}

// kill ends the Codex that started last at once.
func (r *real) kill() {
	r.t.Helper()
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	id := r.ledger.all[len(r.ledger.all)-1]
	if _, open := r.ledger.open[id.PID]; !open {
		r.t.Fatal("Codex does not run any more")
	}
	if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
}

func TestKilledAttemptsAreReconciledTruly(t *testing.T) {
	for _, c := range []struct {
		name  string
		model modelserver.Options
		kill  func(r *real, s attempt)
		// findings are those that are true; which one is Codex's timing.
		findings []provider.Finding
		state    coord.AttemptState
		text     string
	}{
		{"before turn/start is read", modelserver.Options{}, func(r *real, s attempt) {
			r.kill()
			_, _ = s.Send(s.t.Context())
		}, []provider.Finding{provider.NotFound}, "", ""},
		{"right after turn/start was answered", script(modelserver.Step{Hang: true}), func(r *real, s attempt) {
			s.sendNow()
			s.until(provider.EventReceipt)
			r.kill()
		}, []provider.Finding{provider.NotFound, provider.FoundNothing}, "", ""},
		{"in the answer of the model", script(modelserver.Step{Hang: true}), func(r *real, s attempt) {
			s.sendNow()
			r.asked(1)
			r.kill()
		}, []provider.Finding{provider.FoundNothing}, "", ""},
		{"while a call is open", script(calls(call("workspace_read", `{"path":"a"}`))), func(r *real, s attempt) {
			s.sendNow()
			s.until(provider.EventCall)
			r.kill()
		}, []provider.Finding{provider.FoundNothing}, "", ""},
		{"after the end", modelserver.Options{Script: []modelserver.Reply{{Answer: "All is done."}}}, func(r *real, s attempt) {
			s.sendNow()
			s.until(provider.EventEnd)
			r.kill()
		}, []provider.Finding{provider.FoundEnded}, coord.AttemptCompleted, "All is done."},
		{"after a failure", script(modelserver.Step{Status: 500}), func(r *real, s attempt) {
			s.sendNow()
			s.until(provider.EventEnd)
			r.kill()
		}, []provider.Finding{provider.FoundEnded}, coord.AttemptFailed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachVersion(t, func(t *testing.T, version string) {
				r := newReal(t, version, "mock-model", c.model)
				w := r.work("1", "Work.", tools()...)
				s := r.prepare(t, w)
				c.kill(r, s)
				if c.state == "" {
					if lost := last(s.until(provider.EventLost)).Lost; lost.Activity != coord.Ended || lost.Cause != provider.CauseGone {
						t.Errorf("the loss is %+v", lost)
					}
				}
				s.close()
				asked := r.model.Count()
				for range 2 {
					v, err := r.adapter.Reconcile(t.Context(), w, s.Handle(), nil)
					if err != nil {
						t.Fatal(err)
					}
					ok := false
					for _, f := range c.findings {
						ok = ok || f == v.Finding
					}
					if !ok || len(v.Evidence) == 0 || v.Text != c.text || (v.End != nil) != (c.state != "") || v.End != nil && v.End.State != c.state {
						t.Errorf("the verdict is %+v", v)
					}
					t.Logf("%s: %s", v.Finding, strings.Join(v.Evidence, " "))
				}
				if n := r.model.Count(); n != asked {
					t.Errorf("reconciling asked the model %d times", n-asked)
				}
			})
		})
	}
}

func (a attempt) sendNow() {
	a.t.Helper()
	if got, err := a.Send(a.t.Context()); got != coord.HandedAll || err != nil {
		a.t.Fatalf("Send gave %q, %v", got, err)
	}
}

func TestTurnThatWasStoppedIsFoundStopped(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		r := newReal(t, version, "mock-model", script(modelserver.Step{Hang: true}))
		w := r.work("1", "Hang.")
		s := r.send(t, w)
		r.asked(1)
		// The end of its input makes Codex interrupt the turn and write it down.
		s.close()
		v, err := r.adapter.Reconcile(t.Context(), w, s.Handle(), nil)
		if err != nil || v.Finding != provider.FoundEnded || v.End.State != coord.AttemptCancelled || v.Activity != coord.Ended {
			t.Errorf("Reconcile gave %+v, %v", v, err)
		}
	})
}
