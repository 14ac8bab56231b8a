package acp_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/process"
	"signalbox/internal/provider"
)

func init() {
	peers["late start"] = func(p *peer) {
		p.raw("Welcome to zsh\nlast login: today\n\x1b[1mready\x1b[0m\n")
		prompt := p.prompted()
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["silent"] = (*peer).rest
	peers["no session"] = func(p *peer) {
		p.reply(p.expect("initialize"), peerInitialize)
		p.rest()
	}
	peers["no mode"] = func(p *peer) {
		p.reply(p.expect("initialize"), peerInitialize)
		p.reply(p.expect("session/new"), `{"sessionId":"`+peerSession+`","modes":{"currentModeId":"auto","availableModes":[{"id":"auto","name":"Auto"},{"id":"default","name":"Default"}]}}`)
		p.rest()
	}
	peers["auth"] = func(p *peer) {
		p.reply(p.expect("initialize"), `{"protocolVersion":1,"authMethods":[{"id":"oauth","name":"Log in with a browser"},{"id":"key","name":"API key","type":"terminal","args":["login"]}]}`)
		p.refuse(p.expect("session/new"), -32000, "Authentication required")
		p.rest()
	}
	peers["quota"] = func(p *peer) {
		prompt := p.prompted()
		p.refuse(prompt, -32000, "You have used all of your quota")
		p.rest()
	}
	peers["version 2"] = func(p *peer) {
		p.reply(p.expect("initialize"), `{"protocolVersion":2,"agentCapabilities":{}}`)
		p.rest()
	}
	peers["nulls"] = func(p *peer) {
		p.reply(p.expect("initialize"), `{"protocolVersion":1,"agentCapabilities":{"loadSession":null,"promptCapabilities":null,"sessionCapabilities":{"list":null}},"authMethods":null,"agentInfo":null,"_meta":null}`)
		p.reply(p.expect("session/new"), `{"sessionId":"`+peerSession+`","modes":null,"configOptions":null}`)
		prompt := p.expect("session/prompt")
		p.update(`{"sessionUpdate":"tool_call","toolCallId":"t1","title":null,"kind":null,"rawInput":null,"content":null,"locations":null}`)
		p.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a","annotations":null},"_meta":null}`)
		p.reply(prompt, `{"stopReason":"end_turn","usage":null,"_meta":null}`)
		p.rest()
	}
	peers["wrong types"] = func(p *peer) {
		p.reply(p.expect("initialize"), `{"protocolVersion":1,"agentCapabilities":{"loadSession":"yes"},"authMethods":{},"agentInfo":"me"}`)
		p.reply(p.expect("session/new"), `{"sessionId":"`+peerSession+`","modes":7}`)
		prompt := p.expect("session/prompt")
		p.update(`{"sessionUpdate":"tool_call","toolCallId":"t1","title":5,"kind":[]}`)
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["null results"] = func(p *peer) {
		p.reply(p.expect("initialize"), peerInitialize)
		p.reply(p.expect("session/new"), `{"sessionId":"`+peerSession+`","modes":{"availableModes":[{"id":"ask","name":"Ask"}]}}`)
		p.reply(p.expect("session/set_mode"), `null`)
		prompt := p.expect("session/prompt")
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["prompt gets null"] = func(p *peer) {
		prompt := p.prompted()
		p.say("a")
		p.reply(prompt, `null`)
		p.rest()
	}
	peers["environment"] = func(p *peer) {
		b, _ := json.Marshal(os.Environ())
		p.note("env", string(b))
		p.setup()
		p.rest()
	}
	peers["descriptors"] = func(p *peer) {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			panic(err)
		}
		for _, n := range names {
			// The Go runtime of the peer opens its own: the poller and, to know
			// its share of the processors, files of its control group.
			if to, err := os.Readlink("/proc/self/fd/" + n.Name()); err == nil && !strings.Contains(to, "/fd") && !strings.HasPrefix(to, "anon_inode") && !strings.HasPrefix(to, "/sys/") {
				p.note("fds", n.Name())
			}
		}
		p.setup()
		p.rest()
	}
	peers["grandchild"] = func(p *peer) {
		child := exec.Command("sleep", "600")
		child.Stdout = os.Stdout // it also keeps the pipe open
		if err := child.Start(); err != nil {
			panic(err)
		}
		b, _ := json.Marshal(child.Process.Pid)
		p.note("pid", string(b))
		prompt := p.prompted()
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["deaf to the end"] = func(p *peer) {
		p.setup()
		p.rest()
		p.note("eof", "seen")
		// Not select{}, which Go ends as a deadlock where cgo is off.
		<-time.After(time.Hour)
	}

	fieldCases = append(fieldCases,
		fieldCase{4, "what a shell profile prints before initialize is skipped", func(t *testing.T) {
			s := newBench(t, "late start").run("x")
			if end := last(until(t, s, provider.EventEnd)).End; end.State != coord.AttemptCompleted {
				t.Errorf("the end is %+v", end)
			}
		}},
		fieldCase{11, "no answer to initialize is a setup timeout and leaves no process", func(t *testing.T) {
			b := newBenchTiming(t, "silent", provider.Timing{Setup: 300 * time.Millisecond, Write: time.Second, Grace: 100 * time.Millisecond})
			u := b.unsent(t.Context())
			if u.Cause != provider.CauseSetupTimeout || !u.Transient || !strings.Contains(u.Message, "initialize") {
				t.Errorf("Prepare failed with %+v", u)
			}
			if left := b.ledger.left(); len(left) > 0 {
				t.Errorf("left is %v", left)
			}
		}},
		fieldCase{12, "programs that do not speak ACP leave no process, however often they are tried", func(t *testing.T) {
			cat, err := exec.LookPath("cat")
			if err != nil {
				t.Fatal(err)
			}
			b := newBenchTiming(t, "", provider.Timing{Setup: 300 * time.Millisecond, Write: time.Second, Grace: time.Second})
			for _, args := range [][]string{{}, {"/dev/null"}, {"/no/such/file"}, {"/dev/zero"}} {
				b.config.Executable, b.config.Args = cat, args
				for range 2 {
					if u := b.unsent(t.Context()); u.Cause == "" {
						t.Errorf("cat %q failed with %+v", args, u)
					}
				}
			}
			if left := b.ledger.left(); len(left) > 0 || b.ledger.all != 8 {
				t.Errorf("of %d processes left is %v", b.ledger.all, left)
			}
		}},
		fieldCase{13, "a cold start of 12 s is within the default", func(t *testing.T) {
			if d := provider.DefaultTiming.Setup; d < 30*time.Second {
				t.Errorf("the default is %v", d)
			}
		}},
		fieldCase{14, "every request of the setup has a deadline", func(t *testing.T) {
			for peer, step := range map[string]string{"silent": "initialize", "no session": "session/new", "no mode": "session/set_mode"} {
				// The steps before the last must have time on a busy machine.
				b := newBenchTiming(t, peer, provider.Timing{Setup: 2 * time.Second, Write: time.Second, Grace: time.Second})
				b.config.Mode = "default"
				if u := b.unsent(t.Context()); u.Cause != provider.CauseSetupTimeout || !strings.Contains(u.Message, step) {
					t.Errorf("%s: Prepare failed with %+v", peer, u)
				}
			}
		}},
		fieldCase{15, "a login that is missing is told with the agent's ways to log in, and none is used", func(t *testing.T) {
			b := newBench(t, "auth")
			in, err := b.adapter.Inspect(t.Context(), provider.Target{Agent: "a", Config: b.config, Scratch: t.TempDir()})
			if err != nil || in.Auth != coord.AuthRequired || in.Problem == "" || len(in.Operations) > 0 {
				t.Errorf("Inspect gave %+v, %v", in, err)
			}
			for _, word := range []string{"Log in with a browser", "login"} {
				if !strings.Contains(in.AuthHint, word) {
					t.Errorf("the hint %q lacks %q", in.AuthHint, word)
				}
			}
			if u := b.unsent(t.Context()); u.Cause != provider.CauseAuth || u.Transient {
				t.Errorf("Prepare failed with %+v", u)
			}
			if got := b.got("authenticate"); len(got) > 0 {
				t.Errorf("the peer was asked to authenticate: %s", got)
			}
		}},
		fieldCase{16, "the code for a login that stands for a quota is told generically and not tried again", func(t *testing.T) {
			b := newBench(t, "quota")
			s := b.run("x")
			end := last(until(t, s, provider.EventEnd)).End
			if end.State != coord.AttemptFailed || end.Cause != provider.CauseProviderError || !strings.Contains(end.Reason, "quota") || !strings.Contains(end.Reason, "-32000") {
				t.Errorf("the end is %+v", end)
			}
			if n := len(b.got("session/prompt")) + len(b.got("authenticate")); n != 1 {
				t.Errorf("the peer was asked %d times", n)
			}
		}},
		fieldCase{36, "an agent inherits its three streams and nothing else", func(t *testing.T) {
			f, err := os.CreateTemp(t.TempDir(), "open")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			b := newBench(t, "descriptors")
			b.prepare("x")
			if diff := cmp.Diff([]string{"0", "1", "2"}, b.file("fds")); diff != "" {
				t.Error(diff)
			}
		}},
		fieldCase{37, "a grandchild is gone after Close", func(t *testing.T) {
			b := newBench(t, "grandchild")
			s := b.run("x")
			until(t, s, provider.EventEnd)
			if _, err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			pid := decoded[int](b, "pid")[0]
			if alive(pid) {
				t.Errorf("the grandchild %d is alive", pid)
			}
		}},
		fieldCase{38, "an agent that does not end with its input is ended", func(t *testing.T) {
			b := newBenchTiming(t, "deaf to the end", provider.Timing{Setup: 20 * time.Second, Write: time.Second, Grace: 200 * time.Millisecond})
			s := b.prepare("x")
			start := time.Now()
			if a, err := s.Close(t.Context()); a != coord.Ended || err != nil {
				t.Errorf("Close gave %v, %v", a, err)
			}
			if d := time.Since(start); d < 200*time.Millisecond {
				t.Errorf("it had %v to end by itself", d)
			}
			if got := b.file("eof"); len(got) != 1 {
				t.Errorf("the peer saw %q", got)
			}
		}},
		fieldCase{39, "the environment is the allow-list and what was configured, exactly", func(t *testing.T) {
			b := newBench(t, "environment")
			b.env = map[string]string{"PATH": "/bin", "HOME": "/home/x", "OPENAI_API_KEY": "leak", "SIGNALBOX_TOKEN": "leak", "NODE_OPTIONS": "leak", "MY_KEY": "mapped"}
			b.config.Env = map[string]string{"GORACE": "atexit_sleep_ms=0", "SETTING": "1"}
			b.config.EnvFromEnv = map[string]string{"API_KEY": "MY_KEY"}
			b.config.RandomEnv = []string{"PORT_PASSWORD"}
			var randoms []string
			for range 2 {
				s := b.prepare("x")
				if _, err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for _, list := range decoded[[]string](b, "env") {
				got := map[string]string{}
				for _, e := range list {
					name, v, _ := strings.Cut(e, "=")
					got[name] = v
				}
				randoms = append(randoms, got["PORT_PASSWORD"])
				delete(got, "PORT_PASSWORD")
				delete(got, process.MarkerEnv)
				want := map[string]string{"PATH": "/bin", "HOME": "/home/x", "GORACE": "atexit_sleep_ms=0", "SETTING": "1", "API_KEY": "mapped"}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
			if len(randoms) != 2 || len(randoms[0]) != 64 || randoms[0] == randoms[1] {
				t.Errorf("the random values are %d and %d bytes, equal %v", len(randoms[0]), len(randoms[1]), randoms[0] == randoms[1])
			}
		}},
		fieldCase{40, "after an answer with version 2 nothing more is sent", func(t *testing.T) {
			b := newBench(t, "version 2")
			if u := b.unsent(t.Context()); u.Cause != provider.CauseVersion || u.Transient {
				t.Errorf("Prepare failed with %+v", u)
			}
			if got := b.file("got"); len(got) != 1 {
				t.Errorf("the peer got %q", got)
			}
		}},
		fieldCase{41, "the version is sent as the integer 1, with nothing offered", func(t *testing.T) {
			b := newBench(t, "silent setup")
			b.prepare("x")
			var p map[string]json.RawMessage
			if err := json.Unmarshal(b.got("initialize")[0].Params, &p); err != nil {
				t.Fatal(err)
			}
			if string(p["protocolVersion"]) != "1" || string(p["clientCapabilities"]) != `{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false}` {
				t.Errorf("initialize has %s", b.got("initialize")[0].Params)
			}
			var n map[string]json.RawMessage
			if err := json.Unmarshal(b.got("session/new")[0].Params, &n); err != nil {
				t.Fatal(err)
			}
			if names := slices.Sorted(maps.Keys(n)); !slices.Equal(names, []string{"cwd", "mcpServers"}) || string(n["mcpServers"]) != "[]" {
				t.Errorf("session/new has %s", b.got("session/new")[0].Params)
			}
		}},
		fieldCase{42, "null in optional members is the same as their absence", func(t *testing.T) {
			for _, peer := range []string{"nulls", "wrong types"} {
				s := newBench(t, peer).run("x")
				all := until(t, s, provider.EventEnd)
				if end := last(all).End; end.State != coord.AttemptCompleted || text(all) != "a" {
					t.Errorf("%s: the end is %+v, the text %q", peer, end, text(all))
				}
			}
		}},
		fieldCase{43, "null is a result where nothing is told, and none where a stop reason is needed", func(t *testing.T) {
			b := newBench(t, "null results")
			b.config.Mode = "ask"
			if end := last(until(t, b.run("x"), provider.EventEnd)).End; end.State != coord.AttemptCompleted {
				t.Errorf("the end is %+v", end)
			}
			all := until(t, newBench(t, "prompt gets null").run("x"), provider.EventEnd)
			if end := last(all).End; end.State != coord.AttemptFailed || end.Cause != provider.CauseStopReason || text(all) != "a" {
				t.Errorf("the end is %+v, the text %q", end, text(all))
			}
		}},
	)
	peers["silent setup"] = func(p *peer) {
		p.setup()
		p.rest()
	}
}

// alive reports whether a pid is there and no zombie.
func alive(pid int) bool {
	b, _ := json.Marshal(pid)
	stat, err := os.ReadFile(filepath.Join("/proc", string(b), "stat"))
	if err != nil {
		return false
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return f[0] != "Z" && f[0] != "X"
}
