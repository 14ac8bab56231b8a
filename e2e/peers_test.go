package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
)

// opencode gives a world in which OpenCode is registered, its model asks for
// one shell command, and folder is where it works. The settings of OpenCode
// name a key, so they reach it through the environment of serve.
func opencode(t *testing.T) (w *world, m *modelserver.Server, folder string) {
	t.Helper()
	arguments, err := json.Marshal(map[string]string{"command": "printf made > made", "description": "make a file"})
	if err != nil {
		t.Fatal(err)
	}
	m, url := model(t, modelserver.Options{Script: []modelserver.Reply{
		{Match: "Make the file", Answer: "The file is made.", Tool: &modelserver.Tool{Name: "bash", Arguments: string(arguments)}},
	}})
	spec := peers.OpenCode(t, url)
	const config, password = "OPENCODE_CONFIG_CONTENT", "OPENCODE_SERVER_PASSWORD"
	w = newWorld(t, "E2E_OPENCODE="+spec.Env[config])
	cfg := coord.AgentConfig{Route: coord.RouteACP, Executable: spec.Executable, Args: spec.Args, Env: spec.Env,
		EnvFromEnv: map[string]string{config: "E2E_OPENCODE"}, RandomEnv: []string{password}}
	delete(cfg.Env, config)
	delete(cfg.Env, password)
	w.register("opencode", cfg)
	if folder, err = filepath.EvalSymlinks(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return w, m, folder
}

func in(folder string, t coord.PlanTask) coord.PlanTask {
	t.Workspace = folder
	return t
}

// exists reports whether OpenCode's command ran.
func made(t *testing.T, folder string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(folder, "made"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// worked counts the requests of OpenCode that offered its tools for a prompt:
// one for the prompt, one more when the tool has answered.
func worked(m *modelserver.Server, prompt string) int {
	n := 0
	for _, r := range m.Requests() {
		if strings.Contains(r.Prompt, prompt) && len(r.Tools) > 0 {
			n++
		}
	}
	return n
}

func TestOpenCodeRunsACommandOnlyWhenTheOperatorAllowsIt(t *testing.T) {
	w, m, folder := opencode(t)
	denied := w.run(plan(in(folder, task("make", "opencode", "Make the file, number one."))))
	r := w.asked(denied, "make")
	if !strings.Contains(r.Content.Detail, "printf made > made") || r.Kind != coord.Permission {
		t.Errorf("the request does not show the command: %+v", r.Content)
	}
	w.decide(r, coord.DecisionDeny, "")
	w.when("job 1 to settle", func() bool { return w.job(denied).State != coord.JobRunning })
	if got := w.result(denied, "make"); made(t, folder) || got.State != coord.TaskFailed || got.Reason == "" || got.Statement != nil {
		t.Errorf("denied: the command ran %v, the task is %s (%s), the statement is %+v", made(t, folder), got.State, got.Reason, got.Statement)
	}
	decided(t, w.result(denied, "make").Requests[0], coord.DecisionDenied, "reject")
	if n := worked(m, "number one"); n != 1 {
		t.Errorf("denied: the model was asked %d times", n)
	}

	allowed := w.run(plan(in(folder, task("make", "opencode", "Make the file, number two."))))
	w.decide(w.asked(allowed, "make"), coord.DecisionApprove, "once")
	w.settles(allowed, coord.JobCompleted)
	if said := w.said(allowed, "make", "opencode"); !made(t, folder) || !strings.Contains(said, "The file is made.") {
		t.Errorf("allowed: the command ran %v, it said %q", made(t, folder), said)
	}
	decided(t, w.result(allowed, "make").Requests[0], coord.DecisionApproved, "once")
	if n := worked(m, "number two"); n != 2 {
		t.Errorf("allowed: the model was asked %d times", n)
	}
	if u := w.attempt(allowed, "make").Usage; u.Source != "provider" || u.Tokens() == 0 {
		t.Errorf("OpenCode tells its usage, and recorded is %+v", u)
	}
	w.gone()
}

func TestTwoPeersWorkSideBySideAndTheThirdGetsBothResultsAsData(t *testing.T) {
	w, _, folder := opencode(t)
	w.add("asker", peers.GoSDKAgent(t))
	w.add("echo", peers.GoSDKAgent(t))
	ref := w.run(plan(
		in(folder, task("make", "opencode", "Make the file.")),
		task("ask", "asker", "please ask first"),
		task("both", "echo", "say what you were given", "make", "ask"),
	))
	one, two := w.asked(ref, "make"), w.asked(ref, "ask")
	w.expect(ref, "make:waiting ask:waiting both:blocked")
	w.decide(one, coord.DecisionApprove, "once")
	w.decide(two, coord.DecisionApprove, "allow")
	// The word is in the data that it gets, and this agent takes every word for
	// its own.
	w.decide(w.asked(ref, "both"), coord.DecisionApprove, "allow")
	w.settles(ref, coord.JobCompleted)
	first, second := w.said(ref, "make", "opencode"), w.said(ref, "ask", "asker")
	if !strings.Contains(first, "The file is made.") || second != "please ask first" {
		t.Errorf("said %q and %q", first, second)
	}
	got := w.said(ref, "both", "echo")
	for _, want := range []string{
		"say what you were given\n", `Result of task "make" by agent opencode`, "> The file is made.",
		`Result of task "ask" by agent asker`, "> please ask first",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the prompt of the dependant lacks %q:\n%s", want, got)
		}
	}
	w.gone()
}

func TestWorkerKilledWhileOpenCodeAsks(t *testing.T) {
	w, m, folder := opencode(t)
	ref := w.run(plan(in(folder, task("make", "opencode", "Make the file."))))
	r := w.asked(ref, "make")
	w.killWorker()
	w.settles(ref, coord.JobAttention)
	w.lost(ref, "make")
	w.withdrawn(r)
	w.gone()
	if n := worked(m, "Make the file"); n != 1 || made(t, folder) {
		t.Errorf("the model was asked %d times, the command ran %v", n, made(t, folder))
	}
}

func TestExampleAgentOfTheTypeScriptSDK(t *testing.T) {
	w := newWorld(t)
	w.add("example", peers.SDKExampleAgent(t))
	for _, c := range []struct {
		on       coord.DecisionEvent
		decision coord.DecisionState
		option   string
		says     string
	}{
		{coord.DecisionApprove, coord.DecisionApproved, "allow", "successfully updated"},
		{coord.DecisionDeny, coord.DecisionDenied, "reject", "skip the configuration update"},
	} {
		ref := w.run(plan(task("talk", "example", "hello")))
		w.decide(w.asked(ref, "talk"), c.on, "")
		w.settles(ref, coord.JobCompleted)
		if said := w.said(ref, "talk", "example"); !strings.Contains(said, c.says) {
			t.Errorf("%s: it said %q", c.on, said)
		}
		decided(t, w.result(ref, "talk").Requests[0], c.decision, c.option)
	}
	w.gone()
}

func TestAgentOnTheGoSDK(t *testing.T) {
	w := newWorld(t)
	w.add("goagent", peers.GoSDKAgent(t))

	echo := w.run(plan(task("t", "goagent", "a sentence of several chunks")))
	w.settles(echo, coord.JobCompleted)
	if said := w.said(echo, "t", "goagent"); said != "a sentence of several chunks" {
		t.Errorf("it echoed %q", said)
	}
	for on, want := range map[coord.DecisionEvent]string{coord.DecisionApprove: "ask me first", coord.DecisionDeny: "declined"} {
		ref := w.run(plan(task("t", "goagent", "ask me first")))
		w.decide(w.asked(ref, "t"), on, "")
		w.settles(ref, coord.JobCompleted)
		if said := w.said(ref, "t", "goagent"); said != want {
			t.Errorf("%s: it said %q, want %q", on, said, want)
		}
	}

	wait := w.run(plan(task("t", "goagent", "wait for me"), task("after", "goagent", "then this", "t")))
	w.when("the agent to wait", func() bool { return w.result(wait, "t").Partial == "waiting" })
	must[coord.Job](w, "cancel")(w.client.CancelJob(w.ctx, wait))
	w.settles(wait, coord.JobCancelled)
	if a := w.attempt(wait, "t"); a.State != coord.AttemptCancelled || a.Cancel.State != coord.CancelConfirmed || a.Cancel.Cause != coord.CauseOperator || a.Statement != nil {
		t.Errorf("the attempt is %s (%s), the cancellation %+v, the statement %+v", a.State, a.Reason, a.Cancel, a.Statement)
	}
	w.expect(wait, "t:cancelled after:cancelled")
	w.gone()
}
