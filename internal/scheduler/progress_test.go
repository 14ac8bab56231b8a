package scheduler

import (
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider/providertest"
)

func TestAnAgentThatShowsNoProgressIsNotTakenToWork(t *testing.T) {
	for status, want := range map[string]coord.AttemptState{coord.ActivityStalled: coord.AttemptAccepted, "": coord.AttemptWorking} {
		script := providertest.Script{Steps: []providertest.Step{
			{Do: providertest.Accept}, {Do: providertest.Act, Text: "something", Cause: status},
			{Do: providertest.End, After: time.Minute, State: coord.AttemptCompleted},
		}}
		liveOn(t, coord.RouteA2A, providertest.Always(script), func(w *world) {
			w.approve(plan(time.Hour, []string{"a", "x"}))
			w.sleep(time.Second)
			if got := w.attempt("a").State; got != want {
				t.Errorf("with the status %q the attempt is %s, want %s", status, got, want)
			}
			w.sleep(2 * time.Minute)
			w.expect("completed a:completed")
		})
	}
}
