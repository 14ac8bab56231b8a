package approval_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/approval"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/workspace"
)

// folder is a workspace with files.
func folder(t *testing.T, files map[string]string) coord.WorkspaceIdentity {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	id, _, err := workspace.Identify(dir)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// changed has an attempt write files over a folder, on top of a change set, and
// end by an event. It gives the change set that this leaves.
func (w *world) changed(base coord.WorkspaceIdentity, parent coord.ChangeSet, files map[string]string, end coord.AttemptEvent) coord.ChangeSet {
	w.t.Helper()
	root, err := workspace.Open(base)
	if err != nil {
		w.t.Fatal(err)
	}
	defer root.Close()
	staged, err := workspace.NewOverlay(w.t.Context(), root, w.contents, parent.Files)
	if err != nil {
		w.t.Fatal(err)
	}
	for name, content := range files {
		if _, err := staged.Write(w.t.Context(), name, []byte(content)); err != nil {
			w.t.Fatal(err)
		}
	}
	j := w.running(task("write"))
	a := w.dispatch(j, "write", sent...)
	w.do(func(tx *journal.Tx) error {
		if err := tx.Stage(coord.ChangeSet{Attempt: a.ID, Base: base, Parent: parent.ID, Files: staged.Changes()}); err != nil {
			return err
		}
		_, err := tx.MoveAttempt(a.ID, coord.Change{On: end, Reason: "it ended"})
		return err
	})
	var sets []coord.ChangeSet
	w.do(func(tx *journal.Tx) (err error) {
		sets, err = tx.JobChangeSets(j.ID)
		return err
	})
	if len(sets) != 1 {
		w.t.Fatalf("the attempt left %d change sets", len(sets))
	}
	return sets[0]
}

func (w *world) set(id coord.ChangeSetID) (c coord.ChangeSet) {
	w.t.Helper()
	w.do(func(tx *journal.Tx) (err error) {
		c, err = tx.ChangeSet(coord.ChangeSetRef{ID: id})
		return err
	})
	return c
}

func setRef(c coord.ChangeSet) coord.ChangeSetRef { return coord.ChangeSetRef{Number: c.Number} }

func TestTheFirstReviewOfAChangeSetStands(t *testing.T) {
	for name, c := range map[string]struct {
		review approval.Review
		by     coord.Actor
		code   coord.Code
		state  coord.ChangeSetState
		want   map[string]coord.Verdict
	}{
		"approved whole": {review: approval.Review{Decision: coord.ChangeSetApprove, Reason: "good"}, state: coord.ChangeSetApproved,
			want: map[string]coord.Verdict{"a": coord.FileApproved, "b": coord.FileApproved}},
		"some files": {review: approval.Review{Decision: coord.ChangeSetApprove, Only: []string{"b"}}, state: coord.ChangeSetApproved,
			want: map[string]coord.Verdict{"a": coord.FileLeftOut, "b": coord.FileApproved}},
		"discarded":                    {review: approval.Review{Decision: coord.ChangeSetDiscard}, state: coord.ChangeSetDiscarded},
		"by a drafter":                 {review: approval.Review{Decision: coord.ChangeSetApprove}, by: drafter, code: coord.Forbidden},
		"no decision":                  {review: approval.Review{}, code: coord.Invalid},
		"a landing":                    {review: approval.Review{Decision: coord.ChangeSetLand}, code: coord.Invalid},
		"outdating":                    {review: approval.Review{Decision: coord.ChangeSetOutdate}, code: coord.Invalid},
		"a file that is not in it":     {review: approval.Review{Decision: coord.ChangeSetApprove, Only: []string{"a", "c"}}, code: coord.Invalid},
		"files with a discard":         {review: approval.Review{Decision: coord.ChangeSetDiscard, Only: []string{"a"}}, code: coord.Invalid},
		"more files than there can be": {review: approval.Review{Decision: coord.ChangeSetApprove, Only: slices.Repeat([]string{"a"}, coord.MaxChanges+1)}, code: coord.Invalid},
		"a reason of no text":          {review: approval.Review{Decision: coord.ChangeSetDiscard, Reason: "\xff"}, code: coord.Invalid},
		"a reason without end":         {review: approval.Review{Decision: coord.ChangeSetDiscard, Reason: strings.Repeat("x", coord.MaxReason+1)}, code: coord.Invalid},
		"another digest":               {review: approval.Review{Decision: coord.ChangeSetApprove, Digest: "other"}, code: coord.Stale},
		"no digest":                    {review: approval.Review{Decision: coord.ChangeSetApprove, Digest: "none"}, code: coord.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			set := w.changed(folder(t, map[string]string{"a": "a"}), coord.ChangeSet{}, map[string]string{"a": "x", "b": "y"}, coord.AttemptComplete)
			switch c.review.Digest {
			case "":
				c.review.Digest = set.Digest
			case "none":
				c.review.Digest = ""
			}
			if c.by == (coord.Actor{}) {
				c.by = ada
			}
			got, err := w.Review(t.Context(), setRef(set), c.review, c.by)
			if coord.CodeOf(err) != c.code {
				t.Fatalf("it gave %v, want %q", err, c.code)
			}
			if err != nil {
				if after := w.set(set.ID); !cmp.Equal(after, set) {
					t.Errorf("a refused review changed it: %s", cmp.Diff(set, after))
				}
				return
			}
			if got.State != c.state || !cmp.Equal(got.Verdicts, c.want) || got.Decided == nil || got.Decided.By != ada || got.Decided.Reason != c.review.Reason {
				t.Errorf("decided %+v", got)
			}
			if !cmp.Equal(w.set(set.ID), got) {
				t.Error("what is kept is not what was answered")
			}
			for _, again := range []coord.ChangeSetEvent{coord.ChangeSetApprove, coord.ChangeSetDiscard} {
				if _, err := w.Review(t.Context(), setRef(set), approval.Review{Decision: again, Digest: set.Digest}, ada); coord.CodeOf(err) != coord.Conflict || !strings.Contains(err.Error(), string(c.state)) {
					t.Errorf("a second decision gave %v", err)
				}
			}
		})
	}
}

func TestApprovingAChangeSetOutdatesThoseThatItHolds(t *testing.T) {
	for name, c := range map[string]struct {
		review       approval.Review
		first        coord.ChangeSetEvent // of the oldest, before
		oldest, next coord.ChangeSetState
	}{
		"the whole":           {approval.Review{Decision: coord.ChangeSetApprove}, "", coord.ChangeSetStale, coord.ChangeSetStale},
		"some files":          {approval.Review{Decision: coord.ChangeSetApprove, Only: []string{"c"}}, "", coord.ChangeSetOpen, coord.ChangeSetOpen},
		"a discard":           {approval.Review{Decision: coord.ChangeSetDiscard}, "", coord.ChangeSetOpen, coord.ChangeSetOpen},
		"one decided already": {approval.Review{Decision: coord.ChangeSetApprove}, coord.ChangeSetDiscard, coord.ChangeSetDiscarded, coord.ChangeSetStale},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			base := folder(t, nil)
			oldest := w.changed(base, coord.ChangeSet{}, map[string]string{"a": "1"}, coord.AttemptComplete)
			next := w.changed(base, oldest, map[string]string{"b": "2"}, coord.AttemptComplete)
			newest := w.changed(base, next, map[string]string{"c": "3"}, coord.AttemptComplete)
			beside := w.changed(base, oldest, map[string]string{"d": "4"}, coord.AttemptComplete)
			if c.first != "" {
				if _, err := w.Review(t.Context(), setRef(oldest), approval.Review{Decision: c.first, Digest: oldest.Digest}, ada); err != nil {
					t.Fatal(err)
				}
			}
			c.review.Digest = newest.Digest
			if _, err := w.Review(t.Context(), setRef(newest), c.review, ada); err != nil {
				t.Fatal(err)
			}
			got := []coord.ChangeSetState{w.set(oldest.ID).State, w.set(next.ID).State, w.set(beside.ID).State}
			if want := []coord.ChangeSetState{c.oldest, c.next, coord.ChangeSetOpen}; !slices.Equal(got, want) {
				t.Errorf("the others are %v, want %v", got, want)
			}
			if s := w.set(next.ID); s.State == coord.ChangeSetStale && (s.Decided == nil || !strings.Contains(s.Decided.Reason, "c3")) {
				t.Errorf("it does not say what took its place: %+v", s)
			}
		})
	}
}

func TestACommentChangesNothingElse(t *testing.T) {
	w := newWorld(t)
	set := w.changed(folder(t, nil), coord.ChangeSet{}, map[string]string{"a": "1"}, coord.AttemptComplete)
	want := set
	want.Comment = "Why?"
	got, err := w.Comment(t.Context(), setRef(set), "Why?", ada)
	if err != nil || !cmp.Equal(got, want) || !cmp.Equal(w.set(set.ID), want) {
		t.Errorf("it gave %v: %s", err, cmp.Diff(want, got))
	}
	for _, c := range []struct {
		text string
		by   coord.Actor
		ref  coord.ChangeSetRef
		code coord.Code
	}{
		{"x", drafter, setRef(set), coord.Forbidden},
		{strings.Repeat("x", coord.MaxReason+1), ada, setRef(set), coord.Invalid},
		{"x", ada, coord.ChangeSetRef{Number: 9}, coord.NotFound},
	} {
		if _, err := w.Comment(t.Context(), c.ref, c.text, c.by); coord.CodeOf(err) != c.code {
			t.Errorf("it gave %v, want %s", err, c.code)
		}
	}
}

func TestAChangeSetIsDisplayedWithWhatIsDifferentByNow(t *testing.T) {
	for name, c := range map[string]struct {
		end   coord.AttemptEvent
		after func(t *testing.T, dir string)
		notes []string // a part of each, in order
	}{
		"all as it was":      {coord.AttemptComplete, nil, nil},
		"the attempt failed": {coord.AttemptFail, nil, []string{"is failed"}},
		"somebody changed the file": {coord.AttemptComplete, func(t *testing.T, dir string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, "a"), []byte("theirs"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"no longer fits"}},
		"the folder is gone": {coord.AttemptComplete, func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Rename(dir, dir+".gone"); err != nil {
				t.Fatal(err)
			}
		}, []string{"cannot be compared"}},
		"another folder took its place": {coord.AttemptComplete, func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Rename(dir, dir+".gone"); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}, []string{"cannot be compared"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			base := folder(t, map[string]string{"a": "before\n"})
			set := w.changed(base, coord.ChangeSet{}, map[string]string{"a": "after\n"}, c.end)
			if c.after != nil {
				c.after(t, base.Path)
			}
			d, err := w.Display(t.Context(), setRef(set))
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Files) != 1 || !strings.Contains(d.Files[0].Text, "-before\n+after\n") || d.ChangeSet.Digest != set.Digest {
				t.Errorf("displayed %+v", d)
			}
			if !slices.EqualFunc(d.Notes, c.notes, strings.Contains) {
				t.Errorf("the notes are %q, want %q", d.Notes, c.notes)
			}
		})
	}
}

func TestADisplayNamesTheChangeSetBelow(t *testing.T) {
	w := newWorld(t)
	base := folder(t, nil)
	below := w.changed(base, coord.ChangeSet{}, map[string]string{"a": "1\n"}, coord.AttemptComplete)
	above := w.changed(base, below, map[string]string{"b": "2\n"}, coord.AttemptComplete)
	d, err := w.Display(t.Context(), setRef(above))
	if err != nil || len(d.Files) != 2 || len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "c1, which is open") {
		t.Errorf("displayed %+v, %v", d, err)
	}
	if _, err := w.Display(t.Context(), coord.ChangeSetRef{Number: 9}); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("one that is not there gave %v", err)
	}
}
