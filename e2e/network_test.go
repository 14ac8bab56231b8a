package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"signalbox/e2e/peers"
	"signalbox/internal/approval"
	"signalbox/internal/coord"
	"signalbox/internal/provider/tincan/tincantest"
)

// standIn builds the program that stands in for tincan, once.
var standIn = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "tincan")
	out, err := exec.Command("go", "build", "-o", path, "signalbox/e2e/tincanpeer").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the stand-in for tincan: %w\n%s", err, out)
	}
	return path, nil
})

// reach registers an agent as it is, a peer for one, and checks that it can be
// used.
func (w *world) reach(id string, cfg coord.AgentConfig) {
	w.t.Helper()
	must[coord.Agent](w, "add "+id)(w.client.AddAgent(w.ctx, id, cfg))
	a := must[coord.Agent](w, "inspect "+id)(w.client.InspectAgent(w.ctx, id))
	if a.Inspection == nil || a.Inspection.Problem != "" || len(a.Inspection.Identity.Files) == 0 {
		w.t.Fatalf("agent %s cannot be used: %+v", id, a.Inspection)
	}
}

// endpoint is how a peer on loopback is registered.
func endpoint(card, origin, version string) coord.AgentConfig {
	return coord.AgentConfig{Route: coord.RouteA2A, A2A: &coord.A2AConfig{Card: card, Origin: origin, Version: version, Private: true}}
}

// tincan is how the peer of the stand-in is registered, with a profile in dir.
func (w *world) tincan(dir string) coord.AgentConfig {
	w.t.Helper()
	program := must[string](w, "the stand-in")(standIn())
	profile := must[string](w, "the profile")(tincantest.Profile(dir, "me", "https://relay.example"))
	return coord.AgentConfig{Route: coord.RouteTincan, Executable: program, Tincan: &coord.TincanConfig{Peer: tincantest.DefaultPeer, Profile: profile, Dialect: "json"}}
}

// submitted gives what the stand-in's relay took.
func submitted(t *testing.T, dir string) []tincantest.Submission {
	t.Helper()
	all, err := tincantest.Submissions(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// begun gives the tasks of a job whose agent showed that it has the work.
func (w *world) begun(ref string) map[string]bool {
	w.t.Helper()
	keys := map[string]bool{}
	for _, a := range must[[]coord.Attempt](w, "attempts")(w.client.Attempts(w.ctx, ref)) {
		if a.Receipt != nil {
			keys[a.Key] = true
		}
	}
	return keys
}

// answer answers the open question of a task.
func (w *world) answer(ref, key, text string) coord.Request {
	w.t.Helper()
	r := w.asked(ref, key)
	if r.Kind != coord.Question {
		w.t.Fatalf("task %s/%s asks %+v", ref, key, r)
	}
	return must[coord.Request](w, "answer")(w.client.Decide(w.ctx, string(r.ID), approval.Decision{Decision: coord.DecisionAnswer, Answer: text, Digest: r.Digest}))
}

// TestPeersWorkWithLocalAgentsInOnePlan goes the whole way with the five real
// endpoints, a local agent and Tincan: what peers ask is answered in the same
// task, what they said goes on as data, a stop is theirs to confirm, and a dead
// worker costs nothing: each is asked once.
func TestPeersWorkWithLocalAgentsInOnePlan(t *testing.T) {
	w := newWorld(t)
	far := peers.A2AEndpoints(t)
	relay := t.TempDir()
	w.reach("desk", w.tincan(relay))
	w.scripted("local", "echo")
	keys := []string{}
	for _, p := range far {
		keys = append(keys, p.Name)
		w.reach(p.Name, endpoint(p.Card(), p.Origin, p.Version))
	}
	asked := map[string]int{} // by origin, as two endpoints may share one
	each := func(instruction string) (tasks []coord.PlanTask) {
		for _, p := range far {
			tasks = append(tasks, task(p.Name, p.Name, instruction))
			asked[p.Origin]++
		}
		return tasks
	}

	ref := w.run(plan(append(each("ask which colour"), task("desk", "desk", "go on", keys...), task("local", "local", "go on", "desk"))...))
	for _, p := range far {
		w.answer(ref, p.Name, "the red one")
	}
	w.settles(ref, coord.JobCompleted)
	for _, p := range far {
		if got := w.said(ref, p.Name, p.Name); !strings.Contains(got, "the red one") {
			t.Errorf("%s said %q", p.Name, got)
		}
	}
	if got := submitted(t, relay); len(got) != 1 || strings.Count(got[0].Body, "the red one") != len(far) {
		t.Errorf("what the peers said did not reach Tincan: %+v", got)
	}
	if got := w.said(ref, "local", "local"); !strings.Contains(got, "> "+w.said(ref, "desk", "desk")) {
		t.Errorf("what Tincan said did not reach the local agent: %q", got)
	}

	ref = w.run(plan(each("slow 3000")...))
	for _, p := range far {
		w.when(p.Name+" to have begun", func() bool { return w.begun(ref)[p.Name] })
		must[coord.Task](w, "cancel")(w.client.CancelTask(w.ctx, ref, p.Name))
	}
	w.settles(ref, coord.JobCancelled)
	for _, p := range far {
		if a := w.attempt(ref, p.Name); a.State != coord.AttemptCancelled || a.Cancel.State != coord.CancelConfirmed {
			t.Errorf("%s: the attempt is %s, the stop %s", p.Name, a.State, a.Cancel.State)
		}
	}

	ref = w.run(plan(append(each("slow 30"), task("desk", "desk", "go on"))...))
	w.when("four to have begun", func() bool { return len(w.begun(ref)) >= 4 })
	w.killWorker()
	w.settles(ref, coord.JobCompleted)
	for _, p := range far {
		got := strings.Fields(w.said(ref, p.Name, p.Name))
		for i := range 30 {
			if len(got) != 30 || got[i] != fmt.Sprintf("chunk%d", i) {
				t.Errorf("%s said %q", p.Name, got)
				break
			}
		}
		if n := p.Submissions(t); n != asked[p.Origin] {
			t.Errorf("%s was asked %d times, want %d", p.Name, n, asked[p.Origin])
		}
	}
	if n := len(submitted(t, relay)); n != 2 {
		t.Errorf("the peer of Tincan was asked %d times, want 2", n)
	}
}
