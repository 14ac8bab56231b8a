package journal_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// benchData is the data of a usual change.
var benchData = json.RawMessage(`{"state":"working","text":"` + strings.Repeat("abcd", 50) + `"}`)

func BenchmarkUpdate1(b *testing.B)  { benchmarkUpdate(b, 1) }
func BenchmarkUpdate16(b *testing.B) { benchmarkUpdate(b, 16) }

// benchmarkUpdate reports transactions per second, and their ratio to plain
// append+sync on the same disk. The two take turns, so that what else the
// machine does weighs on both; absolute figures depend on the machine, the
// ratio does not.
func benchmarkUpdate(b *testing.B, writers int) {
	j, err := journal.Open(b.Context(), options(filepath.Join(b.TempDir(), "data"), wallClock))
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	f, err := os.Create(filepath.Join(b.TempDir(), "append"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const turn = 500
	syncs, syncing := 0, time.Duration(0)
	b.ResetTimer()
	for left := b.N; left > 0; left -= turn {
		update(b, j, writers, min(turn, left))
		b.StopTimer()
		start := time.Now()
		for range min(turn, left) {
			if _, err := f.Write(benchData); err != nil {
				b.Fatal(err)
			}
			if err := datasync(f); err != nil {
				b.Fatal(err)
			}
			syncs++
		}
		syncing += time.Since(start)
		b.StartTimer()
	}
	b.StopTimer()
	txRate, syncRate := float64(b.N)/b.Elapsed().Seconds(), float64(syncs)/syncing.Seconds()
	b.ReportMetric(txRate, "tx/s")
	b.ReportMetric(syncRate, "syncs/s")
	b.ReportMetric(txRate/syncRate, "tx/sync")
}

// update commits n operations from so many writers.
func update(b *testing.B, j *journal.Journal, writers, n int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				err := j.Update(b.Context(), func(tx *journal.Tx) error {
					tx.Append(coord.Event{Kind: coord.AttemptChanged, Job: "job_1", Attempt: "att_1", Data: benchData})
					return nil
				})
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// wallClock reads the system's clocks, as the product's does.
func wallClock() coord.Moment {
	var awake unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake); err != nil {
		panic(err)
	}
	up := time.Duration(awake.Nano())
	return coord.Moment{Wall: time.Now().UTC(), BootID: "boot-1", Boot: up, Awake: up}
}
