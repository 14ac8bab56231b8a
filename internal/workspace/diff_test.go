package workspace_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
	"signalbox/internal/workspace/workspacetest"
)

// change puts two contents into the store and gives the change between them.
func change(t *testing.T, store workspace.Store, path, before, after string) coord.FileChange {
	t.Helper()
	c := coord.FileChange{Path: path, Kind: coord.FileChanged, Before: workspace.Sum([]byte(before)), After: workspace.Sum([]byte(after)), BeforeMode: 0o644, Mode: 0o644}
	for _, side := range []string{before, after} {
		if _, err := store.Put(t.Context(), []byte(side)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestDiffShowsEachKindOfChange(t *testing.T) {
	store := &workspacetest.Contents{}
	const before, after = "one\ntwo\nthree\n", "one\n2\nthree\nfour"
	changed := change(t, store, "f", before, after)
	mode := changed
	mode.Mode = 0o755
	renamed := changed
	renamed.Kind, renamed.From = coord.FileRenamed, "old"
	moved := coord.FileChange{Path: "f", Kind: coord.FileRenamed, From: "old", Before: changed.Before, After: changed.Before, Mode: 0o644, BeforeMode: 0o644}
	const body = "@@ -1,3 +1,4 @@\n one\n-two\n+2\n three\n+four\n\\ No newline at end of file\n"
	for name, tc := range map[string]struct {
		change coord.FileChange
		want   workspace.FileDiff
	}{
		"changed":     {changed, workspace.FileDiff{Added: 2, Removed: 1, Text: "--- a/f\n+++ b/f\n" + body}},
		"permissions": {mode, workspace.FileDiff{Added: 2, Removed: 1, Text: "--- a/f\n+++ b/f\n" + body, Notes: []string{"permissions 0644 become 0755"}}},
		"new": {
			coord.FileChange{Path: "f", Kind: coord.FileNew, After: changed.Before, Mode: 0o644},
			workspace.FileDiff{Added: 3, Text: "--- /dev/null\n+++ b/f\n@@ -0,0 +1,3 @@\n+one\n+two\n+three\n", Notes: []string{"new file, permissions 0644"}},
		},
		"deleted": {
			coord.FileChange{Path: "f", Kind: coord.FileDeleted, Before: changed.Before},
			workspace.FileDiff{Removed: 3, Text: "--- a/f\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n", Notes: []string{"deleted"}},
		},
		"renamed":             {moved, workspace.FileDiff{Notes: []string{`renamed from "old"`}}},
		"renamed and changed": {renamed, workspace.FileDiff{Added: 2, Removed: 1, Text: "--- a/old\n+++ b/f\n" + body, Notes: []string{`renamed from "old"`}}},
		"binary":              {change(t, store, "f", "text", "a\x00b"), workspace.FileDiff{Notes: []string{"no UTF-8 text: 4 bytes become 3"}}},
		"not UTF-8":           {change(t, store, "f", "gr\xfcn", "grün"), workspace.FileDiff{Notes: []string{"no UTF-8 text: 4 bytes become 5"}}},
		"line ends only":      {change(t, store, "f", "a\r\n", "a\n"), workspace.FileDiff{Added: 1, Removed: 1, Hidden: true, Text: "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\r\n+a\n"}},
		"escape sequences":    {change(t, store, "f", "a\n", "\x1b[2J\n"), workspace.FileDiff{Added: 1, Removed: 1, Hidden: true, Text: "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+\x1b[2J\n"}},
		"bidirectional":       {change(t, store, "f", "a\n", "\u202ea\n"), workspace.FileDiff{Added: 1, Removed: 1, Hidden: true, Text: "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+\u202ea\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := workspace.Diff(t.Context(), store, tc.change)
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Change = tc.change
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("diff (-want +got):\n%s", diff)
			}
		})
	}
	empty := coord.FileChange{Path: "f", Kind: coord.FileNew, After: workspace.Sum(nil), Mode: 0o644}
	store.Kept[empty.After] = nil
	if d, err := workspace.Diff(t.Context(), store, empty); err != nil || strings.Join(d.Notes, ", ") != "new file, permissions 0644, the file is empty" {
		t.Errorf("an empty file: %+v, %v", d, err)
	}
	store.Kept[changed.After] = []byte("other")
	_, err := workspace.Diff(t.Context(), store, changed)
	refused(t, "a damaged content", err, coord.Stale, "no longer has its digest")
}

// TestDiffIsWhatPatchTakes gives the diffs to another program.
func TestDiffIsWhatPatchTakes(t *testing.T) {
	store := &workspacetest.Contents{}
	for i, tc := range [][2]string{
		{"", "a\n"}, {"a", "a\n"}, {"a\nb\nc", "c\nb\na\n"}, {strings.Repeat("x\n", 50), strings.Repeat("x\n", 20) + "y\n" + strings.Repeat("x\n", 31)}, {"a\n", ""},
	} {
		dir := tree(t, map[string]string{"f": tc[0]})
		git(t, dir, "init", "-q")
		d, err := workspace.Diff(t.Context(), store, change(t, store, "f", tc[0], tc[1]))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "apply", "--unidiff-zero", "-")
		cmd.Stdin = strings.NewReader(d.Text)
		if out, err := cmd.CombinedOutput(); err != nil || text(t, filepath.Join(dir, "f")) != tc[1] {
			t.Errorf("%d: %v %s; the file is %q", i, err, out, text(t, filepath.Join(dir, "f")))
		}
	}
}

func TestDiffIsBoundedInSizeAndTime(t *testing.T) {
	store := &workspacetest.Contents{}
	var odd, even, many strings.Builder
	for i := 0; odd.Len() < coord.MaxFile-16; i++ {
		fmt.Fprintf(&odd, "%d\n", 2*i*7919%10007)
		fmt.Fprintf(&even, "%d\n", (2*i+1)*7907%10007)
	}
	for i := range coord.MaxFile / 2 {
		many.WriteString(string(rune('a'+i*i%26)) + "\n")
	}
	for name, tc := range map[string]struct {
		before, after string
		cut           bool
	}{
		"nothing in common":  {odd.String(), even.String()[:min(even.Len(), coord.MaxFile)], false},
		"much in common":     {many.String(), strings.ToUpper(many.String()[:1000]) + many.String()[1000:], false},
		"short lines":        {strings.Repeat("\n", coord.MaxFile), strings.Repeat("\t\n", coord.MaxFile/2), false},
		"larger than a file": {strings.Repeat("x\n", coord.MaxFile), strings.Repeat("yy\n", coord.MaxFile), true},
		"no lines":           {strings.Repeat("x", coord.MaxFile), strings.Repeat("y", coord.MaxFile), false},
	} {
		began := time.Now()
		d, err := workspace.Diff(t.Context(), store, change(t, store, "f", tc.before, tc.after))
		took := time.Since(began)
		t.Logf("%s: %d bytes, +%d -%d, %v", name, len(d.Text), d.Added, d.Removed, took)
		if err != nil || len(d.Text) > coord.MaxDiff || d.Cut != tc.cut || took > 10*time.Second {
			t.Errorf("%s: %d bytes, cut %t, %v, %v", name, len(d.Text), d.Cut, took, err)
		}
	}
}
