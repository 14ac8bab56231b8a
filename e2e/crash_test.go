package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"signalbox/internal/api"
	"signalbox/internal/coord"
	"signalbox/internal/synthesis"
)

// worker gives the pid of the owner of the journal.
func (w *world) worker() int {
	w.t.Helper()
	var owner struct {
		PID int `json:"pid"`
	}
	doc, err := os.ReadFile(filepath.Join(w.dir, "owner.lock"))
	if err == nil {
		err = json.Unmarshal(doc, &owner)
	}
	if err != nil || owner.PID <= 1 {
		w.t.Fatalf("owner.lock names no process: %q (%v)", doc, err)
	}
	return owner.PID
}

// killWorker kills the worker with SIGKILL and waits for the next one, which
// the same front door starts.
func (w *world) killWorker() {
	w.t.Helper()
	before := must[api.Status](w, "status")(w.client.Status(w.ctx))
	pid := w.worker()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	w.poll("another worker answers", func() bool {
		now, err := w.client.Status(w.ctx)
		return err == nil && now.Generation == before.Generation+1
	})
	select {
	case <-w.door.exited:
		w.t.Fatalf("the front door ended with its worker: %v\n%s", w.door.err, w.log())
	default:
	}
	if !strings.Contains(w.log(), "the worker ended and is started again") {
		w.t.Errorf("the front door does not report the dead worker:\n%s", w.log())
	}
}

// lost checks that an attempt is unknown, that its activity is proven to have
// ended, and that the explanation says both with its evidence.
func (w *world) lost(ref, key string) {
	w.t.Helper()
	e := must[synthesis.Explanation](w, "explain")(w.client.Explain(w.ctx, ref+"/"+key))
	a := e.Attempt
	if a.State != coord.AttemptUnknown || a.Activity != coord.Ended || a.Sent == nil || a.Receipt == nil || a.Cause != "worker_restart" || a.Reason == "" {
		w.t.Errorf("the attempt of %s/%s is %s (%s: %s), activity %s, sent %v, receipt %v", ref, key, a.State, a.Cause, a.Reason, a.Activity, a.Sent, a.Receipt)
	}
	if len(e.Evidence) == 0 || len(e.Known) == 0 || len(e.NotKnown) == 0 || len(e.NextSteps) < 4 {
		w.t.Errorf("the explanation of %s/%s is %+v", ref, key, e)
	}
	code, out, log := w.cli("attempt", "show", ref+"/"+key)
	out = strings.Join(strings.Fields(out), " ") // lines are wrapped
	for _, want := range []string{"unknown", "Not known", "Evidence", "none is left", "attempt adopt " + ref + "/" + key, "never-ran", "abandon"} {
		if code != 0 || !strings.Contains(out, want) {
			w.t.Errorf("attempt show exits with %d and lacks %q:\n%s%s", code, want, out, log)
		}
	}
}

// withdrawn checks that a request is still shown, withdrawn with its reason,
// and that approving it conflicts.
func (w *world) withdrawn(before coord.Request) {
	w.t.Helper()
	r := must[coord.Request](w, "request")(w.client.Request(w.ctx, fmt.Sprintf("r%d", before.Number)))
	if r.ID != before.ID || r.Digest != before.Digest || r.Decision != coord.DecisionWithdrawn || r.Decided == nil || r.Decided.Reason == "" ||
		r.Decided.By.Door != "worker" || r.Delivery != coord.DeliveryUndeliverable {
		w.t.Errorf("the request is %s, %s, decided %+v", r.Decision, r.Delivery, r.Decided)
	}
	status, body := w.do(http.MethodPost, "/api/requests/"+string(r.ID)+"/decide", `{"decision":"approve","digest":"`+r.Digest+`"}`)
	var p api.Problem
	if err := json.Unmarshal(body, &p); err != nil || status != http.StatusConflict || p.Code != coord.Conflict || r.Decided == nil || !strings.Contains(p.Detail, r.Decided.Reason) {
		w.t.Errorf("approving it gives %d: %s", status, body)
	}
	if code, _, log := w.cli("request", "approve", fmt.Sprintf("r%d", r.Number), "--digest", r.Digest); code != 5 || !strings.Contains(log, "withdrawn") {
		w.t.Errorf("request approve exits with %d: %s", code, log)
	}
}

// refused checks the code of an error.
func (w *world) refused(what string, err error, code coord.Code) {
	w.t.Helper()
	if coord.CodeOf(err) != code {
		w.t.Errorf("%s gives %v, want %s", what, err, code)
	}
}

func TestWorkerKilledInMidJobAndWhatTheOperatorDoesThen(t *testing.T) {
	w := newWorld(t)
	w.scripted("streamer", "stream", "stubborn")
	w.scripted("asker", "ask", "stubborn")
	w.scripted("holder", "hold", "stubborn")
	w.scripted("echo", "echo")
	ref := w.run(plan(
		task("stream", "streamer", "stream"), task("ask", "asker", "ask"), task("hold", "holder", "hold"),
		task("of-stream", "echo", "go on", "stream"), task("of-ask", "echo", "go on", "ask"), task("of-hold", "echo", "go on", "hold"),
	))
	r := w.asked(ref, "ask")
	for _, key := range []string{"stream", "hold"} {
		w.when("text of "+key, func() bool { return w.result(ref, key).Partial != "" })
	}
	agents := w.left()
	if len(agents) < 6 {
		t.Errorf("%d processes of three agents with a child each", len(agents))
	}

	w.killWorker()
	w.settles(ref, coord.JobAttention)
	w.gone()
	w.expect(ref, "stream:unknown ask:unknown hold:unknown of-stream:blocked of-ask:blocked of-hold:blocked")
	for _, key := range []string{"stream", "ask", "hold"} {
		w.lost(ref, key)
	}
	w.withdrawn(r)
	if partial := w.result(ref, "stream").Partial; !strings.HasPrefix(partial, "working tick ") {
		t.Errorf("of what was streamed before, %q is left", partial)
	}
	_, err := w.client.Retry(w.ctx, ref)
	w.refused("a retry while the outcome is unknown", err, coord.Conflict)

	w.resolve(ref)
	w.settles(ref, coord.JobFailed)
	w.expect(ref, "stream:completed ask:failed hold:failed of-stream:completed of-ask:skipped of-hold:skipped")
	if got := w.said(ref, "of-stream", "echo"); !strings.Contains(got, `Result of task "stream" by the operator`) || !strings.Contains(got, "> I saw it finished.") {
		t.Errorf("the dependant of the adopted task got:\n%s", got)
	}
	for _, agent := range []string{"streamer", "asker", "holder"} {
		if n := len(w.stage.prompted(agent)); n != 1 {
			t.Errorf("%s got %d prompts", agent, n)
		}
	}

	again := must[coord.Job](w, "retry")(w.client.Retry(w.ctx, ref))
	var keys []string
	for _, task := range again.Plan.Tasks {
		keys = append(keys, task.Key)
	}
	if got := strings.Join(keys, " "); again.State != coord.JobDraft || again.From == nil || again.From.How != "retry" || got != "ask hold of-ask of-hold" {
		t.Errorf("the retry is %s from %+v with the tasks %s", again.State, again.From, got)
	}
	w.gone()
}

// resolve adopts, states and abandons, on the command line and by the API.
func (w *world) resolve(ref string) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "result.txt")
	if err := os.WriteFile(file, []byte("I saw it finished."), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if code, out, log := w.cli("attempt", "adopt", ref+"/stream", "--result", file); code != 0 {
		w.t.Fatalf("adopt exits with %d: %s%s", code, out, log)
	}
	_, err := w.client.Resolve(w.ctx, ref+"/stream", coord.Abandoned, "", "")
	w.refused("a second resolution", err, coord.Conflict)
	_, err = w.client.Resolve(w.ctx, ref+"/ask", coord.NeverRan, "", "")
	w.refused("never-ran without a reason", err, coord.Invalid)
	if code, _, log := w.cli("attempt", "never-ran", ref+"/ask", "--reason", "the agent waited for my word"); code != 0 {
		w.t.Fatalf("never-ran exits with %d: %s", code, log)
	}
	if code, _, log := w.cli("attempt", "abandon", ref+"/hold"); code != 0 {
		w.t.Fatalf("abandon exits with %d: %s", code, log)
	}
	for key, how := range map[string]coord.ResolutionKind{"stream": coord.Adopted, "ask": coord.NeverRan, "hold": coord.Abandoned} {
		a := w.attempt(ref, key)
		if a.State != coord.AttemptUnknown || a.Resolution == nil || a.Resolution.How != how || a.Resolution.By.Credential == "" {
			w.t.Errorf("the attempt of %s is %s, resolved %+v", key, a.State, a.Resolution)
		}
	}
}

func TestFrontDoorKilled(t *testing.T) {
	w := newWorld(t)
	w.scripted("streamer", "stream", "stubborn")
	ref := w.run(plan(task("stream", "streamer", "stream"), task("after", "streamer", "then", "stream")))
	w.when("text", func() bool { return w.result(ref, "stream").Partial != "" })
	worker := w.worker()
	if err := w.door.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-w.door.exited
	w.poll("the worker ends", func() bool { return syscall.Kill(worker, 0) != nil })
	w.gone()

	w.serve()
	w.login()
	w.when("the job to be told truthfully", func() bool { return w.attempt(ref, "stream").Ended != nil })
	if a := w.attempt(ref, "stream"); a.State != coord.AttemptCancelled || a.Cancel.State != coord.CancelConfirmed || a.Cancel.Cause != coord.CauseShutdown {
		t.Errorf("the attempt is %s, the cancellation %+v", a.State, a.Cancel)
	}
	w.settles(ref, coord.JobCancelled)
	if n := len(w.stage.prompted("streamer")); n != 1 {
		t.Errorf("the agent got %d prompts", n)
	}
	w.scripted("echo", "echo")
	next := w.run(plan(task("t", "echo", "still here")))
	w.settles(next, coord.JobCompleted)
}

func TestTheSameKeyDraftsOnceAcrossADeadWorker(t *testing.T) {
	w := newWorld(t)
	w.scripted("echo", "echo")
	const body = `{"title":"once","tasks":[{"agent":"echo","instruction":"draft me once"}]}`
	draft := func(body, key string) (int, coord.Job, api.Problem) {
		status, answer, err := w.try(http.MethodPost, "/api/jobs", body, "Idempotency-Key", key)
		var job api.Data[coord.Job]
		var p api.Problem
		if err != nil {
			return 0, job.Data, p
		}
		if json.Unmarshal(answer, &job) != nil || json.Unmarshal(answer, &p) != nil {
			t.Errorf("draft gives %d: %s", status, answer)
		}
		return status, job.Data, p
	}
	status, first, _ := draft(body, "key-0")
	if status/100 != 2 || first.ID == "" {
		t.Fatalf("draft gives %d", status)
	}
	w.killWorker()
	if status, again, _ := draft(body, "key-0"); status/100 != 2 || again.ID != first.ID {
		t.Errorf("the same key gives %d, job %s, want %s", status, again.ID, first.ID)
	}
	if status, _, p := draft(strings.Replace(body, "once\"", "twice\"", 1), "key-0"); status != http.StatusConflict || !strings.Contains(p.Detail, string(first.ID)) {
		t.Errorf("the same key with other content gives %d: %s", status, p.Detail)
	}

	// The worker dies while it drafts, before or after the commit.
	for i := 1; i <= 3; i++ {
		key := fmt.Sprintf("key-%d", i)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			draft(body, key)
		}()
		w.killWorker()
		<-answered
		var job coord.Job
		w.poll("the draft is answered", func() bool {
			status, job, _ = draft(body, key)
			return status/100 == 2
		})
		if _, again, _ := draft(body, key); again.ID != job.ID || job.Number != first.Number+int64(i) {
			t.Errorf("%s made job %d (%s), and then %s", key, job.Number, job.ID, again.ID)
		}
	}
}
