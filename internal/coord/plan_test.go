package coord_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/coord"
)

func task(key string, needs ...string) coord.PlanTask {
	return coord.PlanTask{Key: key, Agent: "codex", Instruction: "Do " + key, Needs: needs}
}

func TestCompletedPlanHasEveryDefault(t *testing.T) {
	given := coord.Plan{Tasks: []coord.PlanTask{
		{Agent: "codex", Instruction: "\n  Fix the parser\nand more"},
		{Agent: "codex", Instruction: strings.Repeat("ä", 100), Operations: []coord.Operation{coord.Read, coord.Write}, Workspace: "/w"},
	}}
	got := given.Completed()
	want := coord.Plan{Title: "Fix the parser", Deadline: coord.Duration(coord.DefaultDeadline), Tasks: []coord.PlanTask{
		{Key: "task-1", Title: "Fix the parser", Agent: "codex", Operations: []coord.Operation{coord.Research}, Instruction: "\n  Fix the parser\nand more"},
		{Key: "task-2", Title: strings.Repeat("ä", 59) + "…", Agent: "codex", Operations: []coord.Operation{coord.Read, coord.Write},
			Workspace: "/w", Writes: coord.Staged, Instruction: strings.Repeat("ä", 100)},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if f := got.Validate(); f != nil {
		t.Errorf("the completed plan has faults: %v", f)
	}
	if given.Tasks[0].Key != "" {
		t.Error("completing changed the plan it was given")
	}
	if diff := cmp.Diff(got, got.Completed()); diff != "" {
		t.Errorf("completing twice differs:\n%s", diff)
	}
}

func TestEveryFaultOfAPlanIsToldAtOnceWithItsPlace(t *testing.T) {
	bad := coord.Plan{
		Title: strings.Repeat("x", coord.MaxTitle+1), Deadline: coord.Duration(3 * time.Hour), Limits: coord.Limits{Tokens: -1},
		Tasks: []coord.PlanTask{
			{Key: "Bad Key", Agent: "No Agent", Instruction: " ", Operations: []coord.Operation{"fly", coord.Read, coord.Read}, Workspace: "rel/../x"},
			{Key: "b", Agent: "", Instruction: strings.Repeat("x", coord.MaxInstruction+1), Operations: []coord.Operation{coord.Write}, Writes: "both"},
			{Key: "b", Agent: "codex", Instruction: "\xff", Writes: coord.Each, Tests: []string{"a"}, Needs: []string{"nobody", "b", "b"}},
			{Key: "c", Agent: "codex", Instruction: "x", Needs: []string{"d"}},
			{Key: "d", Agent: "codex", Instruction: "x", Needs: []string{"c"}, Operations: []coord.Operation{coord.Test}},
		},
	}
	var got []string
	for _, f := range bad.Validate() {
		got = append(got, f.Pointer)
	}
	want := []string{
		"/title", "/deadline", "/limits/tokens",
		"/tasks/0/key", "/tasks/0/agent", "/tasks/0/instruction", "/tasks/0/operations/0", "/tasks/0/operations/2", "/tasks/0/workspace",
		"/tasks/1/agent", "/tasks/1/instruction", "/tasks/1/workspace", "/tasks/1/writes",
		"/tasks/2/instruction", "/tasks/2/writes", "/tasks/2/tests", "/tasks/2/key",
		"/tasks/4/workspace",
		"/tasks/2/needs/0", "/tasks/2/needs/1", "/tasks/2/needs/2", "/tasks/3/needs",
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlanWithoutOrWithTooManyTasksIsRefused(t *testing.T) {
	if f := (coord.Plan{}).Completed().Validate(); len(f) != 1 || f[0].Pointer != "/tasks" {
		t.Errorf("no task: %v", f)
	}
	var many coord.Plan
	for i := range coord.MaxTasks + 1 {
		many.Tasks = append(many.Tasks, task(fmt.Sprintf("t%d", i)))
	}
	if f := many.Completed().Validate(); len(f) != 1 || f[0].Pointer != "/tasks" {
		t.Errorf("%d tasks: %v", len(many.Tasks), f)
	}
}

func TestWritersThatWouldMeetMustBeInOrder(t *testing.T) {
	writer := func(key, dir string, needs ...string) coord.PlanTask {
		one := task(key, needs...)
		one.Operations, one.Workspace = []coord.Operation{coord.Write}, dir
		return one
	}
	cases := []struct {
		name  string
		tasks []coord.PlanTask
		want  int
	}{
		{"the same folder", []coord.PlanTask{writer("a", "/w"), writer("b", "/w")}, 1},
		{"a folder within", []coord.PlanTask{writer("a", "/w"), writer("b", "/w/sub")}, 1},
		{"neighbours with a common beginning", []coord.PlanTask{writer("a", "/w"), writer("b", "/w2")}, 0},
		{"one after the other", []coord.PlanTask{writer("a", "/w"), writer("b", "/w", "a")}, 0},
		{"one after the other, through a third", []coord.PlanTask{writer("a", "/w"), task("m", "a"), writer("b", "/w", "m")}, 0},
		{"the later one listed first", []coord.PlanTask{writer("b", "/w", "a"), writer("a", "/w")}, 0},
	}
	for _, c := range cases {
		if f := (coord.Plan{Tasks: c.tasks}).Completed().Validate(); len(f) != c.want {
			t.Errorf("%s: %v, want %d faults", c.name, f, c.want)
		}
	}
}

// TestCyclesAreFoundExactlyWhereNoOrderExists compares with an independent
// judgement: a plan has an order if and only if tasks can be taken away one
// after the other, each with all its needs gone.
func TestCyclesAreFoundExactlyWhereNoOrderExists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "tasks")
		var plan coord.Plan
		for i := range n {
			needs := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, min(3, n), rapid.ID[int]).Draw(t, "needs")
			one := task(fmt.Sprintf("t%d", i))
			for _, j := range needs {
				if j != i {
					one.Needs = append(one.Needs, fmt.Sprintf("t%d", j))
				}
			}
			plan.Tasks = append(plan.Tasks, one)
		}
		circular := slices.ContainsFunc(plan.Completed().Validate(), func(f coord.Field) bool { return strings.Contains(f.Message, "circle") })
		if ordered := hasOrder(plan.Tasks); circular == ordered {
			t.Fatalf("an order exists: %t, a circle was told: %t", ordered, circular)
		}
	})
}

func hasOrder(tasks []coord.PlanTask) bool {
	gone := map[string]bool{}
	for range tasks {
		for _, one := range tasks {
			if !slices.ContainsFunc(one.Needs, func(n string) bool { return !gone[n] }) {
				gone[one.Key] = true
			}
		}
	}
	return len(gone) == len(tasks)
}

func TestDigestibleDependsOnContentAndNotOnTime(t *testing.T) {
	frozen := coord.Frozen{Plan: coord.Plan{Tasks: []coord.PlanTask{task("a")}}.Completed(), Warnings: []string{"w"}, At: at(1, 1, 0, "a")}
	later := frozen
	later.At, later.Warnings = at(2, 2, 0, "b"), nil
	other := frozen
	other.Plan.Title = "another"
	first, err := frozen.Digestible()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := later.Digestible(); err != nil || string(b) != string(first) {
		t.Errorf("time or warnings changed what is digested (%v)", err)
	}
	if b, err := other.Digestible(); err != nil || string(b) == string(first) {
		t.Errorf("another title is digested as the same (%v)", err)
	}
}

func TestDurationsAreWrittenAsPeopleWriteThem(t *testing.T) {
	for in, want := range map[string]string{"45m": "45m", "1h30m": "1h30m", "2h": "2h", "90s": "1m30s", "10m": "10m"} {
		var d coord.Duration
		if err := json.Unmarshal([]byte(`"`+in+`"`), &d); err != nil {
			t.Errorf("%s: %v", in, err)
		} else if d.String() != want {
			t.Errorf("%s is written %s, want %s", in, d, want)
		}
	}
	var d coord.Duration
	if err := json.Unmarshal([]byte(`"soon"`), &d); err == nil || strings.Contains(err.Error(), "soon") {
		t.Errorf("not a duration gave %v", err)
	}
}
