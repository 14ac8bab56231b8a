package workspace_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/workspace"
	"signalbox/internal/workspace/workspacetest"
)

// Whatever lies at the two names of a step, looking changes nothing, and
// tidying removes nothing of somebody else's.
func TestLookingAndTidyingLoseNothing(t *testing.T) {
	for _, kind := range []struct{ before, after string }{{"", "ours"}, {"base", "ours"}, {"base", ""}} {
		for _, at := range []string{"", "base", "ours", "theirs"} {
			for _, temp := range []string{"", "base", "ours", "ou", "theirs"} {
				files := map[string]string{}
				if at != "" {
					files["f"] = at
				}
				dir := tree(t, files)
				r, store := open(t, dir), &workspacetest.Contents{}
				s := step(t, store, "f", kind.before, kind.after)
				if temp != "" {
					put(t, filepath.Join(dir, s.Temp), temp)
				}
				before := names(t, dir)
				sight, _, err := workspace.Look(r, s)
				if diff := cmp.Diff(before, names(t, dir)); diff != "" || err != nil {
					t.Errorf("looking gave %v and changed %s", err, diff)
				}
				where := "from " + kind.before + " to " + kind.after + " at " + at + " beside " + temp
				var want workspace.Sight
				switch {
				case kind.after == "" && at == kind.before && temp != "":
					want = workspace.Foreign // moved away, and made anew
				case at == kind.before:
					want = workspace.Before
				case at == kind.after && (temp == "" || temp == kind.before || temp == kind.after):
					want = workspace.After
				default:
					want = workspace.Foreign
				}
				if sight != want {
					t.Errorf("%s: looking gave %s, want %s", where, sight, want)
				}
				if _, err := workspace.Tidy(t.Context(), r, store, s); err != nil {
					t.Errorf("%s: %v", where, err)
				}
				after := names(t, dir)
				if after["f"] != before["f"] {
					t.Errorf("%s: tidying changed the path", where)
				}
				if after[s.Temp] != temp && (temp == "theirs" || want == workspace.Foreign) {
					t.Errorf("%s: tidying removed %q", where, temp)
				}
				if after[s.Temp] != "" && want == workspace.Before && temp == "ou" {
					t.Errorf("%s: what was cut off is left over", where)
				}
			}
		}
	}
}
