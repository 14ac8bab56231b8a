package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/e2e/peers"
	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
)

// bunWorld is a world whose serve finds Bun.
func bunWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, "PATH="+filepath.Dir(peers.Bun(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
}

const passing = `import { test, expect } from "bun:test";
test("holds", () => expect(1 + 1).toBe(2));
`

func TestRunsOfTestsThatThePlanDoesNotGrantAreAskedForOneByOne(t *testing.T) {
	w := bunWorld(t)
	dir := repository(t, map[string]string{"a.test.ts": passing, "b.test.ts": passing})
	m := w.codex("0.171.0", modelserver.Reply{Match: "Check", Answer: "Checked.", Steps: []modelserver.Step{
		runTests("a.test.ts"), runTests("a.test.ts"), runTests("b.test.ts"), runTests("a.test.ts"), runTests("b.test.ts"),
	}})
	one := edit("check", "codex", dir, "Check it.", coord.Test)
	one.Tests, one.TestRuns = []string{"a.test.ts"}, 2
	ref := w.run(plan(one))

	asks := func(file string) coord.Request {
		t.Helper()
		r := w.asked(ref, "check")
		if r.Kind != coord.RunTests || r.Test == nil || len(r.Test.Files) != 1 || r.Test.Files[0].Path != file || r.Test.Files[0].SHA256 != hash(passing) {
			t.Fatalf("asked for %+v, test %+v", r.Content, r.Test)
		}
		for _, want := range []string{r.Test.Program, r.Test.SHA256, hash(passing) + " " + file} {
			if !strings.Contains(r.Content.Detail, want) {
				t.Errorf("%q is not shown in %q", want, r.Content.Detail)
			}
		}
		return r
	}
	// Two runs of a are granted; b never is.
	r := asks("b.test.ts")
	w.says(r, coord.DecisionDeny, "only a")
	w.over(r)
	// The third of a is beyond the grant.
	r = asks("a.test.ts")
	w.says(r, coord.DecisionApprove, "")
	if r = w.over(r); r.Done == nil || r.Done.Report == nil || r.Done.Report.Outcome != coord.TestsPassed || r.Done.Report.Passed != 1 {
		t.Errorf("the approved run came to %+v", r.Done)
	}
	// What is approved is what was shown.
	r = asks("b.test.ts")
	put(t, dir, map[string]string{"b.test.ts": passing + "// changed\n"})
	w.says(r, coord.DecisionApprove, "")
	if r = w.over(r); r.Effect != coord.EffectFailed || r.Done == nil || r.Done.Report == nil || r.Done.Report.Outcome != coord.TestsRefused || !strings.Contains(r.Done.Report.Reason, "b.test.ts") {
		t.Errorf("the run of a changed file came to %s %+v", r.Effect, r.Done)
	}
	w.settles(ref, coord.JobCompleted)
	told := outputs(m)
	for i, text := range []string{"passed: 1 passed", "passed: 1 passed", "denied this: only a", "passed: 1 passed", "were refused"} {
		if i >= len(told) || !strings.Contains(told[i], text) {
			t.Errorf("answer %d is not that %q:\n%q", i+1, text, told)
		}
	}
	var decided []string
	for _, r := range must[[]coord.Request](w, "requests")(w.client.JobRequests(w.ctx, ref)) {
		by := "the operator"
		if r.Decided.By.Door == coord.WorkerActor.Door {
			by = r.Decided.Reason
		}
		decided = append(decided, fmt.Sprintf("%s by %s", r.Decision, by))
	}
	want := []string{"approved by the plan grants these tests: run 1 of 2", "approved by the plan grants these tests: run 2 of 2",
		"denied by the operator", "approved by the operator", "approved by the operator"}
	if diff := cmp.Diff(want, decided); diff != "" {
		t.Errorf("who decided: %s", diff)
	}
}

// processes gives the processes that have the name of a file of tests among
// their arguments.
func processes(t *testing.T, name string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, path := range lines {
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte("./"+name)) {
			out = append(out, filepath.Base(filepath.Dir(path)))
		}
	}
	return out
}

func TestCancellingWhileTestsRunEndsThemBeforeTheTurnIsInterrupted(t *testing.T) {
	w := bunWorld(t)
	name := "spin-" + filepath.Base(filepath.Dir(t.TempDir())) + ".test.ts"
	dir := repository(t, map[string]string{name: "while (true);\n"})
	w.codex("0.171.0", modelserver.Reply{Match: "Check", Answer: "Checked.", Steps: []modelserver.Step{runTests(name)}})
	one := edit("check", "codex", dir, "Check it.", coord.Test)
	one.Tests = []string{name}
	ref := w.run(plan(one))
	w.poll("the tests run", func() bool { return len(processes(t, name)) > 0 })
	must[coord.Job](w, "cancel")(w.client.CancelJob(w.ctx, ref))
	w.settles(ref, coord.JobCancelled)
	if left := processes(t, name); len(left) > 0 {
		t.Errorf("the tests still run after the cancellation was confirmed: %q", left)
	}
	a := w.attempt(ref, "check")
	if a.State != coord.AttemptCancelled || a.Cancel.State != coord.CancelConfirmed || a.Cancel.Cause != coord.CauseOperator {
		t.Errorf("the attempt is %s, its cancellation %+v", a.State, a.Cancel)
	}
	requests := must[[]coord.Request](w, "requests")(w.client.JobRequests(w.ctx, ref))
	if len(requests) != 1 || requests[0].Effect != coord.EffectApplied || requests[0].Done.Report.Outcome != coord.TestsCancelled {
		t.Fatalf("the requests are %+v", requests)
	}
	// The end of the tests is in the journal before that of the attempt.
	var order []string
	err := w.client.Follow(w.ctx, client.Filter{Job: ref, After: "0"}, func(e coord.Event) error {
		switch {
		case e.Kind == coord.RequestChanged && bytes.Contains(e.Data, []byte(`"effect":"applied"`)) && !strings.Contains(strings.Join(order, " "), "tests"):
			order = append(order, "tests")
		case e.Attempt == a.ID && bytes.Contains(e.Data, []byte(`"cancelled"`)):
			order = append(order, "attempt")
			return errSeen
		}
		return nil
	})
	if got := strings.Join(order, " "); got != "tests attempt" {
		t.Errorf("the ends are recorded as %q (%v)", got, err)
	}
}

func TestTestsThatNeverEndOrFloodAreEndedAndSaidToBe(t *testing.T) {
	w := bunWorld(t)
	dir := repository(t, map[string]string{
		"flood.test.ts": "for (let i = 0; i < 1e6; i++) console.log('x'.repeat(1000));\n", "loop.test.ts": "while (true);\n", "none.test.ts": "export {};\n",
	})
	m := w.codex("0.171.0",
		modelserver.Reply{Match: "Flood", Answer: "Flooded.", Steps: []modelserver.Step{runTests("flood.test.ts"), runTests("none.test.ts")}},
		modelserver.Reply{Match: "Loop", Answer: "Looped.", Steps: []modelserver.Step{runTests("loop.test.ts")}})
	one := edit("flood", "codex", dir, "Flood it.", coord.Test)
	one.Tests = []string{"flood.test.ts", "none.test.ts"}
	ref := w.run(plan(one))
	w.settles(ref, coord.JobCompleted)
	runs := w.testRuns(ref)
	if len(runs) != 2 || runs[0].Outcome != coord.TestsOutputLimit || runs[1].Outcome != coord.TestsFailed || runs[1].Passed != 0 {
		t.Errorf("the runs of tests: %+v", runs)
	}
	if told := outputs(m); len(told) != 2 || !strings.Contains(told[0], "wrote too much") || !strings.Contains(told[1], "No test ran") {
		t.Errorf("the model was answered %.300q", told)
	}

	// An endless loop is ended by the plan's deadline, which is shorter than
	// the two minutes that a run has.
	two := edit("loop", "codex", dir, "Loop it.", coord.Test)
	two.Tests = []string{"loop.test.ts"}
	p := plan(two)
	p.Deadline = coord.Duration(20 * time.Second)
	ref = w.run(p)
	w.settles(ref, coord.JobFailed)
	runs = w.testRuns(ref)
	if len(runs) != 1 || runs[0].Outcome != coord.TestsTimedOut {
		t.Errorf("the runs of tests: %+v", runs)
	}
	if a := w.attempt(ref, "loop"); a.State != coord.AttemptCancelled || a.Cancel.State != coord.CancelConfirmed || a.Cancel.Cause != coord.CauseDeadline {
		t.Errorf("the attempt is %s, its cancellation %+v", a.State, a.Cancel)
	}
}
