//go:build fault

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/internal/coord"
)

// sweepAgent is the program of the sweep's agents.
var sweepAgent string

// scenarios have, together, an event of each kind and a stop.
var scenarios = []scenario{
	{name: "work", tasks: []coord.PlanTask{task("first", "first", "work"), task("second", "second", "work on", "first")},
		modes: map[string]string{"first": "all", "second": "echo"}, ends: true},
	{name: "deny", tasks: []coord.PlanTask{task("ask", "ask", "ask")}, modes: map[string]string{"ask": "ask"}, deny: true, from: "event.request.after", ends: true},
	{name: "crash", tasks: []coord.PlanTask{task("crash", "crash", "crash")}, modes: map[string]string{"crash": "crash"}, from: "attempt.send.after"},
	{name: "stop", tasks: []coord.PlanTask{task("hold", "hold", "hold")}, modes: map[string]string{"hold": "hold"}, stop: true, from: "event.receipt.after"},
	{name: "orphan", tasks: []coord.PlanTask{task("orphan", "orphan", "stay"), task("after", "after", "go on", "orphan")},
		modes: map[string]string{"orphan": "orphan", "after": "echo"}, base: "event.text.after:1"},
	distant,
	{name: "staged", edit: &staged, from: "event.receipt.after", only: append([]string{"artifact."}, onlyEdits...), ends: true},
	{name: "each", edit: &each, from: "event.receipt.after", only: onlyEdits, ends: true},
}

// onlyEdits are the points of an edit, by how their names begin. Each death of
// Codex costs seconds, and the others are struck in the first scenario, with a
// cheaper agent; the commits lie between two of these.
var onlyEdits = []string{"event.call.", "event.end.", "effect.", "workspace.", "answer."}

// intruded are the points after whose death somebody else writes to a file, by
// how their names begin.
var intruded = []string{"effect.start.after", "effect.write.after", "workspace.", "landing."}

// landing lands what staged left, and needs no agent any more.
var landing = scenario{name: "landing", edit: &staged, landing: true, ends: true}

// underWay kills the worker while tests run, of which no point tells.
var underWay = scenario{name: "tests under way", edit: &slow}

// death is one run of the sweep.
type death struct {
	scenario
	at string // as for SIGNALBOX_FAULT
	// victim is a file that somebody else writes to before the restart.
	victim string
}

func (d death) String() string {
	if d.victim == "" {
		return d.name + "/" + d.at
	}
	return d.name + "/" + d.at + "/" + d.victim
}

// TestSweep kills Signalbox at every fault point that a job or a landing
// reaches. The runs without a death find the points, so a new one is swept, and
// one that nothing reaches fails the test. Those who edit are the real Codex,
// certified once, with a model on loopback that counts its turns.
func TestSweep(t *testing.T) {
	sweepAgent = filepath.Join(t.TempDir(), "sweepagent")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", sweepAgent, "signalbox/e2e/sweepagent").CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, out)
	}
	began := time.Now()
	outer := t
	t.Run("certify", func(t *testing.T) { t.Run("codex", func(t *testing.T) { cast(t, outer) }) })
	var mu sync.Mutex
	var deaths []death
	hit := map[string]bool{}
	trace := func(s scenario) func(*testing.T) {
		return func(t *testing.T) {
			r := s.open(t, outer, "")
			points, first := r.run()
			found := s.sweep(points, first)
			t.Logf("%d points hit, %d deaths", len(points), len(found))
			mu.Lock()
			defer mu.Unlock()
			deaths = append(deaths, found...)
			for _, p := range points {
				hit[p] = true
			}
		}
	}
	t.Run("trace", func(t *testing.T) {
		for _, s := range scenarios {
			t.Run(s.name, trace(s))
		}
		for i := range cap(reviewed) {
			t.Run(fmt.Sprint("write ", i), func(t *testing.T) { record(t, outer) })
		}
	})
	t.Run("trace of the", func(t *testing.T) { t.Run(landing.name, trace(landing)) })
	if t.Failed() {
		return
	}
	if certified.dir != "" { // where there is no Codex, nobody reaches the points of an edit
		covered(t, hit)
	}
	missed := 0
	t.Run("kill", func(t *testing.T) {
		t.Run(underWay.name, func(t *testing.T) { underWay.open(t, outer, "").run() })
		for _, d := range deaths {
			t.Run(d.String(), func(t *testing.T) {
				r := d.open(t, outer, d.at)
				r.victim = d.victim
				r.run()
				if !r.reached() {
					t.Logf("the point was not reached this time")
					mu.Lock()
					missed++
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d different points, %d deaths (%d not reached), %s", len(hit), len(deaths), missed, time.Since(began).Round(time.Second))
	// What is committed together depends on time, so that a run may have fewer
	// commits than the first one had.
	if missed*20 > len(deaths) {
		t.Errorf("%d of %d points were not reached again", missed, len(deaths))
	}
}

// sweep chooses the deaths of a scenario among the points of its trace: every
// hit from first on, and in the first scenario the front door's death at the
// first hit of each point in the worker.
func (s scenario) sweep(points []string, first int) []death {
	var out []death
	hits := map[string]int{}
	doors := map[string]bool{}
	for i, name := range points {
		hits[name]++
		if i < first || s.only != nil && !slices.ContainsFunc(s.only, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		at := name + ":" + strconv.Itoa(hits[name])
		out = append(out, death{scenario: s, at: at})
		if victims := s.victims(); len(victims) > 0 && slices.ContainsFunc(intruded, func(p string) bool { return strings.HasPrefix(name, p) }) {
			// The front door dies too, when it starts the next worker, so that there
			// is time in between.
			out = append(out, death{s, at + ",door.start.before:1", victims[len(out)/2%len(victims)]})
		}
		if s.name == "work" && !doors[name] && !strings.HasPrefix(name, "gate.") && !strings.HasPrefix(name, "door.") {
			doors[name] = true
			out = append(out, death{scenario: s, at: "parent@" + at})
		}
	}
	return out
}
