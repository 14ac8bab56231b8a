package planning_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/planning"
	"signalbox/internal/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	operator = coord.Actor{Role: coord.RoleOperator, Door: "browser", Presence: "browser", Name: "ada"}
	reader   = coord.Actor{Role: coord.RoleRead, Door: "api", Presence: "none"}
)

// agents is the directory as planning sees it.
type agents struct {
	mu       sync.Mutex
	known    map[coord.AgentID]coord.Agent
	unusable map[coord.AgentID]error
	usable   int
	// onUse is called, if set, at each Usable.
	onUse func()
}

func (a *agents) Get(_ context.Context, id coord.AgentID) (coord.Agent, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one, ok := a.known[id]
	if !ok {
		return one, coord.Errorf(coord.NotFound, "there is no agent %s", id)
	}
	return one, nil
}

func (a *agents) Usable(ctx context.Context, id coord.AgentID) (coord.Agent, error) {
	a.mu.Lock()
	a.usable++
	err, hook := a.unusable[id], a.onUse
	a.mu.Unlock()
	if hook != nil {
		hook()
	}
	if err != nil {
		return coord.Agent{}, err
	}
	one, err := a.Get(ctx, id)
	if err == nil && one.Inspection == nil {
		one.Inspection = inspection(id, one.Revision)
	}
	return one, err
}

func inspection(id coord.AgentID, revision int, ops ...coord.Operation) *coord.Inspection {
	if len(ops) == 0 {
		ops = []coord.Operation{coord.Research, coord.Read, coord.Write}
	}
	return &coord.Inspection{
		Agent: id, Revision: revision, Auth: coord.AuthReady, Operations: ops, Warnings: []string{"it is old"},
		Identity: coord.Identity{Files: []coord.IdentityFile{{Role: "launcher", Path: "/bin/" + string(id), SHA256: "00", Size: 1}}},
	}
}

func agent(id coord.AgentID) coord.Agent {
	return coord.Agent{ID: id, Name: string(id), Route: coord.RouteACP, Host: "here", Enabled: true, Revision: 3,
		Config: coord.AgentConfig{Route: coord.RouteACP, Executable: "/bin/" + string(id)}}
}

// world is a planner on a real journal.
type world struct {
	*planning.Planner
	journal *journal.Journal
	agents  *agents
	data    string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	now := coord.Moment{Wall: time.Unix(1e9, 0).UTC(), BootID: "boot", Boot: time.Hour, Awake: time.Hour}
	data := filepath.Join(realDir(t), "data")
	j, err := journal.Open(t.Context(), journal.Options{
		Dir: data, Clock: func() coord.Moment { return now }, Redact: redact.New().String, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	a := &agents{known: map[coord.AgentID]coord.Agent{}, unusable: map[coord.AgentID]error{}}
	for _, id := range []coord.AgentID{"codex", "goose"} {
		a.known[id] = agent(id)
	}
	return &world{planning.New(j, a, planning.Options{DataDir: data}), j, a, data}
}

// realDir is a temporary folder by its real path.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func task(key string, needs ...string) coord.PlanTask {
	return coord.PlanTask{Key: key, Agent: "codex", Instruction: "Do " + key, Needs: needs}
}

func plan(tasks ...coord.PlanTask) coord.Plan { return coord.Plan{Title: "A job", Tasks: tasks} }

func (w *world) draft(t *testing.T, p coord.Plan) coord.Job {
	t.Helper()
	j, err := w.Draft(t.Context(), p, operator)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func number(j coord.Job) coord.JobRef { return coord.JobRef{Number: j.Number} }

// faults gives the pointers of an error's fields, sorted.
func faults(t *testing.T, err error, code coord.Code) []string {
	t.Helper()
	if coord.CodeOf(err) != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
	var out []string
	if e, ok := errors.AsType[*coord.Error](err); ok {
		for _, f := range e.Fields {
			out = append(out, f.Pointer)
		}
	}
	slices.Sort(out)
	return out
}

func TestDraftKeepsTheCompletedPlanAsAJob(t *testing.T) {
	w := newWorld(t)
	j := w.draft(t, coord.Plan{Tasks: []coord.PlanTask{{Agent: "codex", Instruction: "Look around"}}})
	if j.Number != 1 || j.Revision != 1 || j.State != coord.JobDraft || j.Title != "Look around" || j.Plan.Tasks[0].Key != "task-1" {
		t.Errorf("drafted %+v", j)
	}
	if _, err := w.Draft(t.Context(), plan(task("a")), reader); coord.CodeOf(err) != coord.Forbidden {
		t.Errorf("a reader drafted: %v", err)
	}
}

func TestEveryFaultOfAPlanIsToldAtOnce(t *testing.T) {
	w := newWorld(t)
	dir := realDir(t)
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	gone, off, weak := agent("gone"), agent("off"), agent("weak")
	gone.Removed, off.Enabled = true, false
	weak.Inspection = inspection("weak", 3, coord.Research)
	w.agents.known["gone"], w.agents.known["off"], w.agents.known["weak"] = gone, off, weak
	in := func(key string, a coord.AgentID, dir string) coord.PlanTask {
		return coord.PlanTask{Key: key, Agent: a, Instruction: "x", Workspace: dir, Operations: []coord.Operation{coord.Research, coord.Read}}
	}
	p := plan(
		in("unknown", "nobody", dir), in("removed", "gone", dir), in("disabled", "off", dir), in("weak", "weak", dir),
		in("missing", "codex", dir+"/none"), in("file", "codex", file), in("link", "codex", link), in("root", "codex", "/"),
		in("data", "codex", w.data), in("above", "codex", filepath.Dir(w.data)), in("inside", "codex", filepath.Join(w.data, "artifacts")),
		task("circle", "circle2"), task("circle2", "circle"),
	)
	p.Tasks[12].Inputs = []coord.Input{{Key: "forged", Text: "trust me"}}
	if err := os.MkdirAll(filepath.Join(w.data, "artifacts"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := w.Validate(t.Context(), p)
	want := []string{
		"/tasks/0/agent", "/tasks/1/agent", "/tasks/10/workspace", "/tasks/11/needs", "/tasks/12/inputs", "/tasks/2/agent",
		"/tasks/3/operations/1", "/tasks/4/workspace", "/tasks/5/workspace", "/tasks/6/workspace", "/tasks/7/workspace",
		"/tasks/8/workspace", "/tasks/9/workspace",
	}
	if diff := cmp.Diff(want, faults(t, err, coord.Invalid)); diff != "" {
		t.Errorf("%v\n(-want +got):\n%s", err, diff)
	}
	if w.agents.usable != 0 {
		t.Error("validating inspected an agent")
	}
}

func TestRevisionReplacesThePlanAndTheFrozenOne(t *testing.T) {
	w := newWorld(t)
	j := w.draft(t, plan(task("a")))
	if _, err := w.Freeze(t.Context(), number(j), operator); err != nil {
		t.Fatal(err)
	}
	got, err := w.Revise(t.Context(), number(j), 1, plan(task("b")), operator)
	if err != nil || got.Revision != 2 || got.Frozen != nil || got.Plan.Tasks[0].Key != "b" {
		t.Fatalf("revised to %+v, %v", got, err)
	}
	if _, err := w.Revise(t.Context(), number(j), 1, plan(task("c")), operator); coord.CodeOf(err) != coord.Stale {
		t.Errorf("an old revision gave %v", err)
	}
	if _, err := w.Revise(t.Context(), coord.JobRef{Number: 9}, 1, plan(task("c")), operator); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("no job gave %v", err)
	}
}

func TestDiscardedDraftIsOver(t *testing.T) {
	w := newWorld(t)
	j := w.draft(t, plan(task("a")))
	for range 2 {
		got, err := w.Discard(t.Context(), number(j), operator)
		if err != nil || got.State != coord.JobCancelled {
			t.Errorf("discarding gave %s, %v", got.State, err)
		}
	}
	if _, err := w.Revise(t.Context(), number(j), 1, plan(task("b")), operator); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("revising gave %v", err)
	}
	if _, err := w.Freeze(t.Context(), number(j), operator); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("freezing gave %v", err)
	}
}

func TestAJobThatIsNoDraftIsNotDiscardedAndTheRemedyIsTrue(t *testing.T) {
	for state, want := range map[coord.JobState]string{
		coord.JobRunning:   "job 1 is running: only a draft is discarded; stop it with signalbox job cancel 1",
		coord.JobAttention: "job 1 is needs_attention: only a draft is discarded; stop it with signalbox job cancel 1",
		coord.JobCompleted: "job 1 is completed: only a draft is discarded, and what ran stays on record",
		coord.JobFailed:    "job 1 is failed: only a draft is discarded, and what ran stays on record",
		coord.JobCancelled: "job 1 is cancelled: only a draft is discarded, and what ran stays on record",
	} {
		t.Run(string(state), func(t *testing.T) {
			w := newWorld(t)
			j := w.draft(t, plan(task("a")))
			if err := w.journal.Update(t.Context(), func(tx *journal.Tx) error {
				j, err := tx.Job(number(j))
				if err != nil {
					return err
				}
				now := tx.Now()
				j.State, j.Started = state, &now
				return tx.PutJob(j, nil)
			}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Discard(t.Context(), number(j), operator); coord.CodeOf(err) != coord.Conflict || err.Error() != want {
				t.Errorf("discarding gave %v, want %s", err, want)
			}
		})
	}
}

func TestFreezingNamesExactlyWhatRuns(t *testing.T) {
	w := newWorld(t)
	dir := realDir(t)
	p := plan(task("a"), task("b", "a"))
	p.Tasks[1].Agent, p.Tasks[1].Workspace, p.Tasks[1].Operations = "goose", dir, []coord.Operation{coord.Read, coord.Write}
	j := w.draft(t, p)
	first, err := w.Freeze(t.Context(), number(j), operator)
	if err != nil {
		t.Fatal(err)
	}
	f := first.Frozen
	if len(f.Digest) != 64 || len(f.Tasks) != 2 || f.Tasks[0].Revision != 3 || f.Tasks[0].Config.Executable != "/bin/codex" || f.Tasks[0].Host != "here" {
		t.Errorf("frozen %+v", f)
	}
	if f.Tasks[1].Space == nil || f.Tasks[1].Space.Path != dir || f.Tasks[1].Space.Inode == 0 || f.Tasks[0].Space != nil {
		t.Errorf("workspaces %+v, %+v", f.Tasks[0].Space, f.Tasks[1].Space)
	}
	want := []string{
		"agent codex: it is old",
		"agent codex: its own tools are not confined; what it does without asking, Signalbox cannot stop",
		"agent goose: it is old",
		"agent goose: its own tools are not confined; what it does without asking, Signalbox cannot stop",
		"task b: the workspace is not in git, so changes cannot be compared with a commit",
	}
	if diff := cmp.Diff(want, f.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	again, err := w.Freeze(t.Context(), number(j), operator)
	if err != nil || again.Frozen.Digest != f.Digest {
		t.Errorf("freezing again gave %s, %v; want %s", again.Frozen.Digest, err, f.Digest)
	}
	changed := agent("goose")
	changed.Revision = 4
	w.agents.known["goose"] = changed
	other, err := w.Freeze(t.Context(), number(j), operator)
	if err != nil || other.Frozen.Digest == f.Digest {
		t.Errorf("another revision froze to the same digest (%v)", err)
	}
}

func TestFreezingTellsOfEveryAgentThatCannotBeUsed(t *testing.T) {
	w := newWorld(t)
	w.agents.known["weak"] = agent("weak")
	j := w.draft(t, plan(task("a"), coord.PlanTask{Key: "b", Agent: "goose", Instruction: "x"},
		coord.PlanTask{Key: "c", Agent: "weak", Instruction: "x"}, coord.PlanTask{Key: "d", Agent: "goose", Instruction: "x"}))
	weak := agent("weak")
	weak.Inspection = inspection("weak", 3, coord.Read)
	w.agents.unusable["codex"] = coord.Errorf(coord.Conflict, "log in")
	w.agents.unusable["goose"] = coord.Errorf(coord.Conflict, "not there")
	w.agents.onUse = func() {
		w.agents.mu.Lock()
		defer w.agents.mu.Unlock()
		w.agents.known["weak"] = weak // what the inspection finds
	}
	_, err := w.Freeze(t.Context(), number(j), operator)
	if diff := cmp.Diff([]string{"/tasks/0/agent", "/tasks/1/agent", "/tasks/2/operations/0", "/tasks/3/agent"}, faults(t, err, coord.Conflict)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if w.agents.usable != 3 {
		t.Errorf("%d inspections of 3 agents", w.agents.usable)
	}
}

func TestRevisionDuringFreezingMakesItStale(t *testing.T) {
	w := newWorld(t)
	j := w.draft(t, plan(task("a")))
	w.agents.onUse = func() {
		if _, err := w.Revise(t.Context(), number(j), 1, plan(task("b")), operator); err != nil {
			t.Error(err)
		}
	}
	if _, err := w.Freeze(t.Context(), number(j), operator); coord.CodeOf(err) != coord.Stale {
		t.Errorf("got %v", err)
	}
}

func TestSecretInAnInstructionIsReplacedAndToldAtFreeze(t *testing.T) {
	w := newWorld(t)
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	p := plan(task("a"))
	p.Tasks[0].Instruction = "Push with " + secret
	j := w.draft(t, p)
	if strings.Contains(j.Plan.Tasks[0].Instruction, secret) {
		t.Error("the draft that is given back shows the secret")
	}
	got, err := w.Freeze(t.Context(), number(j), operator)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(got.Frozen.Warnings, func(s string) bool { return strings.Contains(s, "held a secret") }) {
		t.Errorf("warnings %v", got.Frozen.Warnings)
	}
}
