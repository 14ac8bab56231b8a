package journal_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// An Update of the size of a usual change, one event and its document.
var benchData = json.RawMessage(`{"id":"att_01JD0000000000000000000000","state":"working","text":"` + string(make200()) + `"}`)

func make200() []byte {
	b := make([]byte, 200)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	return b
}

func BenchmarkUpdate1(b *testing.B)  { benchmarkUpdate(b, 1) }
func BenchmarkUpdate16(b *testing.B) { benchmarkUpdate(b, 16) }

// benchmarkUpdate reports transactions per second, and their ratio to plain
// append+sync of the same bytes on the same disk in the same run: absolute
// figures depend on the machine, the ratio does not.
func benchmarkUpdate(b *testing.B, writers int) {
	j, err := journal.Open(b.Context(), journal.Options{Dir: filepath.Join(b.TempDir(), "data"), Clock: wallClock, Redact: func(s string) string { return s }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	syncs := measureSync(b)
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range b.N/writers + min(1, max(0, b.N%writers-w)) {
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
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "tx/s")
	b.ReportMetric(syncs, "syncs/s")
	b.ReportMetric(rate/syncs, "tx/sync")
}

// measureSync gives how often a second this disk appends and syncs.
func measureSync(b *testing.B) float64 {
	f, err := os.Create(filepath.Join(b.TempDir(), "append"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	start, n := time.Now(), 0
	for ; time.Since(start) < 300*time.Millisecond; n++ {
		if _, err := f.Write(benchData); err != nil {
			b.Fatal(err)
		}
		if err := datasync(f); err != nil {
			b.Fatal(err)
		}
	}
	return float64(n) / time.Since(start).Seconds()
}

func wallClock() coord.Moment {
	var boot, awake unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake)
	boot = awake
	return coord.Moment{Wall: time.Now().UTC(), BootID: "bench", Boot: time.Duration(boot.Nano()), Awake: time.Duration(awake.Nano())}
}
