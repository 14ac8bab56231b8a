package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWorkspaceGrantsLeaveOutWhatIsHidden(t *testing.T) {
	ws := t.TempDir()
	for _, name := range []string{"a", "sub/b", "sub/.env", "other/c/d"} {
		put1(t, filepath.Join(ws, name))
	}
	var got []string
	for _, g := range workspaceGrants(ws, []mask{{"sub/.env", false}}) {
		rel, err := filepath.Rel(ws, g.Path)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %d", rel, g.Access))
	}
	slices.Sort(got)
	// 4 reads files, 8 lists directories.
	if diff := cmp.Diff([]string{". 8", "a 4", "other 12", "sub 8", "sub/b 4"}, got); diff != "" {
		t.Error(diff)
	}
}
