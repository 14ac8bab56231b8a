package a2a

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

func TestAContextBeyondItsBoundIsNotKept(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		over := p.asking("which?")
		p.on("stream", func(c *call) {
			task := c.at("working")
			delete(task, "contextId")
			c.events(c.wrap("task", task), c.wrap("statusUpdate", object{"taskId": "t1", "contextId": strings.Repeat("c", maxID+1), "status": c.status("input-required", "q0", "forged?"), "final": false}))
		})
		at := p.begin()
		r := at.asked()
		if r.Origin.Session != "c1" || r.Content.Title != "which?" {
			t.Errorf("%.20q was asked in the context %.20q", r.Content.Title, r.Origin.Session)
		}
		over.Store(true)
		at.completes()
	})
}

// A peer could else have an answer to something that the operator did not see,
// or ask its second question without being heard.
func TestAnotherQuestionUnderTheIdOfAnAskedOneIsAnotherRequest(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		questions := []string{"May I read the manual?", "And the index?", "May I delete the manual?"}
		var now atomic.Int32
		question := func() string { return questions[now.Load()] }
		over := p.asking("")
		p.on("stream", func(c *call) {
			c.events(c.wrap("task", c.state(c.status("input-required", "q1", question()))))
		})
		p.on("get", func(c *call) {
			if over.Load() {
				c.reply(c.at("completed", c.text("a", "done")))
				return
			}
			c.reply(c.state(c.status("input-required", "q1", question())))
		})
		p.on("send", func(c *call) {
			if c.n > 0 {
				over.Store(true)
			}
			now.Store(1)
			c.reply(c.wrap("task", c.state(c.status("input-required", "q1", "And the index?"))))
		})
		at := p.begin()
		first := at.asked()
		now.Store(2)
		all := at.until(provider.EventRequest)
		second := all[len(all)-1].Request
		if w := all[len(all)-2]; w.Withdrawn != first.Origin.Request || second.Content.Title != "May I delete the manual?" {
			t.Fatalf("after %s came %s", told1(w), told1(all[len(all)-1]))
		}
		_ = at.answers(first, provider.Undeliverable)
		_ = at.answers(second, provider.Delivered)
		third := at.asked()
		if third.Content.Title != "And the index?" {
			t.Errorf("then came %+v", third.Content)
		}
		_ = at.answers(third, provider.Delivered)
		at.completes()
		if n := p.count("send"); n != 2 {
			t.Errorf("the peer was answered %d times", n)
		}
	})
}

func TestAnAnswerIsNotSaidToBeUnaskedForWhereNobodyCouldLook(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		var down atomic.Bool
		p.asking("which?")
		looks, _ := p.answering("get")
		p.on("get", func(c *call) {
			if down.Load() {
				c.abort()
			}
			looks(c)
		})
		at := p.begin()
		r := at.asked()
		at.close()
		down.Store(true)
		work := at.work
		work.Waiting = []string{r.Origin.Request}
		var err error
		if at.session, err = at.adapter.Reattach(t.Context(), work, at.session.Handle(), &coord.Receipt{Kind: receiptTask, Reference: "t1"}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeoutCause(t.Context(), fast.Gone/4, errPatience)
		defer stop()
		got, err := at.session.Respond(ctx, provider.Answer{Request: r.Origin.Request, Decision: coord.DecisionAnswered, Text: "red"})
		if got != provider.Undeliverable || coord.CodeOf(err) != coord.Unavailable || p.count("send") != 0 {
			t.Errorf("Respond gave %q, %v", got, err)
		}
	})
}
