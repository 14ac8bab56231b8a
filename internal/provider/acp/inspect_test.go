package acp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

func (b *bench) inspect() coord.Inspection {
	b.t.Helper()
	in, err := b.adapter.Inspect(b.t.Context(), provider.Target{Agent: "peer", Revision: 3, Config: b.config, Scratch: b.t.TempDir()})
	if err != nil {
		b.t.Fatalf("Inspect: %v", err)
	}
	if left := b.ledger.left(); len(left) > 0 {
		b.t.Errorf("left is %v", left)
	}
	if n := len(b.got("session/prompt")); n > 0 {
		b.t.Errorf("the peer got %d prompts", n)
	}
	return in
}

func capability(in coord.Inspection, name string) coord.Capability {
	for _, c := range in.Capabilities {
		if c.Name == name {
			return c
		}
	}
	return coord.Capability{}
}

func TestInspectTellsWhatWasDeclaredFromWhatWasMeasured(t *testing.T) {
	in := newBench(t, "silent setup").inspect()
	if in.Problem != "" || in.Auth != coord.AuthReady || in.Agent != "peer" || in.Revision != 3 || in.At.IsZero() || in.Identity.Version != "peer 1.2.3" {
		t.Errorf("the inspection is %+v", in)
	}
	if len(in.Operations) != 1 || in.Operations[0] != coord.Research {
		t.Errorf("the operations are %v", in.Operations)
	}
	for name, want := range map[string]coord.Capability{
		"initialize":             {Has: true, Evidence: coord.Measured},
		"session/new":            {Has: true, Evidence: coord.Measured},
		"session/load":           {Has: true, Evidence: coord.Declared},
		"session/list":           {Has: false, Evidence: coord.Declared},
		coord.CapabilityConfined: {Has: false, Evidence: coord.Declared},
		"exits at end of input":  {Has: true, Evidence: coord.Measured},
	} {
		if got := capability(in, name); got.Has != want.Has || got.Evidence != want.Evidence {
			t.Errorf("%s is %+v", name, got)
		}
	}
	for _, f := range in.Identity.Files {
		if f.SHA256 == "" {
			t.Errorf("the identity is %+v", in.Identity)
		}
	}
}

func TestInspectMeasuresAnAgentThatStays(t *testing.T) {
	b := newBenchTiming(t, "deaf to the end", provider.Timing{Setup: testTiming.Setup, Write: testTiming.Write, Grace: 100e6})
	if c := capability(b.inspect(), "exits at end of input"); c.Has || c.Evidence != coord.Measured {
		t.Errorf("it is %+v", c)
	}
}

func TestInspectSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"claude", "codex", "npx", "plain"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		executable, peer, word string
	}{
		"claude is no endpoint":   {filepath.Join(dir, "claude"), "", "claude-agent-acp"},
		"codex is no endpoint":    {filepath.Join(dir, "codex"), "", "the preset codex"},
		"a fetcher":               {filepath.Join(dir, "npx"), "", "package registry"},
		"an absent program":       {filepath.Join(dir, "absent"), "", "does not exist"},
		"a relative path":         {"agent", "", "absolute"},
		"a program that ends":     {filepath.Join(dir, "plain"), "", "status 1"},
		"another version":         {"", "version 2", "version"},
		"a login that is missing": {"", "auth", "login"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.peer)
			if c.executable != "" {
				b.config.Executable, b.config.Args = c.executable, nil
			}
			in := b.inspect()
			if !strings.Contains(in.Problem, c.word) || len(in.Operations) > 0 {
				t.Errorf("the problem is %q, the operations %v", in.Problem, in.Operations)
			}
		})
	}
}

func TestInspectWarnsOfWhatAPresetSuggestsAndTheConfigurationLacks(t *testing.T) {
	b := newBench(t, "silent setup")
	b.config.Preset = "opencode"
	if w := strings.Join(b.inspect().Warnings, " "); !strings.Contains(w, "OPENCODE_SERVER_PASSWORD is not set at random") {
		t.Errorf("the warnings are %q", w)
	}
}
