//go:build fault

package e2e

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
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
}

// death is one run of the sweep.
type death struct {
	scenario
	at string // as for SIGNALBOX_FAULT
}

// TestSweep kills Signalbox at every fault point that a job reaches. The runs
// without a death find the points, so a new one is swept, and one that no job
// reaches fails the test.
func TestSweep(t *testing.T) {
	sweepAgent = filepath.Join(t.TempDir(), "sweepagent")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", sweepAgent, "signalbox/e2e/sweepagent").CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, out)
	}
	began := time.Now()
	var mu sync.Mutex
	var deaths []death
	hit := map[string]bool{}
	t.Run("trace", func(t *testing.T) {
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				points, first := s.open(t, "").run()
				found := s.sweep(points, first)
				t.Logf("%d points hit, %d deaths", len(points), len(found))
				mu.Lock()
				defer mu.Unlock()
				deaths = append(deaths, found...)
				for _, p := range points {
					hit[p] = true
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	covered(t, hit)
	missed := 0
	t.Run("kill", func(t *testing.T) {
		for _, d := range deaths {
			t.Run(d.name+"/"+d.at, func(t *testing.T) {
				t.Parallel()
				r := d.open(t, d.at)
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
		if i < first {
			continue
		}
		out = append(out, death{s, name + ":" + strconv.Itoa(hits[name])})
		if s.name == "work" && !doors[name] && !strings.HasPrefix(name, "gate.") && !strings.HasPrefix(name, "door.") {
			doors[name] = true
			out = append(out, death{s, "parent@" + name + ":" + strconv.Itoa(hits[name])})
		}
	}
	return out
}

// covered checks that every fault point of the source was hit.
func covered(t *testing.T, hit map[string]bool) {
	t.Helper()
	wanted := map[string]*regexp.Regexp{}
	err := filepath.WalkDir("../internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if name, ok := pointOf(n); ok {
				wanted[path+": "+name] = regexp.MustCompile("^" + name + "$")
			}
			if k, ok := n.(*ast.ValueSpec); ok && path == filepath.Join("..", "internal", "provider", "provider.go") && k.Type != nil && fmt.Sprint(k.Type) == "EventKind" {
				kind, _ := strconv.Unquote(k.Values[0].(*ast.BasicLit).Value)
				for _, when := range []string{"before", "after"} {
					wanted["the event "+kind] = regexp.MustCompile("^" + regexp.QuoteMeta("event."+kind+"."+when) + "$")
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(wanted) < 30 {
		t.Errorf("only %d points were found in the source", len(wanted))
	}
	names := make([]string, 0, len(hit))
	for p := range hit {
		names = append(names, p)
	}
	for where, pattern := range wanted {
		if !slices.ContainsFunc(names, pattern.MatchString) {
			t.Errorf("no job of the sweep reaches the point of %s", where)
		}
	}
}

// pointOf gives the name in a call of fault.Point as a pattern.
func pointOf(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Point" || fmt.Sprint(f.X) != "fault" {
		return "", false
	}
	return patternOf(call.Args[0]), true
}

func patternOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		if err != nil {
			return ".+"
		}
		return regexp.QuoteMeta(s)
	case *ast.BinaryExpr:
		return patternOf(e.X) + patternOf(e.Y)
	}
	return ".+"
}
