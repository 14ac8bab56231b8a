package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"signalbox/internal/process"
)

const (
	dispatchRounds = 31
	dispatchAgents = 5
	// unwatched is more than any dispatch takes.
	unwatched = 50 * time.Millisecond
)

func dispatchAgent(i int) string { return "echo-" + strconv.Itoa(i) }

// measureDispatch takes the time from the arrival of a job's approval at the
// front door to the first byte of the prompt in its agent. The agent's own start
// is taken in turn and subtracted; its executable was hashed before.
func measureDispatch(ctx context.Context, b *bench) (_ []figure, err error) {
	w, err := b.start(ctx, filepath.Join(b.dir, "dispatch"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	// An agent takes its next job only when its last process is gone, so they
	// take turns.
	for i := range dispatchAgents {
		if err := w.add(ctx, b, dispatchAgent(i), "echo"); err != nil {
			return nil, err
		}
	}
	d, err := openDisk(filepath.Join(b.dir, "appended"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	starter := process.New(b.program, "bench", nothing{})
	var whole, starts, gates, rested, syncs, hashes []time.Duration
	for round := range dispatchRounds + 1 {
		var took [6]time.Duration
		for i, measure := range []func() (time.Duration, error){
			func() (time.Duration, error) { return w.dispatch(ctx, dispatchAgent(round%dispatchAgents)) },
			func() (time.Duration, error) { return b.bare(ctx) },
			func() (time.Duration, error) { return b.gated(ctx, starter) },
			func() (time.Duration, error) { return d.rested(ctx) },
			func() (time.Duration, error) { t, err := d.syncs(8); return t / 8, err },
			b.hash,
		} {
			if took[i], err = measure(); err != nil {
				return nil, err
			}
		}
		if round == 0 {
			continue
		}
		whole, starts, gates = append(whole, took[0]), append(starts, took[1]), append(gates, took[2])
		rested, syncs, hashes = append(rested, took[3]), append(syncs, took[4]), append(hashes, took[5])
	}
	own := median(whole) - median(starts)
	goal := 3*median(rested) + 2*time.Millisecond
	return []figure{
		atMost("approval to prompt", ms(own), ms(goal), "ms", fmt.Sprintf("3 syncs of %.2f ms, each after %d ms of rest (%.2f ms one after another), + 2 ms; the agent's start is not in it", ms(median(rested)), diskRest/time.Millisecond, ms(median(syncs)))),
		told("approval to prompt, with the start", ms(median(whole)), "ms", fmt.Sprintf("the agent's start: %.1f ms; behind a gate that did not wait: %.1f ms", ms(median(starts)), ms(median(gates)))),
		told("hash of the agent's executable", ms(median(hashes)), "ms", "made at its first start, and again when the file changed"),
	}, nil
}

// dispatch runs one job.
func (w *world) dispatch(ctx context.Context, agent string) (time.Duration, error) {
	if err := w.quiet(ctx); err != nil {
		return 0, err
	}
	ref, digest, err := w.frozen(ctx, agent)
	if err != nil {
		return 0, err
	}
	cursor, err := w.Now(ctx)
	if err != nil {
		return 0, err
	}
	// The request arrives when its connection is about to carry it.
	var arrived time.Time
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { arrived = time.Now() }})
	if _, err := w.Run(traced, ref, digest); err != nil {
		return 0, err
	}
	// As after `job run`, nobody follows.
	select {
	case <-time.After(unwatched):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	text, err := w.finished(ctx, ref, cursor)
	if err != nil {
		return 0, err
	}
	prompted, err := turnOf(text)
	return prompted.Sub(arrived), err
}

// quiet waits until nothing is left of earlier jobs, and the gate of the next
// program waits: what is measured is one, not the end of another beside it.
func (w *world) quiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("an agent did not end, or no gate waits"))
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		left, err := children(w.worker)
		if err != nil {
			return err
		}
		if len(left) == 1 {
			runs, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", left[0]))
			if err == nil && runs != w.agent {
				return nil
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// nothing is a ledger that keeps nothing: these processes end with this one.
type nothing struct{}

func (nothing) Started(context.Context, process.Identity) error { return nil }
func (nothing) Ended(context.Context, process.Identity) error   { return nil }

// gated takes the time of a start behind the gate, up to the first line.
func (b *bench) gated(ctx context.Context, starter *process.Starter) (time.Duration, error) {
	begun := time.Now()
	p, err := starter.Start(ctx, process.Spec{Path: b.agent, Args: []string{"start"}, Dir: b.dir})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	var line [16]byte
	_, err = p.Stdout.Read(line[:])
	took := time.Since(begun)
	return took, errors.Join(err, p.Kill(ctx))
}

// bare takes the time of the agent's start alone.
func (b *bench) bare(ctx context.Context) (time.Duration, error) {
	p, err := pipe(ctx, b.agent, "start")
	if err != nil {
		return 0, err
	}
	_, err = p.out.ReadSlice('\n')
	took := time.Since(p.at)
	return took, errors.Join(err, p.end())
}

// hash takes the time of reading and hashing the agent's executable.
func (b *bench) hash() (time.Duration, error) {
	begun := time.Now()
	doc, err := os.ReadFile(b.agent)
	if err != nil {
		return 0, err
	}
	sha256.Sum256(doc)
	return time.Since(begun), nil
}
