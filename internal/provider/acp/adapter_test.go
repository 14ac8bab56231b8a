package acp_test

import (
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

func init() {
	peers["permission"] = func(p *peer) {
		prompt := p.prompted()
		p.say("looking")
		p.ask(`"perm-7"`, `{"toolCallId":"t1","title":"Run ls","kind":"execute","rawInput":{"command":"ls"}}`, defaultOptions)
		p.result(`"perm-7"`)
		p.say(" done")
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["cancellable"] = func(p *peer) {
		prompt := p.prompted()
		p.say("working")
		p.expect("session/cancel")
		p.end(prompt, "cancelled")
		p.rest()
	}
}

func TestPromptPermissionAndEnd(t *testing.T) {
	b := newBench(t, "permission")
	s := b.run("hello")
	all := until(t, s, provider.EventRequest)
	if all[0].Kind != provider.EventReceipt || all[0].Receipt.Reference != peerSession {
		t.Errorf("first came %+v", all[0])
	}
	r := last(all).Request
	if r.Origin.Request != `"perm-7"` || r.Content.Title != "Run ls" || len(r.Options) != 2 {
		t.Errorf("the request is %+v", r)
	}
	for range 2 {
		got, err := s.Respond(t.Context(), provider.Answer{Request: r.Origin.Request, Decision: coord.DecisionApproved, Option: "yes"})
		if got != provider.Delivered || err != nil {
			t.Errorf("Respond gave %v, %v", got, err)
		}
	}
	all = append(all, until(t, s, provider.EventEnd)...)
	if end := last(all).End; end.State != coord.AttemptCompleted {
		t.Errorf("the end is %+v", end)
	}
	if got := text(all); got != "looking done" {
		t.Errorf("the text is %q", got)
	}
	if n := len(b.got("session/prompt")); n != 1 {
		t.Errorf("the peer got %d prompts", n)
	}
	if r := b.got(""); len(r) != 1 || string(r[0].Result) != `{"outcome":{"outcome":"selected","optionId":"yes"}}` {
		t.Errorf("the peer was answered %s", r)
	}
}

func TestCancelIsConfirmedByTheAgent(t *testing.T) {
	b := newBench(t, "cancellable")
	s := b.run("hello")
	until(t, s, provider.EventText)
	if out, err := s.Cancel(t.Context()); out != provider.CancelAsked || err != nil {
		t.Fatalf("Cancel gave %v, %v", out, err)
	}
	if end := last(until(t, s, provider.EventEnd)).End; end.State != coord.AttemptCancelled {
		t.Errorf("the end is %+v", end)
	}
	start := time.Now()
	if a, err := s.Close(t.Context()); a != coord.Ended || err != nil {
		t.Errorf("Close gave %v, %v", a, err)
	}
	t.Logf("Close took %v", time.Since(start))
}
