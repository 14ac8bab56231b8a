package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/follow"
)

func TestEachCodeHasItsExit(t *testing.T) {
	want := map[coord.Code]int{
		coord.Internal: 1, coord.Invalid: 2, coord.Unauthenticated: 3, coord.Forbidden: 3, coord.NotFound: 4,
		coord.Conflict: 5, coord.Stale: 5, coord.Limit: 6, coord.Unavailable: 7, coord.Unsupported: 8,
	}
	for _, code := range coord.Codes {
		exit, ok := want[code]
		if !ok {
			t.Errorf("the code %s has no row here: add it, and to the table of the HTTP API", code)
		}
		if got := codeOf(t.Context(), fmt.Errorf("around: %w", coord.Errorf(code, "x"))); got != exit {
			t.Errorf("the code %s exits %d, want %d", code, got, exit)
		}
	}
	if len(exits) != len(coord.Codes) {
		t.Errorf("there are %d exits and %d codes", len(exits), len(coord.Codes))
	}
	if got := codeOf(t.Context(), errors.New("untyped")); got != 1 {
		t.Errorf("an untyped error exits %d", got)
	}
	if got := codeOf(t.Context(), errors.Join(follow.ErrNeeded, errors.New("untyped"))); got != 13 {
		t.Errorf("a need of the operator exits %d", got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if got := codeOf(ctx, coord.Errorf(coord.Unavailable, "cut")); got != exitInterrupted {
		t.Errorf("an interrupt exits %d", got)
	}
}

func TestEachJobStateHasItsExit(t *testing.T) {
	for state, want := range map[coord.JobState]int{
		coord.JobCompleted: 0, coord.JobFailed: 10, coord.JobCancelled: 11, coord.JobAttention: 12, coord.JobDraft: 13,
	} {
		if got := codeOf(t.Context(), jobExit(state)); got != want {
			t.Errorf("a job that is %s exits %d, want %d", state, got, want)
		}
	}
}
