package codex_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider/providertest"
)

func init() { appServers["script"] = func(p *peer) { newPlayer(p).run() } }

// player plays a providertest.Script on the wire.
type player struct {
	*peer
	script providertest.Script
	turn   message
	// messages come from the reading goroutine.
	messages chan message
	begun    bool
	// labels are those of the requests by their ids, ids the other way.
	labels, ids map[string]string
	// answered holds the labels whose answer came.
	answered  map[string]bool
	cancelled bool
	ended     bool
}

func newPlayer(p *peer) *player {
	data, err := os.ReadFile(filepath.Join(p.dir, "script.json"))
	if err != nil {
		panic(err)
	}
	pl := &player{peer: p, messages: make(chan message), labels: map[string]string{}, ids: map[string]string{}, answered: map[string]bool{}}
	if err := json.Unmarshal(data, &pl.script); err != nil {
		panic(err)
	}
	return pl
}

func (p *player) run() {
	changed := map[string]string{}
	switch p.script.Setup {
	case providertest.SetupCrash:
		p.expect("initialize")
		os.Exit(3)
	case providertest.SetupSilent:
		p.rest()
		return
	case providertest.SetupVersion:
		changed["initialize"] = `{"userAgent":"codex","codexHome":"` + p.dir + `"}`
	case providertest.SetupAuth:
		changed["account/read"] = `{"account":null,"requiresOpenaiAuth":true}`
	}
	p.turn = p.setup(func(method, usual string) string {
		if other := changed[method]; other != "" {
			return other
		}
		return usual
	})
	if p.turn.Method == "thread/turns/list" {
		p.reply(p.turn, `{"data":[]}`)
		p.rest()
		return
	}
	var params struct {
		Input []struct {
			Text string `json:"text"`
		} `json:"input"`
	}
	if err := json.Unmarshal(p.turn.Params, &params); err != nil || p.turn.Method != "turn/start" || len(params.Input) != 1 {
		panic("a turn of another form")
	}
	p.note("prompts", text(params.Input[0].Text))
	go func() {
		for {
			m, ok := p.read()
			if !ok {
				os.Exit(0)
			}
			p.messages <- m
		}
	}()
	p.play(p.script.Steps)
	for {
		p.take(<-p.messages)
	}
}

// play plays steps; a cancellation replaces those not yet played.
func (p *player) play(steps []providertest.Step) {
	for _, s := range steps {
		if s.After > 0 {
			timer := time.NewTimer(s.After)
			for waiting := true; waiting; {
				select {
				case m := <-p.messages:
					p.take(m)
				case <-timer.C:
					waiting = false
				}
			}
		}
		p.step(s)
		for s.Do == providertest.Await && !p.answered[s.Name] {
			p.take(<-p.messages)
		}
		// What came meanwhile is taken, so that a cancellation is heard.
		for more := true; more; {
			select {
			case m := <-p.messages:
				p.take(m)
			default:
				more = false
			}
		}
	}
}

// take takes one message that came after the prompt.
func (p *player) take(m message) {
	switch {
	case m.Method == "turn/interrupt":
		p.reply(m, `{}`)
		if p.cancelled || p.script.Cancel != providertest.CancelObey || p.ended {
			return
		}
		p.cancelled = true
		steps := p.script.CancelSteps
		if steps == nil {
			steps = []providertest.Step{{Do: providertest.End, State: coord.AttemptCancelled}}
		}
		p.play(steps)
	case m.Method == "" && m.ID != nil:
		name, ok := p.labels[string(m.ID)]
		if !ok {
			p.note("bad", string(m.ID))
			return
		}
		p.answered[name] = true
		got := providertest.Answered{Name: name}
		var r struct {
			Success *bool `json:"success"`
			Content []struct {
				Text string `json:"text"`
			} `json:"contentItems"`
			Answers map[string]struct {
				Answers []string `json:"answers"`
			} `json:"answers"`
		}
		_ = json.Unmarshal(m.Result, &r)
		if r.Success != nil {
			got.Failed = !*r.Success
			for _, c := range r.Content {
				got.Text += c.Text
			}
		}
		for _, a := range r.Answers {
			got.Text = strings.Join(a.Answers, "")
		}
		b, _ := json.Marshal(got)
		p.note("answers", string(b))
	}
}

// begin gives the evidence that the turn began, once.
func (p *player) begin() {
	if !p.begun {
		p.begun = true
		p.reply(p.turn, `{"turn":{"id":"`+peerTurn+`","status":"inProgress","items":[]}}`)
	}
}

func (p *player) step(s providertest.Step) {
	switch s.Do {
	case providertest.Await:
		return
	case providertest.Crash:
		os.Exit(3)
	default:
		p.begin()
	}
	switch s.Do {
	case providertest.Accept:
	case providertest.Say:
		p.say(s.Text)
	case providertest.Think:
		p.notify("item/reasoning/summaryTextDelta", `,"itemId":"r1","summaryIndex":0,"delta":`+text(s.Text))
	case providertest.Act:
		p.notify("item/started", `,"item":{"type":"webSearch","id":"`+s.Name+`","query":"`+s.Text+`"}`)
	case providertest.Spend:
		p.notify("thread/tokenUsage/updated", fmt.Sprintf(`,"tokenUsage":{"total":{"totalTokens":%d}}`, s.Usage.TotalTokens))
	case providertest.Ask:
		p.label(s.Name, p.ask("item/tool/requestUserInput", `,"itemId":"i-`+s.Name+`","questions":[{"id":"q1","header":"h","question":"`+s.Text+`","options":null}]`))
	case providertest.Call:
		p.label(s.Name, p.call("workspace_"+s.Text, string(s.Arguments)))
	case providertest.Withdraw:
		p.notify("serverRequest/resolved", `,"requestId":`+p.ids[s.Name])
	case providertest.End:
		p.ended = true
		switch s.State {
		case coord.AttemptCompleted:
			p.end("completed", "")
		case coord.AttemptCancelled:
			p.end("interrupted", "")
		case coord.AttemptRejected:
			p.end("failed", `,"error":{"message":"no","codexErrorInfo":"cyberPolicy"}`)
		default:
			p.end("failed", `,"error":{"message":"it broke","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":500}}}`)
		}
	case providertest.EndAgain:
		p.end("completed", "")
	case providertest.Flood:
		var b strings.Builder
		line := `{"method":"item/agentMessage/delta","params":{"threadId":"` + peerThread + `","turnId":"` + peerTurn + `","itemId":"m1","delta":` + text(s.Text) + "}}\n"
		for range s.Count {
			b.WriteString(line)
		}
		p.raw(b.String())
	case providertest.Noise:
		p.raw(strings.Repeat("INFO starting up\n", s.Count))
	case providertest.Malformed:
		p.raw(`{"method":"item/agentMessage/delta","params":{"threadId":` + "\n")
	case providertest.Oversize:
		p.say(strings.Repeat("x", coord.MaxFrame))
	case providertest.Foreign:
		p.notifyOf("another", peerTurn, "item/agentMessage/delta", `,"itemId":"m1","delta":`+text(s.Text))
		p.notifyOf(peerThread, "another", "item/agentMessage/delta", `,"itemId":"m1","delta":`+text(s.Text))
	case providertest.Strange:
		p.notify("item/strange/delta", `,"itemId":"m1","delta":`+text(s.Text))
	default:
		panic("this peer cannot play " + string(s.Do))
	}
}

func (p *player) label(name, id string) { p.labels[id], p.ids[name] = name, id }

func TestAdapterKeepsThePromisesOfThePort(t *testing.T) {
	providertest.Run(t, providertest.Harness{Tools: true, Questions: true, Cannot: []providertest.Do{providertest.Attach}, New: func(t *testing.T, s providertest.Script) providertest.Subject {
		timing := testTiming
		if s.Setup == providertest.SetupSilent {
			timing.Setup = time.Second
		}
		b := newScripted(t, "script", timing)
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.dir, "script.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		return providertest.Subject{
			Adapter: b.adapter,
			Work:    b.work("1", ""),
			Prompts: func() []string { return decoded[string](b, "prompts") },
			Answers: func() []providertest.Answered { return decoded[providertest.Answered](b, "answers") },
			Left: func() []string {
				var out []string
				for _, id := range b.ledger.left() {
					out = append(out, fmt.Sprint(id.PID))
				}
				return out
			},
		}
	}})
}

// decoded reads the JSON lines of a peer's file.
func decoded[T any](b *scripted, file string) []T {
	var out []T
	for _, line := range b.file(file) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			b.t.Errorf("the peer noted %q: %v", line, err)
		}
		out = append(out, v)
	}
	return out
}
