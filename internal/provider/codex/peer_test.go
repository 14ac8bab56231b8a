package codex_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"signalbox/internal/coord"
	"signalbox/internal/process"
	"signalbox/internal/provider"
)

// The test binary is also the gate of package process and every scripted
// app-server: one that reads and writes lines and shares nothing with the code
// under test.
func TestMain(m *testing.M) {
	process.GateMain()
	if name := os.Getenv("CODEX_PEER"); name != "" {
		p := &peer{dir: os.Getenv("CODEX_HOME"), in: bufio.NewReaderSize(os.Stdin, 1<<20)}
		if len(os.Args) > 1 && os.Args[1] == "debug" {
			p.raw(`{"models":[{"slug":"a-model","tool_mode":"code_mode_only"}]}`)
			os.Exit(0)
		}
		play, ok := appServers[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "no such peer:", name)
			os.Exit(99)
		}
		play(p)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// appServers are the behaviours by name; tests add theirs in init.
var appServers = map[string]func(*peer){}

// peer is Codex's side of a test, in a process of its own.
type peer struct {
	dir  string
	in   *bufio.Reader
	mu   sync.Mutex
	last int
}

// message is a line as the peer reads it.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// read takes the next line and keeps it in the log; false at the end.
func (p *peer) read() (message, bool) {
	line, err := p.in.ReadBytes('\n')
	if err != nil {
		return message{}, false
	}
	p.note("got", string(line))
	var m message
	if json.Unmarshal(line, &m) != nil {
		p.note("bad", string(line))
	}
	return m, true
}

// expect reads up to a message with this method, and exits at the end of input.
func (p *peer) expect(method string) message {
	for {
		m, ok := p.read()
		if !ok {
			os.Exit(0)
		}
		if m.Method == method {
			return m
		}
	}
}

// note appends a line to one of the peer's files, which the test reads.
func (p *peer) note(file, line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, err := os.OpenFile(filepath.Join(p.dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.TrimRight(line, "\n") + "\n"); err != nil {
		panic(err)
	}
}

// raw writes bytes as they are.
func (p *peer) raw(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = os.Stdout.WriteString(s)
}

func (p *peer) reply(m message, result string) {
	p.raw(`{"id":` + string(m.ID) + `,"result":` + result + "}\n")
}

func (p *peer) refuse(m message, code int, text string) {
	p.raw(fmt.Sprintf(`{"id":%s,"error":{"code":%d,"message":%q}}`+"\n", m.ID, code, text))
}

const (
	peerThread = "01a22c3d-0000-7000-8000-000000000001"
	peerTurn   = "01a22c3d-0000-7000-8000-000000000002"
)

// notify sends a notification of the peer's turn with further members.
func (p *peer) notify(method, members string) { p.notifyOf(peerThread, peerTurn, method, members) }

func (p *peer) notifyOf(thread, turn, method, members string) {
	p.raw(`{"method":"` + method + `","params":{"threadId":"` + thread + `","turnId":"` + turn + `"` + members + `},"emittedAtMs":1}` + "\n")
}

func text(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func (p *peer) say(s string) { p.notify("item/agentMessage/delta", `,"itemId":"m1","delta":`+text(s)) }

// ask sends a request with the next id and gives it.
func (p *peer) ask(method, members string) string {
	return p.askOf(peerThread, peerTurn, method, members)
}

func (p *peer) askOf(thread, turn, method, members string) string {
	id := fmt.Sprint(p.last)
	p.last++
	p.raw(`{"id":` + id + `,"method":"` + method + `","params":{"threadId":"` + thread + `","turnId":"` + turn + `"` + members + "}}\n")
	return id
}

func (p *peer) call(tool, arguments string) string {
	return p.ask("item/tool/call", `,"callId":"c`+fmt.Sprint(p.last)+`","namespace":null,"tool":"`+tool+`","arguments":`+arguments)
}

func (p *peer) end(status, members string) {
	p.notify("turn/completed", `,"turn":{"id":"`+peerTurn+`","status":"`+status+`","items":[],"completedAt":1`+members+`}`)
}

const (
	peerInitialize = `{"userAgent":"signalbox/0.171.0 (Debian 12.0.0; x86_64) unknown (signalbox; 0)","codexHome":"HOME","platformOs":"linux"}`
	peerAccount    = `{"account":{"type":"chatgpt","planType":"plus","email":"someone@example.org"},"requiresOpenaiAuth":true}`
	peerOpened     = `{"thread":{"id":"` + peerThread + `","ephemeral":EPHEMERAL,"historyMode":"paginated","status":{"type":"idle"}},"model":"a-model","modelProvider":"mock",` +
		`"approvalPolicy":"on-request","approvalsReviewer":"user","sandbox":{"type":"readOnly","networkAccess":false},"activePermissionProfile":null}`
)

// config is what config/read answers: what the arguments asked for.
func config() string {
	features := map[string]bool{}
	for _, a := range os.Args {
		if name, ok := strings.CutPrefix(a, "features."); ok {
			name, value, _ := strings.Cut(name, "=")
			features[name] = value == "true"
		}
	}
	b, _ := json.Marshal(features)
	return `{"config":{"model":null,"model_provider":"mock","approval_policy":"on-request","approvals_reviewer":"user","sandbox_mode":"read-only","web_search":"disabled",` +
		`"notify":[],"agents":{"enabled":false},"mcp_servers":{"one":{}},"features":` + string(b) + `}}`
}

// setup answers what comes before the prompt, as changed says if it is given,
// and gives the first message that it has no answer to.
func (p *peer) setup(changed func(method, usual string) string) message {
	known := map[string]string{"initialize": strings.ReplaceAll(peerInitialize, "HOME", p.dir), "account/read": peerAccount, "config/read": config(), "thread/start": peerOpened}
	for {
		m, ok := p.read()
		if !ok {
			os.Exit(0)
		}
		answer := known[m.Method]
		if changed != nil && answer != "" {
			answer = changed(m.Method, answer)
		}
		switch {
		case m.Method == "initialized":
		case answer == "":
			return m
		case strings.HasPrefix(answer, "!"):
			p.refuse(m, -32600, answer[1:])
		default:
			p.reply(m, strings.ReplaceAll(answer, "EPHEMERAL", fmt.Sprint(strings.Contains(string(m.Params), `"ephemeral":true`))))
		}
	}
}

// started is setup and the turn.
func (p *peer) started() message {
	m := p.setup(nil)
	p.reply(m, `{"turn":{"id":"`+peerTurn+`","status":"inProgress","items":[]}}`)
	return m
}

// rest reads to the end of input.
func (p *peer) rest() {
	for {
		if _, ok := p.read(); !ok {
			return
		}
	}
}

// scripted is a bench whose Codex is one of appServers.
type scripted struct {
	*bench
	dir string
}

func newScripted(t testing.TB, name string, timing provider.Timing) *scripted {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// A program with the race detector sleeps for a second before it exits, in
	// case others of its goroutines race meanwhile. These peers end when they
	// have nothing left to do.
	env := map[string]string{"CODEX_PEER": name, "CODEX_HOME": dir, "GORACE": "atexit_sleep_ms=0"}
	return &scripted{newBench(t, coord.AgentConfig{Executable: exe, Env: env}, timing), dir}
}

// file gives the whole lines that the peer has noted so far.
func (s *scripted) file(name string) []string {
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return nil
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		if whole, ok := strings.CutSuffix(line, "\n"); ok {
			lines = append(lines, whole)
		}
	}
	return lines
}

// got gives the messages that the peer read, of one method ("" for responses).
func (s *scripted) got(method string) []message {
	var out []message
	for _, line := range s.file("got") {
		var m message
		if json.Unmarshal([]byte(line), &m) == nil && m.Method == method {
			out = append(out, m)
		}
	}
	return out
}
