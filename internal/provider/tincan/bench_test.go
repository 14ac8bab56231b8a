package tincan_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
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
	"signalbox/internal/provider/tincan"
	"signalbox/internal/provider/tincan/tincantest"
)

// standIn is the program that stands for tincan. It is built apart: a test binary
// with the race detector takes as long to start and to hash as all of a call.
var standIn string

// The test binary is also the gate of package process.
func TestMain(m *testing.M) {
	process.GateMain()
	dir, err := os.MkdirTemp("", "tincan-")
	if err == nil {
		standIn = filepath.Join(dir, "tincan")
		var out []byte
		out, err = exec.Command("go", "build", "-o", standIn, "signalbox/e2e/tincanpeer").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("build the stand-in: %w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}))
}

// ledger remembers which processes may exist.
type ledger struct {
	mu   sync.Mutex
	open map[int]process.Identity
	n    int
}

func (l *ledger) Started(_ context.Context, id process.Identity) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id.PID] = id
	l.n++
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

// logs is a log that is read while it is written.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logs) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// bench is an adapter whose tincan is the stand-in.
type bench struct {
	t       testing.TB
	adapter *tincan.Adapter
	ledger  *ledger
	logs    *logs
	scratch string
	home    string
	// dir holds the profile, and what the stand-in keeps.
	dir    string
	config coord.AgentConfig
}

var testTiming = tincan.Timing{Command: 20 * time.Second, First: 2 * time.Millisecond, Most: 20 * time.Millisecond, Failed: 20 * time.Millisecond}

func newBench(t testing.TB, dialect string, s tincantest.Script) *bench {
	return newTimedBench(t, dialect, s, testTiming)
}

func newTimedBench(t testing.TB, dialect string, s tincantest.Script, timing tincan.Timing) *bench {
	t.Helper()
	gate, err := process.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, ledger: &ledger{open: map[int]process.Identity{}}, scratch: t.TempDir(), home: t.TempDir(), dir: t.TempDir(), logs: &logs{}}
	b.script(s)
	path, err := tincantest.Profile(b.dir, "signalbox", "http://relay.example")
	if err != nil {
		t.Fatal(err)
	}
	b.config = coord.AgentConfig{Route: coord.RouteTincan, Executable: standIn, Tincan: &coord.TincanConfig{Peer: tincantest.DefaultPeer, Profile: path, Dialect: dialect}}
	b.adapter = tincan.New(process.New(gate, "test", b.ledger), tincan.Options{
		Scratch: b.scratch, Timing: timing, Lookup: b.lookup, Logger: slog.New(slog.NewTextHandler(b.logs, nil)),
	})
	t.Cleanup(func() {
		if left := b.left(); len(left) > 0 {
			t.Errorf("left are %q", left)
		}
		if strings.Contains(b.logs.String(), tincantest.Key) {
			t.Error("the profile's key is in the log")
		}
	})
	return b
}

func (b *bench) lookup(name string) (string, bool) {
	if name == "HOME" {
		return b.home, true
	}
	return "a value of the worker", true
}

func (b *bench) left() []string {
	var out []string
	for _, id := range b.ledger.left() {
		out = append(out, fmt.Sprintf("process %d", id.PID))
	}
	folders, _ := filepath.Glob(filepath.Join(b.scratch, "*"))
	return append(out, folders...)
}

// script is what the stand-in does from now on.
func (b *bench) script(s tincantest.Script) {
	b.t.Helper()
	if err := s.Write(b.dir); err != nil {
		b.t.Fatal(err)
	}
}

// inspect inspects the agent.
func (b *bench) inspect() coord.Inspection {
	b.t.Helper()
	in, err := b.adapter.Inspect(b.t.Context(), provider.Target{Agent: "muse", Revision: 1, Config: b.config, Scratch: b.scratch})
	if err != nil {
		b.t.Fatal(err)
	}
	return in
}

// work is what may be prepared.
func (b *bench) work(text string) provider.Work {
	b.t.Helper()
	id, err := tincan.Identify(b.config.Executable, b.config.Tincan.Profile)
	if err != nil {
		b.t.Fatal(err)
	}
	return provider.Work{Attempt: "att_1", Agent: "muse", Revision: 1, Config: b.config, Identity: id, Prompt: text}
}

// prepare prepares work.
func (b *bench) prepare(text string) provider.Session {
	b.t.Helper()
	s, err := b.adapter.Prepare(b.t.Context(), b.work(text))
	if err != nil {
		b.t.Fatalf("Prepare: %v", err)
	}
	b.t.Cleanup(func() { b.close(s) })
	return s
}

// send prepares and sends work, which must be handed over.
func (b *bench) send(text string) provider.Session {
	b.t.Helper()
	s := b.prepare(text)
	if got, err := s.Send(b.t.Context()); got != coord.HandedAll || err != nil {
		b.t.Fatalf("Send gave %q, %v", got, err)
	}
	return s
}

func (b *bench) close(s provider.Session) coord.ActivityState {
	b.t.Helper()
	a, err := s.Close(context.Background())
	if err != nil {
		b.t.Errorf("Close: %v", err)
	}
	return a
}

// events gives all events up to the last one.
func (b *bench) events(s provider.Session) []provider.Event {
	b.t.Helper()
	ctx, cancel := context.WithTimeoutCause(b.t.Context(), 30*time.Second, errors.New("no event came"))
	defer cancel()
	var all []provider.Event
	for {
		e, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			b.t.Fatalf("Next: %v after %+v", err, all)
		}
		all = append(all, e)
	}
}

// last gives the last event with the text of the answer.
func (b *bench) last(s provider.Session) (provider.Event, string) {
	b.t.Helper()
	all := b.events(s)
	text := ""
	for _, e := range all {
		if e.Text != nil {
			text += e.Text.Text
		}
	}
	return all[len(all)-1], text
}

// submissions gives what the relay took.
func (b *bench) submissions() []tincantest.Submission {
	b.t.Helper()
	all, err := tincantest.Submissions(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// await waits for what another process does.
func (b *bench) await(what string, is func() bool) {
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline.C:
			b.t.Errorf("%s did not come", what)
			return
		}
	}
}

// calls gives what the program was called with.
func (b *bench) calls(command string) []tincantest.Call {
	b.t.Helper()
	all, err := tincantest.Calls(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(c tincantest.Call) bool { return c.Args[0] != command })
}
