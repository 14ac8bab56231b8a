package planning_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
)

func TestWorkspaceThatAnAgentMayChangeByItselfIsRefused(t *testing.T) {
	w := newWorld(t)
	dir := realDir(t)
	for _, name := range []string{"state/below", "state2"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	a := w.agents.known["codex"]
	a.Config.State = []string{filepath.Join(dir, "state")}
	w.agents.known["codex"] = a
	for name, refused := range map[string]bool{"": true, "state": true, "state/below": true, "state2": false} {
		one := task("fix")
		one.Workspace, one.Operations = filepath.Join(dir, name), []coord.Operation{coord.Research}
		_, err := w.Validate(t.Context(), plan(one))
		if !refused {
			if err != nil {
				t.Errorf("%q: %v", name, err)
			}
			continue
		}
		if diff := cmp.Diff([]string{"/tasks/0/workspace"}, faults(t, err, coord.Invalid)); diff != "" {
			t.Errorf("%q: %s", name, diff)
		}
	}
	// What it may do by itself is told before it is approved.
	one := task("fix")
	one.Workspace, one.Operations = filepath.Join(dir, "state2"), []coord.Operation{coord.Research}
	j, err := w.Freeze(t.Context(), number(w.draft(t, plan(one))), operator)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(j.Frozen.Warnings, func(s string) bool { return strings.Contains(s, "it may write only to its own state: "+dir+"/state") }) {
		t.Errorf("the warnings are %q", j.Frozen.Warnings)
	}
}

func TestWorkspaceOfAnAgentThatWorksElsewhereIsRefused(t *testing.T) {
	w := newWorld(t)
	dir := realDir(t)
	for route, refused := range map[coord.Route]bool{coord.RouteACP: false, coord.RouteCodex: false, coord.RouteA2A: true, coord.RouteTincan: true} {
		a := w.agents.known["codex"]
		a.Route = route
		w.agents.known["codex"] = a
		one := task("fix")
		one.Workspace, one.Operations = dir, []coord.Operation{coord.Research}
		_, err := w.Validate(t.Context(), plan(one))
		if !refused {
			if err != nil {
				t.Errorf("%s: %v", route, err)
			}
			continue
		}
		if diff := cmp.Diff([]string{"/tasks/0/workspace"}, faults(t, err, coord.Invalid)); diff != "" {
			t.Errorf("%s: %s", route, diff)
		}
	}
}
