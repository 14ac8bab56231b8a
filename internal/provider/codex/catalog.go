package codex

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"time"

	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

const (
	// maxCatalog bounds what Codex prints of its models: 0.92 MB with 0.171.0.
	maxCatalog = 16 << 20
	// catalogTimeout bounds the printing, which takes 25 ms warm.
	catalogTimeout = 30 * time.Second
)

// direct are the members of a model's metadata that give it tools of Codex's
// own whatever the settings say: JavaScript that calls tools, a patch tool,
// further agents.
var direct = map[string]json.RawMessage{
	"tool_mode":                    json.RawMessage(`"direct"`),
	"shell_type":                   json.RawMessage(`"disabled"`),
	"apply_patch_tool_type":        json.RawMessage(`null`),
	"supports_search_tool":         json.RawMessage(`false`),
	"experimental_supported_tools": json.RawMessage(`[]`),
	"use_responses_lite":           json.RawMessage(`false`),
}

// writeCatalog asks the program itself for its models and writes them with all
// tools of its own taken away. Models that are not in it get none anyway.
func (a *Adapter) writeCatalog(ctx context.Context, spec process.Spec, path string) error {
	spec.Args = []string{"debug", "models", "--bundled"}
	printed, err := a.output(ctx, spec)
	if err != nil {
		return err
	}
	patched, ok := withoutTools(printed)
	if !ok {
		return &provider.Unsent{Cause: provider.CauseConfig, Message: "Codex does not print the list of its models as known versions do, so its own tools cannot be turned off."}
	}
	if err := os.WriteFile(path, patched, 0o600); err != nil {
		return &provider.Unsent{Cause: provider.CauseSpawn, Message: "The list of models could not be written for Codex; look at the disk.", Transient: true}
	}
	return nil
}

// withoutTools patches a catalog; false when it is of another form.
func withoutTools(printed []byte) ([]byte, bool) {
	var catalog map[string]json.RawMessage
	var models []map[string]json.RawMessage
	if json.Unmarshal(printed, &catalog) != nil || json.Unmarshal(catalog["models"], &models) != nil || len(models) == 0 {
		return nil, false
	}
	for _, m := range models {
		if m["slug"] == nil {
			return nil, false
		}
		maps.Copy(m, direct)
		delete(m, "multi_agent_version")
	}
	var err error
	if catalog["models"], err = json.Marshal(models); err != nil {
		return nil, false
	}
	patched, err := json.Marshal(catalog)
	return patched, err == nil
}

// output runs a program to its end and gives what it printed.
func (a *Adapter) output(ctx context.Context, spec process.Spec) ([]byte, error) {
	slow := &provider.Unsent{Cause: provider.CauseSetupTimeout, Message: "Codex did not print the list of its models in time.", Transient: true}
	within, cancel := context.WithTimeoutCause(ctx, catalogTimeout, slow)
	defer cancel()
	p, err := stdio.Start(within, a.starter, spec)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	_ = p.Stdin.Close()
	// Kill ends the reading below.
	stop := context.AfterFunc(within, func() { _ = p.Kill(context.WithoutCancel(within)) })
	printed, readErr := io.ReadAll(io.LimitReader(p.Stdout, maxCatalog+1))
	stop()
	if err := p.Kill(context.WithoutCancel(within)); err != nil {
		return nil, &provider.Unsent{Cause: provider.CauseSpawn, Message: "A program started to print Codex's models could not be ended."}
	}
	switch {
	case ctx.Err() != nil:
		return nil, stdio.GivenUp(ctx)
	case within.Err() != nil:
		return nil, slow
	case readErr != nil || len(printed) == 0 || len(printed) > maxCatalog:
		return nil, &provider.Unsent{Cause: provider.CauseSpawn, Message: "The list of Codex's models could not be read to its end.", Transient: true}
	}
	return printed, nil
}
