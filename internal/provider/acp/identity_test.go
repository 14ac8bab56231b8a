package acp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/filehash/filehashtest"
	"signalbox/internal/provider"
	"signalbox/internal/provider/acp"
)

// tree writes files and gives the root with its links resolved.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestIdentityIsEveryFileThatDecidesWhatRuns(t *testing.T) {
	root := tree(t, map[string]string{
		"bin/native":               "\x7fELF",
		"bin/node":                 "\x7fELF",
		"bin/python3.12":           "\x7fELF",
		"other/node":               "\x7fELF other",
		"pkg/dist/cli.js":          "#!/usr/bin/env node\n",
		"pkg/dist/split.js":        "#!/usr/bin/env -S node --no-warnings\n",
		"pkg/package.json":         "{}",
		"tool/run.sh":              "#!/bin/sh\n",
		"tool/direct.py":           "#!" + "ROOT/bin/python3.12 -u\n",
		"venv/lib/agent/script.py": "print()",
	})
	direct := filepath.Join(root, "tool/direct.py")
	if err := os.WriteFile(direct, []byte("#!"+root+"/bin/python3.12 -u\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../pkg/dist/cli.js", filepath.Join(root, "bin/agent")); err != nil {
		t.Fatal(err)
	}
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	a := acp.New(nil, acp.Options{Lookup: func(name string) (string, bool) {
		return map[string]string{"PATH": root + "/bin", "OTHER": root + "/other"}[name], name == "PATH" || name == "OTHER"
	}})
	in := func(names ...string) []string {
		for i, n := range names {
			role, path, _ := strings.Cut(n, " ")
			if !filepath.IsAbs(path) {
				names[i] = role + " " + filepath.Join(root, path)
			}
		}
		return names
	}
	for name, c := range map[string]struct {
		config coord.AgentConfig
		want   []string
	}{
		"a binary":                    {coord.AgentConfig{Executable: root + "/bin/native"}, in("launcher bin/native")},
		"a binary with a file":        {coord.AgentConfig{Executable: root + "/bin/native", Args: []string{root + "/pkg/dist/cli.js"}}, in("launcher bin/native")},
		"a link to a script":          {coord.AgentConfig{Executable: root + "/bin/agent"}, in("launcher pkg/dist/cli.js", "interpreter bin/node", "package pkg/package.json")},
		"a script through env -S":     {coord.AgentConfig{Executable: root + "/pkg/dist/split.js"}, in("launcher pkg/dist/split.js", "interpreter bin/node", "package pkg/package.json")},
		"a script with its own PATH":  {coord.AgentConfig{Executable: root + "/bin/agent", Env: map[string]string{"PATH": root + "/other"}}, in("launcher pkg/dist/cli.js", "interpreter other/node", "package pkg/package.json")},
		"a script with a mapped PATH": {coord.AgentConfig{Executable: root + "/bin/agent", EnvFromEnv: map[string]string{"PATH": "OTHER"}}, in("launcher pkg/dist/cli.js", "interpreter other/node", "package pkg/package.json")},
		"node with a script":          {coord.AgentConfig{Executable: root + "/bin/node", Args: []string{"--no-warnings", root + "/pkg/dist/cli.js", "acp"}}, in("launcher bin/node", "script pkg/dist/cli.js", "package pkg/package.json")},
		"python with a script":        {coord.AgentConfig{Executable: root + "/bin/python3.12", Args: []string{root + "/venv/lib/agent/script.py"}}, in("launcher bin/python3.12", "script venv/lib/agent/script.py")},
		"a script of the shell":       {coord.AgentConfig{Executable: root + "/tool/run.sh"}, in("launcher tool/run.sh", "interpreter "+sh)},
		"an absolute interpreter":     {coord.AgentConfig{Executable: direct}, in("launcher tool/direct.py", "interpreter bin/python3.12")},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := acp.Identify(a, c.config)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range id.Files {
				got = append(got, f.Role+" "+f.Path)
				if len(f.SHA256) != 64 || f.Size == 0 {
					t.Errorf("the file is %+v", f)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCommandsThatDoNotTellWhatRunsAreRefused(t *testing.T) {
	root := tree(t, map[string]string{"npx": "x", "uvx": "x", "bunx": "x", "pnpm": "x", "npm": "x", "uv": "x", "bun": "x", "yarn": "x", "node": "x", "python3": "x", "sh": "x", "env": "x", "deno": "x"})
	a := acp.New(nil, acp.Options{})
	for name, c := range map[string]struct {
		args    []string
		refused bool
	}{
		"npx": {[]string{"pkg"}, true}, "uvx": {nil, true}, "bunx": {nil, true}, "pnpm": {[]string{"--silent", "dlx", "pkg"}, true},
		"npm": {[]string{"exec", "pkg"}, true}, "uv": {[]string{"tool", "run", "pkg"}, true}, "yarn": {[]string{"dlx", "pkg"}, true}, "bun": {[]string{"agent.ts"}, true},
		"node": {[]string{"cli.js"}, true}, "python3": {[]string{"-m", "agent"}, true}, "sh": {[]string{"-c", "agent"}, true}, "env": {[]string{"node"}, true},
		"deno": {[]string{"run", filepath.Join(root, "npx")}, false},
	} {
		_, err := acp.Identify(a, coord.AgentConfig{Executable: filepath.Join(root, name), Args: c.args})
		if (coord.CodeOf(err) == coord.Unsupported) != c.refused {
			t.Errorf("%s %q: %v", name, c.args, err)
		}
	}
}

func TestPrepareIsStaleWhenTheProgramIsAnother(t *testing.T) {
	b := newBench(t, "silent setup")
	// A launcher that can be changed without changing the peer.
	launcher := filepath.Join(b.dir, "launcher")
	write := func(comment string) {
		if err := os.WriteFile(launcher, []byte("#!/bin/sh\n# "+comment+"\nexec \"$@\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	b.config.Args = append([]string{b.config.Executable}, b.config.Args...)
	b.config.Executable = launcher
	filehashtest.Settle(t, launcher)
	w := b.approved()
	write("two")
	s, err := b.adapter.Prepare(t.Context(), w)
	u, ok := err.(*provider.Unsent) //nolint:errorlint // the port gives it unwrapped
	if s != nil || !ok || u.Cause != provider.CauseStale || u.Transient || !strings.Contains(u.Message, "launcher "+launcher+" has other content") {
		t.Errorf("Prepare gave %v, %v", s, err)
	}
	if got := b.got("session/prompt"); len(got) > 0 {
		t.Errorf("the peer got %s", got)
	}
	write("one")
	if s, err = b.adapter.Prepare(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
