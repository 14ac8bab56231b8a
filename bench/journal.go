package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/internal/client"
	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/heap"
	"signalbox/internal/journal"
	"signalbox/internal/redact"
)

const (
	journalRounds = 5
	// The turns of a round are short, so that whatever else the machine does
	// weighs on the journal and on the disk alike.
	journalTurns = 20
	turnSyncs    = 25
	turnOne      = 50
	turnMany     = 400
	manyWriters  = 16
)

// measureJournal sets whole transactions against plain syncs: each changes a
// job's row, appends the event that tells of it, and keeps an answer under an
// idempotency key, as every mutation of the API does.
func measureJournal(ctx context.Context, b *bench) (_ []figure, err error) {
	defer heap.Pace()() // as the worker does
	redactor := redact.New()
	j, err := journal.Open(ctx, journal.Options{Dir: filepath.Join(b.dir, "journal"), Clock: clock.System(),
		Redact: redactor.String, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	d, err := openDisk(filepath.Join(b.dir, "appended"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	w := &writers{journal: j}
	if err := w.draft(ctx); err != nil {
		return nil, err
	}
	var one, many, rates []float64
	for round := range journalRounds + 1 {
		var syncs, singles, groups time.Duration
		for range journalTurns {
			for _, turn := range []struct {
				took *time.Duration
				do   func() (time.Duration, error)
			}{
				{&syncs, func() (time.Duration, error) { return d.syncs(turnSyncs) }},
				{&singles, func() (time.Duration, error) { return w.write(ctx, 1, turnOne) }},
				{&syncs, func() (time.Duration, error) { return d.syncs(turnSyncs) }},
				{&groups, func() (time.Duration, error) { return w.write(ctx, manyWriters, turnMany) }},
			} {
				took, err := turn.do()
				if err != nil {
					return nil, err
				}
				*turn.took += took
			}
		}
		if round == 0 {
			continue // statements are prepared and files grow in the first
		}
		rate := journalTurns * 2 * turnSyncs / syncs.Seconds()
		rates = append(rates, rate)
		one = append(one, journalTurns*turnOne/singles.Seconds()/rate)
		many = append(many, journalTurns*turnMany/groups.Seconds()/rate)
	}
	against := fmt.Sprintf("append + fdatasync of 24 KiB: %.0f/s", median(rates))
	return []figure{
		atLeast("journal, 1 writer", median(one), 0.7, "tx/sync", against),
		atLeast("journal, 16 writers", median(many), 2.5, "tx/sync", against),
	}, nil
}

// writers commit to one journal.
type writers struct {
	journal *journal.Journal
	jobs    []coord.Job
	asked   atomic.Int64
}

// draft makes the jobs that are changed.
func (w *writers) draft(ctx context.Context) error {
	for i := range manyWriters {
		plan := coord.Plan{Title: "Measure " + strconv.Itoa(i), Deadline: coord.Duration(coord.DefaultDeadline),
			Tasks: []coord.PlanTask{{Key: "main", Agent: "agent", Instruction: "Do nothing."}}}
		err := w.journal.Update(ctx, func(tx *journal.Tx) error {
			j, err := tx.AddJob(coord.Job{Plan: plan, By: coord.WorkerActor})
			w.jobs = append(w.jobs, j)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// write takes the time of n transactions by so many writers.
func (w *writers) write(ctx context.Context, count, n int) (time.Duration, error) {
	errs := make([]error, count)
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	start := time.Now()
	for i := range count {
		all.Go(func() {
			for left.Add(-1) >= 0 && errs[i] == nil {
				errs[i] = w.transact(ctx, w.jobs[i])
			}
		})
	}
	all.Wait()
	return time.Since(start), errors.Join(errs...)
}

func (w *writers) transact(ctx context.Context, j coord.Job) error {
	j.Revision = int(w.asked.Add(1))
	ctx = journal.WithKey(ctx, journal.Key{Scope: "cred_01 revise-job", Name: client.NewKey(), Digest: rand.Text()})
	return w.journal.Update(ctx, func(tx *journal.Tx) error {
		if err := tx.PutJob(j, &coord.WorkerActor); err != nil {
			return err
		}
		return tx.Answer(j)
	})
}
