package codex_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// unsent prepares and gives the failure that must come.
func (s *scripted) unsent(w provider.Work) *provider.Unsent {
	s.t.Helper()
	session, err := s.adapter.Prepare(s.t.Context(), w)
	if session != nil {
		_, _ = session.Close(context.Background())
	}
	u, ok := errors.AsType[*provider.Unsent](err)
	if !ok {
		s.t.Fatalf("Prepare gave %v", err)
	}
	if n := len(s.got("turn/start")); n > 0 {
		s.t.Errorf("the peer got %d prompts", n)
	}
	return u
}

// setups are app-servers whose answer to a method is not as it should be, with
// the cause for which nothing is sent: from is what becomes to, "" for all.
var setups = map[string]struct{ method, from, to, cause string }{
	"another sandbox":         {"thread/start", `"readOnly"`, `"workspaceWrite"`, provider.CauseConfig},
	"network access":          {"thread/start", `"networkAccess":false`, `"networkAccess":true`, provider.CauseConfig},
	"no word of the network":  {"thread/start", `,"networkAccess":false`, ``, provider.CauseConfig},
	"another approval policy": {"thread/start", `"approvalPolicy":"on-request"`, `"approvalPolicy":"never"`, provider.CauseConfig},
	"another reviewer":        {"thread/start", `"approvalsReviewer":"user"`, `"approvalsReviewer":"auto_review"`, provider.CauseConfig},
	"a permission profile":    {"thread/start", `"activePermissionProfile":null`, `"activePermissionProfile":{"id":"all"}`, provider.CauseConfig},
	"another model provider":  {"thread/start", `"modelProvider":"mock"`, `"modelProvider":"other"`, provider.CauseConfig},
	"another history":         {"thread/start", `"paginated"`, `"legacy"`, provider.CauseProtocol},
	"a thread that is busy":   {"thread/start", `"idle"`, `"active"`, provider.CauseProtocol},
	"no thread":               {"thread/start", ``, `{"thread":{}}`, provider.CauseProtocol},
	"a refused thread":        {"thread/start", ``, `!failed to load configuration`, provider.CauseProtocol},
	"nothing for a thread":    {"thread/start", ``, `null`, provider.CauseProtocol},
	"a feature that is on":    {"config/read", `"shell_tool":false`, `"shell_tool":true`, provider.CauseConfig},
	"a feature without word":  {"config/read", `"unified_exec":false`, `"unified":false`, provider.CauseConfig},
	"an administrator's":      {"config/read", `"sandbox_mode":"read-only"`, `"sandbox_mode":"danger-full-access"`, provider.CauseConfig},
	"agents that are on":      {"config/read", `"agents":{"enabled":false}`, `"agents":{}`, provider.CauseConfig},
	"a program to notify":     {"config/read", `"notify":[]`, `"notify":["x"]`, provider.CauseConfig},
	"a refused account":       {"account/read", ``, `!no`, provider.CauseProtocol},
	"no version":              {"initialize", ` (Debian`, `(Debian`, provider.CauseVersion},
	"a hostile version":       {"initialize", `0.171.0`, `<b>../x`, provider.CauseVersion},
	"a version without proof": {"initialize", `0.171.0`, `0.170.9`, provider.CauseVersion},
	"garbage":                 {"initialize", ``, `[]`, provider.CauseProtocol},
}

func init() {
	for name, s := range setups {
		appServers["setup: "+name] = func(p *peer) {
			p.setup(func(method, usual string) string {
				if method != s.method {
					return usual
				}
				if s.from == "" {
					return s.to
				}
				return strings.Replace(usual, s.from, s.to, 1)
			})
		}
	}
}

func TestNothingIsSentToCodexThatIsNotAsItWasAskedFor(t *testing.T) {
	for name, c := range setups {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, "setup: "+name, testTiming)
			if u := s.unsent(s.work("1", "Work.", tools()...)); u.Cause != c.cause || u.Transient || u.Message == "" || len(u.Message) > coord.MaxReason {
				t.Errorf("the failure is %+v", u)
			}
		})
	}
}

func TestNothingIsSentWithArgumentsThatAreNoSettings(t *testing.T) {
	s := newScripted(t, "echo", testTiming)
	for _, args := range [][]string{{"--listen", "ws://127.0.0.1:1"}, {"-c"}, {"-c", "model"}, {"-c", "a=b", "--enable"}, {"exec"}} {
		s.config.Args = args
		if u := s.unsent(s.work("1", "Work.")); u.Cause != provider.CauseConfig || u.Transient {
			t.Errorf("%q: the failure is %+v", args, u)
		}
	}
}

func init() {
	appServers["echo"] = func(p *peer) { p.started(); p.say("hello"); p.end("completed", ""); p.rest() }
	appServers["exit at start"] = func(*peer) { os.Exit(7) }
	for _, method := range []string{"account/read", "config/read", "thread/start"} {
		appServers["exit at "+method] = func(p *peer) {
			p.setup(func(m, usual string) string {
				if m == method {
					os.Exit(7)
				}
				return usual
			})
		}
	}
	appServers["exit at turn/start"] = func(p *peer) { p.setup(nil); os.Exit(7) }
	appServers["exit after turn/start"] = func(p *peer) { p.started(); os.Exit(7) }
	appServers["another turn"] = func(p *peer) {
		m := p.setup(nil)
		p.notifyOf(peerThread, "", "turn/started", `,"turn":{"id":"first"}`)
		p.reply(m, `{"turn":{"id":"second"}}`)
		p.rest()
	}
	appServers["no turn"] = func(p *peer) { p.reply(p.setup(nil), `{"turn":{}}`); p.rest() }
	appServers["refused turn"] = func(p *peer) { p.refuse(p.setup(nil), -32600, "no turns today"); p.rest() }
	appServers["answers twice"] = func(p *peer) {
		m := p.started()
		p.reply(m, `{"turn":{"id":"another"}}`)
		p.reply(m, `null`)
		p.raw(`{"id":"1","result":{}}` + "\n" + `{"id":999,"result":{}}` + "\n" + `{"id":null,"result":{}}` + "\n")
		p.say("once")
		p.end("completed", "")
		p.end("failed", "")
		p.rest()
	}
	appServers["endless line"] = func(p *peer) {
		p.started()
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<20)); err != nil {
				return
			}
		}
	}
	appServers["foreign requests"] = func(p *peer) {
		p.started()
		p.askOf("other", peerTurn, "item/tool/call", `,"callId":"c","tool":"workspace_read","arguments":{}`)
		p.askOf(peerThread, "other", "item/tool/call", `,"callId":"c","tool":"workspace_read","arguments":{}`)
		p.askOf("other", peerTurn, "item/tool/requestUserInput", `,"itemId":"c","questions":[]`)
		p.ask("item/tool/call", `,"callId":"c","namespace":"evil","tool":"workspace_read","arguments":{}`)
		p.ask("item/tool/call", `,"callId":"c","tool":"read","arguments":{}`)
		p.ask("item/tool/call", `,"callId":"c","tool":"workspace_read"`)
		p.ask("item/tool/call", `,"callId":"c","tool":"workspace_read","arguments":"`+strings.Repeat("x", coord.MaxCallArguments)+`"`)
		p.ask("item/tool/requestUserInput", `,"itemId":"c","questions":[{"id":"q","header":"h","question":"Your password?","isSecret":true}]`)
		for _, method := range []string{"account/chatgptAuthTokens/refresh", "attestation/generate", "currentTime/read", "fs/writeFile", strings.Repeat("m", 5000)} {
			p.ask(method, "")
		}
		for _, method := range natives {
			p.ask(method, `,"itemId":"c","command":"rm -rf /"`)
		}
		p.until(8 + 5 + len(natives))
		p.say("done")
		p.end("completed", "")
		p.rest()
	}
	appServers["reused ids"] = func(p *peer) {
		p.started()
		p.call("workspace_read", `{"n":1}`)
		p.last = 0
		p.call("workspace_read", `{"n":2}`)
		p.until(1)
		p.last = 0
		p.call("workspace_read", `{"n":3}`)
		p.until(1)
		p.say("done")
		p.end("completed", "")
		p.rest()
	}
	appServers["messages"] = func(p *peer) {
		p.started()
		p.notify("item/started", `,"item":{"type":"userMessage","id":"u1","clientId":"att_1"}`)
		p.notify("item/started", `,"item":{"type":"userMessage","id":"u2","clientId":"somebody"}`)
		p.notify("item/started", `,"item":{"type":"agentMessage","id":"m1","text":"","phase":"commentary"}`)
		p.notify("item/agentMessage/delta", `,"itemId":"m1","delta":"I look. "`)
		p.notify("item/completed", `,"item":{"type":"agentMessage","id":"m1","text":"I look. Still.","phase":"commentary"}`)
		p.notify("item/started", `,"item":{"type":"agentMessage","id":"m2","text":""}`)
		p.notify("item/agentMessage/delta", `,"itemId":"m2","delta":"One"`)
		p.notify("item/completed", `,"item":{"type":"agentMessage","id":"m2","text":"One."}`)
		p.notify("item/completed", `,"item":{"type":"agentMessage","id":"m3","text":"Two."}`)
		p.notify("item/started", `,"item":{"type":"commandExecution","id":"x1","command":"ls","status":"inProgress"}`)
		p.notify("turn/plan/updated", `,"plan":[{"step":"Look","status":"completed"},{"step":"Do","status":"pending"}]`)
		p.notify("model/rerouted", `,"fromModel":"a","toModel":"b"`)
		p.notify("error", `,"error":{"message":"try again"},"willRetry":true`)
		p.end("completed", "")
		p.rest()
	}
	appServers["stubborn"] = func(p *peer) {
		p.started()
		for n := 0; ; n++ {
			m := p.expect("turn/interrupt")
			if n == 3 {
				p.reply(m, `{}`)
				break
			}
			p.refuse(m, -32600, "no active turn to interrupt")
		}
		p.end("interrupted", "")
		p.rest()
	}
	appServers["calls without end"] = func(p *peer) {
		p.started()
		for {
			p.call("workspace_read", `{}`)
			if _, ok := p.read(); !ok {
				return
			}
		}
	}
}

// natives are what Codex asks for tools of its own.
var natives = []string{"item/commandExecution/requestApproval", "item/fileChange/requestApproval", "item/permissions/requestApproval", "mcpServer/elicitation/request", "applyPatchApproval", "execCommandApproval"}

// until reads n responses.
func (p *peer) until(n int) {
	for n > 0 {
		m, ok := p.read()
		if !ok {
			os.Exit(0)
		}
		if m.Method == "" {
			n--
		}
	}
}

func TestExitAtEachStepIsTold(t *testing.T) {
	for _, step := range []string{"start", "account/read", "config/read", "thread/start"} {
		t.Run(step, func(t *testing.T) {
			s := newScripted(t, "exit at "+step, testTiming)
			if u := s.unsent(s.work("1", "Work.")); u.Cause != provider.CauseSpawn || !u.Transient {
				t.Errorf("the failure is %+v", u)
			}
		})
	}
	for _, step := range []string{"at turn/start", "after turn/start"} {
		t.Run(step, func(t *testing.T) {
			s := newScripted(t, "exit "+step, testTiming).sendNew(t)
			if lost := last(s.until(provider.EventLost)).Lost; lost.Cause != provider.CauseGone || lost.Activity != coord.Ended || !strings.Contains(lost.Reason, "status 7") {
				t.Errorf("the loss is %+v", lost)
			}
		})
	}
}

func TestHostileAppServersAreHeldToTheProtocol(t *testing.T) {
	for name, cause := range map[string]string{"another turn": provider.CauseProtocol, "no turn": provider.CauseProtocol, "endless line": provider.CauseFrame} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, name, testTiming).sendNew(t)
			if lost := last(s.until(provider.EventLost)).Lost; lost.Cause != cause || lost.Activity != coord.Ended {
				t.Errorf("the loss is %+v", lost)
			}
		})
	}
	t.Run("a refused turn", func(t *testing.T) {
		s := newScripted(t, "refused turn", testTiming).sendNew(t)
		all := s.until(provider.EventEnd)
		if end := last(all).End; all[0].Receipt == nil || end.State != coord.AttemptFailed || !strings.Contains(end.Reason, `"no turns today"`) {
			t.Errorf("there came %+v", all)
		}
	})
	t.Run("answers twice", func(t *testing.T) {
		s := newScripted(t, "answers twice", testTiming).sendNew(t)
		if end, text := s.finish(); end.State != coord.AttemptCompleted || text != "once" {
			t.Errorf("the end is %+v, the text %q", end, text)
		}
	})
}

// sendNew sends work that comes with tools.
func (s *scripted) sendNew(t *testing.T) attempt { return s.send(t, s.work("1", "Work.", tools()...)) }

func TestForeignAndNativeRequestsAreRefusedByTheAdapter(t *testing.T) {
	b := newScripted(t, "foreign requests", testTiming)
	s := b.sendNew(t)
	declined := 0
	for _, e := range s.until(provider.EventEnd) {
		if e.Call != nil || e.Request != nil {
			t.Errorf("there came %+v", e)
		}
		if e.Activity != nil && e.Activity.Status == "declined" {
			declined++
		}
	}
	if declined != len(natives) {
		t.Errorf("%d requests of native tools were told", declined)
	}
	var errors, refused, rest []string
	for _, m := range b.got("") {
		switch {
		case m.Error != nil:
			errors = append(errors, string(m.ID))
		case strings.Contains(string(m.Result), `"success":false`):
			refused = append(refused, string(m.ID))
		default:
			rest = append(rest, string(m.Result))
		}
	}
	slices.Sort(errors)
	slices.Sort(refused)
	want := []string{`{"answers":{}}`, `{"decision":"decline"}`, `{"decision":"decline"}`, `{"permissions":{},"scope":"turn"}`, `{"_meta":null,"action":"decline","content":null}`, `{"decision":"denied"}`, `{"decision":"denied"}`}
	if diff := cmp.Diff([][]string{{"0", "1", "10", "11", "12", "2", "8", "9"}, {"3", "4", "5", "6"}, want}, [][]string{errors, refused, rest}); diff != "" {
		t.Error(diff)
	}
}

func TestRequestIDsAreUsedOnce(t *testing.T) {
	s := newScripted(t, "reused ids", testTiming).sendNew(t)
	c := last(s.until(provider.EventCall)).Call
	s.respond(provider.Answer{Request: c.Origin.Request, Result: &provider.Result{Text: "one"}})
	for _, e := range s.until(provider.EventEnd) {
		if e.Call != nil {
			t.Errorf("there came %+v", e.Call)
		}
	}
}

func TestMessagesAreToldForWhatTheyAre(t *testing.T) {
	s := newScripted(t, "messages", testTiming).sendNew(t)
	all := s.until(provider.EventEnd)
	if thought, text := textOf(all, coord.ChannelThought), textOf(all, coord.ChannelMessage); thought != "I look. Still." || text != "\n\nOne.\n\nTwo." {
		t.Errorf("the thoughts are %q, the answer %q", thought, text)
	}
	var got []string
	for _, e := range all {
		if e.Activity != nil {
			got = append(got, e.Activity.Kind+" "+e.Activity.Status+": "+e.Activity.Title)
		}
	}
	want := []string{"message foreign: Somebody else added a message to this turn.", "commandExecution inProgress: ls", "plan completed: Look", "plan pending: Do", `model changed: The model became "b".`, `error retried: "try again"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestInterruptionIsAskedForUntilItIsTaken(t *testing.T) {
	b := newScripted(t, "stubborn", testTiming)
	s := b.sendNew(t)
	s.until(provider.EventReceipt)
	s.stop()
	if end, _ := s.finish(); end.State != coord.AttemptCancelled {
		t.Errorf("the end is %+v", end)
	}
	if n := len(b.got("turn/interrupt")); n != 4 {
		t.Errorf("an interruption was asked for %d times", n)
	}
}

func TestCallsWithoutEndAreEnded(t *testing.T) {
	s := newScripted(t, "calls without end", testTiming).sendNew(t)
	for {
		e := s.next()
		if e.Call != nil {
			s.respond(provider.Answer{Request: e.Call.Origin.Request, Result: &provider.Result{}})
		}
		if e.Lost != nil {
			if e.Lost.Cause != provider.CauseRequests {
				t.Errorf("the loss is %+v", e.Lost)
			}
			return
		}
	}
}

func TestPrivateFolderIsGoneAfterAll(t *testing.T) {
	b := newScripted(t, "echo", testTiming)
	s := b.sendNew(t)
	inside, _ := filepath.Glob(filepath.Join(b.scratch, "*", "models.json"))
	if len(inside) != 1 {
		t.Fatalf("private files are %q", inside)
	}
	st, err := os.Stat(filepath.Dir(inside[0]))
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", st, err)
	}
	patched, err := os.ReadFile(inside[0])
	if err != nil || !strings.Contains(string(patched), `"tool_mode":"direct"`) || strings.Contains(string(patched), "code_mode") {
		t.Errorf("the catalog is %s, %v", patched, err)
	}
	s.finish()
	s.close()
	if left, _ := os.ReadDir(b.scratch); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}
