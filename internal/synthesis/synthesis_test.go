package synthesis_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/artifact"
	"signalbox/internal/coord"
	"signalbox/internal/credential/binding"
	"signalbox/internal/journal"
	"signalbox/internal/redact"
	"signalbox/internal/synthesis"
)

var ada = coord.Actor{Role: coord.RoleOperator, Door: "browser", Presence: "browser", Name: "ada"}

// world is a real journal and a real artifact store.
type world struct {
	*synthesis.Synthesis
	t       *testing.T
	journal *journal.Journal
	store   *artifact.Store
	secrets *binding.Bindings
	dir     string
	now     coord.Moment
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "data"),
		now: coord.Moment{Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), BootID: "boot", Boot: time.Hour, Awake: time.Hour}}
	clean := redact.New().String
	j, err := journal.Open(t.Context(), journal.Options{
		Dir: w.dir, Clock: func() coord.Moment { return w.now }, Redact: clean, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	if w.store, err = artifact.New(filepath.Join(w.dir, "artifacts"), clean); err != nil {
		t.Fatal(err)
	}
	w.journal, w.secrets = j, binding.New(nil, binding.Options{})
	w.Synthesis = synthesis.New(j, w.store)
	return w
}

func (w *world) do(fn func(tx *journal.Tx) error) {
	w.t.Helper()
	if err := w.journal.Update(w.t.Context(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// start makes and starts a job of tasks with these keys, all ready.
func (w *world) start(keys ...string) coord.Job {
	w.t.Helper()
	plan := coord.Plan{Title: "A job"}
	for _, k := range keys {
		plan.Tasks = append(plan.Tasks, coord.PlanTask{Key: k, Agent: coord.AgentID(k), Title: "Title of " + k, Instruction: "Do " + k})
	}
	plan = plan.Completed()
	f := coord.Frozen{Plan: plan}
	for _, k := range keys {
		f.Tasks = append(f.Tasks, coord.FrozenTask{Key: k, Agent: coord.AgentID(k), Revision: 1})
	}
	b, err := f.Digestible()
	if err != nil {
		w.t.Fatal(err)
	}
	f.Digest = digest(b)
	var j coord.Job
	w.do(func(tx *journal.Tx) (err error) {
		if j, err = tx.AddJob(coord.Job{Plan: plan, By: ada}); err != nil {
			return err
		}
		j.Frozen = &f
		if err := tx.PutPlan(&j); err != nil {
			return err
		}
		now := tx.Now()
		if j, err = j.Apply(coord.JobRun, now); err != nil {
			return err
		}
		j.Started, j.Grant = &now, &coord.Grant{Digest: f.Digest, By: ada, At: now}
		if err := tx.PutJob(j, &ada); err != nil {
			return err
		}
		var ids []coord.TaskID
		for i, k := range keys {
			one, err := tx.AddTask(coord.Task{Job: j.ID, Key: k, Index: i, Agent: coord.AgentID(k), State: coord.TaskBlocked})
			if err != nil {
				return err
			}
			ids = append(ids, one.ID)
		}
		for _, id := range ids {
			if err := tx.MoveTask(id, coord.TaskUnblock, ""); err != nil {
				return err
			}
		}
		return nil
	})
	return j
}

// dispatch makes an attempt of a task and moves it along the changes.
func (w *world) dispatch(j coord.Job, key string, changes ...coord.Change) coord.Attempt {
	w.t.Helper()
	var a coord.Attempt
	w.do(func(tx *journal.Tx) error {
		one, err := tx.Task(coord.TaskRef{Job: ref(j), Key: key})
		if err != nil {
			return err
		}
		a, err = tx.AddAttempt(one, coord.RouteACP, "here")
		return err
	})
	for _, c := range changes {
		w.move(a, c)
	}
	return a
}

func (w *world) move(a coord.Attempt, c coord.Change) {
	w.t.Helper()
	if c.On == coord.AttemptIntend {
		c.Handle = &coord.Handle{Version: 1, Data: json.RawMessage(`{}`)}
	}
	w.do(func(tx *journal.Tx) error {
		_, err := tx.MoveAttempt(a.ID, c)
		return err
	})
}

// says records text of an attempt in pieces.
func (w *world) says(a coord.Attempt, channel string, pieces ...string) {
	w.t.Helper()
	w.do(func(tx *journal.Tx) error {
		for _, p := range pieces {
			data, err := json.Marshal(coord.Text{Channel: channel, Text: p})
			if err != nil {
				return err
			}
			tx.Append(coord.Event{Kind: coord.AttemptText, Job: a.Job, Task: a.Task, Attempt: a.ID, Data: data})
		}
		return nil
	})
}

// keeps stores an artifact of an attempt.
func (w *world) keeps(a coord.Attempt, name, content string) coord.Artifact {
	w.t.Helper()
	stored, err := w.store.Put(w.t.Context(), strings.NewReader(content), coord.MaxArtifact)
	if err != nil {
		w.t.Fatal(err)
	}
	var one coord.Artifact
	w.do(func(tx *journal.Tx) (err error) {
		one, err = tx.AddArtifact(coord.Artifact{Job: a.Job, Task: a.Task, Attempt: a.ID, Agent: a.Agent, Name: name,
			Media: "text/plain", Size: stored.Size, SHA256: stored.SHA256, Origin: "said"})
		return err
	})
	return one
}

func (w *world) uses(a coord.Attempt, u coord.Usage) {
	w.t.Helper()
	w.do(func(tx *journal.Tx) error {
		return tx.EditAttempt(a.ID, func(a coord.Attempt) coord.Attempt { a.Usage = u; return a })
	})
}

func (w *world) asks(a coord.Attempt) coord.Request {
	w.t.Helper()
	var r coord.Request
	w.do(func(tx *journal.Tx) (err error) {
		r, err = tx.AddRequest(coord.Request{Attempt: a.ID, Kind: coord.Permission, Origin: coord.RequestOrigin{Request: "1"},
			Content: coord.RequestContent{Title: "Write"}, Options: []coord.Option{{ID: "y", Kind: coord.AllowOnce}}})
		return err
	})
	return r
}

var (
	intend  = coord.Change{On: coord.AttemptIntend}
	receive = coord.Change{On: coord.AttemptReceive, Receipt: &coord.Receipt{Kind: "update", Reference: "s1"}}
)

func complete(agent coord.AgentID, text string) coord.Change {
	return coord.Change{On: coord.AttemptComplete, Statement: &coord.Statement{Agent: agent, By: "agent", Text: text, Bytes: int64(len(text)), SHA256: digest([]byte(text))}}
}

func ref(j coord.Job) coord.JobRef { return coord.JobRef{Number: j.Number} }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// story is a job in which something of every kind happened.
func (w *world) story() coord.Job {
	w.t.Helper()
	j := w.start("good", "bad", "lost")
	good := w.dispatch(j, "good", intend, receive)
	r := w.asks(good)
	w.do(func(tx *journal.Tx) error {
		_, err := tx.DecideRequest(r.ID, coord.Choice{On: coord.DecisionApprove, By: ada})
		return err
	})
	w.says(good, coord.ChannelMessage, "All ", "is well")
	w.keeps(good, "report.txt", "the report")
	w.keeps(good, "copy.txt", "the report")
	w.move(good, complete("good", "All is well"))
	w.uses(good, coord.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15, Cost: "0.10", Currency: "USD", Source: "provider"})
	bad := w.dispatch(j, "bad", intend, receive)
	w.says(bad, coord.ChannelThought, "hmm")
	w.says(bad, coord.ChannelMessage, "I bega", "n")
	w.move(bad, coord.Change{On: coord.AttemptFail, Reason: "broke"})
	w.uses(bad, coord.Usage{InputTokens: 1, Cost: "0.005", Currency: "USD", Source: "provider"})
	w.dispatch(j, "lost", intend, coord.Change{On: coord.AttemptLose, Cause: "agent_gone", Reason: "the agent's process ended", Activity: coord.Ended})
	return j
}

func TestResultAttributesEverything(t *testing.T) {
	w := newWorld(t)
	j := w.story()
	got, err := w.Result(t.Context(), ref(j))
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest != j.Grant.Digest || got.State != coord.JobAttention || len(got.Tasks) != 3 {
		t.Fatalf("result %+v", got)
	}
	want := coord.Usage{InputTokens: 11, OutputTokens: 5, TotalTokens: 15, Cost: "0.105", Currency: "USD", Source: "provider"}
	if diff := cmp.Diff(want, got.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	good, bad, lost := got.Tasks[0], got.Tasks[1], got.Tasks[2]
	if good.Statement == nil || good.Statement.Agent != "good" || good.Statement.Text != "All is well" || good.Partial != "" || good.Receipt == nil || good.Title != "Title of good" {
		t.Errorf("the completed task: %+v", good)
	}
	if len(good.Artifacts) != 2 || good.Artifacts[0].Name != "report.txt" || len(good.Requests) != 1 || good.Requests[0].Decision != coord.DecisionApproved || good.Requests[0].Delivery != coord.DeliveryUndeliverable {
		t.Errorf("its artifacts and requests: %+v, %+v", good.Artifacts, good.Requests)
	}
	if bad.Statement != nil || bad.Partial != "I began" || bad.Reason != "broke" || len(bad.Artifacts) != 0 {
		t.Errorf("the failed task: %+v", bad)
	}
	if lost.State != coord.TaskUnknown || lost.Receipt != nil || lost.Partial != "" {
		t.Errorf("the lost task: %+v", lost)
	}
}

func TestPartialTextIsBoundedAndWhole(t *testing.T) {
	w := newWorld(t)
	j := w.start("a")
	a := w.dispatch(j, "a", intend, receive)
	for range 5 {
		w.says(a, coord.ChannelMessage, "x"+strings.Repeat("ä", coord.MaxTextChunk/2))
	}
	w.move(a, coord.Change{On: coord.AttemptFail})
	got, err := w.Result(t.Context(), ref(j))
	if err != nil {
		t.Fatal(err)
	}
	if p := got.Tasks[0].Partial; len(p) > coord.MaxStatement || len(p) < coord.MaxStatement-3 || strings.ToValidUTF8(p, "") != p {
		t.Errorf("%d bytes of partial text", len(p))
	}
}

func TestJobThatNeverRanHasNoResult(t *testing.T) {
	w := newWorld(t)
	var j coord.Job
	w.do(func(tx *journal.Tx) (err error) {
		j, err = tx.AddJob(coord.Job{Plan: coord.Plan{Title: "x"}, By: ada})
		return err
	})
	if _, err := w.Result(t.Context(), ref(j)); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("a draft gave %v", err)
	}
	if _, err := w.Result(t.Context(), coord.JobRef{Number: 9}); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("no job gave %v", err)
	}
}

func TestCostsThatCannotBeAddedAreLeftOut(t *testing.T) {
	cases := []struct {
		name string
		a, b coord.Usage
		want coord.Usage
	}{
		{"two currencies", coord.Usage{Cost: "1", Currency: "USD"}, coord.Usage{Cost: "1", Currency: "EUR"}, coord.Usage{}},
		{"no number", coord.Usage{Cost: "1", Currency: "USD"}, coord.Usage{Cost: "a lot", Currency: "USD"}, coord.Usage{}},
		{"a fraction", coord.Usage{Cost: "1/3", Currency: "USD"}, coord.Usage{}, coord.Usage{}},
		{"one of them tells none", coord.Usage{Cost: "1.50", Currency: "USD"}, coord.Usage{InputTokens: 1}, coord.Usage{InputTokens: 1, Cost: "1.50", Currency: "USD"}},
		{"two sources", coord.Usage{InputTokens: 1, Source: "provider"}, coord.Usage{InputTokens: 1, Source: "measured"}, coord.Usage{InputTokens: 2}},
	}
	for _, c := range cases {
		w := newWorld(t)
		j := w.start("a", "b")
		w.uses(w.dispatch(j, "a"), c.a)
		w.uses(w.dispatch(j, "b"), c.b)
		got, err := w.Result(t.Context(), ref(j))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got.Usage); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestExplanationOfAnUnknownSaysWhatIsKnownAndWhatIsNot(t *testing.T) {
	w := newWorld(t)
	j := w.story()
	e, err := w.Explain(t.Context(), coord.AttemptRef{Task: coord.TaskRef{Job: ref(j), Key: "lost"}})
	if err != nil {
		t.Fatal(err)
	}
	has := func(list []string, text string) {
		t.Helper()
		if !strings.Contains(strings.Join(list, "\n"), text) {
			t.Errorf("nothing says %q in:\n%s", text, strings.Join(list, "\n"))
		}
	}
	has(e.Known, "The intent to send was recorded")
	has(e.Known, "its processes are proven gone")
	has(e.NotKnown, "How the work ended")
	has(e.NotKnown, "Whether the agent got the work at all")
	has(e.NextSteps, "signalbox attempt reconcile 1/lost/1")
	has(e.NextSteps, "signalbox attempt never-ran 1/lost/1 --reason")
	has([]string{e.Why}, "Recorded reason: the agent's process ended.")
	if strings.Contains(strings.Join(e.NotKnown, "\n"), "still runs") {
		t.Error("what is proven gone is said to run")
	}
}

func TestEveryStateOfAnAttemptIsExplained(t *testing.T) {
	w := newWorld(t)
	keys := []string{"a", "b", "c", "d"}
	j := w.start(keys...)
	ways := [][]coord.Change{
		{}, {intend}, {intend, receive}, {intend, receive, {On: coord.AttemptProgress}},
	}
	for i, way := range ways {
		a := w.dispatch(j, keys[i], way...)
		e, err := w.Explain(t.Context(), coord.AttemptRef{ID: a.ID})
		if err != nil || e.Why == "" || len(e.Known) < 2 || len(e.NextSteps) == 0 {
			t.Errorf("after %d changes: %+v, %v", len(way), e, err)
		}
	}
	if _, err := w.Explain(t.Context(), coord.AttemptRef{ID: "att_x"}); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("no attempt gave %v", err)
	}
}

func TestExplanationOfAnEndDoesNotTakeTheAgentsWord(t *testing.T) {
	w := newWorld(t)
	j := w.story()
	for _, key := range []string{"good", "bad"} {
		e, err := w.Explain(t.Context(), coord.AttemptRef{Task: coord.TaskRef{Job: ref(j), Key: key}})
		if err != nil || !strings.Contains(strings.Join(e.Known, " "), "It ended as") || !strings.Contains(strings.Join(e.NotKnown, " "), "Signalbox did not see that work") || len(e.NextSteps) == 0 {
			t.Errorf("%s: %+v, %v", key, e, err)
		}
		if used := "It used " + e.Attempt.Usage.String() + "."; !slices.Contains(e.Known, used) || !strings.Contains(used, "USD, as the agent told") {
			t.Errorf("%s: %q is not among %q", key, used, e.Known)
		}
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
