package acp_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

func init() {
	peers["noisy"] = func(p *peer) {
		p.raw("migrating database...\n")
		prompt := p.prompted()
		p.raw(strings.Repeat("migrated\n", 20))
		p.say("a")
		p.raw("[INFO] done\n\n\n")
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["too noisy"] = func(p *peer) {
		p.prompted()
		p.say("a")
		p.raw(strings.Repeat("log\n", coord.MaxNoiseLines+1))
		p.rest()
	}
	peers["plain text"] = func(p *peer) {
		p.raw("Loaded cached credentials.\n")
		p.reply(p.expect("initialize"), `{"protocolVersion":"1"}`)
		p.rest()
	}
	peers["json logs"] = func(p *peer) {
		i := p.expect("initialize")
		p.raw("42\n\"text\"\nnull\n[1,2]\n")
		// A log object that happens to carry the id of the pending request.
		p.raw(`{"level":"info","id":` + string(i.ID) + `,"result":{"protocolVersion":1}}` + "\n")
		p.raw(`{"jsonrpc":"1.0","id":` + string(i.ID) + `,"result":{"protocolVersion":1}}` + "\n")
		p.raw(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}` + "\n")
		p.raw(`{"jsonrpc":"2.0","id":"` + string(i.ID) + `","result":{"protocolVersion":7}}` + "\n")
		p.raw(`{"jsonrpc":"2.0","id":0,"error":{"code":-32700,"message":"Parse error"}}` + "\n")
		p.reply(i, peerInitialize)
		p.reply(p.expect("session/new"), `{"sessionId":"`+peerSession+`"}`)
		prompt := p.expect("session/prompt")
		p.raw(`{"id":` + string(prompt.ID) + `,"result":{"stopReason":"refusal"}}` + "\n")
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["split rune"] = func(p *peer) {
		prompt := p.prompted()
		line := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + peerSession + `","update":` + chunk("€") + "}}\n"
		at := strings.Index(line, "€")
		for _, part := range []string{line[:at+1], line[at+1 : at+2], line[at+2:]} {
			p.raw(part)
			<-time.After(20 * time.Millisecond) // the parts must leave as separate writes
		}
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["line separators"] = func(p *peer) {
		prompt := p.prompted()
		p.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a` + "\u2028b\u2029c\u0085" + `d"}}`)
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["crlf"] = func(p *peer) {
		crlf := func(id, result string) {
			p.raw(`{"jsonrpc":"2.0","id":` + id + `,"result":` + result + "}\r\n")
		}
		crlf(string(p.expect("initialize").ID), peerInitialize)
		crlf(string(p.expect("session/new").ID), `{"sessionId":"`+peerSession+`"}`)
		prompt := p.expect("session/prompt")
		p.raw(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + peerSession + `","update":` + chunk("a") + "}}\r\n")
		crlf(string(prompt.ID), `{"stopReason":"end_turn"}`)
		p.rest()
	}
	peers["burst"] = func(p *peer) {
		prompt := p.prompted()
		var b strings.Builder
		for i := range 10_000 {
			b.WriteString(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + peerSession + `","update":` + chunk(fmt.Sprintf("%05d,", i)) + "}}\n")
		}
		p.raw(b.String())
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["huge frame"] = func(p *peer) {
		p.prompted()
		p.say("a")
		p.say(strings.Repeat("x", coord.MaxFrame+1))
		p.rest()
	}
	peers["large frame"] = func(p *peer) {
		prompt := p.prompted()
		p.say(strings.Repeat("x", 5<<20))
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["many requests"] = func(p *peer) {
		prompt := p.prompted()
		for i := range 20 {
			p.ask(fmt.Sprint(100+i), `{"toolCallId":"t","title":"x","rawInput":{"a":1}}`, defaultOptions)
		}
		for range 20 {
			if _, ok := p.read(); !ok {
				p.exit(1)
			}
		}
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["batch"] = func(p *peer) {
		prompt := p.prompted()
		p.raw(`[{"jsonrpc":"2.0","id":` + string(prompt.ID) + `,"result":{"stopReason":"refusal"}},{"jsonrpc":"2.0","id":5,"method":"fs/write_text_file"}]` + "\n")
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}

	// completes runs a peer that ends well with this answer.
	completes := func(peer, want string) func(*testing.T) {
		return func(t *testing.T) {
			s := newBench(t, peer).run("x")
			all := until(t, s, provider.EventEnd)
			if end := last(all).End; end.State != coord.AttemptCompleted || text(all) != want {
				t.Errorf("the end is %+v, the text %q", end, text(all))
			}
		}
	}
	fieldCases = append(fieldCases,
		fieldCase{1, "log lines on stdout are skipped", completes("noisy", "a")},
		fieldCase{1, "more than 64 log lines end the attempt with a typed cause", func(t *testing.T) {
			s := newBench(t, "too noisy").run("x")
			if l := last(until(t, s, provider.EventLost)).Lost; l.Cause != provider.CauseNoise || l.Activity != coord.Ended {
				t.Errorf("the loss is %+v", l)
			}
		}},
		fieldCase{2, "plain text is skipped and a version that is a string is refused", func(t *testing.T) {
			b := newBench(t, "plain text")
			if u := b.unsent(t.Context()); u.Cause != provider.CauseVersion || u.Transient {
				t.Errorf("Prepare failed with %+v", u)
			}
		}},
		fieldCase{3, "JSON logs with the id of a pending request are no answers", completes("json logs", "a")},
		fieldCase{5, "frames written by many at once never interleave", func(t *testing.T) {
			b := newBench(t, "many requests")
			s := b.run(strings.Repeat("y", 100<<10))
			var all sync.WaitGroup
			for range 20 {
				r := last(until(t, s, provider.EventRequest)).Request
				all.Go(func() {
					if got, err := s.Respond(t.Context(), provider.Answer{Request: r.Origin.Request, Decision: coord.DecisionApproved, Option: "yes"}); got != provider.Delivered {
						t.Errorf("Respond gave %v, %v", got, err)
					}
				})
			}
			all.Wait()
			until(t, s, provider.EventEnd)
			if bad := b.file("bad"); len(bad) > 0 {
				t.Errorf("the peer could not read %d lines", len(bad))
			}
		}},
		fieldCase{6, "a rune that comes in three writes is whole", completes("split rune", "€")},
		fieldCase{7, "U+2028 inside a string does not end a frame", completes("line separators", "a\u2028b\u2029c\u0085d")},
		fieldCase{8, "frames that end with CRLF are read", completes("crlf", "a")},
		fieldCase{9, "10,000 updates reach a slow taker, none lost and in order", func(t *testing.T) {
			s := newBench(t, "burst").run("x")
			var got strings.Builder
			tick := time.NewTicker(50 * time.Microsecond)
			defer tick.Stop()
			for i := 0; ; i++ {
				if i < 2000 {
					<-tick.C
				}
				e := next(t, s)
				if e.Kind == provider.EventEnd {
					break
				}
				if e.Text != nil {
					got.WriteString(e.Text.Text)
				}
			}
			var want strings.Builder
			for i := range 10_000 {
				fmt.Fprintf(&want, "%05d,", i)
			}
			if got.String() != want.String() {
				t.Errorf("%d of %d bytes came", got.Len(), want.Len())
			}
		}},
		fieldCase{10, "a frame beyond the limit has a cause of its own and ends the tree", func(t *testing.T) {
			b := newBench(t, "huge frame")
			s := b.run("x")
			if l := last(until(t, s, provider.EventLost)).Lost; l.Cause != provider.CauseFrame || l.Activity != coord.Ended {
				t.Errorf("the loss is %+v", l)
			}
			if left := b.ledger.left(); len(left) > 0 {
				t.Errorf("left is %v", left)
			}
		}},
		fieldCase{10, "a frame of 5 MiB is no fault", completes("large frame", strings.Repeat("x", 5<<20))},
		fieldCase{46, "a batch is not executed and not answered", func(t *testing.T) {
			b := newBench(t, "batch")
			s := b.run("x")
			if end := last(until(t, s, provider.EventEnd)).End; end.State != coord.AttemptCompleted {
				t.Errorf("the end is %+v", end)
			}
			if got := b.got(""); len(got) > 0 {
				t.Errorf("the peer was answered %s", got)
			}
		}},
	)
}
