package acp_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider/providertest"
)

func init() { peers["script"] = func(p *peer) { newPlayer(p).run() } }

// player plays a providertest.Script on the wire.
type player struct {
	*peer
	script providertest.Script
	prompt message
	// messages come from the reading goroutine.
	messages chan message
	// answers holds the labels whose answer came.
	answers   map[string]bool
	withdrawn map[string]bool
	cancelled bool
	ended     string
	// session is session/new's parameters, and tools what the tool server that
	// they name reads.
	session json.RawMessage
	tools   io.Writer
}

func newPlayer(p *peer) *player {
	data, err := os.ReadFile(filepath.Join(p.dir, "script.json"))
	if err != nil {
		panic(err)
	}
	pl := &player{peer: p, messages: make(chan message), answers: map[string]bool{}, withdrawn: map[string]bool{}}
	if err := json.Unmarshal(data, &pl.script); err != nil {
		panic(err)
	}
	return pl
}

func (p *player) run() {
	initialize := p.expect("initialize")
	switch p.script.Setup {
	case providertest.SetupCrash:
		p.exit(3)
	case providertest.SetupSilent:
		p.rest()
		return
	case providertest.SetupVersion:
		p.reply(initialize, `{"protocolVersion":2}`)
	default:
		p.reply(initialize, peerInitialize)
	}
	for p.prompt.Method == "" {
		m, ok := p.read()
		if !ok {
			return
		}
		switch m.Method {
		case "session/new":
			if p.script.Setup == providertest.SetupAuth {
				p.refuse(m, -32000, "Authentication required")
				continue
			}
			p.session = m.Params
			p.reply(m, `{"sessionId":"`+peerSession+`"}`)
		case "session/load":
			p.reply(m, `{}`)
		case "session/prompt":
			p.prompt = m
		}
	}
	var params struct {
		Prompt []struct {
			Text string `json:"text"`
		} `json:"prompt"`
	}
	if err := json.Unmarshal(p.prompt.Params, &params); err != nil || len(params.Prompt) != 1 {
		panic("a prompt of another form")
	}
	b, _ := json.Marshal(params.Prompt[0].Text)
	p.note("prompts", string(b))
	go func() {
		for {
			m, ok := p.read()
			if !ok {
				p.exit(0)
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
		for s.Do == providertest.Await && !p.answers[s.Name] {
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
	case m.Method == "session/cancel" && !p.cancelled && p.script.Cancel == providertest.CancelObey && p.ended == "":
		p.cancelled = true
		steps := p.script.CancelSteps
		if steps == nil {
			steps = []providertest.Step{{Do: providertest.End, State: coord.AttemptCancelled}}
		}
		p.play(steps)
		for {
			p.take(<-p.messages)
		}
	case m.Method == "tool":
		a := toolAnswer(m)
		p.answers[a.Name] = true
		if strings.HasPrefix(a.Name, "ping ") {
			return
		}
		b, _ := json.Marshal(a)
		p.note("answers", string(b))
	case m.Method == "" && m.ID != nil:
		var name string
		var r struct {
			Outcome struct {
				OptionID string `json:"optionId"`
			} `json:"outcome"`
		}
		if json.Unmarshal(m.ID, &name) != nil || json.Unmarshal(m.Result, &r) != nil {
			p.note("bad", string(m.ID))
			return
		}
		p.answers[name] = true
		if !p.withdrawn[name] {
			b, _ := json.Marshal(providertest.Answered{Name: name, Option: r.Outcome.OptionID})
			p.note("answers", string(b))
		}
	}
}

func (p *player) step(s providertest.Step) {
	switch s.Do {
	case providertest.Accept:
		p.update(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"got it"}}`)
	case providertest.Say:
		p.say(s.Text)
	case providertest.Think:
		p.update(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"` + s.Text + `"}}`)
	case providertest.Act:
		p.update(`{"sessionUpdate":"tool_call","toolCallId":"` + s.Name + `","title":"` + s.Text + `","kind":"read","status":"pending"}`)
	case providertest.Spend:
		p.update(fmt.Sprintf(`{"sessionUpdate":"usage_update","used":%d,"size":1000}`, s.Usage.TotalTokens))
	case providertest.Attach:
		p.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","mimeType":"` + s.Content.Media + `","data":"` + base64.StdEncoding.EncodeToString(s.Content.Bytes) + `"}}`)
	case providertest.Ask:
		var options []string
		for _, o := range s.Options {
			options = append(options, fmt.Sprintf(`{"optionId":%q,"name":%q,"kind":%q}`, o.ID, o.Name, o.Kind))
		}
		p.ask(`"`+s.Name+`"`, `{"toolCallId":"t-`+s.Name+`","title":"`+s.Text+`","rawInput":{"command":"x"}}`, "["+strings.Join(options, ",")+"]")
	case providertest.Withdraw:
		p.withdrawn[s.Name] = true
		p.raw(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"` + s.Name + `"}}` + "\n")
	case providertest.End:
		result := map[coord.AttemptState]string{
			coord.AttemptCompleted: `"result":{"stopReason":"end_turn"}`,
			coord.AttemptRejected:  `"result":{"stopReason":"refusal"}`,
			coord.AttemptCancelled: `"result":{"stopReason":"cancelled"}`,
			coord.AttemptFailed:    `"error":{"code":-32603,"message":"it broke"}`,
		}[s.State]
		p.ended = `{"jsonrpc":"2.0","id":` + string(p.prompt.ID) + `,` + result + "}\n"
		p.raw(p.ended)
	case providertest.EndAgain:
		p.raw(p.ended)
	case providertest.Flood:
		var b strings.Builder
		line := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + peerSession + `","update":` + chunk(s.Text) + "}}\n"
		for range s.Count {
			b.WriteString(line)
		}
		p.raw(b.String())
	case providertest.Crash:
		p.exit(3)
	case providertest.Noise:
		p.raw(strings.Repeat("INFO starting up\n", s.Count))
	case providertest.Malformed:
		p.raw(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":` + "\n")
	case providertest.Oversize:
		p.say(strings.Repeat("x", coord.MaxFrame))
	case providertest.Foreign:
		p.updateOf("sess-other", chunk(s.Text))
	case providertest.Strange:
		p.update(`{"sessionUpdate":"_strange","content":{"type":"text","text":"` + s.Text + `"}}`)
	case providertest.Call:
		p.call(s)
	case providertest.Await:
	default:
		panic("this peer cannot play " + string(s.Do))
	}
}

// call calls a tool through the tool server, which the first call starts, and
// returns when the server has handed it over.
func (p *player) call(s providertest.Step) {
	if p.tools == nil {
		p.startTools()
	}
	fmt.Fprintf(p.tools, `{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", s.Name, s.Text, s.Arguments)
	fmt.Fprintf(p.tools, `{"jsonrpc":"2.0","id":"ping %s","method":"ping"}`+"\n", s.Name)
	for !p.answers["ping "+s.Name] {
		p.take(<-p.messages)
	}
}

func (p *player) startTools() {
	var params struct {
		MCPServers []struct {
			Command string
			Args    []string
			Env     []struct{ Name, Value string }
		}
	}
	if err := json.Unmarshal(p.session, &params); err != nil || len(params.MCPServers) != 1 {
		panic("there is not one tool server")
	}
	server := params.MCPServers[0]
	cmd := exec.Command(server.Command, server.Args...)
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"}
	for _, v := range server.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		panic(err)
	}
	p.tools = in
	go func() {
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			m := message{}
			if json.Unmarshal(line, &m) != nil {
				panic("the tool server wrote " + string(line))
			}
			m.Method = "tool"
			p.messages <- m
		}
	}()
}

// toolAnswer reads what a tool server answered.
func toolAnswer(m message) (a providertest.Answered) {
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if json.Unmarshal(m.ID, &a.Name) != nil || json.Unmarshal(m.Result, &r) != nil {
		panic("the tool server answered " + string(m.ID) + " " + string(m.Error))
	}
	a.Failed = r.IsError
	for _, c := range r.Content {
		a.Text += c.Text
	}
	return a
}

func TestAdapterKeepsThePromisesOfThePort(t *testing.T) {
	providertest.Run(t, providertest.Harness{Tools: true, New: func(t *testing.T, s providertest.Script) providertest.Subject {
		timing := testTiming
		if s.Setup == providertest.SetupSilent {
			timing.Setup = time.Second
		}
		b := newBenchTiming(t, "script", timing)
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.dir, "script.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		return providertest.Subject{
			Adapter: b.adapter,
			Work:    b.approved(),
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
func decoded[T any](b *bench, file string) []T {
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
