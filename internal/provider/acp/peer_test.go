package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signalbox/internal/coord"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/acp"
	"signalbox/internal/toolwire"
	"signalbox/internal/workspacemcp"
)

// The test binary is also the gate of package process and every peer: a raw
// agent that reads and writes lines and shares nothing with the code under
// test.
func TestMain(m *testing.M) {
	process.GateMain()
	if len(os.Args) > 1 && os.Args[1] == toolwire.Command {
		os.Exit(workspacemcp.Main(context.Background(), "test", os.Stdin, os.Stdout, os.Stderr, os.Getenv))
	}
	if len(os.Args) > 3 && os.Args[1] == "peer" {
		p := &peer{dir: os.Args[3], in: bufio.NewReaderSize(os.Stdin, 1<<20)}
		play, ok := peers[os.Args[2]]
		if !ok {
			fmt.Fprintln(os.Stderr, "no such peer:", os.Args[2])
			os.Exit(99)
		}
		play(p)
		p.exit(0)
	}
	goleak.VerifyTestMain(m)
}

// peers are the behaviours by name; tests add theirs in init.
var peers = map[string]func(*peer){}

// peer is the agent's side of a test, in a process of its own.
type peer struct {
	dir string
	in  *bufio.Reader
	mu  sync.Mutex
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
			p.exit(0)
		}
		if m.Method == method {
			return m
		}
	}
}

// result reads up to the response with this id.
func (p *peer) result(id string) message {
	for {
		m, ok := p.read()
		if !ok {
			p.exit(0)
		}
		if m.Method == "" && string(m.ID) == id {
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
	p.raw(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + "}\n")
}

func (p *peer) refuse(m message, code int, text string) {
	p.raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`+"\n", m.ID, code, text))
}

const peerSession = "sess-1"

// update sends a session/update of the peer's session.
func (p *peer) update(update string) { p.updateOf(peerSession, update) }

func (p *peer) updateOf(session, update string) {
	p.raw(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + session + `","update":` + update + "}}\n")
}

func chunk(text string) string {
	b, _ := json.Marshal(text)
	return `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":` + string(b) + `}}`
}

func (p *peer) say(text string) { p.update(chunk(text)) }

const defaultOptions = `[{"optionId":"yes","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"Reject","kind":"reject_once"}]`

// ask sends a permission request with this raw id.
func (p *peer) ask(id, toolCall, options string) {
	p.raw(`{"jsonrpc":"2.0","id":` + id + `,"method":"session/request_permission","params":{"sessionId":"` + peerSession + `","toolCall":` + toolCall + `,"options":` + options + "}}\n")
}

const peerInitialize = `{"protocolVersion":1,"agentCapabilities":{"loadSession":true},"agentInfo":{"name":"peer","version":"1.2.3"}}`

// setup answers what comes before the prompt.
func (p *peer) setup() {
	p.reply(p.expect("initialize"), peerInitialize)
	p.reply(p.expect("session/new"), `{"sessionId":"`+peerSession+`"}`)
}

// prompted is setup and the arrival of the prompt.
func (p *peer) prompted() message {
	p.setup()
	return p.expect("session/prompt")
}

func (p *peer) end(prompt message, reason string) { p.reply(prompt, `{"stopReason":"`+reason+`"}`) }

// rest reads to the end of input.
func (p *peer) rest() {
	for {
		if _, ok := p.read(); !ok {
			return
		}
	}
}

// waitFor waits until the test makes a file, which only tests of what two
// processes do at the same time need.
func (p *peer) waitFor(file string) {
	for range time.Tick(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(p.dir, file)); err == nil {
			return
		}
	}
}

func (p *peer) exit(code int) { os.Exit(code) }

// ledger remembers which processes may exist.
type ledger struct {
	mu   sync.Mutex
	open map[int]process.Identity
	all  int
}

func (l *ledger) Started(_ context.Context, id process.Identity) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id.PID] = id
	l.all++
	return nil
}

func (l *ledger) Ended(_ context.Context, id process.Identity) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, id.PID)
	return nil
}

func (l *ledger) left() []process.Identity {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.open))
}

// bench is an adapter with one agent that behaves as a peer by name.
type bench struct {
	t       testing.TB
	adapter *acp.Adapter
	config  coord.AgentConfig
	dir     string
	ledger  *ledger
	env     map[string]string
}

var testTiming = provider.Timing{Setup: 20 * time.Second, Write: 2 * time.Second, Grace: 2 * time.Second}

func newBench(t testing.TB, name string) *bench { return newBenchTiming(t, name, testTiming) }

func newBenchTiming(t testing.TB, name string, timing provider.Timing) *bench {
	t.Helper()
	self, err := process.Executable()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: t.TempDir(), ledger: &ledger{open: map[int]process.Identity{}}, env: map[string]string{"PATH": os.Getenv("PATH"), "HOME": t.TempDir()}}
	b.adapter = acp.New(process.New(self, "host", b.ledger), acp.Options{Timing: timing, Program: exe, Sockets: filepath.Join(t.TempDir(), "sockets"), Lookup: func(n string) (string, bool) {
		v, ok := b.env[n]
		return v, ok
	}})
	b.config = coord.AgentConfig{Route: coord.RouteACP, Executable: exe, Args: []string{"peer", name, b.dir},
		// The race detector keeps a process for a second at its exit.
		Env: map[string]string{"GORACE": "atexit_sleep_ms=0"}}
	t.Cleanup(func() {
		if left := b.ledger.left(); len(left) > 0 {
			t.Errorf("processes are left: %+v", left)
		}
	})
	return b
}

// approved is work with the identity that its agent has now.
func (b *bench) approved() provider.Work {
	b.t.Helper()
	id, err := acp.Identify(b.adapter, b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	return provider.Work{Attempt: "att_1", Agent: "peer", Revision: 1, Config: b.config, Identity: id, Dir: b.dir, Prompt: "do it"}
}

// prepare prepares, and closes at the end of the test.
func (b *bench) prepare(prompt string) provider.Session {
	b.t.Helper()
	w := b.approved()
	w.Prompt = prompt
	s, err := b.adapter.Prepare(b.t.Context(), w)
	if err != nil {
		b.t.Fatalf("Prepare: %v", err)
	}
	b.t.Cleanup(func() {
		if activity, err := s.Close(context.Background()); err != nil || activity != coord.Ended {
			b.t.Errorf("Close: %v, %v", activity, err)
		}
	})
	return s
}

// run prepares and sends.
func (b *bench) run(prompt string) provider.Session {
	b.t.Helper()
	s := b.prepare(prompt)
	if got, err := s.Send(b.t.Context()); got != coord.HandedAll || err != nil {
		b.t.Fatalf("Send: %v, %v", got, err)
	}
	return s
}

// next gives the next event within a time that only a hanging test needs.
func next(t *testing.T, s provider.Session) provider.Event {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, fmt.Errorf("no event came"))
	defer cancel()
	e, err := s.Next(ctx)
	if err != nil {
		t.Fatalf("Next: %v", err)
	}
	return e
}

// until reads up to an event of a kind and gives all that were read.
func until(t *testing.T, s provider.Session, kind provider.EventKind) []provider.Event {
	t.Helper()
	var all []provider.Event
	for {
		e := next(t, s)
		all = append(all, e)
		if e.Kind == kind {
			return all
		}
		if e.Kind == provider.EventEnd || e.Kind == provider.EventLost {
			t.Fatalf("the attempt ended before a %s: %+v %+v", kind, e.End, e.Lost)
		}
	}
}

func last(all []provider.Event) provider.Event { return all[len(all)-1] }

func text(all []provider.Event) string {
	var b strings.Builder
	for _, e := range all {
		if e.Kind == provider.EventText && e.Text.Channel == coord.ChannelMessage {
			b.WriteString(e.Text.Text)
		}
	}
	return b.String()
}

// file gives the whole lines that the peer has noted so far.
func (b *bench) file(name string) []string {
	data, err := os.ReadFile(filepath.Join(b.dir, name))
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
func (b *bench) got(method string) []message {
	var out []message
	for _, line := range b.file("got") {
		var m message
		if json.Unmarshal([]byte(line), &m) == nil && m.Method == method {
			out = append(out, m)
		}
	}
	return out
}

// touch makes a file that a peer waits for.
func (b *bench) touch(name string) {
	if err := os.WriteFile(filepath.Join(b.dir, name), nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// unsent prepares and gives the failure that must come.
func (b *bench) unsent(ctx context.Context) *provider.Unsent {
	b.t.Helper()
	s, err := b.adapter.Prepare(ctx, b.approved())
	if s != nil {
		_, _ = s.Close(context.Background())
	}
	var u *provider.Unsent
	if !errors.As(err, &u) {
		b.t.Fatalf("Prepare gave %v", err)
	}
	if n := len(b.got("session/prompt")); n > 0 {
		b.t.Errorf("the peer got %d prompts", n)
	}
	return u
}
