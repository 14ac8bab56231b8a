package codex_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/codex"
)

// ledger remembers which processes may exist.
type ledger struct {
	mu   sync.Mutex
	open map[int]process.Identity
	// agents are those that carry attempts or inspections, in order.
	all []process.Identity
}

func (l *ledger) Started(_ context.Context, id process.Identity) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id.PID] = id
	l.all = append(l.all, id)
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

// bench is an adapter with one configured agent.
type bench struct {
	t       testing.TB
	adapter *codex.Adapter
	config  coord.AgentConfig
	ledger  *ledger
	scratch string
}

var testTiming = provider.Timing{Setup: 60 * time.Second, Write: 5 * time.Second, Grace: 2 * time.Second}

// newBench makes an adapter whose processes are gone at the end of the test.
func newBench(t testing.TB, config coord.AgentConfig, timing provider.Timing) *bench {
	t.Helper()
	exe, err := process.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, config: config, ledger: &ledger{open: map[int]process.Identity{}}, scratch: t.TempDir()}
	b.config.Route = coord.RouteCodex
	b.adapter = codex.New(process.New(exe, "test", b.ledger), codex.Options{Scratch: b.scratch, Timing: timing})
	t.Cleanup(func() {
		if left := b.ledger.left(); len(left) > 0 {
			t.Errorf("processes are left: %+v", left)
		}
		if left, _ := filepath.Glob(filepath.Join(b.scratch, "*")); len(left) > 0 {
			t.Errorf("private folders are left: %q", left)
		}
	})
	return b
}

// real is a Codex of a version with a scripted model on loopback, and a home of
// its own. The user's own configuration in it asks for everything that Signalbox
// must turn off.
type real struct {
	*bench
	model *modelserver.Server
	home  string
}

// userConfig is what a user's config.toml may hold.
const userConfig = `
model = %q
model_provider = "mock"
approval_policy = "never"
sandbox_mode = "danger-full-access"
web_search = "live"
notify = ["/bin/touch", "%[3]s/notified"]
[mcp_servers."dotted.name"]
url = "http://127.0.0.1:1/mcp"
[mcp_servers.tool]
command = "/bin/touch"
args = ["%[3]s/mcp"]
[plugins."some@where"]
enabled = true
[agents]
enabled = true
[tools]
[features]
shell_tool = true
memories = true
view_image = true
[model_providers.mock]
name = "mock"
base_url = %[2]q
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
`

func newReal(t testing.TB, version, slug string, o modelserver.Options) *real {
	t.Helper()
	model := modelserver.New(o)
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.toml"), fmt.Appendf(nil, userConfig, slug, server.URL+"/v1", home), 0o600); err != nil {
		t.Fatal(err)
	}
	config := coord.AgentConfig{Executable: peers.Codex(t, version), Env: map[string]string{"CODEX_HOME": home, "HOME": home}}
	return &real{newBench(t, config, testTiming), model, home}
}

// work is an attempt at the program as it is now.
func (b *bench) work(id, prompt string, tools ...provider.Tool) provider.Work {
	b.t.Helper()
	identity, err := codex.Identify(b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	return provider.Work{Attempt: coord.AttemptID("att_" + id), Agent: "codex", Config: b.config, Identity: identity, Dir: b.t.TempDir(), Prompt: prompt, Tools: tools}
}

// tools are two of Signalbox's.
func tools() []provider.Tool {
	schema := []byte(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`)
	return []provider.Tool{{Name: "read", Description: "Reads a file.", Schema: schema}, {Name: "write", Description: "Writes a file.", Schema: schema}}
}

// attempt is a prepared session.
type attempt struct {
	t *testing.T
	provider.Session
}

func (b *bench) prepare(t *testing.T, w provider.Work) attempt {
	t.Helper()
	s, err := b.adapter.Prepare(t.Context(), w)
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	a := attempt{t, s}
	t.Cleanup(func() { a.close() })
	return a
}

func (b *bench) send(t *testing.T, w provider.Work) attempt {
	t.Helper()
	a := b.prepare(t, w)
	if got, err := a.Send(t.Context()); got != coord.HandedAll || err != nil {
		t.Fatalf("Send gave %q, %v", got, err)
	}
	return a
}

func (a attempt) close() coord.ActivityState {
	a.t.Helper()
	activity, err := a.Close(context.WithoutCancel(a.t.Context()))
	if err != nil {
		a.t.Errorf("Close: %v", err)
	}
	return activity
}

func (a attempt) next() provider.Event {
	a.t.Helper()
	ctx, cancel := context.WithTimeoutCause(a.t.Context(), 60*time.Second, errors.New("no event came"))
	defer cancel()
	e, err := a.Next(ctx)
	if err != nil {
		a.t.Fatalf("Next: %v", err)
	}
	return e
}

// until gives all events up to the first of a kind.
func (a attempt) until(kind provider.EventKind) []provider.Event {
	a.t.Helper()
	var all []provider.Event
	for {
		e := a.next()
		all = append(all, e)
		switch {
		case e.Kind == kind:
			return all
		case e.End != nil:
			a.t.Fatalf("the end came before a %s: %+v", kind, *e.End)
		case e.Lost != nil:
			a.t.Fatalf("the loss came before a %s: %+v", kind, *e.Lost)
		}
	}
}

func last(all []provider.Event) provider.Event { return all[len(all)-1] }

// finish reads to the end and gives it with the answer.
func (a attempt) finish() (provider.End, string) {
	a.t.Helper()
	all := a.until(provider.EventEnd)
	return *last(all).End, textOf(all, coord.ChannelMessage)
}

func textOf(all []provider.Event, channel string) string {
	var b strings.Builder
	for _, e := range all {
		if e.Text != nil && e.Text.Channel == channel {
			b.WriteString(e.Text.Text)
		}
	}
	return b.String()
}

func (a attempt) respond(answer provider.Answer) {
	a.t.Helper()
	if got, err := a.Respond(a.t.Context(), answer); got != provider.Delivered || err != nil {
		a.t.Errorf("Respond gave %q, %v", got, err)
	}
}

// eachVersion runs a test with all versions at once: they share nothing, and wait
// most of the time, for the disk and for processes.
func eachVersion(t *testing.T, run func(t *testing.T, version string)) {
	for _, version := range peers.CodexVersions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			run(t, version)
		})
	}
}
