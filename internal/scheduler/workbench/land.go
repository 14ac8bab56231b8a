package workbench

import (
	"context"
	"slices"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
)

// Plan gives the steps that carry out an approved write. They are to be durable
// before Land.
func Plan(r coord.Request) []coord.LandingStep {
	return workspace.PlanLanding(string(r.ID), []coord.FileChange{*r.Change})
}

// Rebase gives the steps that land the approved files of a change set on what
// is in the workspace now. It is Stale when a file is neither as it was before
// nor as it is to be, and Unsupported when the file system cannot exchange
// files.
func Rebase(ctx context.Context, contents workspace.Store, c coord.ChangeSet) ([]coord.LandingStep, error) {
	root, err := workspace.Open(c.Base)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := workspace.CanLand(root); err != nil {
		return nil, err
	}
	overlay, err := workspace.NewOverlay(ctx, root, contents, c.Approved())
	if err != nil {
		return nil, err
	}
	return workspace.PlanLanding(string(c.ID), overlay.Changes()), nil
}

// Take takes one step in a workspace, once, and gives it with its end.
func Take(ctx context.Context, space coord.WorkspaceIdentity, contents workspace.Store, step coord.LandingStep) coord.LandingStep {
	root, err := workspace.Open(space)
	if err != nil {
		step.State, step.Note = coord.StepFailed, told(err)
		return step
	}
	defer root.Close()
	return workspace.Apply(ctx, root, contents, step)
}

// Examine finds out what became of a step that may have been taken. It never
// takes it: a file that is as it was may have been put back by a person.
func Examine(ctx context.Context, space coord.WorkspaceIdentity, contents workspace.Store, step coord.LandingStep) coord.LandingStep {
	root, err := workspace.Open(space)
	if err != nil {
		step.State, step.Note = coord.StepForeign, told(err)
		return step
	}
	defer root.Close()
	sight, note, err := workspace.Look(root, step)
	if err != nil {
		step.State, step.Note = coord.StepForeign, told(err)
		return step
	}
	step.Note = note
	switch sight {
	case workspace.Before:
		step.State = coord.StepFailed
	case workspace.After:
		step.State = coord.StepLanded
	case workspace.Foreign:
		step.State = coord.StepForeign
	}
	if free, err := workspace.Tidy(ctx, root, contents, step); free && err == nil {
		step.Note = ""
	}
	if step.State == coord.StepFailed {
		step.Note = "Signalbox ended before it was done, and did not try it again"
	}
	return step
}

// Outcome is what steps that are over come to as the effect of one request.
func Outcome(steps []coord.LandingStep) (coord.EffectEvent, string) {
	landed := 0
	for _, s := range steps {
		switch s.State {
		case coord.StepLanded:
			landed++
		case coord.StepDiverged:
			return coord.EffectDiverge, s.Note
		case coord.StepForeign, coord.StepFailed, coord.StepSkipped:
		}
	}
	if landed == len(steps) {
		return coord.EffectSucceed, ""
	}
	at := slices.IndexFunc(steps, func(s coord.LandingStep) bool { return s.State != coord.StepLanded })
	note := steps[at].Note
	if steps[at].State == coord.StepForeign && note == "" {
		note = "the file is no longer as it was when the change was approved"
	}
	if landed > 0 {
		return coord.EffectDiverge, note
	}
	return coord.EffectFail, note
}
