package workspacemcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/acp"
	"signalbox/internal/toolwire"
)

// patience is what only a hanging test needs on a loaded machine.
const patience = 60 * time.Second

var errPatience = errors.New("it did not come in time")

var tools = []provider.Tool{
	{Name: "read", Description: "Reads a file.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
	{Name: "write", Description: "Writes a file.", Schema: json.RawMessage(`{"type":"object"}`)},
}

// ledger is what process.Starter wants of a journal.
type ledger struct {
	mu   sync.Mutex
	open map[int]process.Identity
}

func (l *ledger) Started(_ context.Context, id process.Identity) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id.PID] = id
	return nil
}

func (l *ledger) Ended(_ context.Context, id process.Identity) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, id.PID)
	return nil
}

// bench is an ACP adapter that gives tools, with one agent.
type bench struct {
	t       *testing.T
	dir     string
	options acp.Options
	config  coord.AgentConfig
	// secrets is what the adapter told to keep from everybody, by name.
	secrets map[string]string
	ledger  *ledger
}

func newBench(t *testing.T, play string) *bench {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: t.TempDir(), secrets: map[string]string{}, ledger: &ledger{open: map[int]process.Identity{}}}
	b.options = acp.Options{
		Timing:  provider.Timing{Setup: patience, Write: 5 * time.Second, Grace: 2 * time.Second},
		Secret:  func(name, value string) { b.secrets[name] = value },
		Program: binary, Sockets: filepath.Join(t.TempDir(), "sockets"),
	}
	b.config = coord.AgentConfig{Route: coord.RouteACP, Executable: exe, Args: []string{"agent", play, b.dir},
		Env: map[string]string{"GORACE": "atexit_sleep_ms=0"}}
	t.Cleanup(func() {
		if n := len(b.ledger.open); n > 0 {
			t.Errorf("%d processes are left", n)
		}
		if left, err := os.ReadDir(b.options.Sockets); err == nil && len(left) > 0 {
			t.Errorf("sockets are left: %v", left)
		}
	})
	return b
}

// inspected is what each program is, which takes a start to find out, and that
// of OpenCode takes seconds.
var inspected = map[string]coord.Identity{}

// prepare prepares with the tools, for an agent whose identity is what it is.
func (b *bench) prepare(prompt string) (provider.Session, error) {
	b.t.Helper()
	self, err := process.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	a := acp.New(process.New(self, "host", b.ledger), b.options)
	identity, known := inspected[b.config.Executable]
	if !known {
		in, err := a.Inspect(b.t.Context(), provider.Target{Agent: "agent", Revision: 1, Config: b.config, Scratch: b.t.TempDir()})
		if err != nil {
			b.t.Fatal(err)
		}
		identity = in.Identity
		inspected[b.config.Executable] = identity
	}
	return a.Prepare(b.t.Context(), provider.Work{Attempt: "att_1", Agent: "agent", Revision: 1, Config: b.config,
		Identity: identity, Dir: b.dir, Prompt: prompt, Tools: tools})
}

// run prepares and sends.
func (b *bench) run(prompt string) *turn {
	b.t.Helper()
	s, err := b.prepare(prompt)
	if err != nil {
		b.t.Fatalf("Prepare: %v", err)
	}
	b.t.Cleanup(func() {
		if activity, err := s.Close(context.Background()); err != nil || activity != coord.Ended {
			b.t.Errorf("Close: %v, %v", activity, err)
		}
	})
	if got, err := s.Send(b.t.Context()); got != coord.HandedAll || err != nil {
		b.t.Fatalf("Send: %v, %v", got, err)
	}
	return &turn{b, s}
}

// turn is a session whose work was sent.
type turn struct {
	*bench
	session provider.Session
}

// until reads up to an event of a kind.
func (t *turn) until(kind provider.EventKind) provider.Event {
	t.t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.t.Context(), patience, errPatience)
	defer cancel()
	for {
		e, err := t.session.Next(ctx)
		if err != nil {
			t.t.Fatalf("no %s: %v", kind, err)
		}
		if e.Kind == kind {
			return e
		}
		if e.Kind == provider.EventEnd || e.Kind == provider.EventLost {
			t.t.Fatalf("the attempt ended before a %s: %+v %+v", kind, e.End, e.Lost)
		}
	}
}

func (t *turn) answer(request, text string, failed bool, want provider.Delivery) {
	t.t.Helper()
	got, err := t.session.Respond(t.t.Context(), provider.Answer{Request: request, Decision: coord.DecisionApproved, Result: &provider.Result{Text: text, Failed: failed}})
	if got != want {
		t.t.Errorf("the answer to %s is %q (%v), want %q", request, got, err, want)
	}
}

func (t *turn) ends(want coord.AttemptState) {
	t.t.Helper()
	if e := t.until(provider.EventEnd); e.End.State != want {
		t.t.Errorf("the end is %+v, want %s", e.End, want)
	}
}

func (b *bench) touch(file string) {
	if err := os.WriteFile(filepath.Join(b.dir, file), nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// lines gives what the agent noted, sorted: calls end in any order.
func (b *bench) lines(file string) []string {
	data, err := os.ReadFile(filepath.Join(b.dir, file))
	if err != nil {
		b.t.Error(err)
	}
	return slices.Sorted(strings.Lines(string(data)))
}

// results waits until the agent noted so many lines.
func (b *bench) results(want ...string) {
	b.t.Helper()
	for i := range want {
		want[i] += "\n"
	}
	slices.Sort(want)
	ctx, cancel := context.WithTimeoutCause(b.t.Context(), patience, errPatience)
	defer cancel()
	for tick := time.Tick(5 * time.Millisecond); ; {
		data, err := os.ReadFile(filepath.Join(b.dir, "results"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.t.Fatal(err)
		}
		if strings.Count(string(data), "\n") >= len(want) {
			break
		}
		select {
		case <-tick:
		case <-ctx.Done():
			b.t.Fatalf("the agent noted %q, want %q", data, want)
		}
	}
	if diff := cmp.Diff(want, b.lines("results")); diff != "" {
		b.t.Errorf("what the agent got (-want +got):\n%s", diff)
	}
}

func init() {
	plays["call"] = func(a *agent) {
		ctx := context.Background()
		c := a.connect(ctx, a.command())
		if err := c.Ping(ctx, nil); err != nil {
			a.note("results", "ping: "+err.Error())
		}
		list, err := c.ListTools(ctx, nil)
		must(err)
		b, err := json.Marshal(list.Tools)
		must(err)
		a.note("tools", string(b))
		a.note("tools", c.InitializeResult().ProtocolVersion+" "+c.InitializeResult().ServerInfo.Name)
		a.call(ctx, c, "one", "write", map[string]any{"path": "a <b>.txt", "content": "ünï\u2028\n"})
		a.call(ctx, c, "two", "read", map[string]any{"path": "secret"})
		a.call(ctx, c, "three", "shell", map[string]any{"command": "rm"})
		a.call(ctx, c, "four", "read", map[string]any{"path": strings.Repeat("x", coord.MaxCallArguments)})
		must(c.Close())
		a.end("end_turn")
	}
}

func TestAnAgentGetsTheToolsAndTheirResults(t *testing.T) {
	b := newBench(t, "call")
	turn := b.run("work")
	r := turn.until(provider.EventReceipt)
	if r.Receipt.Kind != "call" || r.Receipt.Reference != agentSession {
		t.Errorf("the receipt is %+v", r.Receipt)
	}
	one := turn.until(provider.EventCall).Call
	if one.Tool != "write" || one.Origin.Session != agentSession || one.Origin.Request == "" {
		t.Errorf("the call is %+v", one)
	}
	var arguments map[string]string
	if err := json.Unmarshal(one.Arguments, &arguments); err != nil || !maps.Equal(arguments, map[string]string{"path": "a <b>.txt", "content": "ünï\u2028\n"}) {
		t.Errorf("the arguments are %s", one.Arguments)
	}
	turn.answer(one.Origin.Request, "staged\nas \"a <b>.txt\"", false, provider.Delivered)
	turn.answer(one.Origin.Request, "something else", true, provider.Delivered)
	two := turn.until(provider.EventCall).Call
	if two.Origin.Request == one.Origin.Request {
		t.Error("two calls have one id")
	}
	turn.answer(two.Origin.Request, "The operator denied it.", true, provider.Delivered)
	turn.ends(coord.AttemptCompleted)
	if got, err := turn.session.Respond(t.Context(), provider.Answer{Request: "call-9-9"}); got != provider.Undeliverable || err == nil {
		t.Errorf("an answer to nobody is %q, %v", got, err)
	}
	b.results("one: failed=false staged", "as \"a <b>.txt\"", "two: failed=true The operator denied it.", "three: failed=true There is no such tool.",
		fmt.Sprintf("four: failed=true The arguments have %d bytes; at most %d are taken.", coord.MaxCallArguments+len(`{"path":""}`), coord.MaxCallArguments))

	said := b.lines("tools")
	var listed []struct {
		Name, Description string
		InputSchema       any
	}
	if err := json.Unmarshal([]byte(said[1]), &listed); err != nil || len(listed) != 2 || said[0] != "2025-11-25 signalbox\n" {
		t.Fatalf("the client saw %q (%v)", said, err)
	}
	for i, want := range tools {
		var schema any
		_ = json.Unmarshal(want.Schema, &schema)
		if got := listed[i]; got.Name != want.Name || got.Description != want.Description || !cmp.Equal(got.InputSchema, schema) {
			t.Errorf("listed is %+v, want %+v", got, want)
		}
	}
	token := b.secrets[toolwire.TokenEnv]
	// An inspection got none, which sorts first.
	all := b.lines("servers")
	servers := all[len(all)-1]
	if len(token) != 64 || !strings.Contains(servers, token) || !strings.Contains(servers, binary) {
		t.Errorf("the token that is to be redacted is %q, the agent got %s", token, servers)
	}
}

func init() {
	plays["parallel"] = func(a *agent) {
		ctx := context.Background()
		c := a.connect(ctx, a.command())
		var all sync.WaitGroup
		for i := range coord.MaxCalls {
			all.Go(func() { a.call(ctx, c, fmt.Sprint(i), "read", map[string]any{"path": fmt.Sprint(i)}) })
		}
		a.await("full")
		a.call(ctx, c, "over", "read", map[string]any{})
		// Another tool server has no calls of its own, but the attempt's bound.
		other := a.connect(ctx, a.command())
		a.call(ctx, other, "other", "read", map[string]any{})
		a.note("over", "")
		all.Wait()
		a.end("end_turn")
	}
}

func TestSixteenCallsRunAtOnceAndNoMore(t *testing.T) {
	b := newBench(t, "parallel")
	turn := b.run("work")
	var calls []*provider.Call
	for range coord.MaxCalls {
		calls = append(calls, turn.until(provider.EventCall).Call)
	}
	b.touch("full")
	refused := fmt.Sprintf("failed=true %d calls are not answered yet; wait for one of them.", coord.MaxCalls)
	b.results("over: "+refused, "other: "+refused)
	want := []string{"over: " + refused, "other: " + refused}
	for _, call := range slices.Backward(calls) {
		var p struct{ Path string }
		if err := json.Unmarshal(call.Arguments, &p); err != nil {
			t.Fatal(err)
		}
		turn.answer(call.Origin.Request, "content of "+p.Path, false, provider.Delivered)
		want = append(want, p.Path+": failed=false content of "+p.Path)
	}
	turn.ends(coord.AttemptCompleted)
	b.results(want...)
}

func init() {
	plays["twice"] = func(a *agent) {
		ctx := context.Background()
		first, second := a.connect(ctx, a.command()), a.connect(ctx, a.command())
		a.call(ctx, first, "first", "read", map[string]any{})
		open := a.command()
		third := a.connect(ctx, open)
		go func() { _, _ = third.CallTool(ctx, &mcpCall) }()
		a.await("kill")
		must(open.Process.Kill())
		a.await("next")
		a.call(ctx, second, "second", "read", map[string]any{})
		a.end("end_turn")
	}
	plays["give up"] = func(a *agent) {
		c := a.connect(context.Background(), a.command())
		ctx, cancel := context.WithCancelCause(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := c.CallTool(ctx, &mcpCall)
			a.note("results", fmt.Sprintf("given up: %v", errors.Is(err, context.Canceled)))
		}()
		a.await("give-up")
		cancel(context.Canceled)
		<-done
		a.await("next")
		a.call(context.Background(), c, "next", "read", map[string]any{})
		a.end("end_turn")
	}
}

func TestACallIsWithdrawnWhenItsToolServerDiesAndOthersGoOn(t *testing.T) {
	b := newBench(t, "twice")
	turn := b.run("work")
	first := turn.until(provider.EventCall).Call
	turn.answer(first.Origin.Request, "1", false, provider.Delivered)
	third := turn.until(provider.EventCall).Call
	b.touch("kill")
	if e := turn.until(provider.EventWithdrawn); e.Withdrawn != third.Origin.Request {
		t.Errorf("%s was withdrawn, want %s", e.Withdrawn, third.Origin.Request)
	}
	turn.answer(third.Origin.Request, "3", false, provider.Undeliverable)
	b.touch("next")
	second := turn.until(provider.EventCall).Call
	turn.answer(second.Origin.Request, "2", false, provider.Delivered)
	turn.ends(coord.AttemptCompleted)
	b.results("first: failed=false 1", "second: failed=false 2")
}

func TestACancelledCallIsWithdrawn(t *testing.T) {
	b := newBench(t, "give up")
	turn := b.run("work")
	call := turn.until(provider.EventCall).Call
	b.touch("give-up")
	if e := turn.until(provider.EventWithdrawn); e.Withdrawn != call.Origin.Request {
		t.Errorf("%s was withdrawn, want %s", e.Withdrawn, call.Origin.Request)
	}
	turn.answer(call.Origin.Request, "late", false, provider.Undeliverable)
	b.touch("next")
	turn.answer(turn.until(provider.EventCall).Call.Origin.Request, "2", false, provider.Delivered)
	turn.ends(coord.AttemptCompleted)
	b.results("given up: true", "next: failed=false 2")
}
