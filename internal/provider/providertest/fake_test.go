package providertest_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
)

func work(id coord.AttemptID) provider.Work {
	return provider.Work{Attempt: id, Agent: "fake", Prompt: "do it"}
}

// drain gives the kinds of all events up to the last, and then what is there
// when the session is closed.
func drain(t *testing.T, s provider.Session) []provider.EventKind {
	t.Helper()
	var kinds []provider.EventKind
	for {
		e, err := s.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return kinds
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, e.Kind)
		if e.Kind == provider.EventEnd {
			if _, err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestFakePlaysDelaysInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := providertest.NewFake(coord.RouteACP, providertest.Always(providertest.Script{Steps: []providertest.Step{
			{Do: providertest.Say, Text: "a", After: time.Minute},
			{Do: providertest.End, State: coord.AttemptCompleted, After: time.Hour},
			{Do: providertest.Say, Text: "late"},
		}}))
		s, err := f.Prepare(t.Context(), work("att_1"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Send(t.Context()); got != coord.HandedAll || err != nil {
			t.Fatalf("Send gave %v, %v", got, err)
		}
		start := time.Now()
		want := []provider.EventKind{provider.EventReceipt, provider.EventText, provider.EventEnd, provider.EventLate}
		if diff := cmp.Diff(want, drain(t, s)); diff != "" {
			t.Error(diff)
		}
		if got := time.Since(start); got != time.Hour+time.Minute {
			t.Errorf("the script took %v", got)
		}
	})
}

func TestFakeOfAnAskableRouteOutlivesItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := providertest.NewFake(coord.RouteA2A, providertest.Always(providertest.Script{Steps: []providertest.Step{
			{Do: providertest.Accept}, {Do: providertest.Cut},
			{Do: providertest.Say, Text: "done", After: time.Minute},
			{Do: providertest.End, State: coord.AttemptCompleted},
		}}))
		w := work("att_1")
		s, _ := f.Prepare(t.Context(), w)
		if _, err := s.Send(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []provider.EventKind{provider.EventReceipt, provider.EventLost}
		if diff := cmp.Diff(want, drain(t, s)); diff != "" {
			t.Error(diff)
		}
		v, err := f.Reconcile(t.Context(), w, s.Handle(), nil)
		if err != nil || v.Finding != provider.FoundWorking {
			t.Errorf("Reconcile gave %+v, %v while the peer works", v, err)
		}
		again, err := f.Reattach(t.Context(), w, s.Handle(), nil)
		if err != nil {
			t.Fatal(err)
		}
		want = []provider.EventKind{provider.EventText, provider.EventEnd}
		if diff := cmp.Diff(want, drain(t, again)); diff != "" {
			t.Error(diff)
		}
		v, err = f.Reconcile(t.Context(), w, s.Handle(), nil)
		if err != nil || v.Finding != provider.FoundEnded || v.Text != "done" {
			t.Errorf("Reconcile gave %+v, %v after the end", v, err)
		}
		if n := len(f.Sent()); n != 1 {
			t.Errorf("the peer got %d prompts", n)
		}
	})
}

func TestFakeHoldsUntilReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := providertest.NewFake(coord.RouteACP, providertest.Always(providertest.Script{Steps: []providertest.Step{
			{Do: providertest.Hold, Name: "go"}, {Do: providertest.Say, Text: "a"}, {Do: providertest.End, State: coord.AttemptCompleted},
		}}))
		s, _ := f.Prepare(t.Context(), work("att_1"))
		if _, err := s.Send(t.Context()); err != nil {
			t.Fatal(err)
		}
		short, stop := context.WithTimeoutCause(t.Context(), time.Hour, errors.New("nothing came"))
		defer stop()
		if e, err := s.Next(short); err == nil {
			t.Errorf("Next gave %v while the script holds", e.Kind)
		}
		go f.Release("go")
		if n := len(drain(t, s)); n != 3 {
			t.Errorf("%d events came after the release", n)
		}
	})
}
