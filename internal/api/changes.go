package api

import (
	"context"
	"net/http"

	"signalbox/internal/approval"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// ChangeSetPath names the change set of an operation.
type ChangeSetPath struct {
	ChangeSet string `path:"change_set" maxLength:"100" doc:"c7 or cs_…"`
}

func (p ChangeSetPath) ref() (coord.ChangeSetRef, error) { return coord.ParseChangeSetRef(p.ChangeSet) }

type changeSetsInput struct {
	Before  int64 `query:"before" minimum:"0" doc:"Only change sets with lower numbers; 0 is the newest on"`
	Limit   int   `query:"limit" minimum:"0" maximum:"200" doc:"At most this many; 0 is 50"`
	Pending bool  `query:"pending" doc:"Only those that wait for a decision or have not landed yet, oldest first and all of them"`
}

type reviewInput struct {
	Keyed
	ChangeSetPath
	Body approval.Review
}

type commentInput struct {
	Keyed
	ChangeSetPath
	Body struct {
		Text string `json:"text" doc:"What to remark; it decides nothing"`
	} `nameHint:"Comment"`
}

func (a *API) addChangeSets() {
	op := func(id, method, path, summary string, role coord.Role) operation {
		return operation{id: id, method: method, path: path, summary: summary, tag: "change sets", role: role}
	}
	list(a, op("list-change-sets", http.MethodGet, "/change-sets", "What agents wrote, newest first", coord.RoleRead), a.changeSets)
	read(a, op("get-change-set", http.MethodGet, "/change-sets/{change_set}", "One change set, without contents", coord.RoleRead),
		func(ctx context.Context, in *ChangeSetPath) (out coord.ChangeSet, err error) {
			ref, err := in.ref()
			if err != nil {
				return out, err
			}
			err = a.journal.View(ctx, func(v *journal.View) (err error) {
				out, err = v.ChangeSet(ref)
				return err
			})
			return out, err
		})
	// The contents are shown as they are, so only to who may approve them.
	read(a, op("show-change-set", http.MethodGet, "/change-sets/{change_set}/diff", "What a change set changes, exactly", coord.RoleOperator),
		func(ctx context.Context, in *ChangeSetPath) (approval.Display, error) {
			ref, err := in.ref()
			if err != nil {
				return approval.Display{}, err
			}
			return a.Approval.Display(ctx, ref)
		})
	write(a, op("review-change-set", http.MethodPost, "/change-sets/{change_set}/review", "Approve or discard a change set, as it was displayed", coord.RoleOperator),
		func(ctx context.Context, in *reviewInput) (coord.ChangeSet, error) {
			ref, err := in.ref()
			if err != nil {
				return coord.ChangeSet{}, err
			}
			return a.Approval.Review(ctx, ref, in.Body, actor(ctx))
		})
	write(a, op("comment-change-set", http.MethodPost, "/change-sets/{change_set}/comment", "Remark on a change set", coord.RoleOperator),
		func(ctx context.Context, in *commentInput) (coord.ChangeSet, error) {
			ref, err := in.ref()
			if err != nil {
				return coord.ChangeSet{}, err
			}
			return a.Approval.Comment(ctx, ref, in.Body.Text, actor(ctx))
		})
}

func (a *API) changeSets(ctx context.Context, in *changeSetsInput) (out []coord.ChangeSet, next int64, err error) {
	limit := pageLength(in.Limit)
	err = a.journal.View(ctx, func(v *journal.View) (err error) {
		if in.Pending {
			out, err = v.PendingChangeSets()
			return err
		}
		if out, err = v.ChangeSets(in.Before, limit); len(out) == limit {
			next = out[limit-1].Number
		}
		return err
	})
	return out, next, err
}
