package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"signalbox/internal/api"
	"signalbox/internal/coord"
)

// served starts the front door again after it ended in order.
func (w *world) again() {
	w.t.Helper()
	select {
	case <-w.door.exited:
	case <-w.ctx.Done():
		w.t.Fatalf("serve did not end: %v\n%s", context.Cause(w.ctx), w.log())
	}
	if w.door.err != nil {
		w.t.Errorf("serve ended with %v\n%s", w.door.err, w.log())
	}
	w.serve()
	w.login()
}

func TestStopWithoutDrainDoesNotTrustAnAgentThatIgnoresIt(t *testing.T) {
	w := newWorld(t)
	w.scripted("deaf", "deaf", "stubborn")
	w.scripted("echo", "echo")
	ref := w.run(plan(task("work", "deaf", "work"), task("after", "echo", "then", "work")))
	w.when("the agent to work", func() bool { return w.result(ref, "work").Partial != "" })
	began := time.Now()
	if code, _, log := w.cli("stop"); code != 0 {
		t.Fatalf("stop exits with %d: %s", code, log)
	}
	<-w.door.exited
	if took := time.Since(began); took < coord.CancelWindow {
		t.Errorf("it ended after %s: the agent has %s to confirm", took, coord.CancelWindow)
	}
	if left := w.left(); len(left) > 0 {
		t.Errorf("the processes %v are left when serve has ended", left)
	}
	w.again()
	a := w.attempt(ref, "work")
	if a.State != coord.AttemptUnknown || a.Activity != coord.Ended || a.Cancel.State != coord.CancelUnknown || a.Cancel.Cause != coord.CauseShutdown {
		t.Errorf("the attempt is %s, activity %s, the cancellation %+v", a.State, a.Activity, a.Cancel)
	}
	w.settles(ref, coord.JobAttention)
	w.expect(ref, "work:unknown after:blocked")
	if n := len(w.stage.prompted("deaf")); n != 1 {
		t.Errorf("the agent got %d prompts", n)
	}
}

func TestStopWithDrainWaitsAndAdmitsNothing(t *testing.T) {
	w := newWorld(t)
	w.scripted("holder", "hold")
	w.scripted("echo", "echo")
	ref := w.run(plan(task("work", "holder", "work"), task("after", "echo", "then", "work")))
	w.when("the agent to work", func() bool { return w.result(ref, "work").Partial != "" })
	type exit struct {
		code int
		log  string
	}
	stopped := make(chan exit, 1)
	go func() {
		code, _, log := w.cli("stop", "--drain")
		stopped <- exit{code, log}
	}()
	w.poll("it drains", func() bool {
		s, err := w.client.Status(w.ctx)
		return err == nil && s.Draining
	})
	if s := w.task(ref, "work").State; s != coord.TaskRunning {
		t.Errorf("while it drains the task is %s", s)
	}
	select {
	case e := <-stopped:
		t.Errorf("stop --drain did not wait: %+v", e)
	case <-w.door.exited:
		t.Error("serve did not wait")
	default:
	}
	w.stage.open("holder")
	if e := <-stopped; e.code != 0 {
		t.Errorf("stop --drain exits with %d: %s", e.code, e.log)
	}
	w.again()
	// The dependant was not admitted by the draining worker.
	if n := must[api.Status](w, "status")(w.client.Status(w.ctx)).Generation; n != 2 {
		t.Errorf("generation %d", n)
	}
	w.settles(ref, coord.JobCompleted)
	if said := w.said(ref, "work", "holder"); said != "working done" {
		t.Errorf("what drained said %q", said)
	}
	if a := w.attempt(ref, "after"); a.Generation != 2 || a.Number != 1 {
		t.Errorf("the dependant's attempt %d belongs to generation %d", a.Number, a.Generation)
	}
}

func TestPauseAdmitsNothingMore(t *testing.T) {
	w := newWorld(t)
	w.scripted("holder", "hold")
	w.scripted("echo", "echo")
	ref := w.run(plan(task("work", "holder", "work"), task("after", "echo", "then", "work")))
	w.when("the agent to work", func() bool { return w.result(ref, "work").Partial != "" })
	if code, out, log := w.cli("pause"); code != 0 || !strings.Contains(out, "paused") {
		t.Fatalf("pause exits with %d: %s%s", code, out, log)
	}
	other := w.run(plan(task("t", "echo", "not now")))
	w.stage.open("holder")
	// The same look at the journal that makes the dependant ready would admit it
	// and the other job's task.
	w.reaches(ref, "after", coord.TaskReady)
	w.expect(ref, "work:completed after:ready")
	w.expect(other, "t:ready")
	if n := len(w.stage.prompted("echo")); n != 0 {
		t.Errorf("%d prompts were sent while paused", n)
	}
	// A pause outlives its worker.
	w.killWorker()
	w.expect(ref, "work:completed after:ready")
	if s := must[api.Status](w, "status")(w.client.Status(w.ctx)); !s.Paused {
		t.Error("the next worker is not paused")
	}
	if code, _, log := w.cli("resume"); code != 0 {
		t.Fatalf("resume exits with %d: %s", code, log)
	}
	w.settles(ref, coord.JobCompleted)
	w.settles(other, coord.JobCompleted)
}
