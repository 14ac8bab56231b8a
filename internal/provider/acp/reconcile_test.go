package acp_test

import (
	"strings"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

func init() {
	// What the session holds is told by the peer's argument-like name.
	loads := func(answer func(p *peer, load message)) func(*peer) {
		return func(p *peer) {
			p.reply(p.expect("initialize"), peerInitialize)
			for {
				m, ok := p.read()
				if !ok {
					return
				}
				switch m.Method {
				case "session/new":
					p.reply(m, `{"sessionId":"`+peerSession+`"}`)
				case "session/prompt":
					p.say("part of the ")
					p.exit(1)
				case "session/load":
					answer(p, m)
				}
			}
		}
	}
	peers["replays"] = loads(func(p *peer, m message) {
		p.update(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"do"}}`)
		p.update(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":" it"}}`)
		p.say("the answer")
		p.updateOf("sess-other", chunk("not ours"))
		p.ask("1", toolCall, defaultOptions)
		p.reply(m, `null`)
	})
	peers["forgot"] = loads(func(p *peer, m message) { p.refuse(m, -32002, "Resource not found") })
	peers["fails to load"] = loads(func(p *peer, m message) { p.refuse(m, -32603, "No previous sessions found") })
	peers["replays another"] = loads(func(p *peer, m message) { p.reply(m, `{}`) })
	peers["cannot load"] = func(p *peer) {
		p.reply(p.expect("initialize"), `{"protocolVersion":1}`)
		p.reply(p.expect("session/new"), `{"sessionId":"`+peerSession+`"}`)
		p.expect("session/prompt")
		p.exit(1)
	}
}

func TestReconcileGathersEvidenceAndDecidesNothing(t *testing.T) {
	for peer, c := range map[string]struct {
		finding provider.Finding
		text    string
		words   []string
	}{
		"replays":         {provider.FoundNothing, "the answer", []string{"still has the session", "prompt is part", "10 bytes", "stays unknown"}},
		"replays another": {provider.FoundNothing, "", []string{"still has the session", "prompt is not part", "no answer"}},
		"forgot":          {provider.NotFound, "", []string{"no such session", "does not prove"}},
		"fails to load":   {provider.FoundNothing, "", []string{"No previous sessions found"}},
		"cannot load":     {provider.FoundNothing, "", []string{"cannot load"}},
	} {
		t.Run(peer, func(t *testing.T) {
			b := newBench(t, peer)
			s := b.run("do it")
			until(t, s, provider.EventLost)
			v, err := b.adapter.Reconcile(t.Context(), b.approved(), s.Handle(), nil)
			if err != nil {
				t.Fatal(err)
			}
			facts := strings.Join(v.Evidence, " ")
			for _, w := range c.words {
				if !strings.Contains(facts, w) {
					t.Errorf("the evidence %q lacks %q", facts, w)
				}
			}
			if v.Finding != c.finding || v.Text != c.text || v.End != nil || v.Activity != "" {
				t.Errorf("the verdict is %+v", v)
			}
			if n := len(b.got("session/prompt")); n != 1 {
				t.Errorf("the peer got %d prompts", n)
			}
		})
	}
}

func TestReconcileAsksNobodyElse(t *testing.T) {
	b := newBench(t, "replays")
	s := b.run("do it")
	until(t, s, provider.EventLost)
	w := b.approved()
	w.Identity.Files[0].SHA256 = strings.Repeat("0", 64)
	v, err := b.adapter.Reconcile(t.Context(), w, s.Handle(), &coord.Receipt{})
	if err != nil || v.Finding != provider.FoundNothing || !strings.Contains(strings.Join(v.Evidence, " "), "not asked") {
		t.Errorf("Reconcile gave %+v, %v", v, err)
	}
	if n := len(b.got("initialize")); n != 1 {
		t.Errorf("the peer was started %d times", n)
	}
}
