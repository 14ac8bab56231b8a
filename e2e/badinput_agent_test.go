package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/e2e/rogue"
	"signalbox/internal/coord"
)

// cast registers a rogue agent that is honest until its director casts it.
func (w *world) cast(d string, id string) {
	w.t.Helper()
	w.register(id, w.rogue(d, id))
}

// rogue is the configuration of a rogue agent.
func (w *world) rogue(director, id string) coord.AgentConfig {
	w.t.Helper()
	return coord.AgentConfig{Route: coord.RouteACP, Executable: w.self(), Args: []string{rogue.Word, id, director}}
}

// self is the path of this test program.
func (w *world) self() string {
	w.t.Helper()
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return self
}

// shows checks the page of an attempt for texts, whatever the line breaks.
func (w *world) shows(ref string, want ...string) {
	w.t.Helper()
	code, out, log := w.cli("attempt", "show", ref)
	out = strings.Join(strings.Fields(out), " ")
	for _, text := range want {
		if code != 0 || !strings.Contains(out, text) {
			w.t.Errorf("attempt show %s exits with %d and lacks %q:\n%s%s", ref, code, text, out, log)
		}
	}
}

func TestWhatABadAgentDoesInItsTurnIsToldAsItIs(t *testing.T) {
	w := newWorld(t)
	d := rogue.New()
	url := listen(t, d)
	cases := []struct {
		part  string
		state coord.AttemptState
		cause string
		told  string
		// said is what the agent said, as far as it is kept.
		said string
	}{
		{"exit", coord.AttemptUnknown, "agent_gone", "exited by itself with status 3", "I begin and "},
		{"exit-mute", coord.AttemptUnknown, "agent_gone", "exited by itself with status 3", ""},
		{"killed", coord.AttemptUnknown, "agent_gone", "ended by signal", "I begin and "},
		{"close", coord.AttemptUnknown, "agent_gone", "closed its output", "I begin and "},
		{"noise", coord.AttemptUnknown, "noise_limit", "lines that are not protocol", "I begin and "},
		{"frame", coord.AttemptUnknown, "frame_too_large", "a message of more than 8 MiB", "I begin and "},
		{"unread", coord.AttemptUnknown, "write_timeout", "did not read its input", ""},
		{"asks", coord.AttemptUnknown, "request_limit", "more permissions than a person can decide", ""},
		{"empty", coord.AttemptFailed, "empty_result", "without an answer", ""},
		{"blank", coord.AttemptFailed, "empty_result", "without an answer", " \n\t"},
		{"foreign", coord.AttemptFailed, "empty_result", "without an answer", ""},
		{"invented", coord.AttemptFailed, "invalid_stop_reason", "success", "It is done, believe me."},
		{"number", coord.AttemptFailed, "invalid_stop_reason", "7", "It is done, believe me."},
		{"no-result", coord.AttemptFailed, "invalid_stop_reason", "has no result", "It is done, believe me."},
		{"unasked", coord.AttemptFailed, "cancelled", "without having been asked to", "I stop."},
		{"ids", coord.AttemptCompleted, "", "", "done"},
		{"twice", coord.AttemptCompleted, "", "", "once"},
		{"flood", coord.AttemptCompleted, "", "", "All work and no play. "},
	}
	refs := map[string]string{}
	for _, c := range cases {
		w.cast(url, c.part)
		d.Cast(c.part, "", c.part)
		refs[c.part] = w.run(plan(task("t", c.part, "play "+c.part)))
	}
	for _, c := range cases {
		t.Run(c.part, func(t *testing.T) {
			ref := refs[c.part]
			w := w.in(t)
			w.when("the attempt to end", func() bool { return w.job(ref).State != coord.JobRunning })
			a := w.attempt(ref, "t")
			if a.State != c.state || a.Cause != c.cause || !strings.Contains(a.Reason, c.told) {
				t.Errorf("the attempt is %s (%s: %s)", a.State, a.Cause, a.Reason)
			}
			if a.State == coord.AttemptUnknown && a.Activity != coord.Ended {
				t.Errorf("the activity of the unknown attempt is %s: its process is gone", a.Activity)
			}
			if n := len(d.Prompts(c.part)); n != 1 || a.Number != 1 {
				t.Errorf("the agent got %d prompts in %d attempts", n, a.Number)
			}
			r := w.result(ref, "t")
			kept := r.Partial
			if st := r.Statement; st != nil {
				kept = st.Text
				if c.state != coord.AttemptCompleted {
					t.Errorf("an attempt that is %s has the statement %+v", c.state, st)
				}
			}
			if !strings.HasPrefix(kept, c.said) || c.said == "" && kept != "" {
				t.Errorf("of what it said, %q is kept", kept[:min(len(kept), 200)])
			}
			w.shows(ref+"/t", string(c.state), c.told)
		})
	}

	// What only one of them did.
	if a := w.attempt(refs["twice"], "t"); a.Late == 0 {
		t.Error("what came after the end is not counted as late")
	}
	if st := w.result(refs["flood"], "t").Statement; st == nil || !st.Cut || st.Dropped == 0 || st.Bytes > coord.MaxAnswerText {
		t.Errorf("the flood is kept as %+v", st)
	}
	open := must[[]coord.Request](w, "requests")(everyRequest(w.ctx, w))
	for _, r := range open {
		if r.Decision == coord.DecisionOpen {
			t.Errorf("request r%d of %s is open", r.Number, r.Agent)
		}
		if r.Agent == "foreign" {
			t.Errorf("request r%d is of a session that is not the attempt's", r.Number)
		}
	}
	if len(open) == 0 || len(open) > coord.MaxPendingRequests {
		t.Errorf("%d requests are kept of an agent that asks without end", len(open))
	}
	w.sound()
}

func everyRequest(ctx context.Context, w *world) ([]coord.Request, error) {
	all, _, err := w.client.Requests(ctx, 0, coord.MaxPage)
	return all, err
}

// in is the world in a subtest, without a clean-up of its own.
func (w *world) in(t *testing.T) *world {
	sub := *w
	sub.t = t
	return &sub
}

// sound checks that the doctor finds nothing but outcomes that are unknown.
func (w *world) sound() {
	w.t.Helper()
	findings, err := w.client.Check(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range findings {
		if f.Code != "unknown_outcome" {
			w.t.Errorf("the doctor finds %s of %s: %s", f.Code, f.Subject, f.Explanation)
		}
	}
}

func TestARepeatedRequestIdIsAskedOnce(t *testing.T) {
	w := newWorld(t)
	d := rogue.New()
	w.cast(listen(t, d), "same-ask")
	d.Cast("same-ask", "", "same-ask")
	ref := w.run(plan(task("t", "same-ask", "ask me")))
	r := w.asked(ref, "t")
	w.decide(r, coord.DecisionDeny, "")
	w.settles(ref, coord.JobCompleted)
	if all := must[[]coord.Request](w, "requests")(everyRequest(w.ctx, w)); len(all) != 1 {
		t.Errorf("there are %d requests", len(all))
	}
	if said := w.said(ref, "t", "same-ask"); said != "answered" {
		t.Errorf("it said %q", said)
	}
}

func TestWhatABadAgentDoesBeforeItsTurnSendsNothing(t *testing.T) {
	w := newWorld(t)
	d := rogue.New()
	url := listen(t, d)
	cases := []struct {
		setup string
		cause string
		told  string
	}{
		{"exit", "spawn_failed", "exited by itself with status 9"},
		{"exit-late", "spawn_failed", "exited by itself with status 9"},
		{"noise", "noise_limit", "lines that are not protocol"},
		{"frame", "frame_too_large", "a message of more than 8 MiB"},
		{"version-0", "protocol_version", "version"},
		{"version-2", "protocol_version", "version"},
		{"version-text", "protocol_version", "version"},
		{"list", "protocol_error", "initialize"},
		{"id", "spawn_failed", "exited by itself with status 0"},
		{"no-session", "protocol_error", "session/new"},
		{"no-login", "auth_required", "quota is used up"},
	}
	refs := map[string]string{}
	for _, c := range cases {
		w.cast(url, c.setup)
		j := must[coord.Job](w, "draft")(w.client.Draft(w.ctx, plan(task("t", c.setup, "never"))))
		ref := fmt.Sprint(j.Number)
		j = must[coord.Job](w, "freeze")(w.client.Freeze(w.ctx, ref))
		d.Cast(c.setup, c.setup, "")
		must[coord.Job](w, "run")(w.client.Run(w.ctx, ref, j.Frozen.Digest))
		refs[c.setup] = ref
	}
	for _, c := range cases {
		t.Run(c.setup, func(t *testing.T) {
			w, ref := w.in(t), refs[c.setup]
			w.settles(ref, coord.JobFailed)
			a := w.attempt(ref, "t")
			if a.State != coord.AttemptNotSent || a.Cause != c.cause || !strings.Contains(a.Reason, c.told) || a.Sent != nil {
				t.Errorf("the attempt is %s (%s: %s), sent %v", a.State, a.Cause, a.Reason, a.Sent)
			}
			if n := len(d.Prompts(c.setup)); n != 0 {
				t.Errorf("the agent got %d prompts", n)
			}
			if a.Number > coord.MaxAttempts {
				t.Errorf("there were %d attempts", a.Number)
			}
			w.shows(ref+"/t", "not sent", c.told)
			in := must[coord.Agent](w, "inspect")(w.client.InspectAgent(w.ctx, c.setup)).Inspection
			if in == nil || !strings.Contains(in.Problem, c.told) {
				t.Errorf("the inspection says %+v", in)
			}
		})
	}
	// Nothing is approved over an inspection that found a problem.
	again := must[coord.Job](w, "draft")(w.client.Draft(w.ctx, plan(task("t", "version-2", "never"))))
	if _, err := w.client.Freeze(w.ctx, fmt.Sprint(again.Number)); err == nil || !strings.Contains(err.Error(), "version-2") {
		t.Errorf("freezing a plan with it gives %v", err)
	}
	// Four MiB of log in its setup are no reason to fail.
	w.cast(url, "stderr")
	d.Cast("stderr", "stderr", "echo")
	w.settles(w.run(plan(task("t", "stderr", "work"))), coord.JobCompleted)
	w.sound()
}

func TestAnAgentThatIsSilentInItsSetupIsEndedByItsOperator(t *testing.T) {
	for _, setup := range []string{"silent", "silent-session"} {
		t.Run(setup, func(t *testing.T) {
			w := newWorld(t)
			d := rogue.New()
			w.cast(listen(t, d), "mute")
			j := must[coord.Job](w, "draft")(w.client.Draft(w.ctx, plan(task("t", "mute", "never"))))
			ref := fmt.Sprint(j.Number)
			j = must[coord.Job](w, "freeze")(w.client.Freeze(w.ctx, ref))
			before := d.Starts("mute")
			d.Cast("mute", setup, "")
			must[coord.Job](w, "run")(w.client.Run(w.ctx, ref, j.Frozen.Digest))
			w.poll("the agent is started", func() bool { return d.Starts("mute") > before })
			began := time.Now()
			must[coord.Job](w, "cancel")(w.client.CancelJob(w.ctx, ref))
			w.settles(ref, coord.JobCancelled)
			w.gone()
			if took := time.Since(began); took > coord.CancelWindow {
				t.Errorf("it took %s", took)
			}
			if a := w.attempt(ref, "t"); a.State != coord.AttemptCancelled || a.Sent != nil {
				t.Errorf("the attempt is %s, sent %v", a.State, a.Sent)
			}
			w.shows(ref+"/t", "cancelled")
		})
	}
}

func TestAnAgentThatIsSilentForeverIsToldByItsInspection(t *testing.T) {
	w := newWorld(t)
	d := rogue.New()
	url := listen(t, d)
	d.Cast("mute", "silent", "")
	must[coord.Agent](w, "add")(w.client.AddAgent(w.ctx, "mute", w.rogue(url, "mute")))
	code, out, log := w.cli("agent", "inspect", "mute")
	if !strings.Contains(strings.Join(strings.Fields(out), " "), "did not answer initialize within 45s") {
		t.Errorf("agent inspect exits with %d: %s\n%s", code, out, log)
	}
	w.poll("it is ended", func() bool { return len(w.left()) == 0 })
}

func TestAnAgentThatIsSilentInItsTurnMeetsItsDeadline(t *testing.T) {
	w := newWorld(t)
	d := rogue.New()
	w.cast(listen(t, d), "mute")
	d.Cast("mute", "", "silent")
	p := plan(task("t", "mute", "work"), task("after", "mute", "then", "t"))
	p.Deadline = coord.Duration(3 * time.Second)
	ref := w.run(p)
	w.settles(ref, coord.JobAttention)
	// That nothing runs any more is proven after the loss is recorded.
	w.when("the end of the agent", func() bool { return w.attempt(ref, "t").Activity == coord.Ended })
	a := w.attempt(ref, "t")
	if a.State != coord.AttemptUnknown || a.Activity != coord.Ended || a.Cancel.Cause != coord.CauseDeadline || a.Cancel.State != coord.CancelUnknown || a.Receipt != nil {
		t.Errorf("the attempt is %s, activity %s, the cancellation %+v, receipt %+v", a.State, a.Activity, a.Cancel, a.Receipt)
	}
	w.shows(ref+"/t", "unknown", "did not confirm that it stopped")
	if n := len(d.Prompts("mute")); n != 1 {
		t.Errorf("the agent got %d prompts", n)
	}
}

func TestAnAgentWhoseProgramWentAwayIsToldBeforeAnythingIsSent(t *testing.T) {
	w := newWorld(t)
	d := rogue.New()
	url := listen(t, d)
	home := t.TempDir()
	home, err := filepath.EvalSymlinks(home)
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name   string
		change func(path string) error
		told   string
	}{
		{"missing", os.Remove, "does not exist"},
		{"locked", func(path string) error { return os.Chmod(path, 0o600) }, "may not be executed"},
		{"changed", func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.WriteFile(path, []byte("#!/bin/sh\nexec false\n"), 0o700)
		}, "not the one that was approved"},
		{"folder", func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := w.in(t)
			path := filepath.Join(home, c.name)
			script := fmt.Sprintf("#!/bin/sh\nexec %s %s %s %s\n", w.self(), rogue.Word, c.name, url)
			if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			w.register(c.name, coord.AgentConfig{Route: coord.RouteACP, Executable: path})
			j := must[coord.Job](w, "draft")(w.client.Draft(w.ctx, plan(task("t", c.name, "never"))))
			ref := fmt.Sprint(j.Number)
			j = must[coord.Job](w, "freeze")(w.client.Freeze(w.ctx, ref))
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			must[coord.Job](w, "run")(w.client.Run(w.ctx, ref, j.Frozen.Digest))
			w.settles(ref, coord.JobFailed)
			a := w.attempt(ref, "t")
			if a.State != coord.AttemptNotSent || a.Reason == "" || !strings.Contains(a.Reason, c.told) {
				t.Errorf("the attempt is %s (%s: %s)", a.State, a.Cause, a.Reason)
			}
			if n := len(d.Prompts(c.name)); n != 0 {
				t.Errorf("the agent got %d prompts", n)
			}
			w.shows(ref+"/t", "not sent")
		})
	}
	for _, bad := range []struct{ path, told string }{
		{filepath.Join(home, "nothing-there"), "was not found"},
		{home, home},
	} {
		if code, _, log := w.cli("agent", "add", "bad", "--", bad.path); code != 2 || !strings.Contains(log, bad.told) {
			t.Errorf("agent add of %s exits with %d: %s", bad.path, code, log)
		}
	}
}
