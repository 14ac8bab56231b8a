package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // reads the journal when nobody owns it

	"signalbox/internal/api"
)

// slack is how many descriptors or goroutines more than at the beginning are no
// leak: a connection that is idle, a reader of the pool that was opened since.
const slack = 6

// still is what a process of Signalbox holds while nothing happens.
type still struct {
	serveFDs, workerFDs       int
	serveThreads              int
	serveKB, workerKB         int64
	goroutines                map[string]int // of the worker, by their last function
	database, jobs, artifacts int64          // bytes, number, bytes
}

// settle waits until nothing is open.
func (s *box) settle(ctx context.Context) error {
	var last api.Status
	err := s.until(ctx, func() (bool, error) {
		now, err := s.client.Status(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // the worker is away
		}
		last = now
		left, err := s.left()
		return len(left) == 0 && now.Jobs == 0 && now.Running+now.Waiting+now.Unknown+now.Requests == 0, err
	})
	if err != nil {
		left, _ := s.left()
		return fmt.Errorf("%w: %+v, left over %v", err, last.Status, left)
	}
	return nil
}

// rest measures Signalbox while nothing happens. It ends the worker with
// SIGQUIT, on which Go's runtime tells all goroutines.
func (s *box) rest(ctx context.Context) (still, error) {
	var now still
	status, err := s.client.Status(ctx)
	if err != nil {
		return now, err
	}
	s.client.Close() // its idle connections are none of what is counted
	// Two counts that agree: what just ended is gone.
	if err := s.until(ctx, func() (bool, error) {
		before := now
		var errs [5]error
		now.serveFDs, errs[0] = descriptors(s.serve.Process.Pid)
		now.workerFDs, errs[1] = descriptors(status.PID)
		now.serveThreads, errs[2] = entries(s.serve.Process.Pid, "task")
		now.serveKB, errs[3] = memory(s.serve.Process.Pid, "VmRSS")
		now.workerKB, errs[4] = memory(status.PID, "VmRSS")
		return now.serveFDs == before.serveFDs && now.workerFDs == before.workerFDs, errors.Join(errs[:]...)
	}); err != nil {
		return now, err
	}
	at, err := s.log.Seek(0, 2)
	if err != nil {
		return now, err
	}
	if err := s.end(ctx, syscall.SIGQUIT); err != nil {
		return now, err
	}
	log, err := os.ReadFile(s.log.Name())
	if err != nil {
		return now, err
	}
	now.goroutines = goroutines(log[at:])
	now.database = size(s.data, "journal.db", "journal.db-wal")
	now.artifacts = size(filepath.Join(s.data, "artifacts"))
	now.jobs = int64(s.counts["jobs"])
	return now, nil
}

func descriptors(pid int) (int, error) { return entries(pid, "fd") }

func entries(pid int, what string) (int, error) {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", pid, what))
	return len(all), err
}

// size is what files take, or a whole folder.
func size(dir string, names ...string) (n int64) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && (len(names) == 0 || slices.Contains(names, e.Name())) {
			if info, err := e.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil // what vanishes meanwhile has no size
	})
	return n
}

// goroutines counts those of a dump by who made them.
func goroutines(dump []byte) map[string]int {
	out := map[string]int{}
	for block := range strings.SplitSeq(string(dump), "\n\n") {
		_, stack, found := strings.Cut(block, "\ngoroutine ")
		if !found {
			stack, found = strings.CutPrefix(block, "goroutine ")
		}
		if !found {
			continue
		}
		who := "main"
		if _, by, ok := strings.Cut(stack, "\ncreated by "); ok {
			who, _, _ = strings.Cut(by, " in goroutine")
			who, _, _ = strings.Cut(who, "\n")
		}
		out[who]++
	}
	return out
}

// compare tells what is held at the end and was not at the beginning.
func (s *box) compare(first, last still) {
	for _, c := range []struct {
		what          string
		before, after int
	}{
		{"descriptors of serve", first.serveFDs, last.serveFDs},
		{"descriptors of the worker", first.workerFDs, last.workerFDs},
		{"goroutines of the worker", sum(first.goroutines), sum(last.goroutines)},
	} {
		if c.before == 0 || c.after > c.before+slack {
			s.fault("%d %s, %d at the beginning", c.after, c.what, c.before)
		}
	}
	for _, who := range slices.Sorted(maps.Keys(last.goroutines)) {
		if n := last.goroutines[who]; n > first.goroutines[who]+slack/2 {
			s.fault("%d goroutines made by %s, %d at the beginning", n, who, first.goroutines[who])
		}
	}
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// examine looks at what must be clean when nothing is open.
func (s *box) examine(ctx context.Context) {
	findings, err := s.client.Check(ctx)
	if err != nil {
		s.fault("doctor: %v", err)
	}
	for _, f := range findings {
		s.fault("doctor finds %s of %s: %s", f.Code, f.Subject, f.Explanation)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for mark, n := range s.asked {
		if n > 1 {
			s.faults = append(s.faults, fmt.Sprintf("%s was sent %d times", mark, n))
		}
	}
}

// files looks at the data directory when nobody owns it.
func (s *box) files() {
	known := []string{"journal.db", "owner.lock", "reserve", "artifacts", "contents", "confinement", "scratch"}
	all, err := os.ReadDir(s.data)
	if err != nil {
		s.fault("the data directory: %v", err)
	}
	for _, e := range all {
		if !slices.Contains(known, e.Name()) {
			s.fault("the data directory holds %s", e.Name())
		}
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.data, "journal.db")+"?mode=ro")
	if err != nil {
		s.fault("journal.db: %v", err)
		return
	}
	defer db.Close()
	ctx := context.Background()
	var leases int
	var whole string
	if err := errors.Join(db.QueryRowContext(ctx, "SELECT COUNT(*) FROM leases").Scan(&leases), db.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&whole)); err != nil {
		s.fault("journal.db: %v", err)
	}
	if leases > 0 || whole != "ok" {
		s.fault("%d leases are left, integrity %s", leases, whole)
	}
}

// table prints what happened and what it cost.
func (s *box) table(first, last still) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Printf("\nin %s\n", time.Since(s.began).Round(time.Second))
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Printf("  %-28s %8d\n", what, s.counts[what])
	}
	row := func(what string, before, after any) { fmt.Printf("  %-28s %8v %8v\n", what, before, after) }
	fmt.Println()
	row("", "begin", "end")
	row("descriptors of serve", first.serveFDs, last.serveFDs)
	row("descriptors of worker", first.workerFDs, last.workerFDs)
	row("threads of serve", first.serveThreads, last.serveThreads)
	row("goroutines of worker", sum(first.goroutines), sum(last.goroutines))
	row("memory of serve, KiB", first.serveKB, last.serveKB)
	row("memory of worker, KiB", first.workerKB, last.workerKB)
	row("database, KiB", first.database>>10, last.database>>10)
	row("artifacts, KiB", first.artifacts>>10, last.artifacts>>10)
	if jobs := last.jobs - first.jobs; jobs > 0 {
		fmt.Printf("\n  each job: database %.1f KiB, artifacts %.1f KiB, memory of serve %+.2f KiB\n\n",
			float64(last.database-first.database)/1024/float64(jobs), float64(last.artifacts-first.artifacts)/1024/float64(jobs), float64(last.serveKB-first.serveKB)/float64(jobs))
	}
}
