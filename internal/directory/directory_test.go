package directory_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/directory"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
	"signalbox/internal/redact"
)

var operator = coord.Actor{Role: coord.RoleOperator, Door: "browser", Presence: "browser", Name: "ada"}

// world is a directory on a real journal with a clock that a test moves.
type world struct {
	*directory.Directory
	journal *journal.Journal
	fake    *providertest.Fake
	scratch string

	mu  sync.Mutex
	now coord.Moment
}

func newWorld(t *testing.T, presets ...directory.Preset) *world {
	t.Helper()
	w := &world{
		fake: providertest.NewFake(coord.RouteACP, providertest.Always(providertest.Script{})), scratch: t.TempDir(),
		now: coord.Moment{Wall: time.Unix(1e9, 0).UTC(), BootID: "boot", Boot: time.Hour, Awake: time.Hour},
	}
	j, err := journal.Open(t.Context(), journal.Options{
		Dir: filepath.Join(t.TempDir(), "data"), Clock: w.clock, Redact: redact.New().String, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	w.journal = j
	w.Directory = directory.New(j, directory.Adapters{coord.RouteACP: w.fake}, directory.Options{
		Host: "here", Scratch: w.scratch, Logger: slog.New(slog.DiscardHandler), Presets: presets,
	})
	return w
}

// clock moves on by a little with each look, as real ones do.
func (w *world) clock() coord.Moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Microsecond)
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// program makes an executable file.
func program(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\ntouch "+filepath.Join(dir, "ran")+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func config(t *testing.T) coord.AgentConfig {
	t.Helper()
	return coord.AgentConfig{Route: coord.RouteACP, Executable: program(t, t.TempDir(), "agent")}
}

func (w *world) add(t *testing.T, id coord.AgentID, cfg coord.AgentConfig) coord.Agent {
	t.Helper()
	a, err := w.Add(t.Context(), id, cfg, operator)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func pointers(err error) []string {
	var e *coord.Error
	if !errors.As(err, &e) {
		return nil
	}
	var out []string
	for _, f := range e.Fields {
		out = append(out, f.Pointer)
	}
	return out
}

func TestAddedAgentIsListedWithItsDefaults(t *testing.T) {
	w := newWorld(t)
	cfg := config(t)
	a := w.add(t, "codex", cfg)
	if a.Revision != 1 || !a.Enabled || a.Name != "codex" || a.Host != "here" || a.Locality != coord.LocalityLocal || a.Declared {
		t.Errorf("added %+v", a)
	}
	list, err := w.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("listed %v, %v", list, err)
	}
	if diff := cmp.Diff(a, list[0]); diff != "" {
		t.Errorf("(-added +listed):\n%s", diff)
	}
	if _, err := w.Add(t.Context(), "codex", cfg, operator); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("the same id again gave %v", err)
	}
}

func TestEveryFaultOfAConfigurationIsToldAtOnce(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const token = "sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA-AAAAAAAA"
	cases := []struct {
		name string
		id   coord.AgentID
		cfg  coord.AgentConfig
		want []string
	}{
		{"nothing at all", "", coord.AgentConfig{}, []string{"/id", "/route"}},
		{"a route that is not there", "a", coord.AgentConfig{Route: "smtp"}, []string{"/route"}},
		{"no executable", "a", coord.AgentConfig{Route: coord.RouteACP}, []string{"/executable"}},
		{"a relative executable", "a", coord.AgentConfig{Route: coord.RouteACP, Executable: "agent"}, []string{"/executable"}},
		{"a missing executable", "a", coord.AgentConfig{Route: coord.RouteACP, Executable: filepath.Join(dir, "none")}, []string{"/executable"}},
		{"a folder", "a", coord.AgentConfig{Route: coord.RouteACP, Executable: dir}, []string{"/executable"}},
		{"a file that cannot be run", "a", coord.AgentConfig{Route: coord.RouteACP, Executable: plain}, []string{"/executable"}},
		{"an unknown locality", "a", coord.AgentConfig{Route: coord.RouteACP, Executable: program(t, dir, "x"), Locality: "moon"}, []string{"/locality"}},
		{"arguments", "a", coord.AgentConfig{Route: coord.RouteACP, Executable: program(t, dir, "x"),
			Args: []string{"ok", "a\x00b", "\xff", "--key=" + token}}, []string{"/args/1", "/args/2", "/args/3"}},
		{"state", "a", coord.AgentConfig{Route: coord.RouteACP, Executable: program(t, dir, "x"),
			State: []string{"/home/a", "relative", "/home/../etc", "/", "/home/a", filepath.Dir(w.scratch)}},
			[]string{"/state/1", "/state/2", "/state/3", "/state/4", "/state/5"}},
		{"too much state", "a", coord.AgentConfig{Route: coord.RouteACP, Executable: program(t, dir, "x"), State: slices.Repeat([]string{"/home/a"}, coord.MaxState+1)},
			append(slices.Collect(func(yield func(string) bool) {
				for i := 1; i <= coord.MaxState && yield(fmt.Sprintf("/state/%d", i)); i++ {
				}
			}), "/state")},
		{"no address for the mark", "a", coord.AgentConfig{Route: coord.RouteACP, Executable: program(t, dir, "x"), Args: []string{"--at=" + coord.ModelURLMark}}, []string{"/model_url"}},
		{"no mark for the address", "a", coord.AgentConfig{Route: coord.RouteACP, Executable: program(t, dir, "x"), ModelURL: "https://model.example/v1"}, []string{"/model_url"}},
		{"an address with a password", "a", coord.AgentConfig{Route: coord.RouteACP, Executable: program(t, dir, "x"), Args: []string{coord.ModelURLMark}, ModelURL: "https://u:p@model.example/v1"}, []string{"/model_url"}},
		{"an address that ends a string", "a", coord.AgentConfig{Route: coord.RouteACP, Executable: program(t, dir, "x"), Args: []string{coord.ModelURLMark}, ModelURL: `https://model.example/"`}, []string{"/model_url"}},
		{"the environment", "a", coord.AgentConfig{Route: coord.RouteACP, Executable: program(t, dir, "x"),
			Env:        map[string]string{"1BAD": "x", "API_KEY": token, "OK": "yes", "SIGNALBOX_TOKEN": "x", "TWICE": "x", "A/B": "x"},
			EnvFromEnv: map[string]string{"TWICE": "SOURCE", "TOKEN": "SIGNALBOX_TOKEN", "KEY": "not a name"}, RandomEnv: []string{"OK"}},
			[]string{"/env/1BAD", "/env/API_KEY", "/env/A~1B", "/env/SIGNALBOX_TOKEN", "/env_from_env/KEY", "/env_from_env/TOKEN", "/env_from_env/TWICE", "/random_env/0"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.Add(t.Context(), c.id, c.cfg, operator)
			if coord.CodeOf(err) != coord.Invalid {
				t.Fatalf("got %v", err)
			}
			got := pointers(err)
			slices.Sort(got)
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if list, err := w.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("after refusals there are %v, %v", list, err)
	}
}

func TestRevisionIsImmutableAndGuarded(t *testing.T) {
	w := newWorld(t)
	first := config(t)
	w.add(t, "codex", first)
	second := first
	second.Args = []string{"--acp"}
	a, err := w.Revise(t.Context(), "codex", 1, second, operator)
	if err != nil || a.Revision != 2 {
		t.Fatalf("revised to %d, %v", a.Revision, err)
	}
	if a, err = w.Revise(t.Context(), "codex", 2, second, operator); err != nil || a.Revision != 2 {
		t.Errorf("the same again gave revision %d, %v", a.Revision, err)
	}
	if _, err := w.Revise(t.Context(), "codex", 1, first, operator); coord.CodeOf(err) != coord.Stale {
		t.Errorf("an old revision gave %v", err)
	}
	if _, err := w.Revise(t.Context(), "nobody", 1, first, operator); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("nobody gave %v", err)
	}
	err = w.journal.View(t.Context(), func(v *journal.View) error {
		kept, err := v.AgentRevision("codex", 1)
		if len(kept.Args) != 0 {
			t.Errorf("revision 1 changed: %v", kept)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRemovedAgentIsGoneFromTheListAndItsRevisionsCountOn(t *testing.T) {
	w := newWorld(t)
	cfg := config(t)
	w.add(t, "codex", cfg)
	if err := w.Remove(t.Context(), "codex", operator); err != nil {
		t.Fatal(err)
	}
	if err := w.Remove(t.Context(), "codex", operator); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("removing again gave %v", err)
	}
	if list, err := w.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("listed %v, %v", list, err)
	}
	if _, err := w.Usable(t.Context(), "codex"); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("using it gave %v", err)
	}
	if _, err := w.Inspect(t.Context(), "codex"); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("inspecting it gave %v", err)
	}
	if a, err := w.Get(t.Context(), "codex"); err != nil || !a.Removed {
		t.Errorf("history sees %+v, %v", a, err)
	}
	if a := w.add(t, "codex", cfg); a.Revision != 2 || a.Removed || !a.Enabled {
		t.Errorf("registered again as %+v", a)
	}
}

func TestDeclaredAgentsFollowTheFile(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	cfg := config(t)
	declare := func(agents ...directory.Declared) {
		t.Helper()
		if err := w.Declare(ctx, agents); err != nil {
			t.Fatal(err)
		}
	}
	get := func() coord.Agent {
		t.Helper()
		a, err := w.Get(ctx, "codex")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	one := directory.Declared{ID: "codex", Config: cfg}
	declare(one)
	if a := get(); a.Revision != 1 || !a.Declared || !a.Enabled {
		t.Errorf("declared as %+v", a)
	}
	if _, err := w.SetEnabled(ctx, "codex", false, operator); err != nil {
		t.Fatal(err)
	}
	declare(one)
	if a := get(); a.Revision != 1 || a.Enabled {
		t.Errorf("a restart made a new revision or undid the operator's stop: %+v", a)
	}
	if _, err := w.Revise(ctx, "codex", 1, cfg, operator); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("revising a declared agent gave %v", err)
	}
	if err := w.Remove(ctx, "codex", operator); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("removing a declared agent gave %v", err)
	}
	one.Config.Args = []string{"--acp"}
	declare(one)
	if a := get(); a.Revision != 2 || a.Enabled {
		t.Errorf("an edit gave %+v", a)
	}
	declare()
	if a := get(); a.Declared || a.Enabled || a.Removed {
		t.Errorf("declared no longer: %+v", a)
	}
	declare(one)
	if a := get(); !a.Declared || !a.Enabled || a.Revision != 2 {
		t.Errorf("declared again: %+v", a)
	}
}

func TestFaultyDeclarationImportsNothing(t *testing.T) {
	w := newWorld(t)
	good := directory.Declared{ID: "good", Config: coord.AgentConfig{Route: coord.RouteACP, Executable: "/not/installed/here"}}
	err := w.Declare(t.Context(), []directory.Declared{good, {ID: "Bad", Config: coord.AgentConfig{Route: coord.RouteACP}}, good})
	if diff := cmp.Diff([]string{"/agents/1/id", "/agents/1/executable", "/agents/2/id"}, pointers(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if list, err := w.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("listed %v, %v", list, err)
	}
	if err := w.Declare(t.Context(), []directory.Declared{good}); err != nil {
		t.Errorf("an agent that is not installed here kept the file from being read: %v", err)
	}
}

func TestSecretThatOnlyTheJournalKnowsIsRefused(t *testing.T) {
	known := redact.New()
	known.Add("THE_KEY", "swordfish-and-more")
	j, err := journal.Open(t.Context(), journal.Options{
		Dir: filepath.Join(t.TempDir(), "data"), Clock: newWorld(t).clock, Redact: known.String, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	d := directory.New(j, directory.Adapters{coord.RouteACP: providertest.NewFake(coord.RouteACP, nil)},
		directory.Options{Host: "here", Scratch: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	cfg := config(t)
	cfg.Args = []string{"--greeting", "swordfish-and-more"}
	_, err = d.Add(t.Context(), "a", cfg, operator)
	if diff := cmp.Diff([]string{"/args/1"}, pointers(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := d.Get(t.Context(), "a"); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("the refused agent is kept: %v", err)
	}
}

func TestInspectionIsReusedForTenMinutesOfOneRevision(t *testing.T) {
	w := newWorld(t)
	looks := 0
	w.fake.OnInspect = func(target provider.Target) (coord.Inspection, error) {
		looks++
		if entries, err := os.ReadDir(target.Scratch); err != nil || len(entries) != 0 {
			t.Errorf("the scratch folder holds %v, %v", entries, err)
		}
		return coord.Inspection{Auth: coord.AuthReady, Operations: []coord.Operation{coord.Research}}, nil
	}
	cfg := config(t)
	w.add(t, "codex", cfg)
	use := func(want int) {
		t.Helper()
		a, err := w.Usable(t.Context(), "codex")
		if err != nil || a.Inspection == nil || a.Inspection.Revision != a.Revision {
			t.Fatalf("usable gave %+v, %v", a, err)
		}
		if looks != want {
			t.Errorf("%d inspections, want %d", looks, want)
		}
	}
	use(1)
	w.pass(9 * time.Minute)
	use(1)
	w.pass(time.Minute)
	use(2)
	cfg.Args = []string{"x"}
	if _, err := w.Revise(t.Context(), "codex", 1, cfg, operator); err != nil {
		t.Fatal(err)
	}
	use(3)
	if left, err := os.ReadDir(w.scratch); err != nil || len(left) != 0 {
		t.Errorf("inspections left %v, %v", left, err)
	}
}

func TestWhoAsksWhileAnInspectionRunsGetsItsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		let := make(chan struct{})
		looks := 0 // one inspection at a time, so not guarded; the race detector would tell
		w.fake.OnInspect = func(provider.Target) (coord.Inspection, error) {
			looks++
			<-let
			return coord.Inspection{Auth: coord.AuthReady}, nil
		}
		w.add(t, "codex", config(t))
		var wait sync.WaitGroup
		for range 5 {
			wait.Go(func() {
				if a, err := w.Inspect(t.Context(), "codex"); err != nil || a.Inspection == nil {
					t.Errorf("%+v, %v", a.Inspection, err)
				}
			})
		}
		synctest.Wait() // one inspects, the others wait for it
		// A caller that goes away must not end the inspection of the others.
		gone, leave := context.WithCancelCause(t.Context())
		left := errors.New("left")
		wait.Go(func() {
			if _, err := w.Inspect(gone, "codex"); !errors.Is(err, left) {
				t.Errorf("a caller that left got %v", err)
			}
		})
		synctest.Wait()
		leave(left)
		synctest.Wait()
		close(let)
		wait.Wait()
		if looks != 1 {
			t.Errorf("%d inspections for callers at the same time", looks)
		}
	})
}

func TestUnusableAgentSaysWhyAndWhatMendsIt(t *testing.T) {
	w := newWorld(t)
	w.add(t, "codex", config(t))
	cases := []struct {
		name string
		seen coord.Inspection
		err  error
		code coord.Code
		want string
	}{
		{"a login is missing", coord.Inspection{Auth: coord.AuthRequired, AuthHint: "codex login"}, nil, coord.Conflict,
			"agent codex cannot be used: it wants a login first; what you can do: codex login"},
		{"a problem", coord.Inspection{Auth: coord.AuthReady, Problem: "It speaks protocol 2."}, nil, coord.Conflict,
			"agent codex cannot be used: It speaks protocol 2; mend that, then 'signalbox agent inspect codex'"},
		{"nothing could be observed", coord.Inspection{}, coord.Errorf(coord.Unavailable, "it does not start"), coord.Unavailable, "it does not start"},
	}
	for _, c := range cases {
		w.fake.OnInspect = func(provider.Target) (coord.Inspection, error) { return c.seen, c.err }
		_, err := w.Usable(t.Context(), "codex")
		if coord.CodeOf(err) != c.code || err.Error() != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	w.fake.OnInspect = nil
	if _, err := w.Usable(t.Context(), "codex"); err != nil {
		t.Errorf("after it was mended: %v", err)
	}
	if _, err := w.SetEnabled(t.Context(), "codex", false, operator); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Usable(t.Context(), "codex"); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("disabled: %v", err)
	}
}

func TestRevisionDuringAnInspectionMakesItStale(t *testing.T) {
	w := newWorld(t)
	cfg := config(t)
	w.add(t, "codex", cfg)
	w.fake.OnInspect = func(provider.Target) (coord.Inspection, error) {
		other := cfg
		other.Args = []string{"x"}
		if _, err := w.Revise(t.Context(), "codex", 1, other, operator); err != nil {
			t.Error(err)
		}
		return coord.Inspection{Auth: coord.AuthReady}, nil
	}
	if _, err := w.Inspect(t.Context(), "codex"); coord.CodeOf(err) != coord.Stale {
		t.Errorf("got %v", err)
	}
	if a, err := w.Get(t.Context(), "codex"); err != nil || a.Inspection != nil {
		t.Errorf("an inspection of the old revision is kept: %+v, %v", a.Inspection, err)
	}
}

func TestDiscoveryFindsProgramsAndRunsNothing(t *testing.T) {
	bin := t.TempDir()
	goose := program(t, bin, "goose")
	claude := program(t, bin, "claude")
	if err := os.WriteFile(filepath.Join(bin, "opencode"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+".")
	w := newWorld(t,
		directory.Preset{Name: "goose", Title: "Goose", Commands: []string{"goose-acp", "goose"}, Config: coord.AgentConfig{Route: coord.RouteACP, Args: []string{"acp"}}, Note: "n"},
		directory.Preset{Name: "opencode", Title: "OpenCode", Commands: []string{"opencode"}, Config: coord.AgentConfig{Route: coord.RouteACP}},
	)
	got, err := w.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := coord.AgentConfig{Name: "Goose", Route: coord.RouteACP, Locality: coord.LocalityLocal, Executable: goose, Args: []string{"acp"}, Preset: "goose"}
	if len(got) != 2 || got[0].Config == nil || got[1].Executable != claude || got[1].Config != nil || got[1].Note == "" {
		t.Fatalf("found %+v", got)
	}
	if diff := cmp.Diff(want, *got[0].Config); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := w.Add(t.Context(), "goose", *got[0].Config, operator); err != nil {
		t.Errorf("the suggestion cannot be registered: %v", err)
	}
	if _, err := os.Stat(filepath.Join(bin, "ran")); err == nil {
		t.Error("discovery ran a program")
	}
}
