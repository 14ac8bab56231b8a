package approval_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/approval"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

func TestCancellingAJobStopsWhatDidNotStartAndAsksTheRest(t *testing.T) {
	w := newWorld(t)
	j := w.running(task("works"), task("prepares"), task("ready"), task("blocked", "works"), task("done"))
	works := w.dispatch(j, "works", sent...)
	asked := w.ask(works, coord.Permission, "1")
	prepares := w.dispatch(j, "prepares")
	w.dispatch(j, "done", append(sent, coord.AttemptComplete)...)
	for range 2 { // asking again changes nothing
		if got, err := w.CancelJob(t.Context(), ref(j), ada); err != nil || got.State != coord.JobRunning {
			t.Fatalf("cancelling gave %s, %v", got.State, err)
		}
	}
	_, tasks := w.states(j)
	want := map[string]coord.TaskState{"works": coord.TaskWaiting, "prepares": coord.TaskCancelled, "ready": coord.TaskCancelled,
		"blocked": coord.TaskCancelled, "done": coord.TaskCompleted}
	if diff := cmp.Diff(want, tasks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a := w.attempt(works.ID); a.Cancel.State != coord.CancelRequested || a.Cancel.Cause != coord.CauseOperator || *a.Cancel.By != ada {
		t.Errorf("the live attempt's cancellation is %+v", a.Cancel)
	}
	if a := w.attempt(prepares.ID); a.State != coord.AttemptCancelled {
		t.Errorf("the attempt that sent nothing is %s", a.State)
	}
	_, err := w.Decide(t.Context(), coord.RequestRef{ID: asked.ID}, approval.Decision{Decision: coord.DecisionApprove, Digest: asked.Digest}, ada)
	if coord.CodeOf(err) != coord.Conflict || !strings.Contains(err.Error(), "withdrawn already by Signalbox itself") {
		t.Errorf("approving after the cancellation gave %v", err)
	}
	w.do(func(tx *journal.Tx) error {
		_, err := tx.MoveAttempt(works.ID, coord.Change{On: coord.AttemptCancel})
		return err
	})
	if state, _ := w.states(j); state != coord.JobCancelled {
		t.Errorf("after the confirmation the job is %s", state)
	}
	if got, err := w.CancelJob(t.Context(), ref(j), ada); err != nil || got.State != coord.JobCancelled {
		t.Errorf("cancelling a cancelled job gave %s, %v", got.State, err)
	}
}

func TestCancellingKeepsTheUnknownUnknown(t *testing.T) {
	w := newWorld(t)
	j := w.running(task("a"), task("b", "a"))
	w.dispatch(j, "a", lost...)
	got, err := w.CancelJob(t.Context(), ref(j), ada)
	if err != nil || got.State != coord.JobAttention {
		t.Errorf("cancelling gave %s, %v", got.State, err)
	}
	if _, tasks := w.states(j); tasks["a"] != coord.TaskUnknown || tasks["b"] != coord.TaskCancelled {
		t.Errorf("tasks %v", tasks)
	}
	if _, err := w.CancelTask(t.Context(), taskRef(j, "a"), ada); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("cancelling the unknown task gave %v", err)
	}
}

func TestCancellingWhatCannotBeCancelledConflicts(t *testing.T) {
	w := newWorld(t)
	draft := w.frozen(task("a"))
	if _, err := w.CancelJob(t.Context(), ref(draft), ada); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("a draft gave %v", err)
	}
	j := w.running(task("a"))
	w.dispatch(j, "a", append(sent, coord.AttemptComplete)...)
	if _, err := w.CancelJob(t.Context(), ref(j), ada); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("a completed job gave %v", err)
	}
	if _, err := w.CancelTask(t.Context(), taskRef(j, "a"), ada); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("a completed task gave %v", err)
	}
}

func TestCancellingATaskLeavesTheOthers(t *testing.T) {
	w := newWorld(t)
	j := w.running(task("a"), task("b"))
	for range 2 {
		if got, err := w.CancelTask(t.Context(), taskRef(j, "a"), ada); err != nil || got.State != coord.TaskCancelled {
			t.Errorf("cancelling gave %s, %v", got.State, err)
		}
	}
	if state, tasks := w.states(j); state != coord.JobRunning || tasks["b"] != coord.TaskReady {
		t.Errorf("job %s, tasks %v", state, tasks)
	}
}

func TestUnknownOutcomeIsResolvedOnceByAPerson(t *testing.T) {
	cases := []struct {
		how          coord.ResolutionKind
		reason, text string
		task         coord.TaskState
		job          coord.JobState
	}{
		{coord.Adopted, "", "It is done", coord.TaskCompleted, coord.JobCompleted},
		{coord.Adopted, "seen", "", coord.TaskCompleted, coord.JobCompleted},
		{coord.NeverRan, "the log shows it", "", coord.TaskFailed, coord.JobFailed},
		{coord.Abandoned, "", "", coord.TaskFailed, coord.JobFailed},
	}
	for _, c := range cases {
		w := newWorld(t)
		j := w.running(task("a"))
		a := w.dispatch(j, "a", lost...)
		got, err := w.Resolve(t.Context(), coord.AttemptRef{Task: taskRef(j, "a")}, c.how, c.reason, c.text, ada)
		if err != nil {
			t.Errorf("%s: %v", c.how, err)
			continue
		}
		if got.State != coord.AttemptUnknown || got.Resolution == nil || got.Resolution.By != ada {
			t.Errorf("%s: the attempt is %s, %+v", c.how, got.State, got.Resolution)
		}
		if state, tasks := w.states(j); state != c.job || tasks["a"] != c.task {
			t.Errorf("%s: job %s, task %s", c.how, state, tasks["a"])
		}
		if (got.Statement != nil) != (c.text != "") || got.Statement != nil && (got.Statement.By != "operator" || got.Statement.Text != c.text) {
			t.Errorf("%s: statement %+v", c.how, got.Statement)
		}
		if _, err := w.Resolve(t.Context(), coord.AttemptRef{ID: a.ID}, coord.Abandoned, "", "", ada); coord.CodeOf(err) != coord.Conflict || !strings.Contains(err.Error(), "ada") {
			t.Errorf("%s: a second resolution gave %v", c.how, err)
		}
	}
}

func TestAdoptedTextIsKeptRedactedWithTheDigestOfWhatIsKept(t *testing.T) {
	w := newWorld(t)
	j := w.running(task("a"))
	w.dispatch(j, "a", lost...)
	got, err := w.Resolve(t.Context(), coord.AttemptRef{Task: taskRef(j, "a")}, coord.Adopted, "", "the key is ghp_0123456789abcdefghijABCDEFGHIJ012345", ada)
	if err != nil {
		t.Fatal(err)
	}
	s := got.Statement
	sum := sha256.Sum256([]byte(s.Text))
	if strings.Contains(s.Text, "ghp_") || s.SHA256 != hex.EncodeToString(sum[:]) || s.Bytes != int64(len(s.Text)) {
		t.Errorf("statement %+v", s)
	}
}

func TestFaultyResolutionChangesNothing(t *testing.T) {
	w := newWorld(t)
	j := w.running(task("a"), task("b"))
	w.dispatch(j, "a", lost...)
	w.dispatch(j, "b", append(sent, coord.AttemptComplete)...)
	cases := []struct {
		name, key    string
		how          coord.ResolutionKind
		reason, text string
		code         coord.Code
	}{
		{"no such way", "a", "undo", "", "", coord.Invalid},
		{"never ran without a reason", "a", coord.NeverRan, "  ", "", coord.Invalid},
		{"text with abandon", "a", coord.Abandoned, "", "x", coord.Invalid},
		{"text that is too long", "a", coord.Adopted, "", strings.Repeat("x", coord.MaxStatement+1), coord.Invalid},
		{"an outcome that is known", "b", coord.Adopted, "", "other", coord.Conflict},
	}
	for _, c := range cases {
		if _, err := w.Resolve(t.Context(), coord.AttemptRef{Task: taskRef(j, c.key)}, c.how, c.reason, c.text, ada); coord.CodeOf(err) != c.code {
			t.Errorf("%s gave %v", c.name, err)
		}
	}
	if _, tasks := w.states(j); tasks["a"] != coord.TaskUnknown || tasks["b"] != coord.TaskCompleted {
		t.Errorf("tasks %v", tasks)
	}
}
