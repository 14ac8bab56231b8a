package workspace_test

import (
	"testing"

	"signalbox/internal/workspace"
)

func overlay(t *testing.T, r *workspace.Root) *workspace.Overlay {
	t.Helper()
	o, err := workspace.NewOverlay(t.Context(), r, newMemory(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
