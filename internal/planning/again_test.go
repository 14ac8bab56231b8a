package planning_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// run starts a draft and brings each task to the end that ends names: text to
// complete with, or an event. It does what approval and the scheduler do.
func (w *world) run(t *testing.T, j coord.Job, ends map[string]string) {
	t.Helper()
	err := w.journal.Update(t.Context(), func(tx *journal.Tx) error {
		j, err := tx.Job(number(j))
		if err != nil {
			return err
		}
		if j, err = j.Apply(coord.JobRun, tx.Now()); err != nil {
			return err
		}
		now := tx.Now()
		j.Started = &now
		if err := tx.PutJob(j, &operator); err != nil {
			return err
		}
		var tasks []coord.Task
		for i, p := range j.Plan.Tasks {
			one, err := tx.AddTask(coord.Task{Job: j.ID, Key: p.Key, Index: i, Agent: p.Agent, State: coord.TaskBlocked, Needs: p.Needs})
			if err != nil {
				return err
			}
			tasks = append(tasks, one)
		}
		for _, one := range tasks {
			if err := end(tx, one, ends[one.Key]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func end(tx *journal.Tx, one coord.Task, how string) error {
	switch how {
	case "skip":
		return tx.MoveTask(one.ID, coord.TaskSkip, "a need failed")
	case "":
		return nil
	}
	if err := tx.MoveTask(one.ID, coord.TaskUnblock, ""); err != nil {
		return err
	}
	one, err := tx.Task(coord.TaskRef{ID: one.ID})
	if err != nil {
		return err
	}
	a, err := tx.AddAttempt(one, coord.RouteACP, "here")
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(how))
	statement := &coord.Statement{Agent: one.Agent, By: "agent", Text: how, Bytes: int64(len(how)), SHA256: hex.EncodeToString(sum[:])}
	changes := []coord.Change{{On: coord.AttemptIntend, Handle: &coord.Handle{Version: 1, Data: []byte(`{}`)}}, {On: coord.AttemptReceive}}
	switch how {
	case "fail":
		changes = append(changes, coord.Change{On: coord.AttemptFail, Reason: "broke"})
	case "lose":
		changes = append(changes, coord.Change{On: coord.AttemptLose, Activity: coord.Ended})
	case "run":
	default:
		changes = append(changes, coord.Change{On: coord.AttemptComplete, Statement: statement})
	}
	for _, c := range changes {
		if _, err := tx.MoveAttempt(a.ID, c); err != nil {
			return err
		}
	}
	return nil
}

func TestRetryDraftsTheUnfinishedWithCompletedResultsAsInputs(t *testing.T) {
	w := newWorld(t)
	j := w.draft(t, plan(task("survey"), task("fix", "survey"), task("check", "fix", "survey")))
	w.run(t, j, map[string]string{"survey": "All is well", "fix": "fail", "check": "skip"})
	got, err := w.Retry(t.Context(), number(j), operator)
	if err != nil {
		t.Fatal(err)
	}
	if got.State != coord.JobDraft || got.From == nil || got.From.How != "retry" || got.From.Number != j.Number {
		t.Errorf("drafted %+v", got)
	}
	sum := sha256.Sum256([]byte("All is well"))
	input := coord.Input{Job: j.ID, Key: "survey", Agent: "codex", Text: "All is well", SHA256: hex.EncodeToString(sum[:])}
	want := plan(task("fix"), task("check", "fix"))
	want.Tasks[0].Inputs, want.Tasks[1].Inputs = []coord.Input{input}, []coord.Input{input}
	want = want.Completed()
	want.Tasks[0].Needs = nil
	got.Plan.Tasks[0].Needs = nil // empty or absent is the same
	if diff := cmp.Diff(want, got.Plan); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A revision that does not carry the inputs keeps them; one that forges
	// them is refused.
	revised, err := w.Revise(t.Context(), number(got), 1, plan(task("fix"), task("new")), operator)
	if err != nil || len(revised.Plan.Tasks[0].Inputs) != 1 || len(revised.Plan.Tasks[1].Inputs) != 0 {
		t.Errorf("revised to %+v, %v", revised.Plan, err)
	}
	forged := plan(task("fix"))
	forged.Tasks[0].Inputs = []coord.Input{{Key: "survey", Text: "All is lost"}}
	if _, err := w.Revise(t.Context(), number(got), 2, forged, operator); coord.CodeOf(err) != coord.Invalid {
		t.Errorf("forged inputs gave %v", err)
	}
	if _, err := w.Freeze(t.Context(), number(got), operator); err != nil {
		t.Errorf("the retry cannot be frozen: %v", err)
	}
}

func TestWhatIsDraftedAgainAndFitsNoLongerIsAConflictThatSaysWhy(t *testing.T) {
	w := newWorld(t)
	j := w.draft(t, plan(task("one"), task("two")))
	w.run(t, j, map[string]string{"one": "fail", "two": "fail"})
	off := agent("codex")
	off.Enabled = false
	w.agents.known["codex"] = off
	_, retried := w.Retry(t.Context(), number(j), operator)
	_, again := w.Again(t.Context(), number(j), "more", operator)
	for _, err := range []error{retried, again} {
		if coord.CodeOf(err) != coord.Conflict || strings.Count(err.Error(), "agent enable codex") != 1 {
			t.Errorf("it gave %v", err)
		}
	}
}

func TestRetryIsRefusedWhereWorkCouldBeDoneTwice(t *testing.T) {
	cases := []struct {
		name string
		ends map[string]string
		ran  bool
	}{
		{"a draft", nil, false},
		{"still running", map[string]string{"a": "run"}, true},
		{"an unknown outcome", map[string]string{"a": "lose"}, true},
		{"nothing unfinished", map[string]string{"a": "done"}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			j := w.draft(t, plan(task("a")))
			if c.ran {
				w.run(t, j, c.ends)
			}
			if _, err := w.Retry(t.Context(), number(j), operator); coord.CodeOf(err) != coord.Conflict {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestContinueGivesTheResultsToTasksThatNeedNoOther(t *testing.T) {
	w := newWorld(t)
	j := w.draft(t, plan(task("a"), task("b")))
	w.run(t, j, map[string]string{"a": "first", "b": strings.Repeat("ä", coord.MaxProjection)})
	got, err := w.Continue(t.Context(), number(j), plan(task("next"), task("then", "next")), operator)
	if err != nil {
		t.Fatal(err)
	}
	in := got.Plan.Tasks[0].Inputs
	if len(in) != 2 || in[0].Text != "first" || in[1].Key != "b" || len(got.Plan.Tasks[1].Inputs) != 0 {
		t.Fatalf("inputs %+v", in)
	}
	if n := len(in[1].Text); n > coord.MaxProjection || n < coord.MaxProjection-2 || strings.Trim(in[1].Text, "ä") != "" {
		t.Errorf("the long result was cut to %d bytes", n)
	}
	whole := sha256.Sum256([]byte(strings.Repeat("ä", coord.MaxProjection)))
	if in[1].SHA256 != hex.EncodeToString(whole[:]) {
		t.Error("the digest is not that of the whole result")
	}
}

func TestContinueNeedsAResult(t *testing.T) {
	w := newWorld(t)
	j := w.draft(t, plan(task("a")))
	w.run(t, j, map[string]string{"a": "fail"})
	if _, err := w.Continue(t.Context(), number(j), plan(task("next")), operator); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("got %v", err)
	}
}

func TestInputsOfOneTaskStayWithinTheirBoundTogether(t *testing.T) {
	w := newWorld(t)
	var tasks []coord.PlanTask
	ends := map[string]string{}
	for i := range 10 {
		key := "t" + string(rune('a'+i))
		tasks = append(tasks, task(key))
		ends[key] = strings.Repeat("x", coord.MaxProjection)
		w.agents.known[coord.AgentID(key)] = agent(coord.AgentID(key))
	}
	j := w.draft(t, plan(tasks...))
	w.run(t, j, ends)
	got, err := w.Continue(t.Context(), number(j), plan(task("next")), operator)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, in := range got.Plan.Tasks[0].Inputs {
		total += len(in.Text)
	}
	if len(got.Plan.Tasks[0].Inputs) != 10 || total > coord.MaxProjectionTotal || total < coord.MaxProjectionTotal/2 {
		t.Errorf("%d inputs of %d bytes", len(got.Plan.Tasks[0].Inputs), total)
	}
}

func TestAJobOfWhichOnlyTheResultIsKeptIsNotDraftedAgain(t *testing.T) {
	for _, how := range []string{"done", "fail"} {
		w := newWorld(t)
		j := w.draft(t, plan(task("a")))
		w.run(t, j, map[string]string{"a": how})
		err := w.journal.Update(t.Context(), func(tx *journal.Tx) error {
			_, err := tx.Summarize(coord.Result{Job: j.ID})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		_, again := w.Retry(t.Context(), number(j), operator)
		_, further := w.Continue(t.Context(), number(j), plan(task("next")), operator)
		for _, err := range []error{again, further} {
			if coord.CodeOf(err) != coord.Conflict || !strings.Contains(err.Error(), "only its result is kept") {
				t.Errorf("a job that came out as %s gives %v", how, err)
			}
		}
	}
}
