package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/e2e/peers"
	"signalbox/internal/approval"
	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
)

// writes is the script of a model that writes files, given a word of the
// instruction.
func writes(match string, steps ...modelserver.Step) modelserver.Reply {
	return modelserver.Reply{Match: match, Answer: "Written.", Steps: steps}
}

// discards throws a change set away.
func (w *world) discards(d approval.Display) {
	w.t.Helper()
	must[coord.ChangeSet](w, "discard")(w.client.Review(w.ctx, string(d.ChangeSet.ID),
		approval.Review{Decision: coord.ChangeSetDiscard, Reason: "no", Digest: d.ChangeSet.Digest}))
}

func (w *world) changeSet(d approval.Display) coord.ChangeSet {
	w.t.Helper()
	return must[coord.ChangeSet](w, "change set")(w.client.ChangeSet(w.ctx, string(d.ChangeSet.ID)))
}

// holds checks the files of a folder.
func holds(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	if got := files(t, dir); !cmp.Equal(got, want) {
		t.Errorf("the files are others: %s", cmp.Diff(want, got))
	}
}

func TestAChangeSetOutlivesItsJobAndLandsInPartAfterARestart(t *testing.T) {
	w := newWorld(t)
	before := map[string]string{"a.txt": "a\n", "b.txt": "b\n", "old.txt": "text\n"}
	dir := repository(t, before)
	secret := "ghp_" + strings.Repeat("x1Y2", 9) + ".txt"
	m := w.codex("0.171.0", writes("Change", write("a.txt", "A\n"), write("b.txt", "B\n"), write("c/d.txt", "new\n"), write(secret, "fine\n"), remove(secret), rename("old.txt", "moved.txt")))
	ref := w.run(plan(edit("change", "codex", dir, "Change them.", coord.Write)))
	w.settles(ref, coord.JobCompleted)
	// A name that is never kept cannot land as it was written.
	if told := outputs(m); len(told) != 6 || !strings.Contains(told[3], "looks like a secret") || strings.Contains(told[4], "secret") {
		t.Errorf("the model was answered %q", told)
	}
	d := w.changes(ref)
	if len(d.Files) != 4 || d.Git.Head == "" || len(d.Notes) != 0 {
		t.Errorf("displayed: %+v", d)
	}

	// It needs neither the worker nor the front door that made it.
	if code, _, log := w.cli("stop"); code != 0 {
		t.Fatalf("stop exits with %d: %s", code, log)
	}
	w.again()
	holds(t, dir, before)
	again := w.display(d.ChangeSet)
	if diff := cmp.Diff(d.Files, again.Files); diff != "" || again.ChangeSet.State != coord.ChangeSetOpen {
		t.Errorf("after a restart it is %s: %s", again.ChangeSet.State, diff)
	}
	must[coord.ChangeSet](w, "comment")(w.client.Comment(w.ctx, string(d.ChangeSet.ID), "b stays"))
	review := approval.Review{Decision: coord.ChangeSetApprove, Digest: "0", Only: []string{"a.txt"}}
	if _, err := w.client.Review(w.ctx, string(d.ChangeSet.ID), review); coord.CodeOf(err) != coord.Stale {
		t.Errorf("another digest gives %v", err)
	}
	review = approval.Review{Decision: coord.ChangeSetApprove, Digest: d.ChangeSet.Digest, Only: []string{"z.txt"}}
	if _, err := w.client.Review(w.ctx, string(d.ChangeSet.ID), review); coord.CodeOf(err) != coord.Invalid {
		t.Errorf("a file that is not in it gives %v", err)
	}
	// A plan that was approved on top of all of it does not run on a part of it.
	one := edit("base", "codex", dir, "Go on.", coord.Write)
	one.Base = "c1"
	next := must[coord.Job](w, "draft")(w.client.Draft(w.ctx, plan(one)))
	next = must[coord.Job](w, "freeze")(w.client.Freeze(w.ctx, string(next.ID)))
	c := w.lands(d, "a.txt", "c/d.txt", "moved.txt")
	must[coord.Job](w, "run")(w.client.Run(w.ctx, string(next.ID), next.Frozen.Digest))
	w.settles(string(next.ID), coord.JobFailed)
	if a := w.attempt(string(next.ID), "base"); a.State != coord.AttemptNotSent || a.Cause != "stale" || !strings.Contains(a.Reason, `"b.txt" was left out`) {
		t.Errorf("the attempt on a base that changed is %s, %s: %s", a.State, a.Cause, a.Reason)
	}
	if c.State != coord.ChangeSetLanded || c.Verdicts["b.txt"] != coord.FileLeftOut || c.Verdicts["a.txt"] != coord.FileApproved || c.Comment != "b stays" {
		t.Errorf("it is %s, %v, %q", c.State, c.Verdicts, c.Comment)
	}
	holds(t, dir, map[string]string{"a.txt": "A\n", "b.txt": "b\n", "c/d.txt": "new\n", "moved.txt": "text\n"})
	review = approval.Review{Decision: coord.ChangeSetDiscard, Digest: d.ChangeSet.Digest}
	if _, err := w.client.Review(w.ctx, string(d.ChangeSet.ID), review); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("a second decision gives %v", err)
	}
}

func TestAChangeSetIsDiscardedOrFoundStaleAndLeavesTheFilesAlone(t *testing.T) {
	w := newWorld(t)
	before := map[string]string{"a.txt": "a\n", "b.txt": "b\n"}
	dir := repository(t, before)
	w.codex("0.171.0", writes("Change", write("a.txt", "A\n"), write("b.txt", "B\n")))
	p := plan(edit("change", "codex", dir, "Change them.", coord.Write))
	ref := w.run(p)
	w.settles(ref, coord.JobCompleted)
	d := w.changes(ref)
	w.discards(d)
	if c := w.changeSet(d); c.State != coord.ChangeSetDiscarded || c.Decided.Reason != "no" {
		t.Errorf("it is %s, %+v", c.State, c.Decided)
	}
	holds(t, dir, before)

	ref = w.run(p)
	w.settles(ref, coord.JobCompleted)
	put(t, dir, map[string]string{"b.txt": "somebody's\n"})
	d = w.changes(ref)
	if notes := strings.Join(d.Notes, "\n"); !strings.Contains(notes, "no longer fits") || !strings.Contains(notes, "b.txt") {
		t.Errorf("the notes are %q", d.Notes)
	}
	if c := w.lands(d); c.State != coord.ChangeSetStale || len(c.Steps) != 0 || !strings.Contains(c.Comment, "b.txt") {
		t.Errorf("it is %s, %q: %+v", c.State, c.Comment, c.Steps)
	}
	holds(t, dir, map[string]string{"a.txt": "a\n", "b.txt": "somebody's\n"})

	// What was changed to just that already is no fault.
	put(t, dir, map[string]string{"b.txt": "b\n"})
	ref = w.run(p)
	w.settles(ref, coord.JobCompleted)
	put(t, dir, map[string]string{"b.txt": "B\n"})
	if c := w.lands(w.changes(ref)); c.State != coord.ChangeSetLanded || len(c.Steps) != 1 {
		t.Errorf("it is %s: %+v", c.State, c.Steps)
	}
	holds(t, dir, map[string]string{"a.txt": "A\n", "b.txt": "B\n"})
}

func TestWorkGoesOnFromAChangeSetWhichItSupersedes(t *testing.T) {
	w := newWorld(t)
	dir := repository(t, map[string]string{"a.txt": "a\n"})
	m := w.codex("0.171.0",
		writes("shorter", read("b.txt"), write("a.txt", "A!\n")),
		writes("named in the plan", read("a.txt"), write("c.txt", "c\n")),
		writes("second part", read("b.txt"), write("c.txt", "on b\n")),
		writes("Change", write("a.txt", "A\n"), write("b.txt", "b\n")))

	ref := w.run(plan(edit("change", "codex", dir, "Change it.", coord.Write)))
	w.settles(ref, coord.JobCompleted)
	first := w.changes(ref)
	code, out, log := w.cli("again", ref, "-m", "Make it shorter.", "--json")
	if code != 13 {
		t.Fatalf("again exits with %d: %s %s", code, out, log)
	}
	var j coord.Job
	if err := json.Unmarshal([]byte(out), &j); err != nil || j.Frozen == nil || j.Frozen.Tasks[0].Base == nil {
		t.Fatalf("again gives %s (%v)", out, err)
	}
	must[coord.Job](w, "run")(w.client.Run(w.ctx, string(j.ID), j.Frozen.Digest))
	w.settles(string(j.ID), coord.JobCompleted)
	if told := outputs(m); len(told) != 2 || told[0] != "b\n" {
		t.Errorf("the follow-up found %q", told)
	}
	second := w.changes(string(j.ID))
	if second.ChangeSet.Parent != first.ChangeSet.ID || len(second.Files) != 2 {
		t.Errorf("the follow-up is %+v", second.ChangeSet)
	}
	if c := w.lands(second); c.State != coord.ChangeSetLanded {
		t.Errorf("it is %s: %+v", c.State, c.Steps)
	}
	if c := w.changeSet(first); c.State != coord.ChangeSetStale || !strings.Contains(c.Decided.Reason, "holds its changes") {
		t.Errorf("the first is %s, %+v", c.State, c.Decided)
	}
	holds(t, dir, map[string]string{"a.txt": "A!\n", "b.txt": "b\n"})

	// The base of a plan is named by its number, here of what has landed.
	one := edit("base", "codex", dir, "Go on, as named in the plan.", coord.Write)
	one.Base = "c2"
	ref = w.run(plan(one))
	w.settles(ref, coord.JobCompleted)
	if told := outputs(m); len(told) != 2 || told[0] != "A!\n" {
		t.Errorf("the work on a base found %q", told)
	}
	third := w.changes(ref)
	if third.ChangeSet.Parent != second.ChangeSet.ID || len(third.Files) != 1 {
		t.Errorf("what had landed is in it again: %+v", third.ChangeSet)
	}
	w.discards(third)
	one.Base = "c3"
	refused := must[coord.Job](w, "draft")(w.client.Draft(w.ctx, plan(one)))
	if _, err := w.client.Freeze(w.ctx, string(refused.ID)); coord.CodeOf(err) != coord.Invalid || !strings.Contains(fault(err), "discarded") {
		t.Errorf("a base that was discarded gives %v", err)
	}
}

// fault is an error with its fields.
func fault(err error) string {
	known, ok := errors.AsType[*coord.Error](err)
	if !ok {
		return ""
	}
	out := []string{known.Message}
	for _, f := range known.Fields {
		out = append(out, f.Pointer+" "+f.Message)
	}
	return strings.Join(out, "\n")
}

func TestADependantStartsFromTheChangesOfItsNeed(t *testing.T) {
	w := newWorld(t)
	dir := repository(t, map[string]string{"a.txt": "a\n"})
	m := w.codex("0.171.0",
		writes("second part", read("b.txt"), write("c.txt", "on b\n"), remove("b.txt")),
		writes("first part", write("a.txt", "A\n"), write("b.txt", "b\n")))
	second := edit("second", "codex", dir, "Do the second part.", coord.Write)
	second.Needs = []string{"first"}
	ref := w.run(plan(edit("first", "codex", dir, "Do the first part.", coord.Write), second))
	w.settles(ref, coord.JobCompleted)
	if told := outputs(m); len(told) != 3 || told[0] != "b\n" {
		t.Errorf("the second found %q", told)
	}
	id := w.job(ref).ID
	all, _, err := w.client.ChangeSets(w.ctx, 0, coord.MaxPage)
	if err != nil || len(all) != 2 || all[0].Key != "second" || all[0].Parent != all[1].ID || all[0].Job != id {
		t.Fatalf("the change sets are %+v (%v)", all, err)
	}
	// The second stands by itself, and holds the first.
	if c := w.lands(w.display(all[0])); c.State != coord.ChangeSetLanded {
		t.Errorf("it is %s: %+v", c.State, c.Steps)
	}
	holds(t, dir, map[string]string{"a.txt": "A\n", "c.txt": "on b\n"})
	if c := w.changeSet(w.display(all[1])); c.State != coord.ChangeSetStale {
		t.Errorf("the first is %s", c.State)
	}
}

func TestEditsAreOfferedOnlyWhileACertificateHolds(t *testing.T) {
	// The only program that runs tests, to be exchanged by the test.
	place := t.TempDir()
	bun := filepath.Join(place, "bun")
	copyFile(t, peers.Bun(t), bun)
	w := newWorld(t, "PATH="+place)
	dir := repository(t, map[string]string{"a.test.ts": passing})
	m, url := model(t, modelserver.Options{Script: []modelserver.Reply{writes("Change", write("a.txt", "A\n"))}})
	home := codexHome(t, url)
	w.register("codex", coord.AgentConfig{Route: coord.RouteCodex, Executable: peers.Codex(t, "0.171.0"), Env: map[string]string{"CODEX_HOME": home, "HOME": home}})
	one := edit("change", "codex", dir, "Change it.", coord.Write, coord.Test)
	one.Tests = []string{"a.test.ts"}

	_, err := w.client.Draft(w.ctx, plan(one))
	if coord.CodeOf(err) != coord.Invalid || strings.Count(fault(err), "signalbox sandbox certify") != 2 {
		t.Errorf("without a certificate: %v\n%s", err, fault(err))
	}

	w.certify()
	j := must[coord.Job](w, "draft")(w.client.Draft(w.ctx, plan(one)))
	j = must[coord.Job](w, "freeze")(w.client.Freeze(w.ctx, string(j.ID)))
	f, err := os.OpenFile(bun, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString("changed")
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	must[coord.Job](w, "run")(w.client.Run(w.ctx, string(j.ID), j.Frozen.Digest))
	ref := string(j.ID)
	w.settles(ref, coord.JobFailed)
	a := w.attempt(ref, "change")
	if a.State != coord.AttemptNotSent || a.Cause != "stale" || !strings.Contains(a.Reason, "certify") || !strings.Contains(a.Reason, bun) {
		t.Errorf("the attempt is %s, %s: %s", a.State, a.Cause, a.Reason)
	}
	if n := m.Count(); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	for _, s := range must[[]standing](w, "certificates")(w.client.Certificates(w.ctx)) {
		covers := strings.Contains(s.Void, bun)
		if has := len(s.Certificate.Facts.Files) > 0 && s.Certificate.Facts.Files[len(s.Certificate.Facts.Files)-1].Role == coord.FileRunner; has != covers {
			t.Errorf("the certificate for %+v is void: %q", s.Certificate.Facts.Files, s.Void)
		}
	}
}
