package journal_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/journal/journaltest"
)

// openMemory opens a journal in memory, good inside a synctest bubble.
func openMemory(t *testing.T) *journal.Journal {
	t.Helper()
	m, err := journal.NewMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := options("", journaltest.At(journaltest.Start))
	o.Memory = m
	j, err := journal.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(j.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	return j
}

// occupy keeps the writer inside an operation until the returned function is
// called, so that a test can decide what waits behind it.
func occupy(t *testing.T, j *journal.Journal) (leave func()) {
	t.Helper()
	gate, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if err := j.Update(t.Context(), func(*journal.Tx) error { <-gate; return nil }); err != nil {
			t.Errorf("the occupying operation: %v", err)
		}
	}()
	synctest.Wait()
	return func() { close(gate); <-done }
}

func TestControlGoesBeforeText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := openMemory(t)
		leave := occupy(t, j)
		var order []string
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				_ = j.UpdateText(t.Context(), func(*journal.Tx) error { order = append(order, fmt.Sprint("text ", i)); return nil })
			})
			synctest.Wait()
		}
		for i := range 3 {
			wg.Go(func() {
				_ = j.Update(t.Context(), func(*journal.Tx) error { order = append(order, fmt.Sprint("control ", i)); return nil })
			})
			synctest.Wait()
		}
		leave()
		wg.Wait()
		want := []string{"control 0", "control 1", "control 2", "text 0", "text 1", "text 2"}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// TestAFailureLeavesTheOthersOfItsCommit has operations that fail, before or
// after they wrote, among others that succeed, all waiting for one commit.
func TestAFailureLeavesTheOthersOfItsCommit(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		name string
		fail func(tx *journal.Tx) error
		want error
	}{
		{"before it wrote", func(*journal.Tx) error { return refused }, refused},
		{"after it wrote", func(tx *journal.Tx) error {
			tx.Append(coord.Event{Kind: coord.AttemptText, Agent: "undone"})
			return errors.Join(refused, tx.Answer("undone"))
		}, refused},
		{"by a panic after it wrote", func(tx *journal.Tx) error {
			tx.Append(coord.Event{Kind: coord.AttemptText, Agent: "undone"})
			panic("the test")
		}, &coord.Error{Code: coord.Internal}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := openMemory(t)
				leave := occupy(t, j)
				var want, got []string
				var wg sync.WaitGroup
				for i := range 9 {
					name := fmt.Sprint("kept-", i)
					fails := i%3 == 1
					if !fails {
						want = append(want, name)
					}
					wg.Go(func() {
						ctx := journal.WithKey(t.Context(), journal.Key{Scope: "test", Name: name, Digest: "same"})
						err := j.Update(ctx, func(tx *journal.Tx) error {
							if fails {
								return c.fail(tx)
							}
							tx.Append(coord.Event{Kind: coord.AttemptText, Agent: coord.AgentID(name)})
							return tx.Answer(name)
						})
						if fails != errors.Is(err, c.want) {
							t.Errorf("operation %d: %v", i, err)
						}
					})
					synctest.Wait()
				}
				leave()
				wg.Wait()
				err := j.View(t.Context(), func(v *journal.View) error {
					events, err := v.Events(0, journal.EventFilter{}, 100)
					for i, e := range events {
						got = append(got, string(e.Agent))
						if e.Seq != int64(i+1) {
							t.Errorf("event %d has sequence %d", i+1, e.Seq)
						}
						if _, found, err := v.Answered(journal.Key{Scope: "test", Name: string(e.Agent), Digest: "same"}); err != nil || !found {
							t.Errorf("the answer of %s: found %v, %v", e.Agent, found, err)
						}
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("what is kept (-want +got):\n%s", diff)
				}
				if j.Head() != int64(len(want)) || j.Err() != nil {
					t.Errorf("head %d, %v", j.Head(), j.Err())
				}
			})
		})
	}
}

var errDeadline = errors.New("the deadline of the test")

func TestWaitingOperationsShareOneCommitOfBoundedSize(t *testing.T) {
	big := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	for _, c := range []struct {
		name  string
		count int
		data  []byte
		want  []int64
	}{
		{"all that wait", 20, nil, []int64{0}},
		// The occupying operation counts, and writes no event.
		{"256 operations at most", 300, nil, []int64{0, 255}},
		{"4 MiB at most", 6, big, []int64{0, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := openMemory(t)
				leave := occupy(t, j)
				// Inside an operation, Head is that of the commit before, so
				// each value stands for one commit.
				var heads []int64
				var wg sync.WaitGroup
				for range c.count {
					wg.Go(func() {
						err := j.Update(t.Context(), func(tx *journal.Tx) error {
							heads = append(heads, j.Head())
							tx.Append(coord.Event{Kind: coord.AttemptText, Data: c.data})
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					})
				}
				synctest.Wait()
				leave()
				wg.Wait()
				if diff := cmp.Diff(c.want, slices.Compact(heads)); diff != "" {
					t.Errorf("heads before each commit (-want +got):\n%s", diff)
				}
				if head := j.Head(); head != int64(c.count) {
					t.Errorf("head is %d, want %d", head, c.count)
				}
			})
		})
	}
}

func TestAnOperationThatNobodyAwaitsIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := openMemory(t)
		leave := occupy(t, j)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errDeadline)
		defer cancel()
		ran := false
		err := j.Update(ctx, func(*journal.Tx) error { ran = true; return nil })
		if !errors.Is(err, errDeadline) {
			t.Errorf("error is %v, want the cause of its context", err)
		}
		leave()
		if err := j.Update(t.Context(), func(*journal.Tx) error { return nil }); err != nil || ran {
			t.Errorf("ran %v, %v", ran, err)
		}
	})
}

func TestAnOperationThatEndsItsGoroutineFailsTheJournalInsteadOfHanging(t *testing.T) {
	j := openAt(t, t.TempDir())
	err := j.Update(t.Context(), func(*journal.Tx) error { runtime.Goexit(); return nil })
	if coord.CodeOf(err) != coord.Internal {
		t.Errorf("error is %v", err)
	}
	<-j.Failed()
}

func TestTheEndOfAnOperationIsToldAsItWas(t *testing.T) {
	for name, c := range map[string]struct {
		then func(tx *journal.Tx) error
		want bool
	}{
		"committed": {func(*journal.Tx) error { return nil }, true},
		"failed":    {func(*journal.Tx) error { return errors.New("no") }, false},
		"a write of it failed": {func(tx *journal.Tx) error {
			tx.Append(coord.Event{Kind: coord.JobChanged, Data: []byte("{")})
			return nil
		}, false},
		"panicked":         {func(*journal.Tx) error { panic("no") }, false},
		"ended the writer": {func(*journal.Tx) error { runtime.Goexit(); return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := openAt(t, t.TempDir())
			var told []bool
			err := j.Update(t.Context(), func(tx *journal.Tx) error {
				tx.Append(coord.Event{Kind: coord.JobChanged})
				tx.Ended(func(committed bool) { told = append(told, committed) })
				return c.then(tx)
			})
			if diff := cmp.Diff([]bool{c.want}, told); diff != "" || c.want != (err == nil) {
				t.Errorf("Update gave %v, told (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestVirtualTimePassesWhileAJournalIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := openMemory(t)
		<-time.After(time.Hour)
		if err := j.Update(t.Context(), func(tx *journal.Tx) error {
			tx.Append(coord.Event{Kind: coord.JobChanged})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		<-j.Changed(0)
	})
}
