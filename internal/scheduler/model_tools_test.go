package scheduler

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/workspace"
	"signalbox/internal/workspace/workspacetest"
)

// numbered is a tester whose runs take time and nothing else. Each planned run
// has a number, by which those that were made are counted.
type numbered struct {
	mu      sync.Mutex
	planned int
	made    map[string]int
}

func (n *numbered) Plan(_ context.Context, _ coord.WorkspaceIdentity, _ []coord.FileChange, files []string) (coord.TestRun, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.planned++
	run := coord.TestRun{Runner: "go", Program: "/go", SHA256: digest("go"), Args: []string{strconv.Itoa(n.planned)}}
	for _, f := range files {
		run.Files = append(run.Files, coord.TestFile{Path: f, SHA256: digest(f)})
	}
	return run, nil
}

func (n *numbered) Run(ctx context.Context, _ coord.WorkspaceIdentity, _ []coord.FileChange, run coord.TestRun) (coord.TestReport, []byte, error) {
	n.mu.Lock()
	n.made[run.Args[0]]++
	n.mu.Unlock()
	number, err := strconv.Atoi(run.Args[0])
	if err != nil {
		return coord.TestReport{}, nil, err
	}
	takes := []time.Duration{time.Second, 20 * time.Second, 5 * time.Minute, 30 * time.Minute}[number/2%4]
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return coord.TestReport{Outcome: coord.TestsCancelled}, nil, nil
	}
	return []coord.TestReport{{Outcome: coord.TestsPassed, Passed: 1}, {Outcome: coord.TestsRefused}}[number%2], []byte("output"), nil
}

func (n *numbered) ran(run coord.TestRun) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.made[run.Args[0]]
}

// anything certifies every agent for everything.
type anything struct{}

func (anything) Certified(context.Context, coord.Agent, []string) ([]coord.Operation, map[coord.Operation]string) {
	return []coord.Operation{coord.Research, coord.Read, coord.Write, coord.Test}, nil
}

// tool gives the scheduler what tasks with tools need, and registers the agents,
// whose entries are looked at then.
func (m *model) tool() {
	space, _, err := workspace.Identify(m.scratch)
	if err != nil {
		m.t.Fatal(err)
	}
	m.space, m.tests = &space, &numbered{made: map[string]int{}}
	m.contents, m.tester, m.certifier = &workspacetest.Contents{}, m.tests, anything{}
}

// effectHolds checks what was done for a request.
func (m *model) effectHolds(before, r coord.Request) {
	if r.Kind != coord.RunTests {
		return
	}
	switch ran := m.tests.ran(*r.Test); {
	case ran > 1:
		m.t.Fatalf("the tests of r%d ran %d times", r.Number, ran)
	case ran == 1 && r.Decision != coord.DecisionApproved:
		m.t.Fatalf("the tests of r%d ran, which is %s", r.Number, r.Decision)
	case ran == 1 && (r.Effect == coord.EffectNone || r.Effect == coord.EffectVoid):
		m.t.Fatalf("the tests of r%d ran and its effect is %s", r.Number, r.Effect)
	case ran == 0 && r.Effect == coord.EffectApplied:
		m.t.Fatalf("the tests of r%d are done and never ran", r.Number)
	case before.ID != "" && coord.Effects.Final(before.Effect) && r.Effect != before.Effect:
		m.t.Fatalf("the effect of r%d was %s and is %s", r.Number, before.Effect, r.Effect)
	}
	if r.Effect != before.Effect {
		m.done.saw(effectIs + string(r.Effect))
	}
}

// nothingIsHalfDone checks, when everything is over, that no effect is under way
// and that everything is kept that an agent was told is.
func (m *model) nothingIsHalfDone() {
	for _, id := range m.asked {
		if r := m.requested[id]; r.Effect == coord.EffectApplying || r.Undone() {
			m.t.Fatalf("r%d is over and its effect %s", r.Number, r.Effect)
		}
	}
	m.view(func(v *journal.View) error {
		kept := map[coord.AttemptID][]coord.FileChange{}
		for job := range m.jobs {
			sets, err := v.JobChangeSets(job)
			if err != nil {
				return err
			}
			for _, c := range sets {
				kept[c.Attempt] = append(kept[c.Attempt], c.Files...)
			}
		}
		for id := range m.attempts {
			for _, got := range m.fake.Answered(id) {
				if got.Name[0] != 'w' || got.Failed {
					continue
				}
				m.done.saw(writeKept)
				if !slices.ContainsFunc(kept[id], func(c coord.FileChange) bool { return c.Path == got.Name }) {
					m.t.Fatalf("%s was told that its write of %s is held back, and it is not kept", id, got.Name)
				}
			}
		}
		return nil
	})
}
