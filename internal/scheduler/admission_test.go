package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
)

// slow is an agent that takes a minute to prepare.
func slow() func(provider.Work) providertest.Script {
	s := completes(0, "ok")
	s.SetupDelay = time.Minute
	return providertest.Always(s)
}

func TestWhatThereIsRoomForIsAdmittedByTheCommitThatApproves(t *testing.T) {
	for name, c := range map[string]struct {
		before func(tx *journal.Tx, w *world) error
		lines  [][]string
		want   []string
	}{
		"tasks that need nothing": {lines: [][]string{{"a", "x"}, {"b", "y"}, {"c", "z", "a"}}, want: []string{"a", "b"}},
		"one of each agent":       {lines: [][]string{{"a", "x"}, {"b", "x"}, {"c", "y"}}, want: []string{"a", "c"}},
		"four at once":            {lines: [][]string{{"a", "u"}, {"b", "v"}, {"c", "w"}, {"d", "x"}, {"e", "y"}}, want: []string{"a", "b", "c", "d"}},
		"none while it is paused": {before: func(tx *journal.Tx, _ *world) error { return tx.SetPaused(true, operator) }, lines: [][]string{{"a", "x"}}},
		"none while it drains":    {before: func(_ *journal.Tx, w *world) error { w.scheduler.Drain(); return nil }, lines: [][]string{{"a", "x"}}},
		"none of an agent whose process ends": {before: func(_ *journal.Tx, w *world) error {
			w.scheduler.own(context.Background(), coord.Attempt{ID: "att_gone", Agent: "x"}, following, func(o *owner) { <-o.ctx.Done() })
			return nil
		}, lines: [][]string{{"a", "x"}, {"b", "y"}}, want: []string{"b"}},
		"none of an agent that works": {before: func(tx *journal.Tx, _ *world) error { return tx.Acquire("agent:x", "att_other", 1) }, lines: [][]string{{"a", "x"}, {"b", "y"}}, want: []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			live(t, slow(), func(w *world) {
				var got []string
				w.update(func(tx *journal.Tx) error {
					if c.before != nil {
						if err := c.before(tx, w); err != nil {
							return err
						}
					}
					j, tasks, err := w.started(tx, plan(time.Hour, c.lines...))
					if err != nil {
						return err
					}
					if err := w.scheduler.AdmitFirst(tx, j, tasks); err != nil {
						return err
					}
					attempts, err := tx.Attempts(j.ID)
					for _, a := range attempts {
						got = append(got, a.Key)
					}
					return err
				})
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("admitted (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestATaskThatWaitsIsNotOvertakenByANewJob(t *testing.T) {
	live(t, slow(), func(w *world) {
		w.update(func(tx *journal.Tx) error { return tx.Acquire("agent:x", "att_other", 1) })
		w.approve(plan(time.Hour, []string{"a", "x"})) // waits
		w.update(func(tx *journal.Tx) error {
			j, tasks, err := w.started(tx, plan(time.Hour, []string{"b", "x"}))
			if err := errors.Join(err, tx.Release("att_other")); err != nil {
				return err
			}
			return w.scheduler.AdmitFirst(tx, j, tasks)
		})
		synctest.Wait()
		w.view(func(v *journal.View) error {
			jobs, err := v.Jobs(0, 2) // the newest first
			if err != nil {
				return err
			}
			older, err := v.Attempts(jobs[1].ID)
			if err != nil {
				return err
			}
			newer, err := v.Attempts(jobs[0].ID)
			if len(older) != 1 || len(newer) != 0 {
				t.Errorf("the older job has %d attempts, the newer one %d", len(older), len(newer))
			}
			return err
		})
	})
}

func TestNothingIsSettledWhileSomethingIsAdmitted(t *testing.T) {
	s := New(Options{})
	s.Drain()
	if s.settled(state{draining: true, admissions: true}) {
		t.Error("settled beside an admission")
	}
	if isClosed(s.idle) {
		t.Error("idle beside an admission")
	}
	// What was read before the drain began may have been followed by an admission.
	if s.settled(state{}); isClosed(s.idle) {
		t.Error("idle by what was read before the drain")
	}
	if !s.settled(state{draining: true}) || !isClosed(s.idle) {
		t.Error("not settled, or not idle, with nothing to do")
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestAnAttemptIsItsOwnersOnceItIsCommitted(t *testing.T) {
	live(t, slow(), func(w *world) {
		w.update(func(tx *journal.Tx) error {
			j, tasks, err := w.started(tx, plan(time.Hour, []string{"a", "x"}))
			if err := errors.Join(err, w.scheduler.AdmitFirst(tx, j, tasks)); err != nil {
				return err
			}
			if got := w.phases(); len(got) != 1 || got[0] != admitting {
				t.Errorf("before the commit it is at %v", got)
			}
			return nil
		})
		if got := w.phases(); len(got) != 1 || got[0] != preparing {
			t.Errorf("after the commit it is at %v", got)
		}
	})
}

func TestACancelInTheCommitOfTheAdmissionReachesTheOwner(t *testing.T) {
	live(t, slow(), func(w *world) {
		both := make(chan error, 1)
		w.update(func(tx *journal.Tx) error {
			j, tasks, err := w.started(tx, plan(time.Hour, []string{"a", "x"}))
			if err := errors.Join(err, w.scheduler.AdmitFirst(tx, j, tasks)); err != nil {
				return err
			}
			// It waits behind this one, so the two share a commit.
			go func() {
				both <- w.journal.Update(context.Background(), func(tx *journal.Tx) error {
					_, err := tx.CancelAttempt(w.latest(tx, "a"), coord.CauseOperator, operator)
					return err
				})
			}()
			synctest.Wait()
			return nil
		})
		if err := <-both; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := w.phases(); len(got) != 0 {
			t.Errorf("an owner of what is cancelled is at %v", got)
		}
		w.expect("cancelled a:cancelled")
	})
}

func (w *world) phases() []phase {
	w.scheduler.mu.Lock()
	defer w.scheduler.mu.Unlock()
	var out []phase
	for _, o := range w.scheduler.owners {
		out = append(out, o.phase())
	}
	return out
}

func TestAnApprovalThatFailsAfterItsAdmissionRunsNothing(t *testing.T) {
	live(t, slow(), func(w *world) {
		refused := errors.New("refused")
		err := w.journal.Update(context.Background(), func(tx *journal.Tx) error {
			j, tasks, err := w.started(tx, plan(time.Hour, []string{"a", "x"}))
			return errors.Join(err, w.scheduler.AdmitFirst(tx, j, tasks), refused)
		})
		if !errors.Is(err, refused) {
			t.Errorf("the approval gave %v", err)
		}
		synctest.Wait()
		w.scheduler.mu.Lock()
		owners, admissions := len(w.scheduler.owners), w.scheduler.admissions
		w.scheduler.mu.Unlock()
		if owners != 0 || admissions != 0 {
			t.Errorf("%d attempts are followed, %d are being admitted", owners, admissions)
		}
		w.approve(plan(time.Hour, []string{"a", "x"})) // the agent is free
		w.sleep(2 * time.Minute)
		w.expect("completed a:completed")
		if n := len(w.fake.Sent()); n != 1 {
			t.Errorf("sent %d times", n)
		}
	})
}

func TestAStopBesideAnAdmissionEndsWhatWasAdmitted(t *testing.T) {
	live(t, slow(), func(w *world) {
		w.update(func(tx *journal.Tx) error {
			j, tasks, err := w.started(tx, plan(time.Hour, []string{"a", "x"}))
			if err != nil {
				return err
			}
			if err := w.scheduler.AdmitFirst(tx, j, tasks); err != nil {
				return err
			}
			w.stop(errOver)
			select {
			case <-w.done:
				t.Error("the scheduler ended while an attempt was being admitted")
			case <-time.After(time.Second):
			}
			return nil
		})
		<-w.done
		a := w.attempt("a")
		if a.Live() || len(w.fake.Sent()) != 0 {
			t.Errorf("the attempt is %s, sent %d", a.State, len(w.fake.Sent()))
		}
		w.update(func(tx *journal.Tx) error {
			j, tasks, err := w.started(tx, plan(time.Hour, []string{"a", "x"}))
			if err := errors.Join(err, w.scheduler.AdmitFirst(tx, j, tasks)); err != nil {
				return err
			}
			attempts, err := tx.Attempts(j.ID)
			if len(attempts) > 0 {
				t.Error("a task was admitted after the end")
			}
			return err
		})
		if err := w.journal.Close(); err != nil {
			t.Error(err)
		}
		w.begin()
	})
}

// The loop reads its owners first and the journal after them: what is admitted in
// between has an owner that it does not know of.
func TestWhatWasDecidedWithoutSeeingTheOwnerIsNotDone(t *testing.T) {
	live(t, slow(), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}))
		a := w.attempt("a")
		for _, act := range []action{lose{a}, reattach{a}, proveEnded{a.ID}} {
			if did, err := w.scheduler.apply(context.Background(), act); did || err != nil {
				t.Errorf("%T: %v, %v", act, did, err)
			}
		}
		if diff := cmp.Diff(a, w.attempt("a")); diff != "" {
			t.Errorf("the attempt (-was +is):\n%s", diff)
		}
		w.update(func(tx *journal.Tx) error { // another process of the agent would be its second
			_, _, err := w.started(tx, plan(time.Hour, []string{"b", "x"}))
			return errors.Join(err, tx.Release(a.ID))
		})
		var b coord.Task
		w.view(func(v *journal.View) error {
			jobs, err := v.Jobs(0, 1)
			if err != nil {
				return err
			}
			b, err = v.Task(coord.TaskRef{Job: coord.JobRef{ID: jobs[0].ID}, Key: "b"})
			return err
		})
		if did, err := w.scheduler.apply(context.Background(), admit{b}); did || err != nil {
			t.Errorf("it was admitted: %v, %v", did, err)
		}
	})
}

func TestALateLossLeavesWhatIsOverAsItIs(t *testing.T) {
	live(t, providertest.Always(completes(time.Hour, "ok")), func(w *world) {
		w.approve(plan(time.Hour, []string{"a", "x"}))
		before := w.attempt("a")
		before.State, before.Sent = coord.AttemptPreparing, nil // as it was read
		w.crash()
		w.begin()
		w.expect("needs_attention a:unknown")
		for _, act := range []action{lose{before}, reattach{before}} {
			if did, err := w.scheduler.apply(context.Background(), act); did || err != nil {
				t.Errorf("%T: %v, %v", act, did, err)
			}
		}
		w.expect("needs_attention a:unknown")
		w.scheduler.mu.Lock()
		w.scheduler.unproven[before.ID] = true
		w.scheduler.mu.Unlock()
		w.update(func(tx *journal.Tx) error {
			return tx.EditAttempt(before.ID, func(a coord.Attempt) coord.Attempt {
				a.Activity = coord.MayRun
				return a
			})
		})
		if did, err := w.scheduler.apply(context.Background(), proveEnded{before.ID}); did || err != nil || w.attempt("a").Activity != coord.MayRun {
			t.Errorf("proven: %v, %v", did, err)
		}
	})
}
