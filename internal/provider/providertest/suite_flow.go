package providertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

func testPrepare(t *testing.T, h Harness) {
	t.Run("sends nothing", func(t *testing.T) {
		tr := h.begin(t, Answers("hello"))
		if a := tr.close(); a != coord.Ended {
			t.Errorf("Close of an attempt that was not sent gave %q", a)
		}
		if p := tr.Prompts(); len(p) != 0 {
			t.Errorf("the peer got %q", p)
		}
	})
	for _, c := range []struct {
		setup     Setup
		transient bool
	}{{SetupCrash, true}, {SetupSilent, true}, {SetupAuth, false}, {SetupVersion, false}} {
		if slices.Contains(h.Unready, c.setup) {
			continue
		}
		t.Run("that fails is certainly unsent: "+string(c.setup), func(t *testing.T) {
			s := h.New(t, Script{Setup: c.setup})
			session, err := s.Adapter.Prepare(t.Context(), s.Work)
			var u *provider.Unsent
			if session != nil || !errors.As(err, &u) {
				t.Fatalf("Prepare gave %v, %v", session, err)
			}
			if u.Cause == "" || u.Message == "" || u.Transient != c.transient {
				t.Errorf("the failure is %+v; want transient %v", u, c.transient)
			}
			if left := s.Left(); len(left) > 0 || len(s.Prompts()) > 0 {
				t.Errorf("left %q, prompts %q", left, s.Prompts())
			}
		})
	}
	t.Run("that is given up is certainly unsent", func(t *testing.T) {
		s := h.New(t, Script{Setup: SetupSilent})
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("given up"))
		defer cancel()
		_, err := s.Adapter.Prepare(ctx, s.Work)
		if _, ok := errors.AsType[*provider.Unsent](err); !ok {
			t.Fatalf("Prepare gave %v", err)
		}
		if left := s.Left(); len(left) > 0 {
			t.Errorf("left %q", left)
		}
	})
	t.Run("gives a handle that survives storage", func(t *testing.T) {
		tr := h.begin(t, Answers("hello"))
		if hd := again(t, tr.session.Handle()); hd.Version < 1 || len(hd.Data) == 0 {
			t.Errorf("the handle is %+v", hd)
		}
	})
}

func testSend(t *testing.T, h Harness) {
	t.Run("hands the exact prompt over once", func(t *testing.T) {
		tr := h.send(t, Step{Do: Say, Text: "hello"}, Step{Do: End, State: coord.AttemptCompleted})
		if end, text := tr.finish(); end.State != coord.AttemptCompleted || text != "hello" {
			t.Errorf("the end is %+v, the text %q", end, text)
		}
		if p := tr.Prompts(); len(p) != 1 || p[0] != tr.Work.Prompt {
			t.Errorf("the peer got %q", p)
		}
	})
	t.Run("is refused the second time", func(t *testing.T) {
		tr := h.send(t, Step{Do: Say, Text: "hello"}, Step{Do: End, State: coord.AttemptCompleted})
		if got, err := tr.session.Send(t.Context()); err == nil || got == coord.HandedAll {
			t.Errorf("the second Send gave %q, %v", got, err)
		}
		tr.finish()
	})
	t.Run("after Close sends nothing", func(t *testing.T) {
		tr := h.begin(t, Answers("hello"))
		tr.close()
		if got, err := tr.session.Send(t.Context()); got != coord.HandedNothing || err == nil {
			t.Errorf("Send gave %q, %v", got, err)
		}
		if p := tr.Prompts(); len(p) != 0 {
			t.Errorf("the peer got %q", p)
		}
	})
}

func testEvents(t *testing.T, h Harness) {
	end := Step{Do: End, State: coord.AttemptCompleted}
	t.Run("begin with one receipt", func(t *testing.T) {
		for _, first := range h.can(Step{Do: Accept}, Step{Do: Say, Text: "a"}, Step{Do: Act, Name: "t1", Text: "Look"}, h.ask("p", "May I?")) {
			tr := h.send(t, first, Step{Do: Say, Text: "b"}, Step{Do: Say, Text: "c"}, end)
			all := tr.until(provider.EventEnd)
			if all[0].Kind != provider.EventReceipt || all[0].Receipt.Reference == "" || all[0].Receipt.Kind == "" {
				t.Errorf("after %s first came %+v", first.Do, all[0])
			}
			for _, e := range all[1:] {
				if e.Kind == provider.EventReceipt {
					t.Errorf("after %s there was a second receipt", first.Do)
				}
			}
		}
	})
	t.Run("begin with a receipt even when the end is all there is", func(t *testing.T) {
		tr := h.send(t, Step{Do: End, State: coord.AttemptRejected})
		if all := tr.until(provider.EventEnd); len(all) != 2 || all[0].Kind != provider.EventReceipt {
			t.Errorf("there came %+v", all)
		}
	})
	for _, state := range []coord.AttemptState{coord.AttemptCompleted, coord.AttemptFailed, coord.AttemptRejected} {
		t.Run("end as "+string(state), func(t *testing.T) {
			tr := h.send(t, Step{Do: Say, Text: "part"}, Step{Do: End, State: state})
			if end, text := tr.finish(); end.State != state || text != "part" {
				t.Errorf("the end is %+v, the text %q", end, text)
			}
		})
	}
	t.Run("keep what is no answer apart from the answer", func(t *testing.T) {
		steps := h.can(Step{Do: Think, Text: "hm"}, Step{Do: Act, Name: "t1", Text: "Look"}, Step{Do: Spend, Usage: &coord.Usage{TotalTokens: 7}},
			Step{Do: Attach, Content: &provider.Content{Name: "a.png", Media: "image/png", Bytes: []byte{1, 2, 3}}}, Step{Do: Say, Text: "yes"}, end)
		tr := h.send(t, steps...)
		want := map[provider.EventKind]int{provider.EventReceipt: 1, provider.EventEnd: 1}
		for _, s := range steps {
			if kind := map[Do]provider.EventKind{Think: provider.EventText, Say: provider.EventText, Act: provider.EventActivity,
				Spend: provider.EventUsage, Attach: provider.EventContent}[s.Do]; kind != "" {
				want[kind]++
			}
		}
		all := tr.until(provider.EventEnd)
		seen := map[provider.EventKind]int{}
		for _, e := range all {
			seen[e.Kind]++
			if e.Content != nil && string(e.Content.Bytes) != "\x01\x02\x03" {
				t.Errorf("the content is %+v", e.Content)
			}
			if e.Usage != nil && e.Usage.TotalTokens != 7 {
				t.Errorf("the usage is %+v", e.Usage)
			}
		}
		if textOf(all) != "yes" || !maps.Equal(seen, want) {
			t.Errorf("the text is %q, the events are %v; want %v", textOf(all), seen, want)
		}
	})
	t.Run("are not taken by a call whose context has ended", func(t *testing.T) {
		tr := h.send(t, Step{Do: Say, Text: "a"}, Step{Do: Say, Text: "b"}, end)
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("over"))
		var all []provider.Event
		for len(all) == 0 || all[len(all)-1].Kind != provider.EventEnd {
			if e, err := tr.session.Next(ended); err == nil {
				t.Fatalf("Next with an ended context gave %+v", e)
			}
			// Contexts that end while Next waits must not take either.
			short, stop := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("short"))
			if e, err := tr.session.Next(short); err == nil {
				all = append(all, e)
			}
			stop()
		}
		if textOf(all) != "ab" {
			t.Errorf("the text is %q", textOf(all))
		}
	})
	t.Run("are none while the peer is silent", func(t *testing.T) {
		tr := h.send(t)
		if h.Whole {
			tr.until(provider.EventReceipt)
		}
		short, stop := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("short"))
		defer stop()
		if e, err := tr.session.Next(short); err == nil {
			t.Errorf("Next gave %+v", e)
		}
	})
	t.Run("of a flood all come, in order, to a slow taker", func(t *testing.T) {
		const n = 5000
		tr := h.send(t, Step{Do: Flood, Text: "0123456789", Count: n}, end)
		all := tr.until(provider.EventReceipt)
		tick := time.NewTicker(100 * time.Microsecond)
		defer tick.Stop()
		for len(textOf(all)) < n {
			<-tick.C
			all = append(all, tr.next())
		}
		_, rest := tr.finish()
		if got := len(textOf(all)) + len(rest); got != 10*n {
			t.Errorf("%d of %d bytes came", got, 10*n)
		}
	})
	if !h.plays(EndAgain) {
		return
	}
	t.Run("after the end are late and change nothing", func(t *testing.T) {
		tr := h.send(t, Step{Do: Say, Text: "a"}, end, Step{Do: Say, Text: "late"}, Step{Do: EndAgain}, Step{Do: End, State: coord.AttemptFailed})
		if got, text := tr.finish(); got.State != coord.AttemptCompleted || text != "a" {
			t.Errorf("the end is %+v, the text %q", got, text)
		}
		if e := tr.next(); e.Kind != provider.EventLate {
			t.Errorf("after the end came %+v", e)
		}
		tr.close()
		for {
			e, err := tr.session.Next(t.Context())
			if err != nil {
				break
			}
			if e.Kind != provider.EventLate {
				t.Errorf("after the end came %+v", e)
			}
		}
	})
}
