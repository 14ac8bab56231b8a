package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
)

func TestWhyTheAgentTookNothingIsToldByItsCause(t *testing.T) {
	stopped, stop := context.WithCancelCause(context.Background())
	stop(errOver)
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want coord.Change
	}{
		"it reads nothing": {context.Background(), context.DeadlineExceeded,
			coord.Change{On: coord.AttemptNotSend, Cause: provider.CauseWriteTimeout, Reason: "the agent took nothing of the work", Transient: true}},
		"a stop": {stopped, errOver,
			coord.Change{On: coord.AttemptNotSend, Cause: provider.CauseCancelled, Reason: "the attempt was stopped before the agent took anything of the work", Transient: true}},
		"too long for its route": {context.Background(), coord.Errorf(coord.Limit, "at most 9"),
			coord.Change{On: coord.AttemptNotSend, Cause: provider.CauseFrame, Reason: "at most 9"}},
	} {
		if diff := cmp.Diff(c.want, nothingHanded(c.ctx, c.err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatTheAgentTookIsToldAsItIs(t *testing.T) {
	for handed, want := range map[coord.HandedOver]string{
		coord.HandedNothing: "not_sent: the agent took nothing",
		coord.HandedUnknown: "unknown: the agent took a part only",
	} {
		script := completes(0, "ok")
		script.Send = handed
		live(t, providertest.Always(script), func(w *world) {
			w.approve(plan(time.Hour, []string{"a", "x"}))
			if a := w.attempt("a"); string(a.State)+": "+a.Reason != want {
				t.Errorf("%s is told as %s: %s", handed, a.State, a.Reason)
			}
		})
	}
}
