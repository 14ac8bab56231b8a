package workspacemcp_test

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

	"signalbox/internal/process"
)

// binary is the program under test, built once: agents start it by its path.
var binary string

var errBuild = errors.New("the program was not built within 5 minutes")

// The test binary is also the gate of package process and the scripted agent.
func TestMain(m *testing.M) {
	process.GateMain()
	if len(os.Args) > 3 && os.Args[1] == "agent" {
		agentMain(os.Args[2], os.Args[3])
		os.Exit(0)
	}
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func build(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "sbmcp")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary = filepath.Join(dir, "signalbox")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 5*time.Minute, errBuild)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "signalbox/cmd/signalbox").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build the program: %w (%w)\n%s", err, context.Cause(ctx), out)
	}
	if code = m.Run(); code != 0 {
		return code, nil
	}
	return 0, goleak.Find()
}
