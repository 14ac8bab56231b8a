package acp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// permissionIDs are ids as agents write them; null is legal.
var permissionIDs = []string{`7`, `-3`, `9007199254740993`, `"a"`, `"\u0061 b"`, `null`}

// trickyOptions are options of which none may be chosen by place.
var trickyOptions = map[string]string{
	"allow first": `[{"optionId":"a","name":"Allow","kind":"allow_once"},{"optionId":"n","name":"Reject","kind":"reject_once"}]`,
	"only allow":  `[{"optionId":"a","name":"Allow","kind":"allow_always"}]`,
	"empty":       `[]`,
	"duplicated":  `[{"optionId":"x","name":"Allow","kind":"allow_once"},{"optionId":"x","name":"Reject","kind":"reject_once"}]`,
	"unknown":     `[{"optionId":"v","name":"Reject","kind":"_vendor_reject"},{"optionId":"a","name":"Allow","kind":"allow_once"}]`,
}

const toolCall = `{"toolCallId":"t1","title":"Run ls","kind":"execute","rawInput":{"command":"ls"}}`

func init() {
	peers["asks until cancelled"] = func(p *peer) {
		prompt := p.prompted()
		p.ask("1", toolCall, defaultOptions)
		p.ask("2", toolCall, defaultOptions)
		// This one is held back for an update that never comes.
		p.ask("3", `{"toolCallId":"t9","title":"Mystery","rawInput":{}}`, defaultOptions)
		p.note("asked", "x")
		p.expect("session/cancel")
		start := time.Now()
		for range 3 {
			p.read()
		}
		p.note("took", fmt.Sprint(time.Since(start).Milliseconds()))
		p.end(prompt, "cancelled")
		p.rest()
	}
	peers["asks after cancel"] = func(p *peer) {
		prompt := p.prompted()
		p.say("a")
		p.expect("session/cancel")
		for i := range 3 {
			p.ask(fmt.Sprint(50+i), toolCall, defaultOptions)
			p.result(fmt.Sprint(50 + i))
		}
		p.end(prompt, "cancelled")
		p.rest()
	}
	peers["asks with many ids"] = func(p *peer) {
		prompt := p.prompted()
		for _, id := range permissionIDs {
			p.ask(id, toolCall, defaultOptions)
			if m, _ := p.read(); true {
				p.note("ids", string(m.ID))
			}
		}
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}
	for name, options := range trickyOptions {
		peers["options "+name] = func(p *peer) {
			prompt := p.prompted()
			p.ask("1", toolCall, options)
			p.result("1")
			p.say("a")
			p.end(prompt, "end_turn")
			p.rest()
		}
	}
	peers["talks while it asks"] = func(p *peer) {
		prompt := p.prompted()
		p.ask("1", toolCall, defaultOptions)
		for range 2000 {
			p.say("x")
		}
		p.raw(`{"jsonrpc":"2.0","id":"fs","method":"fs/read_text_file","params":{"sessionId":"` + peerSession + `","path":"/etc/passwd"}}` + "\n")
		p.note("answered first", string(p.result(`"fs"`).Error))
		p.result("1")
		p.end(prompt, "end_turn")
		p.rest()
	}

	fieldCases = append(fieldCases,
		fieldCase{17, "permissions pending at a cancellation are answered cancelled within 100 ms", func(t *testing.T) {
			b := newBench(t, "asks until cancelled")
			s := b.run("x")
			until(t, s, provider.EventRequest)
			until(t, s, provider.EventRequest)
			eventually(t, "all is asked", func() bool { return len(b.file("asked")) == 1 })
			if out, err := s.Cancel(t.Context()); out != provider.CancelAsked || err != nil {
				t.Fatalf("Cancel gave %v, %v", out, err)
			}
			all := until(t, s, provider.EventEnd)
			if end := last(all).End; end.State != coord.AttemptCancelled {
				t.Errorf("the end is %+v", end)
			}
			answers := b.got("")
			if len(answers) != 3 || slices.ContainsFunc(answers, func(m message) bool { return string(m.Result) != cancelledOutcome }) {
				t.Errorf("the peer was answered %s", answers)
			}
			if took := decoded[int](b, "took"); took[0] > 100 {
				t.Errorf("the answers took %d ms", took[0])
			}
			// The held one is shown, and as withdrawn.
			if all[0].Kind != provider.EventRequest || all[1].Kind != provider.EventWithdrawn || all[1].Withdrawn != "3" {
				t.Errorf("after the cancellation came %+v", all)
			}
		}},
		fieldCase{18, "a permission that comes after a cancellation is answered cancelled at once", func(t *testing.T) {
			b := newBench(t, "asks after cancel")
			s := b.run("x")
			until(t, s, provider.EventText)
			if _, err := s.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
			var kinds []provider.EventKind
			for _, e := range until(t, s, provider.EventEnd) {
				kinds = append(kinds, e.Kind)
			}
			want := []provider.EventKind{"request", "withdrawn", "request", "withdrawn", "request", "withdrawn", "end"}
			if diff := cmp.Diff(want, kinds); diff != "" {
				t.Error(diff)
			}
			for _, m := range b.got("") {
				if string(m.Result) != cancelledOutcome {
					t.Errorf("the peer was answered %s", m.Result)
				}
			}
		}},
		fieldCase{44, "an answer carries the agent's id as it was written", func(t *testing.T) {
			b := newBench(t, "asks with many ids")
			s := b.run("x")
			for _, id := range permissionIDs {
				r := last(until(t, s, provider.EventRequest)).Request
				if r.Origin.Request != id {
					t.Errorf("the id %s came as %s", id, r.Origin.Request)
				}
				if got, err := s.Respond(t.Context(), provider.Answer{Request: id, Decision: coord.DecisionApproved, Option: "yes"}); got != provider.Delivered {
					t.Errorf("Respond gave %v, %v", got, err)
				}
			}
			until(t, s, provider.EventEnd)
			if diff := cmp.Diff(permissionIDs, b.file("ids")); diff != "" {
				t.Error(diff)
			}
		}},
		fieldCase{47, "a denial never allows, whatever options are offered and in whatever order", func(t *testing.T) {
			for name := range trickyOptions {
				b := newBench(t, "options "+name)
				s := b.run("x")
				r := last(until(t, s, provider.EventRequest)).Request
				asked := coord.Request{Kind: r.Kind, Origin: r.Origin, Content: r.Content, Options: r.Options, Decision: coord.DecisionOpen}
				denied, err := asked.Decide(coord.Choice{On: coord.DecisionDeny})
				if err != nil {
					t.Fatal(err)
				}
				if got, err := s.Respond(t.Context(), provider.Answer{Request: r.Origin.Request, Decision: denied.Decision, Option: denied.Decided.Option}); got != provider.Delivered {
					t.Errorf("Respond gave %v, %v", got, err)
				}
				until(t, s, provider.EventEnd)
				want := cancelledOutcome
				if name == "allow first" {
					want = `{"outcome":{"outcome":"selected","optionId":"n"}}`
				}
				if got := string(b.got("")[0].Result); got != want {
					t.Errorf("%s: the peer was answered %s", name, got)
				}
				if name == "duplicated" {
					if _, err := asked.Decide(coord.Choice{On: coord.DecisionApprove, Option: "x"}); err == nil {
						t.Error("an id that stands for two options was approved")
					}
				}
			}
		}},
		fieldCase{48, "everything flows while a permission is pending", func(t *testing.T) {
			b := newBench(t, "talks while it asks")
			s := b.run("x")
			r := last(until(t, s, provider.EventRequest)).Request
			n := 0
			for n < 2000 {
				if e := next(t, s); e.Kind == provider.EventText {
					n += len(e.Text.Text)
				}
			}
			eventually(t, "another request is answered meanwhile", func() bool { return len(b.file("answered first")) == 1 })
			if got := b.file("answered first")[0]; !strings.Contains(got, "-32601") {
				t.Errorf("the file was answered with %s", got)
			}
			if got, err := s.Respond(t.Context(), provider.Answer{Request: r.Origin.Request, Decision: coord.DecisionDenied, Option: "no"}); got != provider.Delivered {
				t.Errorf("Respond gave %v, %v", got, err)
			}
			until(t, s, provider.EventEnd)
		}},
	)
}
