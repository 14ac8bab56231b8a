package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	good, err := gate(ctx, os.Args[1:], os.Stdout, os.Getenv("CI") != "")
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testgate:", err)
		os.Exit(2)
	}
	if !good {
		os.Exit(1)
	}
}

// gate runs the tests that args name and reports whether the run is good. An
// error means that nothing could be judged.
func gate(ctx context.Context, args []string, out io.Writer, ci bool) (bool, error) {
	flags := flag.NewFlagSet("testgate", flag.ContinueOnError)
	flags.SetOutput(out)
	verbose := flags.Bool("v", false, "print all output of all tests")
	timeout := flags.Duration("timeout", 10*time.Minute, "time limit of the tests of one package")
	race := flags.String("race", "", "package patterns to test with the race detector")
	plain := flags.String("plain", "", "package patterns to test without it")
	only := flags.String("run", "", "run only the tests whose names match this expression")
	fault := flags.String("fault", "", "package patterns whose crash tests run in a build with fault points")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if flags.NArg() > 0 {
		return false, fmt.Errorf("%q is not a flag: give package patterns to -race, -plain or -fault", flags.Arg(0))
	}
	r, exits := newRun(out, *verbose), true
	// Packages are tested anew each time: go test's cache does not see the
	// programs that tests start.
	common := []string{"test", "-json", "-count=1", "-timeout", timeout.String()}
	if *only != "" {
		common = append(common, "-run", *only)
	}
	var note string
	if patterns := strings.Fields(*race); len(patterns) > 0 {
		// SQLite's memory is not Go's, and the detector does not look at it: to
		// ask at each access would be most of the time of many tests.
		detector := []string{"-race", "-gcflags=modernc.org/sqlite/lib=-race=false"}
		if why := noRace(ctx); why != "" {
			note = "The race detector did not run: " + why + "."
			detector = nil
		}
		ok, err := r.goTest(ctx, slices.Concat(common, detector, patterns))
		if err != nil {
			return false, err
		}
		exits = exits && ok
	}
	// These wait for processes most of the time: two tests a core.
	waiting := []string{"-parallel", strconv.Itoa(2 * runtime.NumCPU())}
	if patterns := strings.Fields(*plain); len(patterns) > 0 {
		ok, err := r.goTest(ctx, slices.Concat(common, waiting, patterns))
		if err != nil {
			return false, err
		}
		exits = exits && ok
	}
	if patterns := strings.Fields(*fault); len(patterns) > 0 {
		crashes := []string{"-tags", "fault", "-run", "Sweep|Death"}
		ok, err := r.goTest(ctx, slices.Concat(common, waiting, crashes, patterns))
		if err != nil {
			return false, err
		}
		exits = exits && ok
	}
	if note != "" {
		fmt.Fprintln(out, note)
	}
	return r.verdict(exits, ci), nil
}

// goTest runs one go command and reports whether it ended with success.
func (r *run) goTest(ctx context.Context, args []string) (bool, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	// An interrupt lets go test end its children; it prints what it has.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	if err := r.read(stdout); err != nil {
		return false, err
	}
	return cmd.Wait() == nil, nil
}

// noRace says why the race detector cannot be used here, "" if it can. It
// links C code, so it needs cgo and a C compiler.
func noRace(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "go", "env", "CC", "CGO_ENABLED").Output()
	if err != nil {
		return "go env failed"
	}
	cc, cgo, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if cgo == "0" {
		// cmd/go also says 0 when it finds no compiler.
		return "cgo is off or no C compiler is installed"
	}
	words := strings.Fields(cc)
	if len(words) == 0 {
		return "no C compiler is configured"
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return "the C compiler " + words[0] + " is not installed"
	}
	return ""
}
