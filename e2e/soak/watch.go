package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"
)

// The most memory that a process may have had while it did all this, in KiB. It
// is about twice what it takes, so that only what grows with the jobs gets there.
const (
	mostServe  = 64 << 10
	mostWorker = 128 << 10
)

// watch tells each minute, and ten times in a short span, what Signalbox takes.
// What does not level off is seen in it.
func (s *box) watch(ctx context.Context, span time.Duration) {
	fmt.Printf("\n  %8s %22s %22s %10s\n", "", "serve, MiB (peak)", "worker, MiB (peak)", "database")
	tick := time.NewTicker(min(time.Minute, span/10))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		status, err := s.client.Status(ctx)
		if err != nil {
			continue // the worker is away
		}
		serve, worker := s.taken("serve", s.serve.Process.Pid, mostServe), s.taken("the worker", status.PID, mostWorker)
		fmt.Printf("  %8s %22s %22s %6d MiB\n", time.Since(s.began).Round(time.Second), serve, worker, size(s.data, "journal.db", "journal.db-wal")>>20)
	}
}

// taken is what a process takes now, and its most so far, which has a bound.
func (s *box) taken(who string, pid int, most int64) string {
	now, err := memory(pid, "VmRSS")
	if err != nil {
		return "away" // it ended between the two looks
	}
	peak, err := memory(pid, "VmHWM")
	if err != nil {
		return "away"
	}
	if peak > most {
		s.fault("%s took %d MiB, more than %d", who, peak>>10, most>>10)
	}
	return fmt.Sprintf("%d (%d)", now>>10, peak>>10)
}

// memory is a field of what the system tells of a process, in KiB: VmRSS is
// what it takes now, VmHWM the most so far.
func memory(pid int, field string) (kb int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(b, []byte(field+":"))
	_, err = fmt.Sscan(string(rest), &kb)
	return kb, err
}
