package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signalbox/internal/coord"
	"signalbox/internal/sandbox"
)

// others are what the test binary does in processes of its own, by the variable
// that asks for it.
var others = map[string]func(string) int{proverEnv: prover, supervisorEnv: supervisor}

// helper is the program that becomes stages and probes.
var helper string

func TestMain(m *testing.M) {
	for name, run := range others {
		if what := os.Getenv(name); what != "" {
			os.Exit(run(what))
		}
	}
	dir, err := os.MkdirTemp("", "sandbox-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The user nobody runs it too.
	if err := os.Chmod(dir, 0o755); err != nil {
		panic(err)
	}
	helper = filepath.Join(dir, "helper")
	build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-o", helper, "./stagetest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the helper: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

var errSlow = errors.New("the test took longer than two minutes")

func timeout() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), 2*time.Minute, errSlow)
}

// tiers are those that these tests run in.
var tiers = []coord.Tier{coord.TierNamespaces, coord.TierLandlock}

func eachTier(t *testing.T, do func(t *testing.T, tier coord.Tier)) {
	for _, tier := range tiers {
		t.Run(string(tier), func(t *testing.T) { do(t, tier) })
	}
}

func newBox(t testing.TB) *sandbox.Box {
	t.Helper()
	box, err := sandbox.New(helper, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	return box
}
