//go:build fault

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
)

// after gives a workspace after the first n calls of the script were carried
// out.
func (e edited) after(n int) map[string]string {
	out := maps.Clone(before)
	for _, c := range e.calls[:n] {
		if c.Name == "workspace_write" {
			var a struct {
				Path, Content, From string
				Delete              bool
			}
			_ = json.Unmarshal([]byte(c.Arguments), &a) // it is the script's own
			carry(out, a.Path, a.Content, a.From, a.Delete)
		}
	}
	return out
}

func carry(files map[string]string, path, content, from string, remove bool) {
	switch {
	case remove:
		delete(files, path)
	case from != "":
		files[path] = files[from]
		delete(files, from)
	default:
		files[path] = content
	}
}

// held is a workspace as a change set would leave it. The contents are those of
// the script, found by their hash.
func held(t *testing.T, e edited, c coord.ChangeSet) map[string]string {
	t.Helper()
	out := maps.Clone(before)
	known := map[string]string{}
	for n := range len(e.calls) + 1 {
		for _, content := range e.after(n) {
			known[hashOf(content)] = content
		}
	}
	for _, f := range c.Files {
		content, ok := known[f.After]
		if !ok && f.After != "" {
			t.Errorf("the change set holds %s with a content that nobody wrote", f.Path)
		}
		carry(out, f.Path, content, f.From, f.Kind == coord.FileDeleted)
	}
	return out
}

// checkStaged checks the change set that an attempt left: all that was answered
// is in it, and at most one call that was not.
func (r *swept) checkStaged(sets []coord.ChangeSet) {
	r.t.Helper()
	if diff := cmp.Diff(before, files(r.t, r.space)); diff != "" {
		r.t.Errorf("the workspace changed, and nothing was approved:\n%s", diff)
	}
	if len(sets) > 1 {
		r.t.Fatalf("one attempt left %d change sets", len(sets))
	}
	is := before
	if len(sets) == 1 {
		is = held(r.t, *r.edit, sets[0])
	}
	answered := len(r.shop.answers())
	var wanted []string
	for n := answered; n <= min(answered+1, len(r.edit.calls)); n++ {
		diff := cmp.Diff(r.edit.after(n), is)
		if diff == "" {
			return
		}
		wanted = append(wanted, diff)
	}
	r.t.Errorf("%d calls were answered, and the change set is another:\n%s", answered, strings.Join(wanted, "\nor\n"))
}

// checkEffect checks what became of an approved write or run of tests against
// the workspace.
func (r *swept) checkEffect(q coord.Request, now map[string]string) {
	r.t.Helper()
	switch {
	case q.Effect == coord.EffectApplying:
		r.t.Errorf("the effect of %q is applying when the job is over", q.Content.Title)
	case q.Decision != coord.DecisionApproved && q.Effect != coord.EffectVoid && q.Effect != coord.EffectNone:
		r.t.Errorf("%q is %s, and its effect is %s", q.Content.Title, q.Decision, q.Effect)
	case q.Kind == coord.RunTests:
		if r.name == underWay.name && q.Effect != coord.EffectUnknown {
			r.t.Errorf("the worker died while the tests ran, and their effect is %s", q.Effect)
		}
		if q.Effect == coord.EffectApplied && (q.Done == nil || q.Done.Report == nil || q.Done.Report.Outcome != coord.TestsPassed) {
			r.t.Errorf("the tests came to %+v", q.Done)
		}
		return
	}
	if q.Effect == coord.EffectNone || q.Effect == coord.EffectVoid {
		// Its steps were never begun.
		for path, content := range map[string]string{q.Change.Path: q.Change.Before, q.Change.From: q.Change.Before} {
			if path == q.Change.Path && q.Change.Kind == coord.FileRenamed {
				content = ""
			}
			if path != "" {
				r.holds(now, path, content, "the effect of "+q.Content.Title+" is "+string(q.Effect))
			}
		}
		return
	}
	r.checkSteps(q.Done.Steps, now)
	landed := !slices.ContainsFunc(q.Done.Steps, func(s coord.LandingStep) bool { return s.State != coord.StepLanded })
	if landed != (q.Effect == coord.EffectApplied) {
		r.t.Errorf("the effect of %q is %s, and its steps are %+v", q.Content.Title, q.Effect, q.Done.Steps)
	}
}

// checkSteps checks what is told of steps against the workspace.
func (r *swept) checkSteps(steps []coord.LandingStep, now map[string]string) {
	r.t.Helper()
	for _, s := range steps {
		what := fmt.Sprintf("the step %s %s is %s (%s)", s.Kind, s.Path, s.State, s.Note)
		switch s.State {
		case coord.StepLanded:
			if s.Path == r.victim && r.was == s.Before {
				r.t.Errorf("%s, and the file was as before when somebody else changed it", what)
			}
			r.holds(now, s.Path, s.After, what)
		case coord.StepFailed, coord.StepSkipped:
			r.holds(now, s.Path, s.Before, what)
		case coord.StepForeign:
			if s.Path != r.victim {
				r.t.Errorf("%s, and nobody touched it", what)
			}
		default:
			r.t.Errorf("%s when all is over", what)
		}
		if s.Path == r.victim && s.State == coord.StepFailed {
			r.t.Errorf("%s, and somebody else changed it", what)
		}
	}
}

// holds checks one path: hash is that of its content, "" for none.
func (r *swept) holds(now map[string]string, path, hash, why string) {
	r.t.Helper()
	content, there := now[path]
	if path != r.victim && (there != (hash != "") || there && hashOf(content) != hash) {
		r.t.Errorf("%s, and %s holds %q (%t)", why, path, content, there)
	}
}

// checkEdit checks the workspace and what is told of it, and gives what that is
// in few words.
func (r *swept) checkEdit(said *strings.Builder) {
	r.t.Helper()
	r.poll("no process of tests is left", func() bool { return len(r.shop.confined()) == 0 })
	now := files(r.t, r.space)
	sets, _, err := r.client.ChangeSets(r.ctx, 0, coord.MaxPage)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range sets {
		fmt.Fprintf(said, "\nc%d %s", c.Number, c.State)
		for _, s := range c.Steps {
			fmt.Fprintf(said, " [%s %s %s %s]", s.Kind, s.Path, s.State, s.Note)
		}
	}
	notes := said.String()
	if r.landing {
		r.checkLanding(sets[0], now)
	} else if r.edit.writes == coord.Staged {
		r.checkStaged(sets)
	}
	for _, q := range must[[]coord.Request](r.world, "requests")(r.client.JobRequests(r.ctx, r.ref)) {
		done, _ := json.Marshal(q.Done) // it came as JSON
		fmt.Fprintf(said, "\n%s %s %s", q.Content.Title, q.Effect, done)
		if q.Done != nil {
			notes += q.Done.Note
			for _, s := range q.Done.Steps {
				notes += s.Note
			}
		}
		if !r.landing {
			r.checkEffect(q, now)
		}
	}
	for path, content := range now {
		switch name := filepath.Base(path); {
		case strings.HasPrefix(name, ".signalbox-") && (r.victim == "" || !strings.Contains(notes, name)):
			r.t.Errorf("%s is left in the workspace", path)
		case path == r.victim && content != theirs:
			r.t.Errorf("what somebody else wrote to %s was overwritten by %q", path, content)
		}
	}
	if _, there := now[r.victim]; !there && r.was != "" {
		r.t.Errorf("what somebody else wrote to %s is gone", r.victim)
	}
	for path, content := range before {
		if strings.HasSuffix(path, "bystander.txt") && now[path] != content {
			r.t.Errorf("%s was changed", path)
		}
	}
}

// checkLanding checks a change set that was approved.
func (r *swept) checkLanding(c coord.ChangeSet, now map[string]string) {
	r.t.Helper()
	failed := slices.ContainsFunc(c.Steps, func(s coord.LandingStep) bool { return s.State != coord.StepLanded })
	switch c.State {
	case coord.ChangeSetLanded, coord.ChangeSetPartial:
		if (c.State == coord.ChangeSetPartial) != failed {
			r.t.Errorf("the change set is %s with the steps %+v", c.State, c.Steps)
		}
		r.checkSteps(c.Steps, now)
		if r.deaths == "" && failed {
			r.t.Errorf("nobody died, and the steps are %+v", c.Steps)
		}
	case coord.ChangeSetStale:
		want := maps.Clone(before)
		want[r.victim] = theirs
		if diff := cmp.Diff(want, now); r.victim == "" || diff != "" {
			r.t.Errorf("the change set is stale (%s), somebody changed %q, and the workspace is:\n%s", c.Comment, r.victim, diff)
		}
	default:
		r.t.Errorf("the change set is %s when all is over", c.State)
	}
}

// intrude is somebody else who writes between a death and the restart.
func (r *swept) intrude() error {
	path := filepath.Join(r.space, r.victim)
	b, err := os.ReadFile(path)
	if err == nil {
		r.was = hashOf(string(b))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(theirs), 0o644)
}

func hashOf(content string) string {
	b := sha256.Sum256([]byte(content))
	return hex.EncodeToString(b[:])
}
