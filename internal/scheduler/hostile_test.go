package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
	"signalbox/internal/redact"
)

// stubborn is an adapter whose agents can neither be ended nor asked.
type stubborn struct{ provider.Adapter }

func (s stubborn) Prepare(ctx context.Context, w provider.Work) (provider.Session, error) {
	session, err := s.Adapter.Prepare(ctx, w)
	if err != nil {
		return nil, err
	}
	return immortal{session}, nil
}

func (s stubborn) Reconcile(context.Context, provider.Work, coord.Handle, *coord.Receipt) (provider.Verdict, error) {
	return provider.Verdict{}, &provider.Unsent{Cause: provider.CauseSpawn, Message: "its program is gone"}
}

type immortal struct{ provider.Session }

func (i immortal) Close(ctx context.Context) (coord.ActivityState, error) {
	_, err := i.Session.Close(ctx)
	if err == nil {
		err = coord.Errorf(coord.Unavailable, "process 7 cannot be ended, end it by hand")
	}
	return coord.MayRun, err
}

func TestALostAgentThatCannotBeEndedKeepsItsLease(t *testing.T) {
	live(t, providertest.Always(providertest.Script{Send: coord.HandedUnknown}), func(w *world) {
		w.scheduler.Adapters[coord.RouteACP] = stubborn{w.fake}
		w.approve(plan(time.Hour, []string{"a", "x"}))
		w.sleep(time.Minute)
		a := w.attempt("a")
		if a.State != coord.AttemptUnknown || a.Activity != coord.MayRun {
			t.Errorf("the attempt is %s, activity %s", a.State, a.Activity)
		}
		if n := w.leases(); n != 1 {
			t.Errorf("%d leases are held by an agent that may run, want its own", n)
		}
	})
}

func TestWhyAnAgentCannotBeAskedIsShown(t *testing.T) {
	live(t, providertest.Always(providertest.Script{Send: coord.HandedUnknown}), func(w *world) {
		w.scheduler.Adapters[coord.RouteACP] = stubborn{w.fake}
		w.approve(plan(time.Hour, []string{"a", "x"}))
		_, err := w.scheduler.Reconcile(context.Background(), coord.AttemptRef{ID: w.attempt("a").ID}, operator)
		if coord.CodeOf(err) != coord.Unavailable || !strings.Contains(err.Error(), "its program is gone") {
			t.Errorf("the operator is told %v", err)
		}
	})
}

func TestAFloodOfContentAndUsageIsKeptWithinBounds(t *testing.T) {
	const flood = coord.MaxActivities + 200
	steps := []providertest.Step{{Do: providertest.Accept}}
	for i := range flood {
		steps = append(steps,
			providertest.Step{Do: providertest.Attach, Content: &provider.Content{Name: "n", Reference: "https://example.org/"}},
			providertest.Step{Do: providertest.Spend, Usage: &coord.Usage{TotalTokens: int64(i + 1), Source: "provider"}})
	}
	steps = append(steps, providertest.Step{Do: providertest.Say, Text: "done"}, providertest.Step{Do: providertest.End, State: coord.AttemptCompleted})
	live(t, providertest.Always(providertest.Script{Steps: steps}), func(w *world) {
		id := w.approve(plan(time.Hour, []string{"a", "x"}))
		w.sleep(time.Second)
		w.expect("completed a:completed")
		if used := w.attempt("a").Usage.TotalTokens; used != flood {
			t.Errorf("the usage that is kept is %d, and the last that was told %d", used, flood)
		}
		var files []coord.Artifact
		w.view(func(v *journal.View) (err error) {
			files, err = v.Artifacts(id)
			return err
		})
		if n := len(files); n != coord.MaxContents+1 { // and the answer
			t.Errorf("%d artifacts are kept", n)
		}
		if head := w.journal.Head(); head > coord.MaxActivities+coord.MaxContents+100 {
			t.Errorf("the flood made %d events", head)
		}
	})
}

func TestChangingChannelsAtEachByteDoesNotMakeAnEventOfEach(t *testing.T) {
	text := newTranscript(redact.New())
	for range 1000 {
		for _, channel := range []string{coord.ChannelThought, coord.ChannelMessage} {
			text.add(coord.Text{Channel: channel, Text: "a "}, time.Now())
		}
	}
	pieces := append(text.take(true), text.take(false)...)
	bytes := 0
	for _, p := range pieces {
		bytes += len(p.Text)
	}
	if len(pieces) > maxPieces || bytes != 4000 {
		t.Errorf("%d bytes were written in %d pieces", bytes, len(pieces))
	}
}
