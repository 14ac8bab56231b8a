package acp_test

import (
	"strings"
	"testing"

	"signalbox/internal/provider"
)

const configOptions = `"configOptions":[{"id":"model","category":"model","type":"select"},{"id":"agent","category":"mode","type":"select"}]`

func init() {
	modes := func(session string) func(*peer) {
		return func(p *peer) {
			p.reply(p.expect("initialize"), peerInitialize)
			p.reply(p.expect("session/new"), `{"sessionId":"`+peerSession+`",`+session+`}`)
			m, ok := p.read()
			if ok && strings.Contains(string(m.Params), "refused") {
				p.refuse(m, -32602, "no such mode")
			} else if ok {
				p.reply(m, `{}`)
			}
			p.rest()
		}
	}
	peers["has modes"] = modes(`"modes":{"currentModeId":"auto","availableModes":[{"id":"auto","name":"A"},{"id":"ask","name":"B"}]},` + configOptions)
	peers["has config options"] = modes(configOptions)
	peers["has neither"] = modes(`"x":1`)
}

func TestModeIsSetBeforeThePromptOrNothingIsSent(t *testing.T) {
	for _, c := range []struct{ peer, mode, method, params string }{
		{"has modes", "ask", "session/set_mode", `{"sessionId":"sess-1","modeId":"ask"}`},
		{"has config options", "ask", "session/set_config_option", `{"sessionId":"sess-1","configId":"agent","value":"ask"}`},
	} {
		b := newBench(t, c.peer)
		b.config.Mode = c.mode
		b.prepare("x")
		if got := b.got(c.method); len(got) != 1 || string(got[0].Params) != c.params {
			t.Errorf("%s: the peer got %s", c.peer, got)
		}
	}
	for _, c := range []struct{ peer, mode, word string }{
		{"has modes", "other", "auto, ask"}, {"has config options", "refused", "refused the mode"}, {"has neither", "ask", "no session modes"},
	} {
		b := newBench(t, c.peer)
		b.config.Mode = c.mode
		if u := b.unsent(t.Context()); u.Cause != provider.CauseConfig || u.Transient || !strings.Contains(u.Message, c.word) {
			t.Errorf("%s: Prepare failed with %+v", c.peer, u)
		}
	}
}

func TestClaudePresetSendsWhatItsAdapterNeeds(t *testing.T) {
	b := newBench(t, "silent setup")
	b.config.Preset = "claude-agent-acp"
	b.prepare("x")
	if got := string(b.got("session/new")[0].Params); !strings.Contains(got, `"_meta":{"claudeCode":{"options":{"allowDangerouslySkipPermissions":false,"settingSources":[]}}}`) {
		t.Errorf("session/new has %s", got)
	}
}
