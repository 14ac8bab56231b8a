package directory

import (
	"context"
	"os/exec"
	"path/filepath"

	"signalbox/internal/coord"
)

// Preset is an agent program as its makers ship it: a suggestion, which proves
// nothing about the program found under its name.
type Preset struct {
	// Name identifies the preset; Title is for people.
	Name  string
	Title string
	// Commands are the bare names of programs to look for, best first.
	Commands []string
	// Config is the configuration to suggest, without the executable.
	Config coord.AgentConfig
	// Note is what a person should know before registering it.
	Note string
}

// Suggestion is something found on this machine that could be registered, or
// that looks as if it could and cannot.
type Suggestion struct {
	Preset string `json:"preset,omitempty"`
	Title  string `json:"title"`
	// Executable is the absolute path that was found.
	Executable string `json:"executable"`
	// Config can be registered as it is; nil when the program is no endpoint.
	Config *coord.AgentConfig `json:"config,omitempty"`
	Note   string             `json:"note,omitempty"`
}

// notEndpoints are programs that people expect to work, and that are no agent
// by themselves.
var notEndpoints = []Suggestion{
	{Title: "Claude Code", Executable: "claude", Note: "the claude command is no ACP endpoint; install the adapter claude-agent-acp beside it and register that"},
	{Title: "Tincan", Executable: "tincan", Note: "reaches other people's agents; register each by its name: signalbox agent add AGENT --tincan PEER --profile FILE"},
}

// Discover looks along the search path for the programs of the presets. It
// reads names and permissions, and runs nothing.
func (d *Directory) Discover(ctx context.Context) ([]Suggestion, error) {
	var out []Suggestion
	for _, p := range d.options.Presets {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for _, command := range p.Commands {
			path, ok := find(command)
			if !ok {
				continue
			}
			cfg := completed(p.Config)
			cfg.Executable, cfg.Preset = path, p.Name
			if cfg.Name == "" {
				cfg.Name = p.Title
			}
			out = append(out, Suggestion{Preset: p.Name, Title: p.Title, Executable: path, Config: &cfg, Note: p.Note})
			break
		}
	}
	for _, s := range notEndpoints {
		if path, ok := find(s.Executable); ok {
			s.Executable = path
			out = append(out, s)
		}
	}
	return out, nil
}

// find gives the absolute path of a command on the search path. Links in it
// stay: a package manager's link outlives the version that it points to, and
// inspection resolves it.
func find(command string) (string, bool) {
	// LookPath refuses what is found through a relative entry of the search
	// path (exec.ErrDot), which is as it should be.
	path, err := exec.LookPath(command)
	if err != nil {
		return "", false
	}
	path, err = filepath.Abs(path)
	return path, err == nil
}
