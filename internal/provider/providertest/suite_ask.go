package providertest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

func testRequests(t *testing.T, h Harness) {
	ask := h.ask("p1", "Run ls")
	await := Step{Do: Await, Name: "p1"}
	end := Step{Do: End, State: coord.AttemptCompleted}
	said := Step{Do: Say, Text: "done"}

	t.Run("that do not exist cannot be answered", func(t *testing.T) {
		tr := h.send(t, Step{Do: Say, Text: "a"})
		tr.working(h)
		got, err := tr.session.Respond(t.Context(), provider.Answer{Request: `"nobody's"`, Decision: coord.DecisionApproved, Option: "yes"})
		if got != provider.Undeliverable || err == nil {
			t.Errorf("Respond gave %q, %v", got, err)
		}
	})
	if !h.plays(Ask) {
		return
	}
	t.Run("carry the provider's own words and options", func(t *testing.T) {
		tr := h.send(t, ask, await, said, end)
		r := tr.request()
		kind := coord.Permission
		if h.Questions {
			kind = coord.Question
		}
		if r.Kind != kind || r.Content.Title != "Run ls" || !slices.Equal(r.Options, ask.Options) {
			t.Errorf("the request is %+v", r)
		}
		answer, got := h.answer("p1", r.Origin.Request, "always")
		tr.respond(answer, provider.Delivered)
		tr.finish()
		tr.answered(got)
	})
	t.Run("are answered once however often the answer is given", func(t *testing.T) {
		tr := h.send(t, ask, await, said, end)
		r := tr.request()
		var all sync.WaitGroup
		yes, got := h.answer("p1", r.Origin.Request, "yes")
		for range 4 {
			all.Go(func() { tr.respond(yes, provider.Delivered) })
		}
		all.Wait()
		tr.respond(provider.Answer{Request: r.Origin.Request, Decision: coord.DecisionDenied, Option: "no"}, provider.Delivered)
		tr.finish()
		tr.answered(got)
	})
	for _, c := range []struct {
		decision coord.DecisionState
		option   string
	}{{coord.DecisionDenied, "no"}, {coord.DecisionDenied, ""}, {coord.DecisionExpired, ""}, {coord.DecisionWithdrawn, ""}} {
		if h.Questions && c.option != "" {
			continue
		}
		t.Run("are "+string(c.decision)+" with option \""+c.option+"\"", func(t *testing.T) {
			tr := h.send(t, ask, await, said, end)
			r := tr.request()
			tr.respond(provider.Answer{Request: r.Origin.Request, Decision: c.decision, Option: c.option}, provider.Delivered)
			tr.finish()
			tr.answered(Answered{Name: "p1", Option: c.option})
		})
	}
	t.Run("do not stop what the provider says meanwhile", func(t *testing.T) {
		tr := h.send(t, ask, Step{Do: Say, Text: "meanwhile"}, await, said, end)
		r := tr.request()
		tr.until(provider.EventText)
		tr.respond(h.yes(r.Origin.Request), provider.Delivered)
		tr.finish()
	})
	t.Run("that the provider takes back are withdrawn", func(t *testing.T) {
		tr := h.send(t, ask, Step{Do: Withdraw, Name: "p1"}, said, end)
		r := tr.request()
		all := tr.until(provider.EventWithdrawn)
		if got := all[len(all)-1].Withdrawn; got != r.Origin.Request {
			t.Errorf("withdrawn is %q, asked was %q", got, r.Origin.Request)
		}
		tr.respond(h.yes(r.Origin.Request), provider.Undeliverable)
		tr.finish()
	})
	t.Run("are undeliverable after the end", func(t *testing.T) {
		tr := h.send(t, ask, said, end)
		r := tr.request()
		tr.finish()
		tr.respond(h.yes(r.Origin.Request), provider.Undeliverable)
		tr.close()
		tr.answered()
	})
}

func testCancel(t *testing.T, h Harness) {
	end := Step{Do: End, State: coord.AttemptCompleted}
	if h.NoCancel {
		t.Run("is unsupported, and the end comes all the same", func(t *testing.T) {
			tr := h.send(t, Step{Do: Say, Text: "a", After: 100 * time.Millisecond}, end)
			for range 2 {
				if got, err := tr.session.Cancel(t.Context()); got != provider.CancelUnsupported || err != nil {
					t.Errorf("Cancel gave %q, %v", got, err)
				}
			}
			if got, text := tr.finish(); got.State != coord.AttemptCompleted || text != "a" {
				t.Errorf("the end is %+v, the text %q", got, text)
			}
		})
		return
	}
	t.Run("is confirmed by the provider's own end only", func(t *testing.T) {
		tr := h.send(t, Step{Do: Say, Text: "a"})
		tr.until(provider.EventText)
		tr.cancel()
		tr.cancel()
		if got, _ := tr.finish(); got.State != coord.AttemptCancelled {
			t.Errorf("the end is %+v", got)
		}
	})
	t.Run("is overtaken by an end that came all the same", func(t *testing.T) {
		tr := h.sendScript(t, Script{Steps: []Step{{Do: Say, Text: "a"}}, CancelSteps: []Step{{Do: Say, Text: "b"}, end}})
		tr.until(provider.EventText)
		tr.cancel()
		if got, text := tr.finish(); got.State != coord.AttemptCompleted || text != "b" {
			t.Errorf("the end is %+v, the text %q", got, text)
		}
	})
	t.Run("answers every open request as cancelled", func(t *testing.T) {
		tr := h.send(t, h.ask("p1", "Run ls"), Step{Do: Await, Name: "p1"})
		r := tr.request()
		tr.cancel()
		tr.answered(Answered{Name: "p1"})
		tr.respond(h.yes(r.Origin.Request), provider.Undeliverable)
		tr.finish()
		tr.answered(Answered{Name: "p1"})
	})
	t.Run("withdraws requests that come after it", func(t *testing.T) {
		tr := h.sendScript(t, Script{Steps: []Step{{Do: Say, Text: "a"}}, CancelSteps: []Step{
			h.ask("p2", "Run rm"), {Do: Await, Name: "p2"}, {Do: End, State: coord.AttemptCancelled}}})
		tr.until(provider.EventText)
		tr.cancel()
		r := tr.request()
		if e := tr.next(); e.Kind != provider.EventWithdrawn || e.Withdrawn != r.Origin.Request {
			t.Errorf("after the request came %+v", e)
		}
		tr.respond(h.yes(r.Origin.Request), provider.Undeliverable)
		tr.finish()
		tr.answered(Answered{Name: "p2"})
	})
	t.Run("that is ignored confirms nothing", func(t *testing.T) {
		tr := h.sendScript(t, Script{Steps: []Step{{Do: Say, Text: "a"}}, Cancel: CancelIgnore})
		tr.until(provider.EventText)
		tr.cancel()
		want := tr.close()
		if want != tr.ended() {
			t.Errorf("Close gave %q", want)
		}
		if lost := tr.lost(); lost.Activity != want {
			t.Errorf("the loss is %+v", lost)
		}
	})
	t.Run("before the prompt sends neither", func(t *testing.T) {
		tr := h.begin(t, Answers("hello"))
		tr.cancel()
		if got, err := tr.session.Send(t.Context()); got != coord.HandedNothing || err == nil {
			t.Errorf("Send gave %q, %v", got, err)
		}
		tr.close()
		if p := tr.Prompts(); len(p) != 0 {
			t.Errorf("the peer got %q", p)
		}
	})
}
