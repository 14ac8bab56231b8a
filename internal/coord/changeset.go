package coord

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ChangeSetID is "cs_" and a ULID.
type ChangeSetID string

// ChangeSetPrefix is the prefix of a ChangeSetID.
const ChangeSetPrefix = "cs_"

// ChangeSet is what one attempt wrote, held back from the operator's files
// until it is approved. Base, files and digest never change after it was made.
type ChangeSet struct {
	ID ChangeSetID `json:"id"`
	// Number is the short name, from 1; written c7.
	Number  int64     `json:"number"`
	Job     JobID     `json:"job"`
	Task    TaskID    `json:"task"`
	Key     string    `json:"key"`
	Attempt AttemptID `json:"attempt"`
	Agent   AgentID   `json:"agent"`
	// Base is the folder and the commit that the changes were made on.
	Base WorkspaceIdentity `json:"base"`
	// Parent is the change set that this one was built upon. Its changes are
	// among Files: a change set stands by itself.
	Parent ChangeSetID `json:"parent,omitempty"`
	// Files are ordered by path, and no path stands twice.
	Files []FileChange `json:"files"`
	// Digest is the SHA-256, in hex, over base, parent and files: a decision
	// carries the one that was displayed.
	Digest string         `json:"digest"`
	State  ChangeSetState `json:"state"`
	// Verdicts say of each path what was decided, once that is so.
	Verdicts map[string]Verdict `json:"verdicts,omitempty"`
	Decided  *Decided           `json:"decided,omitempty"`
	// Comment is the operator's latest remark; it decides nothing.
	Comment string `json:"comment,omitempty"`
	// Steps are what landing does, in order, with what became of each.
	Steps  []LandingStep `json:"steps,omitempty"`
	Opened Moment        `json:"opened"`
}

// FileChange is what becomes of one file, from before the first write to
// after the last.
type FileChange struct {
	// Path is relative to the workspace, with slashes.
	Path string     `json:"path"`
	Kind ChangeKind `json:"kind"`
	// From is the path that a renamed file had before.
	From string `json:"from,omitempty"`
	// Before and After are SHA-256 in hex of the whole content, "" where there
	// is no such file.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// BeforeMode and Mode are the permissions before and after.
	BeforeMode FileMode `json:"before_mode,omitempty"`
	Mode       FileMode `json:"mode,omitempty"`
	// Size is that of the content after, in bytes.
	Size int64 `json:"size"`
	// Binary tells that one of the two contents is no UTF-8 text.
	Binary bool `json:"binary,omitempty"`
}

// ChangeKind is how a file changes.
type ChangeKind string

// The kinds of changes.
const (
	FileNew     ChangeKind = "new"
	FileChanged ChangeKind = "changed"
	FileDeleted ChangeKind = "deleted"
	FileRenamed ChangeKind = "renamed"
)

// FileMode is the nine permission bits of a file, written as "0644".
type FileMode uint32

// MarshalText writes the bits in octal.
func (m FileMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (m *FileMode) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 8, 9)
	if err != nil {
		return fmt.Errorf("not permissions such as 0644")
	}
	*m = FileMode(n)
	return nil
}

// String writes the bits as "0644".
func (m FileMode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

// Verdict is what was decided of one file of a change set.
type Verdict string

// The verdicts.
const (
	FileApproved Verdict = "approved"
	FileLeftOut  Verdict = "left_out"
)

// LandingStep is one compare-and-swap on one path. It is durable, with its
// temporary name, before anything is touched.
type LandingStep struct {
	Kind StepKind `json:"kind"`
	Path string   `json:"path"`
	// Before and After are the SHA-256 of the content, "" for none.
	Before     string   `json:"before,omitempty"`
	After      string   `json:"after,omitempty"`
	BeforeMode FileMode `json:"before_mode,omitempty"`
	Mode       FileMode `json:"mode,omitempty"`
	// Temp is a name, in the folder of Path, for what is on its way in or out.
	Temp string `json:"temp"`
	// Needs is the path whose step must have landed before this one: the old
	// name of a file goes only when the new one is there.
	Needs string `json:"needs,omitempty"`
	// State is what became of the step, "" while that is open.
	State StepState `json:"state,omitempty"`
	// Note says why, where the state does not.
	Note string `json:"note,omitempty"`
	// Made are the folders that had to be made, outermost first.
	Made []string `json:"made,omitempty"`
}

// StepKind is what a step does to its path.
type StepKind string

// The kinds of steps.
const (
	StepCreate  StepKind = "create"
	StepReplace StepKind = "replace"
	StepRemove  StepKind = "remove"
)

// StepState is what became of a landing step.
type StepState string

// The ends of a step.
const (
	// StepLanded: the path is as it was approved.
	StepLanded StepState = "landed"
	// StepForeign: somebody else changed the path, and it is left as it is.
	StepForeign StepState = "foreign"
	// StepDiverged: somebody changed the path while it was exchanged. Both
	// contents are kept, one of them under the temporary name.
	StepDiverged StepState = "diverged"
	// StepFailed: it could not be done, and the path is as it was.
	StepFailed StepState = "failed"
	// StepSkipped: the step that it needs did not land.
	StepSkipped StepState = "skipped"
)

// ChangeSetRef is how a person or program names a change set: by number or id.
type ChangeSetRef struct {
	Number int64
	ID     ChangeSetID
}

// ParseChangeSetRef reads "c7" or "cs_…".
func ParseChangeSetRef(s string) (ChangeSetRef, error) {
	if validULID(s, ChangeSetPrefix) {
		return ChangeSetRef{ID: ChangeSetID(s)}, nil
	}
	if rest, ok := strings.CutPrefix(s, "c"); ok {
		if n, ok := number(rest); ok {
			return ChangeSetRef{Number: n}, nil
		}
	}
	return ChangeSetRef{}, Errorf(Invalid, "%s is not a change set: write its number (c7) or its id (cs_…)", quote(s))
}

// ComputeDigest gives the digest of what is put before the operator.
func (c ChangeSet) ComputeDigest() string {
	// Marshalling these types cannot fail: they hold strings and numbers only.
	b, _ := json.Marshal(struct {
		Base   WorkspaceIdentity
		Parent ChangeSetID
		Files  []FileChange
	}{c.Base, c.Parent, c.Files})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Review is a decision on a change set to be made.
type Review struct {
	// On is ChangeSetApprove, ChangeSetDiscard or ChangeSetOutdate.
	On ChangeSetEvent
	// Only names the approved paths; none approves every file.
	Only   []string
	Reason string
	By     Actor
	At     Moment
}

// Decide applies the first decision; a later one is a Conflict that says what
// the first was. Outdating an approved set keeps who approved it.
func (c ChangeSet) Decide(r Review) (ChangeSet, error) {
	to, err := ChangeSets.Next(c.State, r.On)
	if err != nil {
		return c, Errorf(Conflict, "change set c%d is %s already", c.Number, c.State)
	}
	switch r.On {
	case ChangeSetApprove:
		if c.Verdicts, err = c.verdicts(r.Only); err != nil {
			return c, err
		}
	case ChangeSetDiscard, ChangeSetOutdate:
	default:
		return c, Errorf(Invalid, "%s is no decision on a change set: approve or discard it", r.On)
	}
	c.State = to
	if r.On == ChangeSetOutdate && c.Decided != nil {
		c.Comment = r.Reason
		return c, nil
	}
	c.Decided = &Decided{By: r.By, At: r.At, Reason: r.Reason}
	return c, nil
}

// verdicts approves the named files and leaves the others out.
func (c ChangeSet) verdicts(only []string) (map[string]Verdict, error) {
	out := map[string]Verdict{}
	for _, f := range c.Files {
		out[f.Path] = FileApproved
		if len(only) > 0 && !slices.Contains(only, f.Path) {
			out[f.Path] = FileLeftOut
		}
	}
	for _, path := range only {
		if _, ok := out[path]; !ok {
			return nil, Errorf(Invalid, "change set c%d has no file %s; see 'review c%d'", c.Number, quote(path), c.Number)
		}
	}
	return out, nil
}

// Approved gives the files that were approved, in order.
func (c ChangeSet) Approved() []FileChange {
	var out []FileChange
	for _, f := range c.Files {
		if c.Verdicts[f.Path] == FileApproved {
			out = append(out, f)
		}
	}
	return out
}

// Kept gives the files that further work starts from, in order: all but those
// that the operator left out.
func (c ChangeSet) Kept() []FileChange {
	return slices.DeleteFunc(slices.Clone(c.Files), func(f FileChange) bool { return c.Verdicts[f.Path] == FileLeftOut })
}

// Frozen is what a task that starts from the set now starts from.
func (c ChangeSet) Frozen() FrozenBase {
	f := FrozenBase{ChangeSet: c.ID}
	for _, file := range c.Files {
		if c.Verdicts[file.Path] == FileLeftOut {
			f.LeftOut = append(f.LeftOut, file.Path)
		}
	}
	c.Files = c.Kept()
	f.Digest = c.ComputeDigest()
	return f
}

// Differs says what is not as it was when a plan with the base was frozen, ""
// when a task starts from exactly what was approved.
func (f FrozenBase) Differs(c ChangeSet) string {
	now := c.Frozen()
	since := slices.DeleteFunc(slices.Clone(now.LeftOut), func(path string) bool { return slices.Contains(f.LeftOut, path) })
	switch {
	case c.State == ChangeSetDiscarded:
		return fmt.Sprintf("change set c%d was discarded", c.Number)
	case len(since) > 0:
		shown := quote(since[0])
		if len(since) > 1 {
			shown += fmt.Sprintf(" and %d more", len(since)-1)
		}
		return fmt.Sprintf("of change set c%d, %s was left out", c.Number, shown)
	case now.ChangeSet != f.ChangeSet || now.Digest != f.Digest:
		return fmt.Sprintf("change set c%d has other files", c.Number)
	}
	return ""
}

// Land begins the landing by the steps that were planned for the approved
// files. It is possible once.
func (c ChangeSet) Land(steps []LandingStep) (ChangeSet, error) {
	to, err := ChangeSets.Next(c.State, ChangeSetLand)
	if err != nil {
		return c, err
	}
	c.State, c.Steps = to, slices.Clone(steps)
	if len(steps) == 0 { // everything is there already
		c.State, err = ChangeSets.Next(c.State, ChangeSetFinish)
	}
	return c, err
}

// NextStep gives the first open step, after it marked those as skipped whose
// need did not land; false means that none is open.
func (c ChangeSet) NextStep() (ChangeSet, int, bool) {
	c.Steps = slices.Clone(c.Steps)
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.State != "" {
			continue
		}
		if s.Needs == "" || c.landed(s.Needs) {
			return c, i, true
		}
		s.State, s.Note = StepSkipped, fmt.Sprintf("%s did not land", quote(s.Needs))
	}
	return c, 0, false
}

func (c ChangeSet) landed(path string) bool {
	return slices.ContainsFunc(c.Steps, func(s LandingStep) bool { return s.Path == path && s.State == StepLanded })
}

// Record notes what became of step i; what is known of a step never changes.
// When no step is open the set is landed or, if one did not land, partial.
func (c ChangeSet) Record(i int, done LandingStep) (ChangeSet, error) {
	if c.State != ChangeSetLanding || i < 0 || i >= len(c.Steps) || c.Steps[i].State != "" || done.State == "" {
		return c, Errorf(Conflict, "change set c%d is %s: step %d cannot be recorded", c.Number, c.State, i+1)
	}
	c.Steps = slices.Clone(c.Steps)
	c.Steps[i].State, c.Steps[i].Note, c.Steps[i].Made = done.State, done.Note, done.Made
	c, _, open := c.NextStep()
	if open {
		return c, nil
	}
	on := ChangeSetFinish
	if slices.ContainsFunc(c.Steps, func(s LandingStep) bool { return s.State != StepLanded }) {
		on = ChangeSetDivide
	}
	// The table always lists both moves from landing.
	c.State, _ = ChangeSets.Next(c.State, on)
	return c, nil
}
