package providertest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// testTools are what the suite offers.
func testTools() []provider.Tool {
	return []provider.Tool{{Name: "read", Description: "Reads a file.", Schema: []byte(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)}}
}

func testCalls(t *testing.T, h Harness) {
	if !h.Tools {
		t.Run("cannot be offered, so work with tools is not sent", func(t *testing.T) {
			s := h.New(t, Answers("hello"))
			s.Work.Tools = testTools()
			session, err := s.Adapter.Prepare(t.Context(), s.Work)
			if u, ok := errors.AsType[*provider.Unsent](err); session != nil || !ok || u.Cause != provider.CauseConfig {
				t.Errorf("Prepare gave %v, %v", session, err)
			}
			if left := s.Left(); len(left) > 0 || len(s.Prompts()) > 0 {
				t.Errorf("left %q, prompts %q", left, s.Prompts())
			}
		})
		return
	}
	read := Step{Do: Call, Name: "c1", Text: "read", Arguments: []byte(`{"path":"a"}`)}
	await := Step{Do: Await, Name: "c1"}
	said := Step{Do: Say, Text: "done"}
	end := Step{Do: End, State: coord.AttemptCompleted}

	for _, failed := range []bool{false, true} {
		t.Run(fmt.Sprintf("are answered with their result, failed %v", failed), func(t *testing.T) {
			tr := h.sendTools(t, Script{Steps: []Step{read, await, said, end}})
			c := tr.call()
			if c.Tool != "read" || string(c.Arguments) != `{"path":"a"}` {
				t.Errorf("the call is %+v", c)
			}
			tr.respond(provider.Answer{Request: c.Origin.Request, Result: &provider.Result{Text: "the file", Failed: failed}}, provider.Delivered)
			tr.finish()
			tr.answered(Answered{Name: "c1", Text: "the file", Failed: failed})
		})
	}
	t.Run("are answered once however often the answer is given", func(t *testing.T) {
		tr := h.sendTools(t, Script{Steps: []Step{read, await, said, end}})
		c := tr.call()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				tr.respond(provider.Answer{Request: c.Origin.Request, Result: &provider.Result{Text: "the file"}}, provider.Delivered)
			})
		}
		all.Wait()
		tr.finish()
		tr.answered(Answered{Name: "c1", Text: "the file"})
	})
	t.Run("without a result fail", func(t *testing.T) {
		tr := h.sendTools(t, Script{Steps: []Step{read, await, said, end}})
		tr.respond(provider.Answer{Request: tr.call().Origin.Request, Decision: coord.DecisionWithdrawn}, provider.Delivered)
		tr.finish()
		tr.refused("c1")
	})
	t.Run("of tools that were not offered are refused by the adapter", func(t *testing.T) {
		tr := h.sendTools(t, Script{Steps: []Step{{Do: Call, Name: "c1", Text: "shell", Arguments: []byte(`{}`)}, await, said, end}})
		for _, e := range tr.until(provider.EventEnd) {
			if e.Call != nil {
				t.Errorf("there came %+v", e.Call)
			}
		}
		tr.refused("c1")
	})
	t.Run("are refused by the adapter beyond the bound of those at once", func(t *testing.T) {
		var steps []Step
		for i := range coord.MaxCalls + 2 {
			steps = append(steps, Step{Do: Call, Name: fmt.Sprintf("c%d", i), Text: "read", Arguments: []byte(`{"path":"a"}`)})
		}
		for i := range coord.MaxCalls {
			steps = append(steps, Step{Do: Await, Name: fmt.Sprintf("c%d", i)})
		}
		tr := h.sendTools(t, Script{Steps: append(steps, said, end)})
		var open []provider.Call
		for range coord.MaxCalls {
			open = append(open, tr.call())
		}
		tr.refused(fmt.Sprintf("c%d", coord.MaxCalls), fmt.Sprintf("c%d", coord.MaxCalls+1))
		for _, c := range slices.Backward(open) {
			tr.respond(provider.Answer{Request: c.Origin.Request, Result: &provider.Result{Text: "the file"}}, provider.Delivered)
		}
		for _, e := range tr.until(provider.EventEnd) {
			if e.Call != nil {
				t.Errorf("there came %+v", e.Call)
			}
		}
	})
	t.Run("that are open are answered as failed when the attempt is cancelled", func(t *testing.T) {
		tr := h.sendTools(t, Script{Steps: []Step{read, await}})
		c := tr.call()
		tr.cancel()
		tr.refused("c1")
		tr.respond(provider.Answer{Request: c.Origin.Request, Result: &provider.Result{Text: "the file"}}, provider.Undeliverable)
		tr.finish()
	})
	t.Run("that come after a cancellation are refused by the adapter", func(t *testing.T) {
		tr := h.sendTools(t, Script{Steps: []Step{{Do: Say, Text: "a"}}, CancelSteps: []Step{read, await, {Do: End, State: coord.AttemptCancelled}}})
		tr.until(provider.EventText)
		tr.cancel()
		for _, e := range tr.until(provider.EventEnd) {
			if e.Call != nil {
				t.Errorf("there came %+v", e.Call)
			}
		}
		tr.refused("c1")
	})
	t.Run("cannot be answered after the loss", func(t *testing.T) {
		tr := h.sendTools(t, Script{Steps: []Step{read, {Do: Crash}}})
		c := tr.call()
		tr.lost()
		got, _ := tr.session.Respond(t.Context(), provider.Answer{Request: c.Origin.Request, Result: &provider.Result{Text: "the file"}})
		if got != provider.Undeliverable {
			t.Errorf("Respond gave %q", got)
		}
	})
}

// sendTools sends work that comes with testTools.
func (h Harness) sendTools(t *testing.T, s Script) *trial {
	t.Helper()
	with := h
	with.New = func(t *testing.T, s Script) Subject {
		subject := h.New(t, s)
		subject.Work.Tools = testTools()
		return subject
	}
	return with.sendScript(t, s)
}

// call reads to the next call.
func (tr *trial) call() provider.Call {
	tr.Helper()
	all := tr.until(provider.EventCall)
	return *all[len(all)-1].Call
}

// refused waits until the peer was answered that these calls failed.
func (tr *trial) refused(names ...string) {
	tr.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		n := 0
		for _, a := range tr.Answers() {
			if a.Failed && slices.Contains(names, a.Name) {
				n++
			}
		}
		if n == len(names) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			tr.Fatalf("the peer was answered %+v; want %q refused", tr.Answers(), names)
		}
	}
}
