package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"signalbox/e2e/rogue"
)

// binary is the program under test, built once.
var binary string

// errBuild is the cause when the program is not built in time.
var errBuild = errors.New("the program was not built within 5 minutes")

// TestMain builds the program; started with the right word, this test program
// is the scripted agent.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case agentWord:
			os.Exit(agentMain(os.Args[2:]))
		case childWord:
			os.Exit(childMain())
		case rogue.Word:
			os.Exit(rogue.Main(os.Args[2:]))
		case smallDiskWord:
			os.Exit(smallDiskMain(os.Args[2:]))
		}
	}
	code, err := build(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// build makes the program, and removes it after run. It is built with the flags
// of the tests: others would compile every dependency once more, which takes
// minutes.
func build(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "signalbox-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// The identity of an agent names its files without symbolic links.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return 1, err
	}
	binary = filepath.Join(dir, "signalbox")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 5*time.Minute, errBuild)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-o", binary, "signalbox/cmd/signalbox")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build the program: %w (%w)\n%s", err, context.Cause(ctx), out)
	}
	return run(), nil
}
