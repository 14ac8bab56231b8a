package providertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

func testLoss(t *testing.T, h Harness) {
	ask := h.ask("p1", "Run ls")
	for _, c := range []struct {
		name  string
		steps []Step
		sees  []provider.EventKind
	}{
		{"before any evidence", []Step{{Do: Crash}}, nil},
		{"after the receipt", []Step{{Do: Accept}, {Do: Crash}}, []provider.EventKind{provider.EventReceipt}},
		{"in the answer", []Step{{Do: Say, Text: "a"}, {Do: Crash}}, []provider.EventKind{provider.EventReceipt, provider.EventText}},
		{"while a request is open", []Step{ask, {Do: Crash}}, []provider.EventKind{provider.EventReceipt, provider.EventRequest}},
	} {
		if len(h.can(slices.Clone(c.steps)...)) < len(c.steps) {
			continue
		}
		t.Run("of the peer "+c.name, func(t *testing.T) {
			tr := h.send(t, c.steps...)
			var request string
			for _, kind := range c.sees {
				e := tr.next()
				if e.Kind != kind {
					t.Fatalf("there came %+v instead of %s", e, kind)
				}
				if e.Request != nil {
					request = e.Request.Origin.Request
				}
			}
			lost := tr.lost()
			if lost.Cause != provider.CauseGone || lost.Reason == "" || lost.Activity != tr.ended() {
				t.Errorf("the loss is %+v", lost)
			}
			if request != "" {
				got, _ := tr.session.Respond(t.Context(), h.yes(request))
				if got != provider.Undeliverable {
					t.Errorf("after the loss Respond gave %q", got)
				}
			}
			if got, err := tr.session.Cancel(t.Context()); got == provider.CancelAsked || err == nil {
				t.Errorf("after the loss Cancel gave %q, %v", got, err)
			}
		})
	}
	t.Run("after the end loses nothing", func(t *testing.T) {
		tr := h.send(t, h.can(Step{Do: Say, Text: "a"}, Step{Do: End, State: coord.AttemptCompleted}, Step{Do: Crash})...)
		if end, text := tr.finish(); end.State != coord.AttemptCompleted || text != "a" {
			t.Errorf("the end is %+v, the text %q", end, text)
		}
		if a := tr.close(); a != coord.Ended {
			t.Errorf("Close gave %q", a)
		}
	})
}

func testBadPeers(t *testing.T, h Harness) {
	end := Step{Do: End, State: coord.AttemptCompleted}
	for _, c := range []struct {
		name string
		step Step
	}{
		{"some noise", Step{Do: Noise, Count: coord.MaxNoiseLines / 2}},
		{"a malformed message", Step{Do: Malformed}},
		{"an update of somebody else's work", Step{Do: Foreign, Text: "not yours"}},
		{"a message of a kind that does not exist", Step{Do: Strange, Text: "strange"}},
	} {
		if !h.plays(c.step.Do) {
			continue
		}
		t.Run("are forgiven "+c.name, func(t *testing.T) {
			tr := h.send(t, Step{Do: Say, Text: "a"}, c.step, Step{Do: Say, Text: "b"}, end)
			if got, text := tr.finish(); got.State != coord.AttemptCompleted || text != "ab" {
				t.Errorf("the end is %+v, the text %q", got, text)
			}
		})
	}
	for _, c := range []struct {
		name, cause string
		step        Step
	}{
		{"noise without end", provider.CauseNoise, Step{Do: Noise, Count: coord.MaxNoiseLines + 1}},
		{"a message beyond the limit", provider.CauseFrame, Step{Do: Oversize}},
	} {
		if !h.plays(c.step.Do) {
			continue
		}
		t.Run("are lost with "+c.name, func(t *testing.T) {
			tr := h.send(t, Step{Do: Say, Text: "a"}, c.step)
			if lost := tr.lost(); lost.Cause != c.cause || lost.Activity != tr.ended() {
				t.Errorf("the loss is %+v", lost)
			}
		})
	}
}

func testClose(t *testing.T, h Harness) {
	t.Run("is idempotent and leaves nothing", func(t *testing.T) {
		tr := h.send(t, Step{Do: Say, Text: "a"})
		tr.working(h)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if a := tr.close(); a != tr.ended() {
					t.Errorf("Close gave %q", a)
				}
			})
		}
		all.Wait()
		tr.lost()
		if left := tr.Left(); len(left) > 0 {
			t.Errorf("left is %q", left)
		}
	})
	t.Run("ends a call of Next with the loss", func(t *testing.T) {
		tr := h.send(t)
		if h.Whole {
			tr.until(provider.EventReceipt)
		}
		got := make(chan provider.Event, 1)
		go func() {
			e, err := tr.session.Next(context.WithoutCancel(t.Context()))
			if err != nil {
				t.Errorf("Next gave %v", err)
			}
			got <- e
		}()
		want := tr.close()
		if e := <-got; e.Kind != provider.EventLost || e.Lost.Activity != want {
			t.Errorf("Next gave %+v", e)
		}
	})
	t.Run("ends a peer whose output nobody takes", func(t *testing.T) {
		tr := h.send(t, Step{Do: Flood, Text: "0123456789", Count: 50_000})
		tr.close()
		for {
			e, err := tr.session.Next(t.Context())
			if err != nil {
				t.Fatalf("Next gave %v before the loss", err)
			}
			if e.Kind == provider.EventLost {
				break
			}
		}
	})
	t.Run("of a closed session answers and cancels nothing", func(t *testing.T) {
		tr := h.send(t, h.can(h.ask("p1", "Run ls"))...)
		request := "nobody's"
		if h.plays(Ask) {
			request = tr.request().Origin.Request
		}
		tr.close()
		got, _ := tr.session.Respond(t.Context(), h.yes(request))
		if got != provider.Undeliverable {
			t.Errorf("Respond gave %q", got)
		}
		if got, err := tr.session.Cancel(t.Context()); got == provider.CancelAsked || err == nil {
			t.Errorf("Cancel gave %q, %v", got, err)
		}
	})
}

func testAfterwards(t *testing.T, h Harness) {
	t.Run("reattaching follows on askable routes and is gone on others", func(t *testing.T) {
		tr := h.send(t, Step{Do: Say, Text: "a"}, Step{Do: End, State: coord.AttemptCompleted})
		all := tr.until(provider.EventReceipt)
		receipt, handle := all[0].Receipt, again(t, tr.session.Handle())
		tr.close()
		s, err := tr.Adapter.Reattach(t.Context(), tr.Work, handle, receipt)
		if !tr.Adapter.Route().Askable() {
			if s != nil || !errors.Is(err, provider.ErrGone) {
				t.Errorf("Reattach gave %v, %v", s, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		tr.session = s
		if end, _ := tr.finish(); end.State != coord.AttemptCompleted {
			t.Errorf("the end is %+v", end)
		}
	})
	if !slices.Contains(h.Cannot, Ask) {
		t.Run("reattaching tells a request that waits again, and it can be answered", func(t *testing.T) {
			tr := h.send(t, h.ask("p1", "Run ls"), Step{Do: Await, Name: "p1"}, Step{Do: Say, Text: "done"}, Step{Do: End, State: coord.AttemptCompleted})
			receipt, r := tr.next().Receipt, tr.request()
			if !tr.Adapter.Route().Askable() {
				return // it goes with its process, as above
			}
			handle := again(t, tr.session.Handle())
			tr.close()
			tr.Work.Waiting = []string{r.Origin.Request}
			s, err := tr.Adapter.Reattach(t.Context(), tr.Work, handle, receipt)
			if err != nil {
				t.Fatal(err)
			}
			tr.session = s
			if now := tr.request(); now.Origin.Request != r.Origin.Request || now.Content != r.Content {
				t.Errorf("it is told as %+v, was %+v", now, r)
			}
			answer, got := h.answer("p1", r.Origin.Request, "yes")
			tr.respond(answer, provider.Delivered)
			if end, _ := tr.finish(); end.State != coord.AttemptCompleted {
				t.Errorf("the end is %+v", end)
			}
			tr.answered(got)
		})
	}
	for _, c := range []struct {
		name  string
		steps []Step
	}{
		{"an end", []Step{{Do: Say, Text: "a"}, {Do: End, State: coord.AttemptCompleted}}},
		{"a crash", []Step{{Do: Say, Text: "a"}, {Do: Crash}}},
		{"silence", []Step{{Do: Say, Text: "a"}}},
	} {
		if len(h.can(slices.Clone(c.steps)...)) < len(c.steps) {
			continue
		}
		t.Run("reconciling after "+c.name+" sends no work", func(t *testing.T) {
			tr := h.send(t, c.steps...)
			receipt := tr.next().Receipt
			if !h.Whole {
				tr.until(provider.EventText)
			}
			tr.close()
			for range 2 {
				v, err := tr.Adapter.Reconcile(t.Context(), tr.Work, again(t, tr.session.Handle()), receipt)
				if err != nil {
					t.Fatalf("Reconcile: %v", err)
				}
				switch v.Finding {
				case provider.FoundEnded:
					if v.End == nil {
						t.Errorf("an end was found that is not told")
					}
				case provider.FoundNothing, provider.FoundWorking, provider.NotFound, provider.Fenced:
					if v.End != nil {
						t.Errorf("%s comes with an end", v.Finding)
					}
				default:
					t.Errorf("the finding is %q", v.Finding)
				}
			}
			if n := len(tr.Prompts()); n != 1 {
				t.Errorf("the peer got %d prompts", n)
			}
		})
	}
	t.Run("a handle of somebody else is refused", func(t *testing.T) {
		tr := h.begin(t, Answers("hello"))
		if _, err := tr.Adapter.Reconcile(t.Context(), tr.Work, coord.Handle{Version: 99, Data: []byte(`{}`)}, nil); coord.CodeOf(err) != coord.Invalid {
			t.Errorf("Reconcile gave %v", err)
		}
	})
}
