package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
	"signalbox/internal/workspace/workspacetest"
)

// step gives one that turns before into after at a path, "" for no file.
func step(t *testing.T, store workspace.Store, path, before, after string) coord.LandingStep {
	t.Helper()
	s := coord.LandingStep{Kind: coord.StepReplace, Path: path, Temp: ".signalbox-test-1"}
	if before == "" {
		s.Kind = coord.StepCreate
	} else {
		s.Before, s.BeforeMode = workspace.Sum([]byte(before)), 0o644
	}
	if after == "" {
		s.Kind = coord.StepRemove
	} else {
		sha, err := store.Put(t.Context(), []byte(after))
		if err != nil {
			t.Fatal(err)
		}
		s.After, s.Mode = sha, 0o644
	}
	return s
}

// names lists every file and folder below dir, with what files hold.
func names(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		switch {
		case err != nil || rel == ".":
		case d.Type().IsRegular():
			out[rel] = text(t, p)
		default:
			out[rel] = d.Type().String()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPlanCreatesFirstAndRemovesLast(t *testing.T) {
	got := workspace.PlanLanding("01X", []coord.FileChange{
		{Path: "a", Kind: coord.FileDeleted, Before: "1", BeforeMode: 0o644},
		{Path: "b", Kind: coord.FileChanged, Before: "2", After: "3", BeforeMode: 0o600, Mode: 0o600},
		{Path: "c", Kind: coord.FileRenamed, From: "old", Before: "4", After: "5", BeforeMode: 0o755, Mode: 0o755},
		{Path: "d", Kind: coord.FileNew, After: "6", Mode: 0o644},
	})
	want := []coord.LandingStep{
		{Kind: coord.StepCreate, Path: "c", After: "5", Mode: 0o755, Temp: ".signalbox-01X-1"},
		{Kind: coord.StepCreate, Path: "d", After: "6", Mode: 0o644, Temp: ".signalbox-01X-2"},
		{Kind: coord.StepReplace, Path: "b", Before: "2", After: "3", BeforeMode: 0o600, Mode: 0o600, Temp: ".signalbox-01X-3"},
		{Kind: coord.StepRemove, Path: "a", Before: "1", BeforeMode: 0o644, Temp: ".signalbox-01X-4"},
		{Kind: coord.StepRemove, Path: "old", Before: "4", BeforeMode: 0o755, Temp: ".signalbox-01X-5", Needs: "c"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestChangeSetLandsByteForByte(t *testing.T) {
	dir := tree(t, map[string]string{"keep": "k", "edit": "one\n", "run.sh": "old", "gone": "g", "src/old": "moved"})
	if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o750); err != nil {
		t.Fatal(err)
	}
	r, store := open(t, dir), &workspacetest.Contents{}
	if err := workspace.CanLand(r); err != nil {
		t.Fatal(err)
	}
	o, err := workspace.NewOverlay(t.Context(), r, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	write := func(p, content string) {
		t.Helper()
		if _, err := o.Write(t.Context(), p, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	write("edit", "two\r\n\x00\xff")
	write("run.sh", "new")
	write("deep/er/new", "")
	if _, err := o.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Rename(t.Context(), "src/old", "src/new"); err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	c := coord.ChangeSet{State: coord.ChangeSetOpen, Files: o.Changes()}
	c, err = c.Decide(coord.Review{On: coord.ChangeSetApprove})
	if err == nil {
		c, err = c.Land(workspace.PlanLanding("01X", c.Approved()))
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, names(t, dir)); diff != "" {
		t.Fatalf("something changed before landing:\n%s", diff)
	}
	for {
		next, i, open := c.NextStep()
		if !open {
			break
		}
		if c, err = next.Record(i, workspace.Apply(t.Context(), r, store, next.Steps[i])); err != nil {
			t.Fatal(err)
		}
	}
	if c.State != coord.ChangeSetLanded {
		t.Errorf("state %s, steps %+v", c.State, c.Steps)
	}
	if diff := cmp.Diff([]string{"deep", "deep/er"}, c.Steps[0].Made); diff != "" {
		t.Errorf("made folders (-want +got):\n%s", diff)
	}
	want := map[string]string{"keep": "k", "edit": "two\r\n\x00\xff", "run.sh": "new", "deep": "d---------", "deep/er": "d---------", "deep/er/new": "", "src": "d---------", "src/new": "moved"}
	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
	for name, mode := range map[string]os.FileMode{"run.sh": 0o750, "edit": 0o644, "deep/er/new": 0o644} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
	}
}

func TestWhatSomebodyElseChangedIsLeftAsItIs(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after string
		theirs        func(file string) error
		want          string
	}{
		"another content":       {"a", "b", func(f string) error { return os.WriteFile(f, []byte("theirs"), 0o644) }, "theirs"},
		"other permissions":     {"a", "b", func(f string) error { return os.Chmod(f, 0o600) }, "a"},
		"removed":               {"a", "b", os.Remove, ""},
		"a folder":              {"a", "b", func(f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o755)) }, "d---------"},
		"a link":                {"a", "b", func(f string) error { return errors.Join(os.Rename(f, f+"2"), os.Symlink("f2", f)) }, "L---------"},
		"a second name":         {"a", "b", func(f string) error { return os.Link(f, f+"2") }, "a"},
		"changed, to be gone":   {"a", "", func(f string) error { return os.WriteFile(f, []byte("theirs"), 0o644) }, "theirs"},
		"made, to be new":       {"", "b", func(f string) error { return os.WriteFile(f, []byte("theirs"), 0o644) }, "theirs"},
		"a dangling link":       {"", "b", func(f string) error { return os.Symlink("nowhere", f) }, "L---------"},
		"a folder, to be new":   {"", "b", func(f string) error { return os.Mkdir(f, 0o755) }, "d---------"},
		"larger than may be":    {"a", "b", func(f string) error { return os.Truncate(f, coord.MaxFile+1) }, "a" + strings.Repeat("\x00", coord.MaxFile)},
		"removed, to be gone":   {"a", "", os.Remove, ""},
		"the folder is removed": {"a", "b", func(f string) error { return os.RemoveAll(filepath.Dir(f)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, when := range []string{"before", "meanwhile"} {
				dir := tree(t, map[string]string{"d/": ""})
				file := filepath.Join(dir, "d", "f")
				if tc.before != "" {
					put(t, file, tc.before)
				}
				r, store := open(t, dir), &workspacetest.Contents{}
				s := step(t, store, "d/f", tc.before, tc.after)
				change := func() {
					if err := tc.theirs(file); err != nil {
						t.Error(err)
					}
				}
				if when == "before" {
					change()
				} else {
					// The step has looked at the file, and thinks it is fine.
					r.At(func(point string) {
						if point == workspace.Points[0] {
							change()
						}
					})
				}
				done := workspace.Apply(t.Context(), r, store, s)
				if done.State != coord.StepForeign && (done.State != coord.StepFailed || name != "the folder is removed") || done.Note == "" {
					t.Errorf("%s: %s, %q", when, done.State, done.Note)
				}
				got := names(t, dir)
				if got["d/f"] != tc.want {
					t.Errorf("%s: the path holds %q", when, got["d/f"])
				}
				for p := range got {
					if strings.Contains(p, ".signalbox-") {
						t.Errorf("%s: %s is left over", when, p)
					}
				}
			}
		})
	}
}

// The exchange is done, what came out is not what was to, and meanwhile
// somebody writes to the path once more: neither of theirs may be lost.
func TestDivergedStepKeepsBoth(t *testing.T) {
	for name, after := range map[string]string{"replace": "ours", "remove": ""} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, map[string]string{"f": "a"})
			file := filepath.Join(dir, "f")
			r, store := open(t, dir), &workspacetest.Contents{}
			r.At(func(point string) {
				switch point {
				case workspace.Points[0]:
					put(t, file, "first of theirs")
				case workspace.Points[2]:
					put(t, file, "second of theirs")
				}
			})
			s := step(t, store, "f", "a", after)
			done := workspace.Apply(t.Context(), r, store, s)
			want := map[string]string{"f": "second of theirs", s.Temp: "first of theirs"}
			if diff := cmp.Diff(want, names(t, dir)); diff != "" || done.State != coord.StepDiverged || !strings.Contains(done.Note, s.Temp) {
				t.Errorf("%s %q (-want +got):\n%s", done.State, done.Note, diff)
			}
			if sight, _, err := workspace.Look(r, s); sight != workspace.Foreign || err != nil {
				t.Errorf("looking gave %s, %v", sight, err)
			}
			if free, err := workspace.Tidy(t.Context(), r, store, s); free || err != nil {
				t.Errorf("tidying gave %t, %v", free, err)
			}
			if diff := cmp.Diff(want, names(t, dir)); diff != "" {
				t.Errorf("tidying lost something (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBusyEditorLosesNothing has an editor replace a file over and over, each
// time with content of its own, while steps land on it. Each content that was
// there last before a step must be found again or have been approved to go.
func TestBusyEditorLosesNothing(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"f": "base"})
	file := filepath.Join(dir, "f")
	r, store := open(t, dir), &workspacetest.Contents{}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, errOver)
	defer cancel()
	var editor sync.WaitGroup
	editor.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			next := filepath.Join(dir, "editor")
			if err := os.WriteFile(next, fmt.Appendf(nil, "theirs %d", i), 0o644); err != nil {
				t.Error(err)
			}
			if err := os.Rename(next, file); err != nil {
				t.Error(err)
			}
		}
	})
	states := map[coord.StepState]int{}
	for i := 0; ctx.Err() == nil; i++ {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := step(t, store, "f", string(b), fmt.Sprintf("ours %d", i))
		s.Temp = fmt.Sprintf(".signalbox-%d", i)
		done := workspace.Apply(ctx, r, store, s)
		states[done.State]++
		kept, err := os.ReadFile(filepath.Join(dir, s.Temp))
		switch {
		case done.State == coord.StepDiverged && (err != nil || !strings.HasPrefix(string(kept), "theirs")):
			t.Errorf("diverged, and %q, %v is kept", kept, err)
		case done.State != coord.StepDiverged && err == nil:
			t.Errorf("%s, and %q is left over", done.State, kept)
		}
	}
	editor.Wait()
	t.Log(states)
	if states[coord.StepForeign] == 0 {
		t.Error("the editor never came in between")
	}
}

func TestStepThatCannotBeDoneFailsAndLeavesNothing(t *testing.T) {
	dir := tree(t, map[string]string{"f": "a", "setuid": "a", "blocker": "a", "real/": ""})
	if err := os.Chmod(filepath.Join(dir, "setuid"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	r, store := open(t, dir), &workspacetest.Contents{}
	stopped, stop := context.WithCancelCause(t.Context())
	stop(errOver)
	change := func(edit func(*coord.LandingStep)) coord.LandingStep {
		s := step(t, store, "f", "a", "b")
		edit(&s)
		return s
	}
	for name, tc := range map[string]struct {
		ctx  context.Context
		step coord.LandingStep
	}{
		"a setuid program":     {t.Context(), change(func(s *coord.LandingStep) { s.Path, s.BeforeMode = "setuid", 0o755 })},
		"a denied path":        {t.Context(), change(func(s *coord.LandingStep) { s.Path = ".env" })},
		"a way out":            {t.Context(), change(func(s *coord.LandingStep) { s.Path = "../f" })},
		"a temporary way out":  {t.Context(), change(func(s *coord.LandingStep) { s.Temp = ".signalbox-/../../x" })},
		"a temporary name":     {t.Context(), change(func(s *coord.LandingStep) { s.Temp = "f" })},
		"no such content":      {t.Context(), change(func(s *coord.LandingStep) { s.After = workspace.Sum(nil) })},
		"no such kind":         {t.Context(), change(func(s *coord.LandingStep) { s.Kind = "other" })},
		"below a file":         {t.Context(), step(t, store, "blocker/new/f", "", "b")},
		"below a link":         {t.Context(), step(t, store, "link/new/f", "", "b")},
		"stopped":              {stopped, step(t, store, "f", "a", "b")},
		"stopped, to be new":   {stopped, step(t, store, "new/er/g", "", "b")},
		"stopped, to be gone":  {stopped, step(t, store, "f", "a", "")},
		"a damaged content":    {t.Context(), change(func(s *coord.LandingStep) { s.After = workspace.Sum([]byte("c")); store.Kept[s.After] = []byte("d") })},
		"gone to be something": {t.Context(), change(func(s *coord.LandingStep) { s.Path = ".git/config" })},
	} {
		if done := workspace.Apply(tc.ctx, r, store, tc.step); done.State != coord.StepFailed || done.Note == "" || len(done.Made) > 0 {
			t.Errorf("%s: %s, %q, made %v", name, done.State, done.Note, done.Made)
		}
		if diff := cmp.Diff(before, names(t, dir)); diff != "" {
			t.Errorf("%s changed the workspace:\n%s", name, diff)
		}
	}
}

func TestTemporaryNameThatIsTakenFailsTheStep(t *testing.T) {
	dir := tree(t, map[string]string{"f": "a", ".signalbox-test-1": "whose?"})
	r, store := open(t, dir), &workspacetest.Contents{}
	for _, after := range []string{"b", ""} {
		if done := workspace.Apply(t.Context(), r, store, step(t, store, "f", "a", after)); done.State != coord.StepFailed {
			t.Errorf("%s, %q", done.State, done.Note)
		}
	}
	if diff := cmp.Diff(map[string]string{"f": "a", ".signalbox-test-1": "whose?"}, names(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// Only root can give a file away, so only root can see this.
func TestOwnerOfAReplacedFileIsKept(t *testing.T) {
	dir := tree(t, map[string]string{"f": "a"})
	file := filepath.Join(dir, "f")
	owner := os.Getuid()
	if owner == 0 {
		owner = 4711
		if err := os.Chown(file, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	r, store := open(t, dir), &workspacetest.Contents{}
	if done := workspace.Apply(t.Context(), r, store, step(t, store, "f", "a", "b")); done.State != coord.StepLanded {
		t.Fatalf("%s, %q", done.State, done.Note)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != owner || text(t, file) != "b" {
		t.Errorf("the file belongs to %+v", sys)
	}
}
