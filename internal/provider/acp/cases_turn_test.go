package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// answersCancel makes a peer that says a and b, and answers a cancellation.
func answersCancel(answer func(p *peer, prompt message)) func(*peer) {
	return func(p *peer) {
		prompt := p.prompted()
		p.say("a")
		p.expect("session/cancel")
		answer(p, prompt)
		p.rest()
	}
}

// ends makes a peer that says text and ends with a raw result member.
func ends(text, result string) func(*peer) {
	return func(p *peer) {
		prompt := p.prompted()
		if text != "" {
			p.say(text)
		}
		p.raw(`{"jsonrpc":"2.0","id":` + string(prompt.ID) + `,` + result + "}\n")
		p.rest()
	}
}

func init() {
	peers["ignores cancel"] = func(p *peer) {
		p.prompted()
		p.note("began", "x")
		p.rest()
	}
	peers["cancel gets end_turn"] = answersCancel(func(p *peer, prompt message) { p.end(prompt, "end_turn") })
	peers["cancel gets two ends"] = answersCancel(func(p *peer, prompt message) {
		p.end(prompt, "cancelled")
		p.end(prompt, "end_turn")
	})
	peers["cancel gets an error"] = answersCancel(func(p *peer, _ message) {
		p.raw(`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found: session/cancel"}}` + "\n")
		p.raw(`{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found: session/cancel"}}` + "\n")
		p.note("answered", "x")
	})
	peers["cancel gets -32800"] = answersCancel(func(p *peer, prompt message) { p.refuse(prompt, -32800, "Request cancelled") })
	peers["talks after the end"] = func(p *peer) {
		prompt := p.prompted()
		p.say("a")
		p.end(prompt, "end_turn")
		for range 1000 {
			p.say("late")
		}
		p.ask("9", `{"toolCallId":"t","title":"late"}`, defaultOptions)
		p.rest()
	}
	for name, result := range map[string]string{
		"error": `"result":{"stopReason":"error"}`, "number": `"result":{"stopReason":7}`, "none": `"result":{}`, "list": `"result":[]`, "text": `"result":"end_turn"`,
	} {
		peers["stops with "+name] = ends("part", result)
	}
	peers["max_tokens"] = ends("part", `"result":{"stopReason":"max_tokens"}`)
	peers["max_turn_requests"] = ends("part", `"result":{"stopReason":"max_turn_requests"}`)
	peers["cancelled unasked"] = ends("part", `"result":{"stopReason":"cancelled"}`)
	peers["empty"] = ends("", `"result":{"stopReason":"end_turn"}`)
	peers["blank"] = ends(" \n", `"result":{"stopReason":"end_turn"}`)
	peers["refusal with _meta"] = ends("no", `"result":{"stopReason":"refusal","_meta":{"error":"secret detail"}},"_meta":{"x":"secret detail"}`)
	peers["strange updates"] = func(p *peer) {
		prompt := p.prompted()
		p.update(`{"sessionUpdate":"usage_update","tokens":{"in":1}}`)
		p.update(`{"sessionUpdate":"_vendor_thing","content":{"type":"text","text":"hi"}}`)
		p.update(`{"sessionUpdate":"state_update","state":"idle"}`)
		p.update(`{"sessionUpdate":7}`)
		p.update(`{"content":{"type":"text","text":"hi"}}`)
		p.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"_video","text":"hi"}}`)
		p.update(`"agent_message_chunk"`)
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["variants"] = func(p *peer) {
		prompt := p.prompted()
		for _, v := range variantTable {
			p.update(v.update)
		}
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["exits with 3"] = func(p *peer) {
		p.prompted()
		p.say("a")
		p.exit(3)
	}
	peers["exits before its child"] = func(p *peer) {
		child := exec.Command("sleep", "600")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			panic(err)
		}
		p.prompted()
		p.say("a")
		p.exit(3)
	}
	peers["exits with 0"] = func(p *peer) {
		p.prompted()
		p.say("a")
		p.exit(0)
	}
	peers["dies of a signal"] = func(p *peer) {
		p.prompted()
		p.say("a")
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {}
	}
	peers["cut frame"] = func(p *peer) {
		prompt := p.prompted()
		p.say("a")
		p.raw(`{"jsonrpc":"2.0","id":` + string(prompt.ID) + `,"result":{"stopReason":"end_turn"}}`)
		p.exit(0)
	}
	peers["never reads"] = func(p *peer) {
		p.setup()
		p.waitFor("forever")
	}
	peers["writes before it reads"] = func(p *peer) {
		p.setup()
		p.waitFor("go")
		for range 256 << 10 / 64 {
			p.say(strings.Repeat("x", 64))
		}
		prompt := p.expect("session/prompt")
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}

	ending := func(peer string, state coord.AttemptState, cause, wantText string) func(*testing.T) {
		return func(t *testing.T) {
			all := until(t, newBench(t, peer).run("x"), provider.EventEnd)
			if end := last(all).End; end.State != state || end.Cause != cause || text(all) != wantText {
				t.Errorf("the end is %+v, the text %q", end, text(all))
			}
		}
	}
	cancelling := func(peer string, check func(*testing.T, *bench, provider.Session)) func(*testing.T) {
		return func(t *testing.T) {
			b := newBench(t, peer)
			s := b.run("x")
			until(t, s, provider.EventText)
			if out, err := s.Cancel(t.Context()); out != provider.CancelAsked || err != nil {
				t.Fatalf("Cancel gave %v, %v", out, err)
			}
			check(t, b, s)
		}
	}
	fieldCases = append(fieldCases,
		fieldCase{19, "a cancellation right behind the prompt is sent after it, and what is not answered is lost", func(t *testing.T) {
			b := newBench(t, "ignores cancel")
			s := b.run("x")
			if out, err := s.Cancel(t.Context()); out != provider.CancelAsked || err != nil {
				t.Fatalf("Cancel gave %v, %v", out, err)
			}
			eventually(t, "the peer has both", func() bool { return len(b.got("session/cancel")) == 1 })
			if len(b.got("session/prompt")) != 1 {
				t.Error("the prompt came after the cancellation")
			}
			a, err := s.Close(t.Context())
			if l := last(until(t, s, provider.EventLost)).Lost; err != nil || l.Activity != a || a != coord.Ended {
				t.Errorf("Close gave %v, %v, the loss is %+v", a, err, l)
			}
		}},
		fieldCase{20, "a cancellation that is never answered confirms nothing; Close ends the tree", func(t *testing.T) {
			b := newBench(t, "ignores cancel")
			s := b.run("x")
			eventually(t, "the turn begins", func() bool { return len(b.file("began")) == 1 })
			if _, err := s.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
			short, stop := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("the window is over"))
			defer stop()
			if e, err := s.Next(short); err == nil {
				t.Errorf("there came %+v", e)
			}
			if a, err := s.Close(t.Context()); a != coord.Ended || err != nil || len(b.ledger.left()) > 0 {
				t.Errorf("Close gave %v, %v and left %v", a, err, b.ledger.left())
			}
		}},
		fieldCase{21, "an end_turn after a cancellation is a completion and no confirmation", cancelling("cancel gets end_turn", func(t *testing.T, _ *bench, s provider.Session) {
			if end := last(until(t, s, provider.EventEnd)).End; end.State != coord.AttemptCompleted || end.Cause != provider.CauseAfterCancel {
				t.Errorf("the end is %+v", end)
			}
		})},
		fieldCase{22, "a second answer to the prompt is ignored", cancelling("cancel gets two ends", func(t *testing.T, _ *bench, s provider.Session) {
			if end := last(until(t, s, provider.EventEnd)).End; end.State != coord.AttemptCancelled {
				t.Errorf("the end is %+v", end)
			}
			if _, err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if e, err := s.Next(t.Context()); !errors.Is(err, io.EOF) {
				t.Errorf("after the end came %+v, %v", e, err)
			}
		})},
		fieldCase{23, "an error in answer to the notification of a cancellation is ignored", cancelling("cancel gets an error", func(t *testing.T, b *bench, s provider.Session) {
			eventually(t, "the peer answered", func() bool { return len(b.file("answered")) == 1 })
			if _, err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if l := last(until(t, s, provider.EventLost)).Lost; l.Cause != provider.CauseShutdown {
				t.Errorf("the loss is %+v", l)
			}
		})},
		fieldCase{23, "the protocol's own error for a cancelled prompt confirms", cancelling("cancel gets -32800", func(t *testing.T, _ *bench, s provider.Session) {
			if end := last(until(t, s, provider.EventEnd)).End; end.State != coord.AttemptCancelled {
				t.Errorf("the end is %+v", end)
			}
		})},
		fieldCase{24, "a cancellation without a prompt is not sent", func(t *testing.T) {
			b := newBench(t, "silent setup")
			s := b.prepare("x")
			if _, err := s.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := len(b.got("session/cancel")); n != 0 {
				t.Errorf("the peer got %d cancellations", n)
			}
		}},
		fieldCase{25, "what comes after the end is late, bounded, and reopens nothing", func(t *testing.T) {
			b := newBench(t, "talks after the end")
			s := b.run("x")
			all := until(t, s, provider.EventEnd)
			if end := last(all).End; end.State != coord.AttemptCompleted || text(all) != "a" {
				t.Errorf("the end is %+v, the text %q", end, text(all))
			}
			eventually(t, "the late request is answered as cancelled", func() bool { r := b.got(""); return len(r) == 1 && string(r[0].Result) == cancelledOutcome })
			if _, err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			n := 0
			for {
				e, err := s.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil || e.Kind != provider.EventLate || !strings.Contains(e.Late, "late") && e.Late != "session/request_permission" {
					t.Fatalf("there came %+v, %v", e, err)
				}
				n++
			}
			if n == 0 || n > 100 {
				t.Errorf("%d late events were kept", n)
			}
		}},
		fieldCase{26, "a stop reason that does not exist is a failure of its own kind, and the text stays", func(t *testing.T) {
			for _, name := range []string{"error", "number", "none", "list", "text"} {
				ending("stops with "+name, coord.AttemptFailed, provider.CauseStopReason, "part")(t)
			}
		}},
		fieldCase{27, "max_tokens is truncated and no success", ending("max_tokens", coord.AttemptFailed, provider.CauseTruncated, "part")},
		fieldCase{27, "max_turn_requests is no success", ending("max_turn_requests", coord.AttemptFailed, provider.CauseTurnLimit, "part")},
		fieldCase{27, "cancelled without having been asked is no cancellation", ending("cancelled unasked", coord.AttemptFailed, provider.CauseCancelled, "part")},
		fieldCase{28, "an end_turn without text is an empty result", ending("empty", coord.AttemptFailed, provider.CauseEmpty, "")},
		fieldCase{28, "an end_turn with white space only is an empty result", ending("blank", coord.AttemptFailed, provider.CauseEmpty, " \n")},
		fieldCase{29, "a refusal is no success and _meta is never shown", func(t *testing.T) {
			all := until(t, newBench(t, "refusal with _meta").run("x"), provider.EventEnd)
			end := last(all).End
			b, _ := json.Marshal(all)
			if end.State != coord.AttemptRejected || end.Cause != provider.CauseRefused || strings.Contains(string(b), "secret") {
				t.Errorf("the events are %s", b)
			}
		}},
		fieldCase{30, "updates of unknown variants and forms are ignored, never taken for another", ending("strange updates", coord.AttemptCompleted, "", "a")},
		fieldCase{31, "every variant of the schema is read as what it is", func(t *testing.T) {
			all := until(t, newBench(t, "variants").run("x"), provider.EventEnd)
			var got, want []string
			for _, e := range all[1 : len(all)-1] {
				b, _ := json.Marshal(e)
				got = append(got, string(b))
			}
			for _, v := range variantTable {
				want = append(want, v.events...)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}},
		fieldCase{32, "an exit in mid-turn is told at once with its status, and the next start is fresh", func(t *testing.T) {
			for _, peer := range []string{"exits with 3", "exits with 3", "exits before its child"} {
				b := newBench(t, peer)
				s := b.run("x")
				until(t, s, provider.EventText)
				start := time.Now()
				l := last(until(t, s, provider.EventLost)).Lost
				if d := time.Since(start); l.Cause != provider.CauseGone || l.Activity != coord.Ended || !strings.Contains(l.Reason, "status 3") || d > 2*time.Second {
					t.Errorf("after %v the loss is %+v", d, l)
				}
			}
		}},
		fieldCase{33, "the loss says who ended the agent and how", func(t *testing.T) {
			for peer, words := range map[string]string{"exits with 0": "exited by itself with status 0", "dies of a signal": "signal SIGKILL, which Signalbox did not send", "cut frame": "exited by itself with status 0"} {
				if l := last(until(t, newBench(t, peer).run("x"), provider.EventLost)).Lost; l.Cause != provider.CauseGone || !strings.Contains(l.Reason, words) {
					t.Errorf("%s: the loss is %+v", peer, l)
				}
			}
			b := newBench(t, "ignores cancel")
			s := b.run("x")
			if _, err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if l := last(until(t, s, provider.EventLost)).Lost; l.Cause != provider.CauseShutdown || !strings.Contains(l.Reason, "after Signalbox had closed its input") {
				t.Errorf("closed by us: the loss is %+v", l)
			}
		}},
		fieldCase{34, "a write to an agent that does not read holds neither Close nor others", func(t *testing.T) {
			b := newBenchTiming(t, "never reads", provider.Timing{Setup: 20 * time.Second, Write: time.Minute, Grace: 50 * time.Millisecond})
			s := b.prepare(strings.Repeat("x", 1<<20))
			sent := make(chan coord.HandedOver, 1)
			began := make(chan struct{})
			go func() {
				close(began)
				got, _ := s.Send(t.Context())
				sent <- got
			}()
			<-began
			start := time.Now()
			if a, err := s.Close(t.Context()); a != coord.Ended || err != nil {
				t.Errorf("Close gave %v, %v", a, err)
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("Close took %v", d)
			}
			if got := <-sent; got == coord.HandedAll {
				t.Errorf("Send gave %v", got)
			}
		}},
		fieldCase{34, "a prompt of which a part was written in time is unknown, and the agent is ended", func(t *testing.T) {
			b := newBenchTiming(t, "never reads", provider.Timing{Setup: 20 * time.Second, Write: 200 * time.Millisecond, Grace: 50 * time.Millisecond})
			s := b.prepare(strings.Repeat("x", 1<<20))
			if got, err := s.Send(t.Context()); got != coord.HandedUnknown || err == nil {
				t.Errorf("Send gave %v, %v", got, err)
			}
			if l := last(until(t, s, provider.EventLost)).Lost; l.Cause != provider.CauseWriteTimeout || l.Activity != coord.Ended {
				t.Errorf("the loss is %+v", l)
			}
		}},
		fieldCase{35, "an agent that writes 256 KiB before it reads a prompt of 128 KiB is no deadlock", func(t *testing.T) {
			b := newBenchTiming(t, "writes before it reads", provider.Timing{Setup: 20 * time.Second, Write: 20 * time.Second, Grace: time.Second})
			s := b.prepare(strings.Repeat("y", 128<<10))
			b.touch("go")
			if got, err := s.Send(t.Context()); got != coord.HandedAll || err != nil {
				t.Fatalf("Send gave %v, %v", got, err)
			}
			all := until(t, s, provider.EventEnd)
			if got := len(text(all)); got != 256<<10+1 {
				t.Errorf("%d bytes came", got)
			}
		}},
	)
}

const cancelledOutcome = `{"outcome":{"outcome":"cancelled"}}`

// variantTable has every stable variant of session/update in the schema of
// SDK 2.4.0, with the events it becomes.
var variantTable = []struct {
	update string
	events []string
}{
	{`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"echo"}}`, nil},
	{`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}`, []string{`{"kind":"text","text":{"channel":"message","text":"hi"}}`}},
	{`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","mimeType":"image/png","data":"AQID"}}`, []string{`{"kind":"content","content":{"name":"image","media":"image/png","bytes":"AQID"}}`}},
	{`{"sessionUpdate":"agent_message_chunk","content":{"type":"audio","mimeType":"audio/wav","data":"AQID"}}`, []string{`{"kind":"content","content":{"name":"audio","media":"audio/wav","bytes":"AQID"}}`}},
	{`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","mimeType":"image/png","data":"no base64"}}`, nil},
	{`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource_link","name":"a.txt","uri":"file:///a.txt"}}`, []string{`{"kind":"content","content":{"name":"a.txt","media":"","reference":"file:///a.txt"}}`}},
	{`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource","resource":{"uri":"file:///d/b.txt","mimeType":"text/plain","text":"abc"}}}`, []string{`{"kind":"content","content":{"name":"b.txt","media":"text/plain","bytes":"YWJj"}}`}},
	{`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource","resource":{"uri":"file:///d/b.bin","blob":"AQID"}}}`, []string{`{"kind":"content","content":{"name":"b.bin","media":"application/octet-stream","bytes":"AQID"}}`}},
	{`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`, []string{`{"kind":"text","text":{"channel":"thought","text":"hm"}}`}},
	{`{"sessionUpdate":"tool_call","toolCallId":"t1","title":"Read","kind":"read","status":"pending","rawInput":{"path":"a"},"content":[],"locations":[]}`, []string{`{"kind":"activity","activity":{"id":"t1","kind":"read","title":"Read","status":"pending","detail":"{\"path\":\"a\"}"}}`}},
	{`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed"}`, []string{`{"kind":"activity","activity":{"id":"t1","kind":"read","title":"Read","status":"completed","detail":"{\"path\":\"a\"}"}}`}},
	{`{"sessionUpdate":"plan","entries":[{"content":"one","priority":"high","status":"pending"},{"content":"two","priority":"low","status":"completed"}]}`, []string{`{"kind":"activity","activity":{"kind":"plan","title":"one","status":"pending"}}`, `{"kind":"activity","activity":{"kind":"plan","title":"two","status":"completed"}}`}},
	{`{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"x","description":"y"}]}`, nil},
	{`{"sessionUpdate":"current_mode_update","currentModeId":"ask"}`, nil},
	{`{"sessionUpdate":"config_option_update","configOptions":[]}`, nil},
	{`{"sessionUpdate":"session_info_update","title":"x"}`, nil},
	{`{"sessionUpdate":"usage_update","used":53000,"size":200000,"cost":{"amount":0.045,"currency":"USD"}}`, []string{`{"kind":"usage","usage":{"total_tokens":53000,"cost":"0.045","currency":"USD","source":"provider"}}`}},
	{`{"sessionUpdate":"notice","level":"info","message":"x"}`, nil},
	{`{"sessionUpdate":"compaction_update","status":"running"}`, nil},
	{`{"sessionUpdate":"compaction_summary_chunk","content":{"type":"text","text":"summary"}}`, nil},
}

// eventually polls another process's effect.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for !cond() {
		select {
		case <-late:
			t.Fatalf("never came true: %s", what)
		case <-tick.C:
		}
	}
}
