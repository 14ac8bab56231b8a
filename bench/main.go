// Command bench measures what the design promises of speed and size, and
// prints one table.
//
// Every figure stands beside a yardstick of the same run: what the disk, a bare
// program or a plain reader does on this machine at this moment. The two take
// turns, and medians are told, so that a busy machine weighs on both. The
// program that is measured is the real one, as it is shipped.
//
// It runs on Linux, because it reads the memory of processes from /proc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// bench is what all measurements share.
type bench struct {
	// program is the binary that is measured.
	program string
	// agent and hello are the programs beside it, see their packages.
	agent, hello string
	// dir is a folder for everything that is written, on the disk that is
	// measured.
	dir string
}

// measurements are the figures in the order of the table.
var measurements = []struct {
	name string
	run  func(context.Context, *bench) ([]figure, error)
}{
	{"stream", measureStream},
	{"journal", measureJournal},
	{"dispatch", measureDispatch},
	{"serve", measureServe},
	{"model-agent", measureModelAgent},
	{"peers", measurePeers},
	{"workspace", measureWorkspace},
	{"sandbox", measureSandbox},
	{"binary", measureBinary},
}

var (
	errPatience = errors.New("the measurement took longer than 15 minutes")
	errMissed   = errors.New("not every goal is held")
)

func main() {
	program := flag.String("program", "bin/signalbox", "the stripped binary to measure")
	out := flag.String("out", "bench/results.json", "where the figures go")
	only := flag.String("only", "", "measure only these, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, 15*time.Minute, errPatience)
	defer cancel()
	if err := run(ctx, *program, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program, out, only string) (err error) {
	b, err := newBench(program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	var figures []figure
	var failed []error
	for _, m := range measurements {
		if only != "" && !slices.Contains(strings.Split(only, ","), m.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", m.name)
		some, err := m.run(ctx, b)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m.name, err))
		}
		figures = append(figures, some...)
	}
	// What could be measured is told in any case.
	failed = append(failed, table(os.Stdout, figures), save(out, figures))
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if slices.ContainsFunc(figures, func(f figure) bool { return !f.Holds }) {
		return errMissed
	}
	return nil
}

func newBench(program string) (*bench, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Beside this program, and not in a temporary folder that may be memory.
	dir, err := os.MkdirTemp(filepath.Dir(self), "data-")
	if err != nil {
		return nil, err
	}
	beside := filepath.Dir(self)
	return &bench{program: program, agent: filepath.Join(beside, "agent"), hello: filepath.Join(beside, "hello"), dir: dir}, nil
}

// measureBinary is the size of what is shipped.
func measureBinary(_ context.Context, b *bench) ([]figure, error) {
	info, err := os.Stat(b.program)
	if err != nil {
		return nil, err
	}
	bare, err := os.Stat(b.hello)
	if err != nil {
		return nil, err
	}
	return []figure{atMost("binary", float64(info.Size())/1e6, 36, "MB", fmt.Sprintf("a bare Go program: %.1f MB", float64(bare.Size())/1e6))}, nil
}
