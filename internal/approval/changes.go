package approval

import (
	"context"
	"fmt"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/workspace"
)

// Review is what the operator decides of a change set.
type Review struct {
	// Decision is coord.ChangeSetApprove or coord.ChangeSetDiscard.
	Decision coord.ChangeSetEvent `json:"decision"`
	// Only names the files that are approved; without any all of them are.
	Only []string `json:"only,omitempty"`
	// Reason is a comment, at most coord.MaxReason bytes.
	Reason string `json:"reason,omitempty"`
	// Digest is that of the change set as it was displayed.
	Digest string `json:"digest"`
}

// Display is a change set as a person reviews it: exactly, so that nothing is
// approved unseen. It may hold what an agent must not read.
type Display struct {
	ChangeSet coord.ChangeSet      `json:"change_set"`
	Files     []workspace.FileDiff `json:"files"`
	Git       workspace.GitStatus  `json:"git"`
	// Notes are what a person should know before approving.
	Notes []string `json:"notes,omitempty"`
}

// Display compares what a change set changes. The contents are those that were
// there when it was made; Notes tell what is different by now.
func (p *Approval) Display(ctx context.Context, ref coord.ChangeSetRef) (Display, error) {
	var d Display
	var parent coord.ChangeSet
	var attempt coord.Attempt
	err := p.journal.View(ctx, func(v *journal.View) (err error) {
		if d.ChangeSet, err = v.ChangeSet(ref); err != nil {
			return err
		}
		if attempt, err = v.Attempt(coord.AttemptRef{ID: d.ChangeSet.Attempt}); err != nil {
			return err
		}
		if d.ChangeSet.Parent == "" {
			return nil
		}
		parent, err = v.ChangeSet(coord.ChangeSetRef{ID: d.ChangeSet.Parent})
		if coord.CodeOf(err) == coord.NotFound {
			err = nil // removed by retention
		}
		return err
	})
	if err != nil {
		return d, err
	}
	d.Files = []workspace.FileDiff{}
	var paths []string
	for _, f := range d.ChangeSet.Files {
		diff, err := workspace.Diff(ctx, p.contents, f)
		if err != nil {
			return d, err
		}
		d.Files = append(d.Files, diff)
		paths = append(paths, f.Path)
	}
	if attempt.State != coord.AttemptCompleted {
		d.Notes = append(d.Notes, fmt.Sprintf("the attempt that made it is %s: the changes may not be complete", attempt.State))
	}
	if parent.ID != "" {
		d.Notes = append(d.Notes, fmt.Sprintf("it holds the changes of c%d, which is %s", parent.Number, parent.State))
	}
	root, err := workspace.Open(d.ChangeSet.Base)
	if err != nil {
		d.Notes = append(d.Notes, "the workspace cannot be compared now: "+err.Error())
		d.Git.Unknown = "the workspace cannot be opened"
		return d, nil
	}
	defer root.Close()
	d.Git = workspace.Status(root, paths)
	if d.Git.Head != d.ChangeSet.Base.Head {
		d.Notes = append(d.Notes, "another commit is checked out than when the work was approved")
	}
	if _, err := workspace.NewOverlay(ctx, root, p.contents, d.ChangeSet.Files); err != nil && !coord.ChangeSets.Final(d.ChangeSet.State) {
		d.Notes = append(d.Notes, "it no longer fits the files that are there: "+err.Error())
	}
	return d, nil
}

// Review records the first decision about a change set; landing it is the
// scheduler's. It is a Conflict when there is a decision already, and Stale
// when the digest is not that of the change set. Approving one makes those that
// it was built upon, and which it holds, stale.
func (p *Approval) Review(ctx context.Context, ref coord.ChangeSetRef, r Review, by coord.Actor) (coord.ChangeSet, error) {
	if err := operator(by); err != nil {
		return coord.ChangeSet{}, err
	}
	if err := r.validate(); err != nil {
		return coord.ChangeSet{}, err
	}
	var c coord.ChangeSet
	err := p.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if c, err = tx.ChangeSet(ref); err != nil {
			return err
		}
		switch {
		case c.State != coord.ChangeSetOpen:
			return coord.Errorf(coord.Conflict, "change set c%d is %s already", c.Number, c.State)
		case r.Digest == "":
			return coord.Errorf(coord.Invalid, "a decision needs the digest of the change set as it was displayed; see 'signalbox review c%d'", c.Number)
		case r.Digest != c.Digest:
			return coord.Errorf(coord.Stale, "change set c%d is another than what was displayed: look at it again", c.Number)
		}
		if c, err = tx.DecideChangeSet(c.ID, coord.Review{On: r.Decision, Only: r.Only, Reason: r.Reason, By: by}); err != nil {
			return err
		}
		if r.Decision == coord.ChangeSetApprove && len(r.Only) == 0 {
			if err := supersede(tx, c, by); err != nil {
				return err
			}
		}
		return tx.Answer(c)
	})
	return c, err
}

// supersede makes the open change sets that c holds stale.
func supersede(tx *journal.Tx, c coord.ChangeSet, by coord.Actor) error {
	for id := c.Parent; id != ""; {
		parent, err := tx.ChangeSet(coord.ChangeSetRef{ID: id})
		if coord.CodeOf(err) == coord.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		if parent.State == coord.ChangeSetOpen {
			reason := fmt.Sprintf("c%d, which was approved, holds its changes", c.Number)
			if _, err := tx.DecideChangeSet(id, coord.Review{On: coord.ChangeSetOutdate, Reason: reason, By: by}); err != nil {
				return err
			}
		}
		id = parent.Parent
	}
	return nil
}

// Comment notes the operator's remark on a change set, which decides nothing.
func (p *Approval) Comment(ctx context.Context, ref coord.ChangeSetRef, comment string, by coord.Actor) (coord.ChangeSet, error) {
	if err := operator(by); err != nil {
		return coord.ChangeSet{}, err
	}
	if err := coord.InvalidFields("the comment has faults", text("/text", comment, coord.MaxReason)); err != nil {
		return coord.ChangeSet{}, err
	}
	var c coord.ChangeSet
	err := p.journal.Update(ctx, func(tx *journal.Tx) (err error) {
		if c, err = tx.ChangeSet(ref); err != nil {
			return err
		}
		c.Comment = comment
		if err := tx.PutChangeSet(c, &by); err != nil {
			return err
		}
		return tx.Answer(c)
	})
	return c, err
}

// validate gives every fault of a review that does not depend on its change set.
func (r Review) validate() error {
	var f []coord.Field
	if r.Decision != coord.ChangeSetApprove && r.Decision != coord.ChangeSetDiscard {
		f = append(f, coord.Field{Pointer: "/decision", Message: "one of approve, discard"})
	}
	if len(r.Only) > 0 && r.Decision == coord.ChangeSetDiscard {
		f = append(f, coord.Field{Pointer: "/only", Message: "only with the decision approve"})
	}
	if len(r.Only) > coord.MaxChanges {
		f = append(f, coord.Field{Pointer: "/only", Message: fmt.Sprintf("%d files; at most %d", len(r.Only), coord.MaxChanges)})
	}
	f = append(f, text("/reason", r.Reason, coord.MaxReason)...)
	return coord.InvalidFields("the review has faults", f)
}
