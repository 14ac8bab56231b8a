package coord_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
)

func openSet() coord.ChangeSet {
	c := coord.ChangeSet{
		Number: 7, State: coord.ChangeSetOpen, Base: coord.WorkspaceIdentity{Path: "/w", Inode: 3, Head: "abc"},
		Files: []coord.FileChange{
			{Path: "a", Kind: coord.FileChanged, Before: "1", After: "2", BeforeMode: 0o644, Mode: 0o644, Size: 4},
			{Path: "b", Kind: coord.FileRenamed, From: "old", Before: "3", After: "3", Mode: 0o755},
		},
	}
	c.Digest = c.ComputeDigest()
	return c
}

func TestDigestOfAChangeSetCoversWhatIsShown(t *testing.T) {
	seen := map[string]string{openSet().Digest: "nothing"}
	for name, edit := range map[string]func(*coord.ChangeSet){
		"the folder":      func(c *coord.ChangeSet) { c.Base.Inode++ },
		"the commit":      func(c *coord.ChangeSet) { c.Base.Head = "abd" },
		"the parent":      func(c *coord.ChangeSet) { c.Parent = "cs_1" },
		"a content":       func(c *coord.ChangeSet) { c.Files[0].After = "4" },
		"a base content":  func(c *coord.ChangeSet) { c.Files[0].Before = "4" },
		"permissions":     func(c *coord.ChangeSet) { c.Files[0].Mode = 0o755 },
		"an earlier name": func(c *coord.ChangeSet) { c.Files[1].From = "other" },
		"a file less":     func(c *coord.ChangeSet) { c.Files = c.Files[:1] },
	} {
		c := openSet()
		edit(&c)
		d := c.ComputeDigest()
		if same, dup := seen[d]; dup {
			t.Errorf("changing %s gives the digest of changing %s", name, same)
		}
		seen[d] = name
	}
	c := openSet()
	c.State, c.Comment, c.Number = coord.ChangeSetApproved, "fine", 9
	if c.ComputeDigest() != c.Digest {
		t.Error("the digest depends on what was decided")
	}
}

func TestFirstDecisionOnAChangeSetWins(t *testing.T) {
	for _, on := range []coord.ChangeSetEvent{coord.ChangeSetApprove, coord.ChangeSetDiscard} {
		c, err := openSet().Decide(coord.Review{On: on, Reason: "so"})
		if err != nil || c.Decided == nil || c.Decided.Reason != "so" {
			t.Fatalf("%s gave %+v, %v", on, c.Decided, err)
		}
		for _, again := range []coord.ChangeSetEvent{coord.ChangeSetApprove, coord.ChangeSetDiscard} {
			if after, err := c.Decide(coord.Review{On: again}); coord.CodeOf(err) != coord.Conflict || after.State != c.State {
				t.Errorf("%s after %s gave %s, %v", again, on, after.State, err)
			}
		}
	}
	if _, err := openSet().Decide(coord.Review{On: coord.ChangeSetLand}); err == nil {
		t.Error("landing was taken as a decision")
	}
}

func TestAChangeSetIsApprovedFileByFile(t *testing.T) {
	c, err := openSet().Decide(coord.Review{On: coord.ChangeSetApprove, Only: []string{"b"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]coord.Verdict{"a": coord.FileLeftOut, "b": coord.FileApproved}
	if diff := cmp.Diff(want, c.Verdicts); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if got := c.Approved(); len(got) != 1 || got[0].Path != "b" {
		t.Errorf("approved %v", got)
	}
	if _, err := openSet().Decide(coord.Review{On: coord.ChangeSetApprove, Only: []string{"b", "c"}}); coord.CodeOf(err) != coord.Invalid {
		t.Errorf("approving a file that is not there gave %v", err)
	}
	whole, err := openSet().Decide(coord.Review{On: coord.ChangeSetApprove})
	if err != nil || len(whole.Approved()) != 2 {
		t.Errorf("approving it whole gave %v, %v", whole.Approved(), err)
	}
}

func landing(t *testing.T) coord.ChangeSet {
	t.Helper()
	c, err := openSet().Decide(coord.Review{On: coord.ChangeSetApprove})
	if err == nil {
		c, err = c.Land([]coord.LandingStep{{Path: "b", Kind: coord.StepCreate}, {Path: "a", Kind: coord.StepReplace}, {Path: "old", Kind: coord.StepRemove, Needs: "b"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFurtherWorkStartsFromAllThatWasNotLeftOut(t *testing.T) {
	paths := func(c coord.ChangeSet) (out []string) {
		for _, f := range c.Kept() {
			out = append(out, f.Path)
		}
		return out
	}
	c := openSet()
	if got := paths(c); !cmp.Equal(got, []string{"a", "b"}) {
		t.Errorf("of an open one: %q", got)
	}
	some, err := c.Decide(coord.Review{On: coord.ChangeSetApprove, Only: []string{"b"}})
	if got := paths(some); err != nil || !cmp.Equal(got, []string{"b"}) {
		t.Errorf("of one approved in part: %q (%v)", got, err)
	}
	if len(some.Files) != 2 {
		t.Errorf("its files changed: %+v", some.Files)
	}
}

func TestFrozenBaseHoldsExactlyWhatWorkStartsFrom(t *testing.T) {
	decided := func(r coord.Review) coord.ChangeSet {
		c, err := openSet().Decide(r)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	other := openSet()
	other.Files[0].After = "another content"
	landed := decided(coord.Review{On: coord.ChangeSetApprove})
	landed.State = coord.ChangeSetLanded
	some := decided(coord.Review{On: coord.ChangeSetApprove, Only: []string{"b"}})
	for name, tc := range map[string]struct {
		frozen, now coord.ChangeSet
		want        string
	}{
		"nothing was decided":     {openSet(), openSet(), ""},
		"it was approved whole":   {openSet(), decided(coord.Review{On: coord.ChangeSetApprove}), ""},
		"it landed":               {openSet(), landed, ""},
		"it is out of date":       {openSet(), decided(coord.Review{On: coord.ChangeSetOutdate}), ""},
		"a file was left out":     {openSet(), some, `"a" was left out`},
		"it was left out before":  {some, some, ""},
		"it was discarded":        {openSet(), decided(coord.Review{On: coord.ChangeSetDiscard}), "was discarded"},
		"a file has other bytes":  {openSet(), other, "other files"},
		"a left-out file is back": {some, openSet(), "other files"},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.frozen.Frozen().Differs(tc.now)
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
	if whole := openSet().Frozen(); whole.Digest != openSet().ComputeDigest() || whole.LeftOut != nil {
		t.Errorf("of a whole set: %+v", whole)
	}
	if got := some.Frozen(); got.Digest == openSet().ComputeDigest() || !cmp.Equal(got.LeftOut, []string{"a"}) {
		t.Errorf("of a part: %+v", got)
	}
}

func TestLandingEndsAsLandedOnlyWhenEveryStepDid(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second, third coord.StepState
		want                 coord.ChangeSetState
		skips                bool
	}{
		"all landed":           {coord.StepLanded, coord.StepLanded, coord.StepLanded, coord.ChangeSetLanded, false},
		"one is foreign":       {coord.StepLanded, coord.StepForeign, coord.StepLanded, coord.ChangeSetPartial, false},
		"a need did not land":  {coord.StepForeign, coord.StepLanded, "", coord.ChangeSetPartial, true},
		"the last one failed":  {coord.StepLanded, coord.StepLanded, coord.StepFailed, coord.ChangeSetPartial, false},
		"the last one differs": {coord.StepLanded, coord.StepLanded, coord.StepDiverged, coord.ChangeSetPartial, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := landing(t)
			for _, state := range []coord.StepState{tc.first, tc.second, tc.third} {
				next, i, open := c.NextStep()
				if !open {
					break
				}
				done := next.Steps[i]
				done.State, done.Note = state, "why"
				var err error
				if c, err = next.Record(i, done); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Record(i, done); coord.CodeOf(err) != coord.Conflict {
					t.Errorf("recording step %d twice gave %v", i, err)
				}
			}
			if c.State != tc.want {
				t.Errorf("state %s, want %s; steps %+v", c.State, tc.want, c.Steps)
			}
			if skipped := c.Steps[2].State == coord.StepSkipped; skipped != tc.skips {
				t.Errorf("the dependent step is %s", c.Steps[2].State)
			}
		})
	}
}

func TestAChangeSetLandsOnce(t *testing.T) {
	c := landing(t)
	if _, err := c.Land(c.Steps); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("landing again gave %v", err)
	}
	if _, err := openSet().Land(nil); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("landing what nobody approved gave %v", err)
	}
}

func TestAnOutdatedChangeSetKeepsWhoApprovedIt(t *testing.T) {
	c, err := openSet().Decide(coord.Review{On: coord.ChangeSetApprove, Reason: "good", By: coord.Actor{Name: "ann"}})
	if err == nil {
		c, err = c.Decide(coord.Review{On: coord.ChangeSetOutdate, Reason: "another folder", By: coord.WorkerActor})
	}
	if err != nil || c.State != coord.ChangeSetStale || c.Decided.By.Name != "ann" || c.Comment != "another folder" {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestPermissionsAreWrittenInOctal(t *testing.T) {
	b, err := json.Marshal(openSet().Files[0])
	if err != nil {
		t.Fatal(err)
	}
	var back coord.FileChange
	if err := json.Unmarshal(b, &back); err != nil || back != openSet().Files[0] {
		t.Errorf("%s came back as %+v, %v", b, back, err)
	}
	for _, bad := range []string{`"8"`, `"01000"`, `""`, `"rw"`} {
		var m coord.FileMode
		if err := json.Unmarshal([]byte(bad), &m); err == nil {
			t.Errorf("%s was read as %s", bad, m)
		}
	}
}

func TestChangeSetReference(t *testing.T) {
	const id = "cs_01ARZ3NDEKTSV4RRFFQ69G5FAV"
	for in, want := range map[string]coord.ChangeSetRef{"c7": {Number: 7}, id: {ID: id}} {
		if got, err := coord.ParseChangeSetRef(in); err != nil || got != want {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "c", "c0", "c07", "r7", "7", "cs_1", "c-1"} {
		if _, err := coord.ParseChangeSetRef(in); coord.CodeOf(err) != coord.Invalid {
			t.Errorf("%q: %v", in, err)
		}
	}
}
