package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"signalbox/internal/coord"
	"signalbox/internal/directory"
)

// AgentPath names the agent of an operation.
type AgentPath struct {
	Agent string `path:"agent" maxLength:"64" doc:"The agent's id"`
}

func (in AgentPath) id() coord.AgentID { return coord.AgentID(in.Agent) }

type keyedAgentInput struct {
	Keyed
	AgentPath
}

// NewAgent registers an agent.
type NewAgent struct {
	ID coord.AgentID `json:"id" doc:"1 to 64 of a-z, 0-9, '.', '_', '-', starting with a letter or digit"`
	coord.AgentConfig
}

type addAgentInput struct {
	Keyed
	Body NewAgent
}

type reviseAgentInput struct {
	Keyed
	Revised
	AgentPath
	Body coord.AgentConfig
}

type enableAgentInput struct {
	Keyed
	AgentPath
	Body struct {
		Enabled bool `json:"enabled" doc:"Whether plans may name the agent; what runs goes on"`
	} `nameHint:"Enabling"`
}

// Preset is an agent program that is known by name.
type Preset struct {
	Name     string            `json:"name"`
	Title    string            `json:"title"`
	Commands []string          `json:"commands" doc:"The bare names of programs that it may be"`
	Config   coord.AgentConfig `json:"config" doc:"What to register, without the executable"`
	Note     string            `json:"note,omitempty"`
}

func presets(in []directory.Preset) []Preset {
	out := make([]Preset, len(in))
	for i, p := range in {
		out[i] = Preset{p.Name, p.Title, p.Commands, p.Config, p.Note}
	}
	return out
}

type importInput struct {
	Body registryFile `doc:"An ACP registry file (registry.json), as it is"`
}

// registryFile is a file of somebody else's shape: unknown members are theirs
// to have, so most of the check is left to who reads it.
type registryFile struct{ raw json.RawMessage }

// Schema says how such a file is told from others.
func (registryFile) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true, Required: []string{"agents"},
		Properties: map[string]*huma.Schema{"agents": {Type: huma.TypeArray, Items: &huma.Schema{}}},
	}
}

// UnmarshalJSON keeps the text.
func (f *registryFile) UnmarshalJSON(b []byte) error {
	f.raw = append(json.RawMessage(nil), b...)
	return nil
}

func (a *API) addAgents() {
	op := func(id, method, path, summary string, role coord.Role) operation {
		return operation{id: id, method: method, path: path, summary: summary, tag: "agents", role: role}
	}
	list(a, op("list-agents", http.MethodGet, "/agents", "All agents", coord.RoleRead),
		func(ctx context.Context, _ *nothing) ([]coord.Agent, int64, error) {
			out, err := a.Directory.List(ctx)
			return out, 0, err
		})
	added := op("add-agent", http.MethodPost, "/agents", "Register an agent", coord.RoleOperator)
	added.status = http.StatusCreated
	write(a, added, func(ctx context.Context, in *addAgentInput) (coord.Agent, error) {
		return a.Directory.Add(ctx, in.Body.ID, in.Body.AgentConfig, actor(ctx))
	})
	read(a, op("get-agent", http.MethodGet, "/agents/{agent}", "One agent", coord.RoleRead),
		func(ctx context.Context, in *AgentPath) (coord.Agent, error) { return a.Directory.Get(ctx, in.id()) })
	write(a, op("revise-agent", http.MethodPut, "/agents/{agent}", "Give an agent a new configuration", coord.RoleOperator),
		func(ctx context.Context, in *reviseAgentInput) (coord.Agent, error) {
			revision, err := in.revision()
			if err != nil {
				return coord.Agent{}, err
			}
			return a.Directory.Revise(ctx, in.id(), revision, in.Body, actor(ctx))
		})
	write(a, op("remove-agent", http.MethodDelete, "/agents/{agent}", "Remove an agent; history keeps it", coord.RoleOperator),
		func(ctx context.Context, in *keyedAgentInput) (coord.Agent, error) {
			if err := a.Directory.Remove(ctx, in.id(), actor(ctx)); err != nil {
				return coord.Agent{}, err
			}
			return a.Directory.Get(ctx, in.id())
		})
	write(a, op("enable-agent", http.MethodPost, "/agents/{agent}/enabled", "Enable or disable an agent", coord.RoleOperator),
		func(ctx context.Context, in *enableAgentInput) (coord.Agent, error) {
			return a.Directory.SetEnabled(ctx, in.id(), in.Body.Enabled, actor(ctx))
		})
	write(a, op("inspect-agent", http.MethodPost, "/agents/{agent}/inspect", "Look at an agent anew; this starts it without work", coord.RoleOperator),
		func(ctx context.Context, in *keyedAgentInput) (coord.Agent, error) {
			return a.Directory.Inspect(ctx, in.id())
		})
	list(a, op("discover-agents", http.MethodGet, "/suggestions", "Agents found on this machine; nothing is run", coord.RoleDraft),
		func(ctx context.Context, _ *nothing) ([]directory.Suggestion, int64, error) {
			out, err := a.Directory.Discover(ctx)
			return out, 0, err
		})
	list(a, op("list-presets", http.MethodGet, "/presets", "Agent programs known by name", coord.RoleRead),
		func(context.Context, *nothing) ([]Preset, int64, error) { return presets(a.Presets.Presets()), 0, nil })
	list(a, op("import-registry", http.MethodPost, "/presets/import", "Read a registry file as suggestions; nothing is kept or run", coord.RoleDraft),
		func(_ context.Context, in *importInput) ([]Preset, int64, error) {
			out, err := a.Presets.Import(in.Body.raw)
			return presets(out), 0, err
		})
}
