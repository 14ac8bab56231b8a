package planning_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/planning"
	"signalbox/internal/workspace"
)

// writes is a task that may write in a folder.
func writes(key, dir string, needs ...string) coord.PlanTask {
	one := task(key, needs...)
	one.Operations, one.Workspace = []coord.Operation{coord.Read, coord.Write}, dir
	return one
}

// edited runs a job of one task that writes in a folder, and gives the change
// set that it leaves.
func (w *world) edited(t *testing.T, j coord.Job, ends map[string]string) []coord.ChangeSet {
	t.Helper()
	running := map[string]string{}
	for key := range ends {
		running[key] = "run"
	}
	w.run(t, j, running)
	var sets []coord.ChangeSet
	err := w.journal.Update(t.Context(), func(tx *journal.Tx) error {
		attempts, err := tx.Attempts(j.ID)
		if err != nil {
			return err
		}
		for _, a := range attempts {
			one := j.Plan.Tasks[slices.IndexFunc(j.Plan.Tasks, func(p coord.PlanTask) bool { return p.Key == a.Key })]
			base, _, err := workspace.Identify(one.Workspace)
			if err != nil {
				return err
			}
			file := coord.FileChange{Path: a.Key, Kind: coord.FileNew, After: workspace.Sum([]byte("new")), Mode: 0o644, Size: 3}
			if err := tx.Stage(coord.ChangeSet{Attempt: a.ID, Base: base, Files: []coord.FileChange{file}}); err != nil {
				return err
			}
			change := coord.Change{On: coord.AttemptComplete, Statement: &coord.Statement{Agent: a.Agent, By: "agent", Text: ends[a.Key]}}
			if ends[a.Key] == "fail" {
				change = coord.Change{On: coord.AttemptFail, Reason: "broke"}
			}
			if _, err := tx.MoveAttempt(a.ID, change); err != nil {
				return err
			}
		}
		sets, err = tx.JobChangeSets(j.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sets
}

// decide decides on a change set, as the operator does.
func (w *world) decide(t *testing.T, c coord.ChangeSet, on coord.ChangeSetEvent) {
	t.Helper()
	err := w.journal.Update(t.Context(), func(tx *journal.Tx) error {
		_, err := tx.DecideChangeSet(c.ID, coord.Review{On: on, By: operator})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFreezingBindsTheChangeSetThatATaskStartsFrom(t *testing.T) {
	dir, elsewhere := realDir(t), realDir(t)
	for name, c := range map[string]struct {
		base, workspace string
		decision        coord.ChangeSetEvent
		fault           string
	}{
		"an open one":           {"c1", dir, "", ""},
		"an approved one":       {"c1", dir, coord.ChangeSetApprove, ""},
		"a stale one":           {"c1", dir, coord.ChangeSetOutdate, ""},
		"a discarded one":       {"c1", dir, coord.ChangeSetDiscard, "was discarded"},
		"one of another folder": {"c1", elsewhere, "", "another workspace, " + dir},
		"one that is not there": {"c9", dir, "", "there is no such change set"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			set := w.edited(t, w.draft(t, plan(writes("first", dir))), map[string]string{"first": "done"})[0]
			if c.decision != "" {
				w.decide(t, set, c.decision)
			}
			next := writes("next", c.workspace)
			next.Base = c.base
			got, err := w.Freeze(t.Context(), number(w.draft(t, plan(task("other"), next))), operator)
			if c.fault == "" {
				// Nothing of it was left out, so this is the digest that was reviewed.
				want := &coord.FrozenBase{ChangeSet: set.ID, Digest: set.Digest}
				if err != nil || !cmp.Equal(got.Frozen.Tasks[1].Base, want) || got.Frozen.Tasks[0].Base != nil {
					t.Errorf("frozen %+v, %v", got.Frozen, err)
				}
				return
			}
			if at := faults(t, err, coord.Invalid); !slices.Equal(at, []string{"/tasks/1/base"}) {
				t.Errorf("the faults are at %q", at)
			}
			known, _ := errors.AsType[*coord.Error](err)
			if !strings.Contains(known.Fields[0].Message, c.fault) {
				t.Errorf("the fault is %q", known.Fields[0].Message)
			}
		})
	}
}

func TestTheDigestOfAPlanCoversWhatIsLeftOutOfItsBase(t *testing.T) {
	dir := realDir(t)
	w := newWorld(t)
	set := w.edited(t, w.draft(t, plan(writes("first", dir))), map[string]string{"first": "done"})[0]
	next := writes("next", dir)
	next.Base = "c1"
	freeze := func() coord.Frozen {
		j, err := w.Freeze(t.Context(), number(w.draft(t, plan(next))), operator)
		if err != nil {
			t.Fatal(err)
		}
		return *j.Frozen
	}
	open := freeze()
	w.decide(t, set, coord.ChangeSetApprove)
	if whole := freeze(); whole.Digest != open.Digest {
		t.Error("approving the base whole changed the digest, though the work starts from the same")
	}
	err := w.journal.Update(t.Context(), func(tx *journal.Tx) error {
		set.Verdicts = map[string]coord.Verdict{"first": coord.FileLeftOut}
		set.State = coord.ChangeSetLanded
		return tx.PutChangeSet(set, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	part := freeze()
	if base := part.Tasks[0].Base; part.Digest == open.Digest || !cmp.Equal(base.LeftOut, []string{"first"}) {
		t.Errorf("the base of which a file was left out is %+v", base)
	}
}

func TestAgainDraftsTheSameTasksOnTopOfWhatTheyChanged(t *testing.T) {
	dir := realDir(t)
	for name, c := range map[string]struct {
		end      string
		decision coord.ChangeSetEvent
		writes   coord.WriteMode
		base     string
		inputs   int
	}{
		"completed":            {"It is done", "", coord.Staged, "c1", 1},
		"failed":               {"fail", "", coord.Staged, "c1", 0},
		"approved":             {"It is done", coord.ChangeSetApprove, coord.Staged, "c1", 1},
		"discarded":            {"It is done", coord.ChangeSetDiscard, coord.Staged, "", 1},
		"each write asked for": {"It is done", "", coord.Each, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			one := writes("fix", dir)
			one.Writes, one.Instruction = c.writes, "Fix it\n"
			j := w.draft(t, plan(one))
			set := w.edited(t, j, map[string]string{"fix": c.end})[0]
			if c.decision != "" {
				w.decide(t, set, c.decision)
			}
			got, err := w.Again(t.Context(), number(j), "Keep the old name", operator)
			if err != nil {
				t.Fatal(err)
			}
			if got.ID == j.ID || got.State != coord.JobDraft || got.From == nil || got.From.How != "again" || got.From.Job != j.ID {
				t.Errorf("drafted %+v", got)
			}
			next := got.Plan.Tasks[0]
			if next.Base != c.base || next.Instruction != "Fix it\n\nKeep the old name" || len(next.Inputs) != c.inputs {
				t.Errorf("the task is %+v", next)
			}
			if _, err := w.Freeze(t.Context(), number(got), operator); err != nil {
				t.Errorf("it cannot be frozen: %v", err)
			}
		})
	}
}

func TestAgainChoosesForEachTaskTheNewestThatWasNotDiscarded(t *testing.T) {
	w := newWorld(t)
	one, two := realDir(t), realDir(t)
	w.agents.known["other"] = agent("other")
	second := writes("two", two)
	second.Agent = "other"
	first := w.draft(t, plan(writes("one", one), second))
	sets := w.edited(t, first, map[string]string{"one": "done", "two": "done"})
	w.decide(t, sets[0], coord.ChangeSetDiscard)
	got, err := w.Again(t.Context(), number(first), "Once more", operator)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := got.Plan.Tasks[0].Base, got.Plan.Tasks[1].Base; a != "" || b != fmt.Sprintf("c%d", sets[1].Number) {
		t.Errorf("the tasks start from %q and %q", a, b)
	}
}

func TestAgainIsRefusedWithoutAMessageAndWhereWorkCouldBeDoneTwice(t *testing.T) {
	for name, c := range map[string]struct {
		ends    map[string]string // nil for a draft
		message string
		by      coord.Actor
		code    coord.Code
	}{
		"no message":         {map[string]string{"a": "done"}, "", operator, coord.Invalid},
		"a blank message":    {map[string]string{"a": "done"}, " \n\t", operator, coord.Invalid},
		"no text":            {map[string]string{"a": "done"}, "more\xff", operator, coord.Invalid},
		"a reader":           {map[string]string{"a": "done"}, "more", reader, coord.Forbidden},
		"a draft":            {nil, "more", operator, coord.Conflict},
		"a running job":      {map[string]string{"a": "run"}, "more", operator, coord.Conflict},
		"an unknown outcome": {map[string]string{"a": "lose"}, "more", operator, coord.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			j := w.draft(t, plan(task("a")))
			if c.ends != nil {
				w.run(t, j, c.ends)
			}
			if _, err := w.Again(t.Context(), number(j), c.message, c.by); coord.CodeOf(err) != c.code {
				t.Errorf("it gave %v, want %s", err, c.code)
			}
		})
	}
	if _, err := newWorld(t).Again(t.Context(), coord.JobRef{Number: 9}, "more", operator); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("a job that is not there gave %v", err)
	}
}

// TestAgainKeepsAnInstructionWithinItsBound: what is added counts as well.
func TestAgainKeepsAnInstructionWithinItsBound(t *testing.T) {
	w := newWorld(t)
	j := w.draft(t, plan(task("a")))
	w.run(t, j, map[string]string{"a": "done"})
	if _, err := w.Again(t.Context(), number(j), strings.Repeat("x", coord.MaxInstruction), operator); coord.CodeOf(err) != coord.Invalid {
		t.Errorf("it gave %v", err)
	}
}

// proven is what certificates show in a test; asked counts how often, and tests
// are the files that it was asked for last.
type proven struct {
	can   []coord.Operation
	why   map[coord.Operation]string
	asked int
	tests []string
}

func (p *proven) Certified(_ context.Context, _ coord.Agent, tests []string) ([]coord.Operation, map[coord.Operation]string) {
	p.asked++
	p.tests = tests
	return p.can, p.why
}

func TestOperationsThatNoInspectionShowsNeedACertificate(t *testing.T) {
	dir := realDir(t)
	for name, c := range map[string]struct {
		certifier *proven // nil for none
		ops       []coord.Operation
		at        []string
		message   string
		asks      bool
	}{
		"it covers them":        {&proven{can: []coord.Operation{coord.Write, coord.Test}}, []coord.Operation{coord.Read, coord.Write, coord.Test}, nil, "", true},
		"it covers writing":     {&proven{can: []coord.Operation{coord.Write}, why: map[coord.Operation]string{coord.Test: "no runner"}}, []coord.Operation{coord.Read, coord.Write, coord.Test}, []string{"/tasks/0/operations/2"}, "it can: research, read, write; no runner", true},
		"it covers nothing":     {&proven{why: map[coord.Operation]string{coord.Write: "it is too old"}}, []coord.Operation{coord.Read, coord.Write}, []string{"/tasks/0/operations/1"}, "it is too old", true},
		"there is no certifier": {nil, []coord.Operation{coord.Read, coord.Write}, []string{"/tasks/0/operations/1"}, "it can: research, read", false},
		"nothing needs it":      {&proven{}, []coord.Operation{coord.Read}, nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			o := planning.Options{DataDir: w.data}
			if c.certifier != nil {
				o.Certifier = c.certifier
			}
			w.Planner = planning.New(w.journal, w.agents, o)
			one := writes("fix", dir)
			one.Operations = c.ops
			if slices.Contains(c.ops, coord.Test) {
				one.Tests = []string{"a.test.ts"}
			}
			// Before an inspection a draft is taken; freezing inspects.
			j := w.draft(t, plan(one))
			seen := agent("codex")
			seen.Inspection = inspection("codex", seen.Revision, coord.Research, coord.Read)
			w.agents.known["codex"] = seen
			_, drafting := w.Validate(t.Context(), plan(one))
			_, freezing := w.Freeze(t.Context(), number(j), operator)
			for _, err := range []error{drafting, freezing} {
				if c.at == nil {
					if err != nil {
						t.Errorf("it gave %v", err)
					}
					continue
				}
				if at := faults(t, err, coord.Invalid); !slices.Equal(at, c.at) {
					t.Errorf("the faults are at %q, want %q", at, c.at)
				}
				known, _ := errors.AsType[*coord.Error](err)
				if !strings.Contains(known.Fields[0].Message, c.message) {
					t.Errorf("the fault is %q", known.Fields[0].Message)
				}
			}
			if c.certifier != nil && ((c.certifier.asked > 0) != c.asks || c.asks && !slices.Equal(c.certifier.tests, one.Tests)) {
				t.Errorf("the certifier was asked %d times, for %q", c.certifier.asked, c.certifier.tests)
			}
		})
	}
}
