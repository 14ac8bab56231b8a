package journaltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

var errTest = errors.New("the operation fails on purpose")

func testRollback(t *testing.T, e Engine) {
	j := e.open(t, t.TempDir(), At(Start))
	add(t, j, coord.Event{Kind: coord.JobChanged})
	err := j.Update(t.Context(), func(tx *journal.Tx) error {
		tx.Append(coord.Event{Kind: coord.JobChanged})
		if err := tx.Acquire("run", "att_1", 1); err != nil {
			return err
		}
		return errTest
	})
	if !errors.Is(err, errTest) {
		t.Fatalf("error is %v, want the operation's own", err)
	}
	if seq := add(t, j, coord.Event{Kind: coord.JobChanged}); seq != 2 {
		t.Errorf("the next sequence is %d, want 2", seq)
	}
	wantLeases(t, j)
	if diff := cmp.Diff([]int64{1, 2}, seqs(read(t, j))); diff != "" {
		t.Errorf("sequences (-want +got):\n%s", diff)
	}
}

func testPanic(t *testing.T, e Engine) {
	j := e.open(t, t.TempDir(), At(Start))
	err := j.Update(t.Context(), func(tx *journal.Tx) error {
		tx.Append(coord.Event{Kind: coord.JobChanged})
		panic("on purpose")
	})
	wantCode(t, err, coord.Internal)
	if seq := add(t, j, coord.Event{Kind: coord.JobChanged}); seq != 1 {
		t.Errorf("the next sequence is %d, want 1", seq)
	}
	if j.Err() != nil {
		t.Errorf("the journal failed: %v", j.Err())
	}
}

func testIsolation(t *testing.T, e Engine) {
	j := e.open(t, t.TempDir(), At(Start))
	const writers, each = 12, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				err := j.Update(t.Context(), func(tx *journal.Tx) error {
					tx.Append(coord.Event{Kind: coord.JobChanged, Job: coord.JobID(fmt.Sprint("job_", w))})
					switch (w + i) % 3 {
					case 1:
						return errTest
					case 2:
						panic("on purpose")
					}
					tx.Append(coord.Event{Kind: coord.JobChanged, Job: coord.JobID(fmt.Sprint("job_", w))})
					return nil
				})
				if ok := (w+i)%3 == 0; ok != (err == nil) {
					t.Errorf("operation %d of %d: error %v", i, w, err)
				}
			}
		})
	}
	wg.Wait()
	all := read(t, j)
	if want := writers * each / 3 * 2; len(all) != want {
		t.Fatalf("%d events, want %d", len(all), want)
	}
	for i := 0; i < len(all); i += 2 {
		if all[i].Job != all[i+1].Job || all[i].Seq != int64(i+1) {
			t.Fatalf("events %d and %d are not one operation's", all[i].Seq, all[i+1].Seq)
		}
	}
}

func testOwnWrites(t *testing.T, e Engine) {
	j := e.open(t, t.TempDir(), At(Start))
	add(t, j, coord.Event{Kind: coord.JobChanged})
	err := j.Update(t.Context(), func(tx *journal.Tx) error {
		seq := tx.Append(coord.Event{Kind: coord.TaskChanged})
		events, err := tx.Events(0, journal.EventFilter{}, 10)
		if len(events) != 2 || events[1].Kind != coord.TaskChanged || seq != 2 {
			t.Errorf("inside the operation: sequence %d, events %v", seq, events)
		}
		head, headErr := tx.Head()
		if head != 2 {
			t.Errorf("head inside the operation is %d, want 2", head)
		}
		return errors.Join(err, headErr)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func testContext(t *testing.T, e Engine) {
	j := e.open(t, t.TempDir(), At(Start))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	ran := false
	err := j.Update(ctx, func(*journal.Tx) error { ran = true; return nil })
	if !errors.Is(err, errTest) || ran {
		t.Errorf("Update with an ended context: error %v, ran %v", err, ran)
	}
	err = j.View(ctx, func(*journal.View) error { ran = true; return nil })
	if !errors.Is(err, errTest) || ran {
		t.Errorf("View with an ended context: error %v, ran %v", err, ran)
	}
	// A context that ends while the operation runs does not undo it: the
	// caller is told the truth, which is that it was committed.
	ctx, cancel = context.WithCancelCause(t.Context())
	err = j.Update(ctx, func(tx *journal.Tx) error {
		tx.Append(coord.Event{Kind: coord.JobChanged})
		cancel(errTest)
		tx.Append(coord.Event{Kind: coord.JobChanged})
		return nil
	})
	if err != nil || j.Head() != 2 {
		t.Errorf("a context that ended inside: error %v, head %d", err, j.Head())
	}
}

// answer keeps v as the answer of an operation of its own under k, after doing
// what fn does.
func answer(t testing.TB, j *journal.Journal, k journal.Key, v any, fn func() error) error {
	return j.Update(journal.WithKey(t.Context(), k), func(tx *journal.Tx) error {
		if err := tx.Answer(v); err != nil {
			return err
		}
		return fn()
	})
}

// answered gives what is kept under k, "" for nothing.
func answered(t testing.TB, j *journal.Journal, k journal.Key) (kept string, err error) {
	err = j.View(t.Context(), func(v *journal.View) error {
		doc, _, err := v.Answered(k)
		kept = string(doc)
		return err
	})
	return kept, err
}

func nothing() error { return nil }

type made struct {
	ID string `json:"id"`
}

func testAnswer(t *testing.T, e Engine) {
	dir := t.TempDir()
	j := e.open(t, dir, At(Start))
	k := journal.Key{Scope: "drafts", Name: "k", Digest: "d1"}
	if kept, err := answered(t, j, k); kept != "" || err != nil {
		t.Fatalf("before the first: %q, %v", kept, err)
	}
	if err := answer(t, j, k, made{"job_1"}, nothing); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = e.open(t, dir, At(Start))
	if kept, err := answered(t, j, k); kept != `{"id":"job_1"}` || err != nil {
		t.Errorf("same key and content: %s, %v", kept, err)
	}
	other := k
	other.Digest = "d2"
	_, err := answered(t, j, other)
	wantCode(t, err, coord.Conflict, "job_1")
	ran := false
	err = answer(t, j, other, made{"job_2"}, func() error { ran = true; return nil })
	wantCode(t, err, coord.Conflict, "key")
	if ran {
		t.Error("an operation whose key was used went on")
	}
	other.Scope = "other scope"
	if err := answer(t, j, other, made{"job_4"}, nothing); err != nil {
		t.Errorf("same key in another scope: %v", err)
	}
	if err := answer(t, j, journal.Key{}, made{"job_5"}, nothing); err != nil {
		t.Errorf("without a key: %v", err)
	}
}

func testAnswerFailed(t *testing.T, e Engine) {
	j := e.open(t, t.TempDir(), At(Start))
	k := journal.Key{Scope: "s", Name: "k", Digest: "d"}
	if err := answer(t, j, k, made{"job_1"}, func() error { return errTest }); !errors.Is(err, errTest) {
		t.Fatalf("error is %v, want the operation's own", err)
	}
	k.Digest = "another digest"
	if err := answer(t, j, k, made{"job_2"}, nothing); err != nil {
		t.Errorf("after a failure: %v", err)
	}
}

type lease struct {
	Name   string
	Slot   int
	Holder coord.AttemptID
}

func wantLeases(t testing.TB, j *journal.Journal, want ...lease) {
	t.Helper()
	var got []lease
	err := j.View(t.Context(), func(v *journal.View) error {
		held, err := v.Leases()
		for _, l := range held {
			got = append(got, lease{l.Name, l.Slot, l.Holder})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
}

func testLeases(t *testing.T, e Engine) {
	dir := t.TempDir()
	j := e.open(t, dir, At(Start))
	acquire := func(name string, holder coord.AttemptID, limit int) error {
		return j.Update(t.Context(), func(tx *journal.Tx) error { return tx.Acquire(name, holder, limit) })
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(acquire("run", "att_1", 2))
	must(acquire("run", "att_2", 2))
	must(acquire("run", "att_1", 2))
	must(acquire("agent:codex", "att_1", 1))
	wantCode(t, acquire("run", "att_3", 2), coord.Conflict, "run", "att_1", "att_2")
	wantCode(t, acquire("agent:codex", "att_2", 1), coord.Conflict, "agent:codex", "att_1")
	wantLeases(t, j, lease{"agent:codex", 0, "att_1"}, lease{"run", 0, "att_1"}, lease{"run", 1, "att_2"})

	must(j.Close())
	j = e.open(t, dir, At(Start))
	must(j.Update(t.Context(), func(tx *journal.Tx) error { return tx.Release("att_1") }))
	wantLeases(t, j, lease{"run", 1, "att_2"})
	must(acquire("run", "att_3", 2))
	wantLeases(t, j, lease{"run", 0, "att_3"}, lease{"run", 1, "att_2"})
	must(j.Update(t.Context(), func(tx *journal.Tx) error { return tx.Release("att_unknown") }))
}
