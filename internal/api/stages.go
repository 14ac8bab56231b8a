package api

import (
	"context"
	"io"

	"signalbox/internal/approval"
	"signalbox/internal/certification"
	"signalbox/internal/coord"
	"signalbox/internal/directory"
	"signalbox/internal/scheduler"
	"signalbox/internal/synthesis"
)

// Stages are what the operations call.
type Stages struct {
	Directory Directory
	Presets   Presets
	Planning  Planning
	Approval  Approval
	Scheduler Scheduler
	Synthesis Synthesis
	Doctor    Doctor
	// Certification proves what edits and tests stand on.
	Certification Certification
	Bytes         Bytes
	Credentials   Credentials
}

// Presets are the agents that are known by name.
type Presets interface {
	// Presets lists them.
	Presets() []directory.Preset
	// Import reads a registry file, which suggests more. It runs nothing.
	Import(registry []byte) ([]directory.Preset, error)
}

// Planning drafts and freezes plans.
type Planning interface {
	Validate(ctx context.Context, plan coord.Plan) (coord.Plan, error)
	Draft(ctx context.Context, plan coord.Plan, by coord.Actor) (coord.Job, error)
	Revise(ctx context.Context, ref coord.JobRef, ifRevision int, plan coord.Plan, by coord.Actor) (coord.Job, error)
	Discard(ctx context.Context, ref coord.JobRef, by coord.Actor) (coord.Job, error)
	Freeze(ctx context.Context, ref coord.JobRef, by coord.Actor) (coord.Job, error)
	Retry(ctx context.Context, ref coord.JobRef, by coord.Actor) (coord.Job, error)
	Again(ctx context.Context, ref coord.JobRef, message string, by coord.Actor) (coord.Job, error)
	Continue(ctx context.Context, ref coord.JobRef, plan coord.Plan, by coord.Actor) (coord.Job, error)
}

// Approval does what only the operator may.
type Approval interface {
	Run(ctx context.Context, ref coord.JobRef, digest string, by coord.Actor) (coord.Job, error)
	Decide(ctx context.Context, ref coord.RequestRef, d approval.Decision, by coord.Actor) (coord.Request, error)
	DecideAll(ctx context.Context, list []approval.Answered, by coord.Actor) ([]approval.Outcome, error)
	CancelJob(ctx context.Context, ref coord.JobRef, by coord.Actor) (coord.Job, error)
	CancelTask(ctx context.Context, ref coord.TaskRef, by coord.Actor) (coord.Task, error)
	Display(ctx context.Context, ref coord.ChangeSetRef) (approval.Display, error)
	Review(ctx context.Context, ref coord.ChangeSetRef, r approval.Review, by coord.Actor) (coord.ChangeSet, error)
	Comment(ctx context.Context, ref coord.ChangeSetRef, comment string, by coord.Actor) (coord.ChangeSet, error)
	Resolve(ctx context.Context, ref coord.AttemptRef, how coord.ResolutionKind, reason, text string, by coord.Actor) (coord.Attempt, error)
}

// Synthesis tells what came of work.
type Synthesis interface {
	Result(ctx context.Context, ref coord.JobRef) (coord.Result, error)
	Export(ctx context.Context, ref coord.JobRef, w io.Writer) error
	Explain(ctx context.Context, ref coord.AttemptRef) (synthesis.Explanation, error)
}

// Doctor finds what is stuck and mends what is provably safe to mend.
type Doctor interface {
	Check(ctx context.Context) ([]synthesis.Finding, error)
	Repair(ctx context.Context, codes ...synthesis.FindingCode) ([]synthesis.Finding, error)
}

// Certification makes certificates and says which hold.
type Certification interface {
	List(ctx context.Context) ([]certification.Standing, error)
	Certify(ctx context.Context, by coord.Actor) ([]certification.Standing, error)
}

// Directory keeps the agents.
type Directory interface {
	List(ctx context.Context) ([]coord.Agent, error)
	Get(ctx context.Context, id coord.AgentID) (coord.Agent, error)
	Add(ctx context.Context, id coord.AgentID, cfg coord.AgentConfig, by coord.Actor) (coord.Agent, error)
	Revise(ctx context.Context, id coord.AgentID, ifRevision int, cfg coord.AgentConfig, by coord.Actor) (coord.Agent, error)
	SetEnabled(ctx context.Context, id coord.AgentID, enabled bool, by coord.Actor) (coord.Agent, error)
	Remove(ctx context.Context, id coord.AgentID, by coord.Actor) error
	Inspect(ctx context.Context, id coord.AgentID) (coord.Agent, error)
	Discover(ctx context.Context) ([]directory.Suggestion, error)
}

// Scheduler carries jobs out.
type Scheduler interface {
	Status(ctx context.Context) (scheduler.Status, error)
	SetPaused(ctx context.Context, paused bool, by coord.Actor) error
	Reconcile(ctx context.Context, ref coord.AttemptRef, by coord.Actor) (coord.Attempt, error)
}

// Bytes gives the bytes of artifacts. The reader fails at its end when they
// are damaged.
type Bytes interface {
	Open(sha string) (io.ReadCloser, int64, error)
}
