package workspace_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
	"signalbox/internal/workspace/workspacetest"
)

func overlay(t *testing.T, r *workspace.Root) *workspace.Overlay {
	t.Helper()
	o, err := workspace.NewOverlay(t.Context(), r, &workspacetest.Contents{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// act does things like "write a x", "delete a", "rename a b".
func act(t *testing.T, o *workspace.Overlay, deeds ...string) {
	t.Helper()
	for _, deed := range deeds {
		w := strings.Fields(deed)
		var err error
		switch w[0] {
		case "write":
			_, err = o.Write(t.Context(), w[1], []byte(w[2]))
		case "delete":
			_, err = o.Delete(t.Context(), w[1])
		case "rename":
			_, err = o.Rename(t.Context(), w[1], w[2])
		case "read":
			_, err = o.Read(t.Context(), w[1])
		}
		if err != nil {
			t.Fatalf("%s: %v", deed, err)
		}
	}
}

// brief writes changes as "kind path <from before>after".
func brief(changes []coord.FileChange) []string {
	var out []string
	known := map[string]string{"": ""}
	for _, c := range []string{"a", "b", "x", "y"} {
		known[workspace.Sum([]byte(c))] = c
	}
	for _, c := range changes {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s>%s %s", c.Kind, c.Path, known[c.Before], known[c.After], c.From)))
	}
	return out
}

func TestSameOutcomeIsTheSameChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		deeds []string
		want  []string
	}{
		"nothing":                            {nil, nil},
		"written twice":                      {[]string{"write a x", "write a y"}, []string{"changed a a>y"}},
		"written back":                       {[]string{"write a x", "write a a"}, nil},
		"new":                                {[]string{"write n x", "write n y"}, []string{"new n >y"}},
		"new and gone":                       {[]string{"write n x", "delete n"}, nil},
		"gone":                               {[]string{"delete a"}, []string{"deleted a a>"}},
		"changed and gone":                   {[]string{"write a x", "delete a"}, []string{"deleted a a>"}},
		"gone and made anew":                 {[]string{"delete a", "write a x"}, []string{"changed a a>x"}},
		"gone and back":                      {[]string{"delete a", "write a a"}, nil},
		"renamed":                            {[]string{"rename a n"}, []string{"renamed n a>a a"}},
		"renamed twice":                      {[]string{"rename a m", "rename m n"}, []string{"renamed n a>a a"}},
		"renamed and back":                   {[]string{"rename a m", "rename m a"}, nil},
		"renamed and changed":                {[]string{"rename a n", "write n x"}, []string{"renamed n a>x a"}},
		"changed and renamed":                {[]string{"write a x", "rename a n"}, []string{"renamed n a>x a"}},
		"renamed and gone":                   {[]string{"rename a n", "delete n"}, []string{"deleted a a>"}},
		"renamed and the old name anew":      {[]string{"rename a n", "write a x"}, []string{"changed a a>x", "new n >a"}},
		"one file is not renamed to two":     {[]string{"rename a n", "write a x", "rename a m"}, []string{"new m >x", "renamed n a>a a"}},
		"new and renamed":                    {[]string{"write m x", "rename m n"}, []string{"new n >x"}},
		"renamed over a deleted one":         {[]string{"delete b", "rename a b"}, []string{"deleted a a>", "changed b b>a"}},
		"exchanged":                          {[]string{"rename a n", "rename b a", "rename n b"}, []string{"changed a a>b", "changed b b>a"}},
		"a folder is renamed file by file":   {[]string{"rename d/x e/x"}, []string{"renamed e/x x>x d/x"}},
		"renamed away over and over the old": {[]string{"rename a n", "rename b a", "rename a m"}, []string{"renamed m b>b b", "renamed n a>a a"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, tree(t, map[string]string{"a": "a", "b": "b", "d/x": "x"}))
			store := &workspacetest.Contents{}
			o, err := workspace.NewOverlay(t.Context(), r, store, nil)
			if err != nil {
				t.Fatal(err)
			}
			act(t, o, tc.deeds...)
			if diff := cmp.Diff(tc.want, brief(o.Changes())); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			again, err := workspace.NewOverlay(t.Context(), r, store, o.Changes())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(o.Changes(), again.Changes()); diff != "" {
				t.Errorf("begun with the same changes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOverlayIsAsTheChangedFolderWouldBe does the same to an overlay and to a
// plain folder, and lands the changes on a copy: all three are the same.
func TestOverlayIsAsTheChangedFolderWouldBe(t *testing.T) {
	base := map[string]string{"a": "a", "b": "b", "d/x": "x", "d/y": "y"}
	rapid.Check(t, func(rt *rapid.T) {
		dir := tree(t, base)
		r, store := open(t, dir), &workspacetest.Contents{}
		o, err := workspace.NewOverlay(t.Context(), r, store, nil)
		if err != nil {
			rt.Fatal(err)
		}
		plain := maps.Clone(base)
		path := rapid.SampledFrom([]string{"a", "b", "c", "d/x", "d/y", "d/z", "e/f"})
		content := rapid.SampledFrom([]string{"a", "b", "x", "y", "new"})
		for range rapid.IntRange(1, 14).Draw(rt, "deeds") {
			p, q, c := path.Draw(rt, "path"), path.Draw(rt, "to"), content.Draw(rt, "content")
			_, has := plain[p]
			_, taken := plain[q]
			switch rapid.SampledFrom([]string{"write", "delete", "rename"}).Draw(rt, "deed") {
			case "write":
				if _, err := o.Write(t.Context(), p, []byte(c)); err != nil {
					rt.Fatal(err)
				}
				plain[p] = c
			case "delete":
				if _, err := o.Delete(t.Context(), p); (err == nil) != has {
					rt.Fatalf("deleting %s gave %v", p, err)
				}
				delete(plain, p)
			case "rename":
				if _, err := o.Rename(t.Context(), p, q); (err == nil) != (has && !taken) {
					rt.Fatalf("renaming %s to %s gave %v", p, q, err)
				}
				if has && !taken {
					plain[q] = plain[p]
					delete(plain, p)
				}
			}
		}
		for _, p := range []string{"a", "b", "c", "d/x", "d/y", "d/z", "e/f"} {
			f, err := o.Read(t.Context(), p)
			if want, has := plain[p]; (err == nil) != has || string(f.Content) != want {
				rt.Fatalf("%s: %q, %v; want %q", p, f.Content, err, want)
			}
		}
		var listed []string
		for _, folder := range []string{".", "d", "e"} {
			l, err := o.List(folder)
			if err != nil && coord.CodeOf(err) != coord.NotFound {
				rt.Fatal(err)
			}
			for _, e := range l.Entries {
				if e.Kind == workspace.EntryFile {
					listed = append(listed, filepath.Join(folder, e.Name))
				}
			}
		}
		slices.Sort(listed)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(plain)), listed, cmp.Transformer("len", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
			rt.Fatalf("listed (-want +got):\n%s", diff)
		}
		for _, s := range workspace.PlanLanding("x", o.Changes()) {
			if done := workspace.Apply(t.Context(), r, store, s); done.State != coord.StepLanded {
				rt.Fatalf("%+v", done)
			}
		}
		got := names(t, dir)
		maps.DeleteFunc(got, func(_, content string) bool { return content == "d---------" })
		if diff := cmp.Diff(plain, got); diff != "" {
			rt.Fatalf("landed (-want +got):\n%s", diff)
		}
	})
}

func TestChangesSayWhatWasThereAndKeepPermissions(t *testing.T) {
	dir := tree(t, map[string]string{"run.sh": "old", "picture": "\xff\xd8"})
	if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	o := overlay(t, open(t, dir))
	act(t, o, "write run.sh new", "write n text", "write picture text")
	sum := func(s string) string { return workspace.Sum([]byte(s)) }
	want := []coord.FileChange{
		{Path: "n", Kind: coord.FileNew, After: sum("text"), Mode: 0o644, Size: 4},
		{Path: "picture", Kind: coord.FileChanged, Before: sum("\xff\xd8"), After: sum("text"), BeforeMode: 0o644, Mode: 0o644, Size: 4, Binary: true},
		{Path: "run.sh", Kind: coord.FileChanged, Before: sum("old"), After: sum("new"), BeforeMode: 0o755, Mode: 0o755, Size: 3},
	}
	if diff := cmp.Diff(want, o.Changes()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestListingSeesTheChanges(t *testing.T) {
	o := overlay(t, open(t, tree(t, map[string]string{"a": "a", "b": "b", "d/x": "x"})))
	act(t, o, "delete a", "write n four", "write new/er/f x")
	for folder, want := range map[string]string{".": "b d n new", "new": "er", "new/er": "f", "d": "x"} {
		l, err := o.List(folder)
		var got []string
		for _, e := range l.Entries {
			got = append(got, e.Name)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s holds %v, %v; want %s", folder, got, err, want)
		}
	}
	for _, p := range []string{"none", "new/none"} {
		_, err := o.List(p)
		refused(t, "listing "+p, err, coord.NotFound, "does not exist")
	}
}

func TestWriteThatCannotLandIsRefusedAtOnce(t *testing.T) {
	dir := tree(t, map[string]string{"a": "a", "b": "b", "d/x": "x"})
	o := overlay(t, open(t, dir))
	act(t, o, "write n/f x", "delete b", "delete d/x")
	large := make([]byte, coord.MaxFile+1)
	for name, tc := range map[string]struct {
		err  error
		code coord.Code
		rule string
	}{
		"a folder":                       {second(o.Write(t.Context(), "d", nil)), coord.Invalid, "a folder"},
		"a new folder":                   {second(o.Write(t.Context(), "n", nil)), coord.Conflict, "is a folder"},
		"below a file":                   {second(o.Write(t.Context(), "a/f", nil)), coord.Invalid, "not a folder"},
		"below a deleted file":           {second(o.Write(t.Context(), "b/f", nil)), coord.Invalid, "not a folder"},
		"below a new file":               {second(o.Write(t.Context(), "n/f/g", nil)), coord.Conflict, "is a file"},
		"a large one":                    {second(o.Write(t.Context(), "large", large)), coord.Limit, "larger than"},
		"deleting what is not there":     {second(o.Delete(t.Context(), "none")), coord.NotFound, "does not exist"},
		"deleting twice":                 {second(o.Delete(t.Context(), "b")), coord.NotFound, "does not exist"},
		"renaming what is not there":     {second(o.Rename(t.Context(), "none", "m")), coord.NotFound, "does not exist"},
		"renaming to what is there":      {second(o.Rename(t.Context(), "n/f", "a")), coord.Conflict, "delete it first"},
		"renaming to itself":             {second(o.Rename(t.Context(), "a", "a")), coord.Conflict, "delete it first"},
		"reading what was deleted":       {second(o.Read(t.Context(), "b")), coord.NotFound, "deleted or renamed"},
		"renaming a folder":              {second(o.Rename(t.Context(), "d", "e")), coord.Invalid, "a folder"},
		"the workspace":                  {second(o.Write(t.Context(), ".", nil)), coord.Invalid, "the workspace itself"},
		"renaming to below what it left": {second(o.Rename(t.Context(), "a", "a/b")), coord.Invalid, "not a folder"},
	} {
		refused(t, name, tc.err, tc.code, tc.rule)
	}
	if diff := cmp.Diff([]string{"deleted b b>", "deleted d/x x>", "new n/f >x"}, brief(o.Changes())); diff != "" {
		t.Errorf("a refused write left something (-want +got):\n%s", diff)
	}
}

func second[T any](_ T, err error) error { return err }

func TestChangeSetHasAtMostSoManyFiles(t *testing.T) {
	o := overlay(t, open(t, tree(t, map[string]string{"a": "a"})))
	for i := range coord.MaxChanges {
		act(t, o, fmt.Sprintf("write n%d x", i))
	}
	refused(t, "one more", second(o.Write(t.Context(), "n", nil)), coord.Limit, "at most 256 files")
	refused(t, "renaming", second(o.Rename(t.Context(), "a", "n")), coord.Limit, "at most 256 files")
	act(t, o, "write n1 y", "delete n0", "write n x")
	refused(t, "half of a renaming", second(o.Rename(t.Context(), "a", "m")), coord.Limit, "at most 256 files")
	if n := len(o.Changes()); n != coord.MaxChanges {
		t.Errorf("%d changes", n)
	}
}

func TestWhatChangedSinceItWasReadIsNotWrittenOver(t *testing.T) {
	dir := tree(t, map[string]string{"a": "a", "b": "b"})
	o := overlay(t, open(t, dir))
	act(t, o, "read a", "read b")
	put(t, filepath.Join(dir, "a"), "theirs")
	if err := os.Remove(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"a", "b"} {
		refused(t, "writing", second(o.Write(t.Context(), p, []byte("x"))), coord.Stale, "read it again")
		refused(t, "deleting", second(o.Delete(t.Context(), p)), coord.Stale, "read it again")
	}
	act(t, o, "read a", "write a x")
}

func TestChangesThatBuildUponOthersAreHeldToTheWorkspace(t *testing.T) {
	dir := tree(t, map[string]string{"a": "a", "b": "b", "d/x": "x"})
	r, store := open(t, dir), &workspacetest.Contents{}
	o, err := workspace.NewOverlay(t.Context(), r, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	act(t, o, "write a x", "write b y", "rename d/x d/y")
	changes := o.Changes()
	put(t, filepath.Join(dir, "a"), "x") // it landed, or somebody did the same
	again, err := workspace.NewOverlay(t.Context(), r, store, changes)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"changed b b>y", "renamed d/y x>x d/x"}, brief(again.Changes())); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if f, err := again.Read(t.Context(), "b"); err != nil || string(f.Content) != "y" {
		t.Errorf("read %q, %v", f.Content, err)
	}
	put(t, filepath.Join(dir, "b"), "theirs")
	_, err = workspace.NewOverlay(t.Context(), r, store, changes)
	refused(t, "a changed file", err, coord.Stale, "begin without it")
}
