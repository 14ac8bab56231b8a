package scheduler

import (
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/provider/providertest"
)

func TestAnUnknownThatIsHeardOfAgainCountsAmongThoseThatRun(t *testing.T) {
	script := providertest.Script{Cancel: providertest.CancelCannot, Steps: []providertest.Step{
		{Do: providertest.Accept, After: time.Minute},
		{Do: providertest.End, State: coord.AttemptCompleted, After: time.Hour},
	}}
	live(t, providertest.Always(script), func(w *world) {
		w.approve(plan(2*time.Hour, []string{"a", "x"}))
		a := w.attempt("a")
		w.update(func(tx *journal.Tx) error {
			_, err := tx.CancelAttempt(a.ID, coord.CauseOperator, operator)
			return err
		})
		w.sleep(time.Second)
		if a = w.attempt("a"); a.State != coord.AttemptUnknown || w.leases() != 1 {
			t.Fatalf("after a stop that the agent cannot take the attempt is %s and holds %d leases, want unknown and its agent", a.State, w.leases())
		}
		w.sleep(2 * time.Minute)
		if a = w.attempt("a"); !a.Live() || w.leases() != 2 {
			t.Errorf("heard of again the attempt is %s and holds %d leases, want one that runs with its agent and a slot", a.State, w.leases())
		}
		w.sleep(time.Hour)
		if n := w.leases(); n != 0 {
			t.Errorf("%d leases are left", n)
		}
	})
}
