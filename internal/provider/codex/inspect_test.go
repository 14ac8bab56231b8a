package codex_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
	"signalbox/internal/provider"
	"signalbox/internal/provider/codex"
)

// inspect observes the agent and gives what must not be an error.
func (b *bench) inspect(t *testing.T) coord.Inspection {
	t.Helper()
	in, err := b.adapter.Inspect(t.Context(), provider.Target{Agent: "codex", Revision: 3, Config: b.config, Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func capability(in coord.Inspection, name string) coord.Capability {
	at := slices.IndexFunc(in.Capabilities, func(c coord.Capability) bool { return c.Name == name })
	if at < 0 {
		return coord.Capability{}
	}
	return in.Capabilities[at]
}

func TestInspectionMeasuresTheToolsOfAModel(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		for _, slug := range []string{"mock-model", "gpt-6-astra"} {
			r := newReal(t, version, slug, modelserver.Options{})
			in := r.inspect(t)
			if in.Problem != "" || in.Auth != coord.AuthReady || in.Identity.Version != "codex-cli "+version || len(in.Identity.Files) != 1 || len(in.Identity.Files[0].SHA256) != 64 {
				t.Errorf("the inspection is %+v", in)
			}
			if diff := cmp.Diff([]coord.Operation{coord.Research, coord.Read}, in.Operations); diff != "" {
				t.Errorf("operations: %s, capabilities %+v", diff, in.Capabilities)
			}
			want := coord.Capability{Name: coord.CapabilityTools, Has: true, Evidence: coord.Measured, Detail: "a model on loopback was offered request_user_input, workspace_probe"}
			if got := capability(in, coord.CapabilityTools); got != want {
				t.Errorf("of tools is told %+v", got)
			}
			if got := capability(in, "model").Detail; got != slug+" of mock" {
				t.Errorf("of the model is told %q", got)
			}
			if n := r.model.Count(); n != 0 {
				t.Errorf("the configured model was asked %d times", n)
			}
			if kept, _ := filepath.Glob(filepath.Join(r.home, "sessions", "*", "*", "*", "*")); len(kept) > 0 {
				t.Errorf("threads were kept: %q", kept)
			}
			if config, _ := os.ReadFile(filepath.Join(r.home, "config.toml")); !strings.Contains(string(config), `sandbox_mode = "danger-full-access"`) {
				t.Error("the user's configuration was changed")
			}
		}
	})
}

func TestInspectionAsksForALogin(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		r := newReal(t, version, "mock-model", modelserver.Options{})
		if err := os.WriteFile(filepath.Join(r.home, "config.toml"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		in := r.inspect(t)
		if in.Auth != coord.AuthRequired || !strings.Contains(in.AuthHint, "codex login") || in.Problem == "" || len(in.Operations) > 0 {
			t.Errorf("the inspection is %+v", in)
		}
		_, err := r.adapter.Prepare(t.Context(), r.work("1", "Work."))
		if u, ok := errors.AsType[*provider.Unsent](err); !ok || u.Cause != provider.CauseAuth {
			t.Errorf("Prepare gave %v", err)
		}
	})
}

func TestInspectionNamesTheSettingThatCodexRefuses(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		for setting, want := range map[string]string{"nonsense = 1": "nonsense", "web_search = \"maybe\"": "", "x = [": "config.toml"} {
			r := newReal(t, version, "mock-model", modelserver.Options{})
			if err := os.WriteFile(filepath.Join(r.home, "config.toml"), []byte(setting), 0o600); err != nil {
				t.Fatal(err)
			}
			// What Signalbox sets itself is not read from the user's configuration.
			if in := r.inspect(t); in.Problem == "" || !strings.Contains(in.Problem, want) {
				t.Errorf("with %s the inspection is %+v", setting, in)
			}
		}
	})
}

func TestInspectionTellsWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "codex")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config coord.AgentConfig
		want   string
	}{
		"a relative path": {coord.AgentConfig{Executable: "codex"}, "absolute"},
		"nothing there":   {coord.AgentConfig{Executable: filepath.Join(dir, "none")}, "does not exist"},
		"a script":        {coord.AgentConfig{Executable: script}, "native codex"},
		"no codex":        {coord.AgentConfig{Executable: "/bin/true"}, "models"},
		"an argument":     {coord.AgentConfig{Executable: "/bin/true", Args: []string{"--listen"}}, "pairs of -c"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.config, testTiming)
			if in := b.inspect(t); !strings.Contains(in.Problem, c.want) || len(in.Operations) > 0 {
				t.Errorf("the inspection is %+v", in)
			}
		})
	}
}

func TestWrapperOfNodeStandsForTheNativeProgram(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("lib/node_modules/@openai/codex/bin/codex.js", "#!/usr/bin/env node\n")
	native := write("lib/node_modules/@openai/codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex", "\x7fELF")
	link := filepath.Join(root, "bin")
	if err := os.Mkdir(link, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../lib/node_modules/@openai/codex/bin/codex.js", filepath.Join(link, "codex")); err != nil {
		t.Fatal(err)
	}
	id, err := codex.Identify(coord.AgentConfig{Executable: filepath.Join(link, "codex")})
	if err != nil || len(id.Files) != 1 || id.Files[0].Path != native {
		t.Errorf("the identity is %+v, %v", id, err)
	}
}
