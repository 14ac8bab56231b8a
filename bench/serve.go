package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"signalbox/internal/coord"
)

const (
	serveRounds   = 15
	idleRequests  = 200
	finishedTasks = 100_000
)

// measureServe takes the time from the start of serve to the line that tells
// its address: in a new data directory, in one that was used, and over a
// history; then its memory.
func measureServe(ctx context.Context, b *bench) ([]figure, error) {
	used, old := filepath.Join(b.dir, "used"), filepath.Join(b.dir, "old")
	for _, dir := range []string{used, old} {
		if err := b.one(ctx, dir); err != nil {
			return nil, err
		}
	}
	if err := multiply(ctx, old, finishedTasks); err != nil {
		return nil, err
	}
	var fresh, empty, history, bare []time.Duration
	for i := range serveRounds + 1 {
		var took [4]time.Duration
		var err error
		for k, dir := range []string{filepath.Join(b.dir, "new"+strconv.Itoa(i)), used, old} {
			if took[k], err = b.ready(ctx, dir); err != nil {
				return nil, err
			}
		}
		if took[3], err = firstLine(ctx, b.hello); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(filepath.Join(b.dir, "new"+strconv.Itoa(i))); err != nil {
			return nil, err
		}
		if i == 0 {
			continue // the database and the program are read into memory
		}
		fresh, empty, history, bare = append(fresh, took[0]), append(empty, took[1]), append(history, took[2]), append(bare, took[3])
	}
	rss, door, err := b.idle(ctx, used)
	if err != nil {
		return nil, err
	}
	against := fmt.Sprintf("a bare Go program: %.1f ms", ms(median(bare)))
	start := ms(median(empty))
	return []figure{
		atMost("serve to ready, new directory", ms(median(fresh)), 60, "ms", against),
		atMost("serve to ready, empty", start, 60, "ms", against),
		atMost("serve to ready, 100,000 finished tasks", ms(median(history)), 1.5*start+10, "ms", fmt.Sprintf("1.5 times the empty start of %.1f ms + 10 ms", start)),
		atMost("serve and worker after 200 requests", rss, 60, "MB", fmt.Sprintf("resident; serve has %.0f MB of it", door)),
	}, nil
}

// ready starts and stops serve.
func (b *bench) ready(ctx context.Context, dir string) (time.Duration, error) {
	w, err := b.start(ctx, dir)
	if err != nil {
		return 0, err
	}
	return w.ready, w.stop()
}

// one lets one job finish in a new data directory.
func (b *bench) one(ctx context.Context, dir string) (err error) {
	w, err := b.start(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	if err := w.add(ctx, b, "echo", "echo"); err != nil {
		return err
	}
	_, err = w.dispatch(ctx, "echo")
	return err
}

// idle makes requests of all kinds and gives what is resident after them: of
// both processes, and of the front door.
func (b *bench) idle(ctx context.Context, dir string) (both, door float64, err error) {
	w, err := b.start(ctx, dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	plan := coord.Plan{Title: "Measure", Tasks: []coord.PlanTask{{Key: "main", Agent: "echo", Instruction: "Do nothing."}}}
	requests := []func() error{
		func() error { _, err := w.Status(ctx); return err },
		func() error { _, _, err := w.Jobs(ctx, 0, coord.MaxPage); return err },
		func() error { _, err := w.Agents(ctx); return err },
		func() error { _, err := w.Inbox(ctx); return err },
		func() error { _, err := w.Result(ctx, "1"); return err },
		func() error { _, err := w.Draft(ctx, plan); return err },
		func() error { _, err := w.Validate(ctx, plan); return err },
		func() error { _, err := w.Explain(ctx, "1/main"); return err },
	}
	for i := range idleRequests {
		if err := requests[i%len(requests)](); err != nil {
			return 0, 0, err
		}
	}
	door, err = memory(w.door, "VmRSS")
	if err != nil {
		return 0, 0, err
	}
	worker, err := memory(w.worker, "VmRSS")
	return door + worker, door, err
}

// firstLine takes the time of a program's start, up to its first line.
func firstLine(ctx context.Context, name string, args ...string) (time.Duration, error) {
	p, err := pipe(ctx, name, args...)
	if err != nil {
		return 0, err
	}
	_, err = p.out.ReadSlice('\n')
	took := time.Since(p.at)
	return took, errors.Join(err, p.end())
}

// fileURL is the address of a database.
func fileURL(path string) string {
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String()
}
