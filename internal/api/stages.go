package api

import (
	"context"
	"io"

	"signalbox/internal/coord"
	"signalbox/internal/directory"
	"signalbox/internal/scheduler"
)

// Stages are what the operations call.
type Stages struct {
	Directory Directory
	Scheduler Scheduler
	Bytes     Bytes
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
