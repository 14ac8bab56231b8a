package acp

import (
	"slices"

	"signalbox/internal/coord"
	"signalbox/internal/provider/acp/catalog"
)

// sessionMeta is what session/new and session/load carry for a preset, nil for
// nothing. claude-agent-acp refuses to start as root unless it is told that it
// may not skip permissions, and loads the settings of the user and the project
// unless it is told to load none.
func sessionMeta(preset string) any {
	if preset != "claude-agent-acp" {
		return nil
	}
	return map[string]any{"claudeCode": map[string]any{"options": map[string]any{
		"allowDangerouslySkipPermissions": false, "settingSources": []string{},
	}}}
}

// warnings are what an operator should know of a configuration.
func warnings(c coord.AgentConfig) []string {
	p, ok := catalog.Preset(c.Preset)
	if !ok {
		return nil
	}
	out := slices.Clone(p.Notes)
	if p.Mode != "" && c.Mode == "" {
		out = append(out, "No mode is configured, so the agent's own default is used; the preset suggests "+p.Mode+".")
	}
	for _, name := range p.RandomEnv {
		if !slices.Contains(c.RandomEnv, name) {
			out = append(out, name+" is not set at random, as the preset suggests.")
		}
	}
	return out
}
