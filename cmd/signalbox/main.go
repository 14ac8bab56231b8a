// Command signalbox coordinates agents: the front door, the worker, the command
// line and the model agent in one program. This package is the wiring, and the
// only place that knows every part.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"signalbox/internal/cli"
	"signalbox/internal/demo"
	"signalbox/internal/modelagent"
	"signalbox/internal/process"
	"signalbox/internal/sandbox"
	"signalbox/internal/toolwire"
	"signalbox/internal/workspacemcp"
)

func main() {
	// A process that was started as a gate for an agent becomes that agent here.
	process.GateMain()
	// One that was started as a part of a sandbox becomes the confined program.
	sandbox.StageMain()
	os.Exit(run())
}

func run() int {
	// These are started for each piece of work, so they do not wait for the
	// command line to be built.
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "model-agent":
			return modelagent.Main(context.Background(), os.Args[2:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
		case "demo-agent":
			return demo.Agent(context.Background(), os.Stdin, os.Stdout)
		case toolwire.Command:
			return workspacemcp.Main(context.Background(), version(), os.Stdin, os.Stdout, os.Stderr, os.Getenv)
		}
	}
	ctx, stop := cli.Interruptible(context.Background())
	defer stop()
	return cli.Main(ctx, cli.Program{Version: version(), In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv, Build: build}, os.Args[1:])
}

// version is what the build says of itself.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "dev-" + s.Value[:12]
		}
	}
	return "dev"
}
