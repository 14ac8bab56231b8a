package journal_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

func TestOnlyWhatIsMoreThanWordsMoves(t *testing.T) {
	j := openMemory(t)
	undone := errors.New("undone")
	for _, c := range []struct {
		kind coord.EventKind
		err  error
		want int64
	}{
		{coord.JobChanged, nil, 1},
		{coord.AttemptText, nil, 1},
		{coord.AttemptActed, nil, 1},
		{coord.AttemptLate, nil, 1},
		{coord.AttemptChanged, undone, 1},
		{coord.AttemptChanged, nil, 5},
		{coord.AttemptText, nil, 5},
	} {
		err := j.Update(t.Context(), func(tx *journal.Tx) error {
			tx.Append(coord.Event{Kind: c.kind})
			return c.err
		})
		if !errors.Is(err, c.err) {
			t.Fatal(err)
		}
		if got := j.Moved(); got != c.want {
			t.Errorf("after %s (%v) Moved is %d, want %d", c.kind, c.err, got, c.want)
		}
	}
}

// Reading an agenda again gives what a first reading gives, after each change.
func TestAnAgendaReadAgainIsWhatIsThere(t *testing.T) {
	j := openMemory(t)
	op := coord.Actor{Name: "op"}
	var again journal.Agenda
	same := func(step string) journal.Agenda {
		t.Helper()
		var first journal.Agenda
		err := j.View(t.Context(), func(v *journal.View) error {
			return errors.Join(first.Read(v), again.Read(v))
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, again, cmpopts.IgnoreUnexported(journal.Agenda{})); diff != "" {
			t.Errorf("%s: a reading anew (-) and again (+) differ:\n%s", step, diff)
		}
		return first
	}
	update := func(fn func(tx *journal.Tx) error) {
		t.Helper()
		if err := j.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	same("empty")
	var a coord.Attempt
	var task coord.Task
	for range 2 {
		update(func(tx *journal.Tx) error {
			job, err := tx.AddJob(coord.Job{By: op})
			if err != nil {
				return err
			}
			if job, err = job.Apply(coord.JobRun, tx.Now()); err != nil {
				return err
			}
			task, err = tx.AddTask(coord.Task{Job: job.ID, Key: "a", Agent: coord.AgentID("agent" + string(job.ID)), State: coord.TaskReady})
			return errors.Join(err, tx.PutJob(job, &op))
		})
		same("a job runs")
	}
	update(func(tx *journal.Tx) (err error) { a, err = tx.AddAttempt(task, coord.RouteACP, "here"); return err })
	if got := same("admitted"); len(got.Jobs) != 2 || len(got.Attempts) != 1 || len(got.Leases) != 2 {
		t.Errorf("the agenda has %d jobs, %d attempts and %d leases", len(got.Jobs), len(got.Attempts), len(got.Leases))
	}
	update(func(tx *journal.Tx) error { return tx.SetPaused(true, op) })
	if got := same("paused"); !got.Paused {
		t.Error("the agenda is not paused")
	}
	update(func(tx *journal.Tx) error {
		_, err := tx.CancelAttempt(a.ID, coord.CauseOperator, op)
		return err
	})
	if got := same("cancelled"); len(got.Jobs) != 1 || len(got.Attempts)+len(got.Leases) != 0 {
		t.Errorf("the agenda has %d jobs, %d attempts and %d leases after the end", len(got.Jobs), len(got.Attempts), len(got.Leases))
	}
}
