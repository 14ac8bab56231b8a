package acp

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// pointed puts the address of the model where the configuration has its mark.
func pointed(c coord.AgentConfig) coord.AgentConfig {
	if c.ModelURL == "" {
		return c
	}
	c.Args, c.Env = slices.Clone(c.Args), maps.Clone(c.Env)
	for i, arg := range c.Args {
		c.Args[i] = strings.ReplaceAll(arg, coord.ModelURLMark, c.ModelURL)
	}
	for name, value := range c.Env {
		c.Env[name] = strings.ReplaceAll(value, coord.ModelURLMark, c.ModelURL)
	}
	return c
}

// own is what a confined agent may write to; the zero value is that of one that
// is not confined.
type own struct {
	// writes is nil for an agent that is not confined.
	writes []string
	// private is the folder that goes with the agent.
	private string
}

func (o own) remove(logger *slog.Logger) {
	if o.private == "" {
		return
	}
	if err := os.RemoveAll(o.private); err != nil {
		logger.Warn("the private folder of an agent could not be removed", "folder", o.private, "err", err)
	}
}

// confine says what an agent that starts in dir may write to, and has its
// temporary files go there: its own state, a private folder, and dir where
// Signalbox made it for this agent. A workspace is never among them.
func (a *Adapter) confine(dir string, c *coord.AgentConfig) (own, error) {
	if len(c.State) == 0 {
		return own{}, nil
	}
	refused := func(why string, transient bool) (own, error) {
		return own{}, &provider.Unsent{Cause: provider.CauseConfig, Message: "The agent's writes cannot be restricted to its own state: " + why + ".", Transient: transient}
	}
	if a.o.Scratch == "" {
		return refused("this worker was not set up for it", false)
	}
	scratch, err := filepath.EvalSymlinks(a.o.Scratch)
	if err != nil {
		return refused("the folder for scratch files is not there", true)
	}
	// What is called dir may be a link that somebody made.
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return refused("the folder of its work is not there", false)
	}
	private, err := os.MkdirTemp(scratch, "acp-*")
	if err != nil {
		return refused("no private folder could be made; look at the disk", true)
	}
	o := own{writes: append(slices.Clone(c.State), private), private: private}
	if strings.HasPrefix(real, scratch+string(filepath.Separator)) {
		o.writes = append(o.writes, real)
	}
	_, set := c.Env["TMPDIR"]
	if _, mapped := c.EnvFromEnv["TMPDIR"]; !set && !mapped {
		c.Env = maps.Clone(c.Env)
		if c.Env == nil {
			c.Env = map[string]string{}
		}
		c.Env["TMPDIR"] = private
	}
	return o, nil
}

// provable says why nothing could be proven of an agent's tools as it is
// configured; "" when it can be tried.
func (a *Adapter) provable(c coord.AgentConfig) string {
	switch {
	case len(c.State) == 0:
		return "its configuration names no folders of its own state, so the system does not restrict what it writes"
	case c.ModelURL == "":
		return "its configuration does not have " + coord.ModelURLMark + " where its model's address goes, so it cannot be tried with a model on loopback"
	case a.o.Lab == nil || a.o.Model == nil:
		return "this worker was not set up for proofs"
	}
	return ""
}

// capabilities are what an inspection says of an agent's own tools.
func (a *Adapter) capabilities(c coord.AgentConfig) []coord.Capability {
	confined := coord.Capability{Name: coord.CapabilityConfined, Evidence: coord.Declared, Detail: "its own tools do what they do, so only research can be asked for"}
	if len(c.State) > 0 {
		confined.Evidence, confined.Detail = coord.Measured, "it was started with its writes restricted to its own state; what it reads and sends is not restricted"
	}
	tools := coord.Capability{Name: coord.CapabilityTools, Evidence: coord.Declared}
	if tools.Detail = a.provable(c); tools.Detail == "" {
		tools.Has, tools.Detail = true, "as it is configured; 'signalbox sandbox certify' proves it or not"
	}
	return []coord.Capability{confined, tools}
}
