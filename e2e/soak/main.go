// Soak runs the real program for long with everything that goes wrong at once:
// jobs four at a time, agents that crash and lie, cancels, denials, workers
// that are killed, and readers that hardly read. What it does is chosen by a
// seed, which it prints. At the end nothing may be left over, and no prompt may
// have been sent twice.
//
//	go run ./e2e/soak -binary bin/signalbox -for 10m
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"signalbox/e2e/rogue"
)

var errTime = errors.New("what was started did not end in time")

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case rogue.Word:
			os.Exit(rogue.Main(os.Args[2:]))
		case rogue.Child:
			os.Exit(rogue.ChildMain())
		}
	}
	binary := flag.String("binary", "bin/signalbox", "the program to run")
	span := flag.Duration("for", 10*time.Minute, "how long new jobs are made")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "chooses what happens")
	keep := flag.Bool("keep", false, "keep the data directory")
	flag.Parse()
	fmt.Printf("soak for %s with -seed %d\n", *span, *seed)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	faults, err := run(ctx, *binary, *span, *seed, *keep)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	for _, f := range faults {
		fmt.Println("FAULT", f)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
	fmt.Println("nothing is left over, and nothing was sent twice")
}

func run(ctx context.Context, binary string, span time.Duration, seed uint64, keep bool) ([]string, error) {
	s, err := open(ctx, binary, seed)
	if err != nil {
		return nil, err
	}
	defer s.close(keep)
	if err := s.cast(ctx); err != nil {
		return nil, err
	}
	first, err := s.rest(ctx)
	if err != nil {
		return nil, fmt.Errorf("at the beginning: %w", err)
	}
	s.drive(ctx, span)
	quiet, cancel := context.WithTimeoutCause(ctx, 4*time.Minute, errTime)
	defer cancel()
	if err := s.settle(quiet); err != nil {
		return nil, fmt.Errorf("after the jobs: %w", err)
	}
	s.examine(quiet)
	last, err := s.rest(quiet)
	if err != nil {
		return nil, fmt.Errorf("at the end: %w", err)
	}
	s.compare(first, last)
	s.stopAll(quiet)
	s.table(first, last)
	return s.faults, nil
}
