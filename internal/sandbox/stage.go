package sandbox

import (
	"os"

	"signalbox/internal/sandbox/probe"
)

// The first arguments that make our binary a part of the sandbox.
const (
	stageArg = "__sandbox"
	probeArg = "__probe"
)

// StageMain must be called at the beginning of main, beside process.GateMain.
// It returns at once unless the process was started as a stage of a confined
// run, or as one of the probes that try to break out of one; then it never
// returns.
func StageMain() {
	if len(os.Args) < 2 {
		return
	}
	switch {
	case os.Args[1] == stageArg && len(os.Args) == 2:
		stage()
	case os.Args[1] == probeArg && len(os.Args) > 2:
		os.Exit(probe.Main(os.Args[2:], os.Stdout))
	}
}
