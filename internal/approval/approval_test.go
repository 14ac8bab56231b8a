package approval_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/approval"
	"signalbox/internal/artifact"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/redact"
)

var (
	ada     = coord.Actor{Role: coord.RoleOperator, Door: "browser", Presence: "browser", Name: "ada"}
	drafter = coord.Actor{Role: coord.RoleDraft, Door: "api", Presence: "none", Name: "robot"}
)

// world is a journal with the acts of approval, and what the other stages do.
type world struct {
	*approval.Approval
	t        *testing.T
	journal  *journal.Journal
	contents *artifact.Contents
}

func newWorld(t *testing.T) *world {
	t.Helper()
	m, err := journal.NewMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := coord.Moment{Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), BootID: "boot", Boot: time.Hour, Awake: time.Hour}
	j, err := journal.Open(t.Context(), journal.Options{
		Memory: m, Clock: func() coord.Moment { return now }, Redact: redact.New().String, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	contents, err := artifact.NewContents(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &world{approval.New(j, contents, nil), t, j, contents}
}

// do runs fn in the writer.
func (w *world) do(fn func(tx *journal.Tx) error) {
	w.t.Helper()
	if err := w.journal.Update(w.t.Context(), fn); err != nil {
		w.t.Fatal(err)
	}
}

func task(key string, needs ...string) coord.PlanTask {
	return coord.PlanTask{Key: key, Agent: coord.AgentID(key), Instruction: "Do " + key, Needs: needs}
}

// frozen makes a draft and freezes it, as planning does.
func (w *world) frozen(tasks ...coord.PlanTask) coord.Job {
	w.t.Helper()
	plan := coord.Plan{Tasks: tasks}.Completed()
	f := coord.Frozen{Plan: plan}
	for _, t := range plan.Tasks {
		f.Tasks = append(f.Tasks, coord.FrozenTask{Key: t.Key, Agent: t.Agent, Revision: 1})
	}
	b, err := f.Digestible()
	if err != nil {
		w.t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	f.Digest = hex.EncodeToString(sum[:])
	var j coord.Job
	w.do(func(tx *journal.Tx) (err error) {
		for _, t := range plan.Tasks {
			if err := tx.PutAgent(coord.Agent{ID: t.Agent, Enabled: true, Revision: 1}, ada); err != nil {
				return err
			}
		}
		if j, err = tx.AddJob(coord.Job{Plan: plan, By: ada}); err != nil {
			return err
		}
		j.Frozen = &f
		return tx.PutPlan(&j)
	})
	return j
}

// running starts a job of these tasks.
func (w *world) running(tasks ...coord.PlanTask) coord.Job {
	w.t.Helper()
	j := w.frozen(tasks...)
	j, err := w.Run(w.t.Context(), ref(j), j.Frozen.Digest, ada)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func ref(j coord.Job) coord.JobRef { return coord.JobRef{Number: j.Number} }

func taskRef(j coord.Job, key string) coord.TaskRef { return coord.TaskRef{Job: ref(j), Key: key} }

// dispatch gives a task an attempt and takes it along the given events.
func (w *world) dispatch(j coord.Job, key string, events ...coord.AttemptEvent) coord.Attempt {
	w.t.Helper()
	var a coord.Attempt
	w.do(func(tx *journal.Tx) error {
		one, err := tx.Task(taskRef(j, key))
		if err != nil {
			return err
		}
		if a, err = tx.AddAttempt(one, coord.RouteACP, "here"); err != nil {
			return err
		}
		for _, on := range events {
			c := coord.Change{On: on}
			if on == coord.AttemptIntend {
				c.Handle = &coord.Handle{Version: 1, Data: []byte(`{}`)}
			}
			if a, err = tx.MoveAttempt(a.ID, c); err != nil {
				return err
			}
		}
		return nil
	})
	return a
}

var (
	sent    = []coord.AttemptEvent{coord.AttemptIntend, coord.AttemptReceive, coord.AttemptProgress}
	lost    = []coord.AttemptEvent{coord.AttemptIntend, coord.AttemptLose}
	options = []coord.Option{{ID: "yes", Kind: coord.AllowOnce}, {ID: "no", Kind: coord.RejectOnce}}
)

// ask opens a request of an attempt.
func (w *world) ask(a coord.Attempt, kind coord.RequestKind, id string) coord.Request {
	w.t.Helper()
	var r coord.Request
	w.do(func(tx *journal.Tx) (err error) {
		r, err = tx.AddRequest(coord.Request{Attempt: a.ID, Kind: kind, Origin: coord.RequestOrigin{Request: id},
			Content: coord.RequestContent{Title: "Write"}, Options: options})
		return err
	})
	return r
}

// states gives the states of a job and its tasks, by key.
func (w *world) states(j coord.Job) (coord.JobState, map[string]coord.TaskState) {
	w.t.Helper()
	var state coord.JobState
	out := map[string]coord.TaskState{}
	err := w.journal.View(w.t.Context(), func(v *journal.View) error {
		head, err := v.JobHead(ref(j))
		if err != nil {
			return err
		}
		state = head.State
		tasks, err := v.Tasks(j.ID)
		for _, one := range tasks {
			out[one.Key] = one.State
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return state, out
}

func (w *world) attempt(id coord.AttemptID) coord.Attempt {
	w.t.Helper()
	var a coord.Attempt
	err := w.journal.View(w.t.Context(), func(v *journal.View) (err error) {
		a, err = v.Attempt(coord.AttemptRef{ID: id})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func TestEveryActIsTheOperatorsAlone(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for _, by := range []coord.Actor{drafter, {Role: coord.RoleRead}, {}, {Role: "root"}} {
		acts := map[string]func() error{
			"run": func() error { _, err := w.Run(ctx, coord.JobRef{Number: 1}, "", by); return err },
			"decide": func() error {
				_, err := w.Decide(ctx, coord.RequestRef{Number: 1}, approval.Decision{}, by)
				return err
			},
			"decide all":  func() error { _, err := w.DecideAll(ctx, nil, by); return err },
			"cancel job":  func() error { _, err := w.CancelJob(ctx, coord.JobRef{Number: 1}, by); return err },
			"cancel task": func() error { _, err := w.CancelTask(ctx, coord.TaskRef{}, by); return err },
			"resolve": func() error {
				_, err := w.Resolve(ctx, coord.AttemptRef{}, coord.Adopted, "", "", by)
				return err
			},
		}
		for name, act := range acts {
			if err := act(); coord.CodeOf(err) != coord.Forbidden {
				t.Errorf("%s as %q gave %v", name, by.Role, err)
			}
		}
	}
}

func TestRunStartsTheApprovedPlanInOneStep(t *testing.T) {
	w := newWorld(t)
	j := w.frozen(task("a"), task("b"), task("c", "a", "b"))
	got, err := w.Run(t.Context(), ref(j), j.Frozen.Digest, ada)
	if err != nil {
		t.Fatal(err)
	}
	if got.Grant == nil || got.Grant.Digest != j.Frozen.Digest || got.Grant.By != ada || got.Started == nil || got.Frozen == nil {
		t.Errorf("started as %+v", got)
	}
	state, tasks := w.states(j)
	want := map[string]coord.TaskState{"a": coord.TaskReady, "b": coord.TaskReady, "c": coord.TaskBlocked}
	if diff := cmp.Diff(want, tasks); diff != "" || state != coord.JobRunning {
		t.Errorf("job %s (-want +got):\n%s", state, diff)
	}
	if again, err := w.Run(t.Context(), ref(j), j.Frozen.Digest, ada); err != nil || again.State != coord.JobRunning {
		t.Errorf("the same approval again gave %s, %v", again.State, err)
	}
	if _, again := w.states(j); len(again) != 3 {
		t.Errorf("the same approval again made %d tasks", len(again))
	}
}

func TestWhatIsAdmittedWithAnApprovalIsPartOfIt(t *testing.T) {
	w := newWorld(t)
	var admitted []string
	var refuse error = coord.Errorf(coord.Unavailable, "no room")
	full := refuse
	w.Approval = approval.New(w.journal, w.contents, func(tx *journal.Tx, job coord.Job, tasks []coord.Task) error {
		for _, t := range tasks {
			if stored, err := tx.Task(coord.TaskRef{ID: t.ID}); err != nil || stored.Job != job.ID || job.Grant == nil {
				return errors.Join(err, fmt.Errorf("task %+v of job %+v", stored, job))
			}
			admitted = append(admitted, t.Key+" "+string(t.State))
		}
		return refuse
	})
	j := w.frozen(task("a"), task("b", "a"))
	if _, err := w.Run(t.Context(), ref(j), j.Frozen.Digest, ada); !errors.Is(err, full) {
		t.Errorf("it gave %v", err)
	}
	if state, tasks := w.states(j); state != coord.JobDraft || len(tasks) != 0 {
		t.Errorf("of an approval that failed are left: job %s, %v", state, tasks)
	}
	admitted, refuse = nil, nil
	for range 2 { // the second finds that it was done
		if _, err := w.Run(t.Context(), ref(j), j.Frozen.Digest, ada); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"a ready", "b blocked"}, admitted); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
}

func TestRunRefusesWhatWasNotShown(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	j := w.frozen(task("a"))
	_, err := w.Run(ctx, ref(j), strings.Repeat("0", 64), ada)
	if coord.CodeOf(err) != coord.Stale || !strings.Contains(err.Error(), j.Frozen.Digest[:12]) || !strings.Contains(err.Error(), "000000000000") {
		t.Errorf("another digest gave %v", err)
	}
	if _, err := w.Run(ctx, ref(j), "", ada); coord.CodeOf(err) != coord.Stale {
		t.Errorf("no digest gave %v", err)
	}
	w.do(func(tx *journal.Tx) error { // somebody edits the row
		edited := j
		f := *j.Frozen
		f.Tasks = []coord.FrozenTask{{Key: "a", Agent: "evil"}}
		edited.Frozen = &f
		return tx.PutPlan(&edited)
	})
	if _, err := w.Run(ctx, ref(j), j.Frozen.Digest, ada); coord.CodeOf(err) != coord.Stale {
		t.Errorf("a plan that does not match its digest gave %v", err)
	}
	var draft coord.Job
	w.do(func(tx *journal.Tx) (err error) {
		draft, err = tx.AddJob(coord.Job{Plan: coord.Plan{Tasks: []coord.PlanTask{task("a")}}, By: ada})
		return err
	})
	if _, err := w.Run(ctx, ref(draft), j.Frozen.Digest, ada); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("a draft that is not frozen gave %v", err)
	}
	if state, tasks := w.states(j); state != coord.JobDraft || len(tasks) != 0 {
		t.Errorf("a refusal left %s with %d tasks", state, len(tasks))
	}
}

func TestRunRefusesAgentsThatWereSwitchedOffSince(t *testing.T) {
	for name, agent := range map[string]coord.Agent{
		"disabled": {ID: "a", Revision: 1}, "removed": {ID: "a", Revision: 1, Enabled: true, Removed: true},
	} {
		w := newWorld(t)
		j := w.frozen(task("a"))
		w.do(func(tx *journal.Tx) error { return tx.PutAgent(agent, ada) })
		if _, err := w.Run(t.Context(), ref(j), j.Frozen.Digest, ada); coord.CodeOf(err) != coord.Conflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := newWorld(t)
	j := w.frozen(task("a"))
	w.do(func(tx *journal.Tx) error { return tx.PutAgent(coord.Agent{ID: "a", Revision: 2, Enabled: true}, ada) })
	if _, err := w.Run(t.Context(), ref(j), j.Frozen.Digest, ada); err != nil {
		t.Errorf("an agent that was revised since stopped the frozen plan: %v", err)
	}
}

func TestDecisionIsRecordedWithWhoMadeIt(t *testing.T) {
	w := newWorld(t)
	j := w.running(task("a"))
	a := w.dispatch(j, "a", sent...)
	r := w.ask(a, coord.Permission, "1")
	if _, tasks := w.states(j); tasks["a"] != coord.TaskWaiting {
		t.Errorf("the task is %s", tasks["a"])
	}
	got, err := w.Decide(t.Context(), coord.RequestRef{Number: r.Number}, approval.Decision{Decision: coord.DecisionApprove, Reason: "fine", Digest: r.Digest}, ada)
	if err != nil {
		t.Fatal(err)
	}
	if got.Decision != coord.DecisionApproved || got.Decided.Option != "yes" || got.Decided.By != ada || got.Delivery != coord.DeliveryNone || !got.Undelivered() {
		t.Errorf("decided %+v", got)
	}
	if _, tasks := w.states(j); tasks["a"] != coord.TaskRunning {
		t.Errorf("after the decision the task is %s", tasks["a"])
	}
	_, err = w.Decide(t.Context(), coord.RequestRef{ID: r.ID}, approval.Decision{Decision: coord.DecisionDeny, Digest: r.Digest}, coord.Actor{Role: coord.RoleOperator, Name: "bob"})
	if coord.CodeOf(err) != coord.Conflict || err.Error() != "request r1 was approved already by ada (browser) at 2026-01-02 03:04:05Z" {
		t.Errorf("a second decision gave %v", err)
	}
}

func TestDecisionHoldsForWhatWasDisplayedOnly(t *testing.T) {
	w := newWorld(t)
	a := w.dispatch(w.running(task("a")), "a", sent...)
	r, q := w.ask(a, coord.Permission, "1"), w.ask(a, coord.Question, "2")
	long := strings.Repeat("x", coord.MaxAnswer+1)
	cases := []struct {
		name string
		ref  coord.Request
		d    approval.Decision
		code coord.Code
	}{
		{"another digest", r, approval.Decision{Decision: coord.DecisionApprove, Digest: q.Digest}, coord.Stale},
		{"no digest", r, approval.Decision{Decision: coord.DecisionApprove}, coord.Invalid},
		{"no decision", r, approval.Decision{Digest: r.Digest}, coord.Invalid},
		{"a decision that is not a person's", r, approval.Decision{Decision: coord.DecisionExpire, Digest: r.Digest}, coord.Invalid},
		{"an answer without words", q, approval.Decision{Decision: coord.DecisionAnswer, Digest: q.Digest}, coord.Invalid},
		{"an answer that is too long", q, approval.Decision{Decision: coord.DecisionAnswer, Answer: long, Digest: q.Digest}, coord.Invalid},
		{"an answer to a permission", r, approval.Decision{Decision: coord.DecisionAnswer, Answer: "x", Digest: r.Digest}, coord.Invalid},
		{"an option that is not there", r, approval.Decision{Decision: coord.DecisionApprove, Option: "x", Digest: r.Digest}, coord.Invalid},
		{"words with an approval", r, approval.Decision{Decision: coord.DecisionApprove, Answer: "x", Digest: r.Digest}, coord.Invalid},
		{"a reason that is no text", r, approval.Decision{Decision: coord.DecisionDeny, Reason: "\xff", Digest: r.Digest}, coord.Invalid},
	}
	for _, c := range cases {
		if got, err := w.Decide(t.Context(), coord.RequestRef{ID: c.ref.ID}, c.d, ada); coord.CodeOf(err) != c.code {
			t.Errorf("%s gave %s, %v", c.name, got.Decision, err)
		}
	}
	if _, err := w.Decide(t.Context(), coord.RequestRef{Number: 99}, approval.Decision{Decision: coord.DecisionDeny, Digest: "x"}, ada); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("no request gave %v", err)
	}
	got, err := w.Decide(t.Context(), coord.RequestRef{ID: q.ID}, approval.Decision{Decision: coord.DecisionAnswer, Answer: "42", Digest: q.Digest}, ada)
	if err != nil || got.Decision != coord.DecisionAnswered {
		t.Errorf("after all refusals an answer gave %s, %v", got.Decision, err)
	}
}

func TestOfManyDecisionsAtOnceOneWins(t *testing.T) {
	w := newWorld(t)
	r := w.ask(w.dispatch(w.running(task("a")), "a", sent...), coord.Permission, "1")
	var wait sync.WaitGroup
	var mu sync.Mutex
	codes := map[coord.Code]int{}
	for i := range 16 {
		on := coord.DecisionApprove
		if i%2 == 0 {
			on = coord.DecisionDeny
		}
		wait.Go(func() {
			_, err := w.Decide(t.Context(), coord.RequestRef{ID: r.ID}, approval.Decision{Decision: on, Digest: r.Digest}, ada)
			mu.Lock()
			defer mu.Unlock()
			codes[coord.CodeOf(err)]++
		})
	}
	wait.Wait()
	if diff := cmp.Diff(map[coord.Code]int{"": 1, coord.Conflict: 15}, codes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestListOfDecisionsHasAnOutcomeForEach(t *testing.T) {
	w := newWorld(t)
	a := w.dispatch(w.running(task("a")), "a", sent...)
	one, two := w.ask(a, coord.Permission, "1"), w.ask(a, coord.Permission, "2")
	deny := func(r coord.Request, digest string) approval.Answered {
		return approval.Answered{Ref: coord.RequestRef{ID: r.ID}, Decision: approval.Decision{Decision: coord.DecisionDeny, Digest: digest}}
	}
	got, err := w.DecideAll(t.Context(), []approval.Answered{deny(one, two.Digest), deny(two, two.Digest)}, ada)
	if err != nil || len(got) != 2 || coord.CodeOf(got[0].Err) != coord.Stale || got[1].Err != nil || got[1].Request.Decision != coord.DecisionDenied {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := w.DecideAll(t.Context(), []approval.Answered{deny(one, one.Digest), deny(one, one.Digest)}, ada); coord.CodeOf(err) != coord.Invalid {
		t.Errorf("one request twice gave %v", err)
	}
	if _, err := w.DecideAll(t.Context(), make([]approval.Answered, coord.MaxDecisions+1), ada); coord.CodeOf(err) != coord.Limit {
		t.Errorf("too many gave %v", err)
	}
}
