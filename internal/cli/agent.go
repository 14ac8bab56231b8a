package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/internal/api"
	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/directory"
	"signalbox/internal/follow"
	"signalbox/internal/screen"
)

func (a *app) agentCommand() *cobra.Command {
	c := &cobra.Command{Use: "agent", Short: "Keep the directory of agents"}
	c.AddCommand(a.agentList(), a.agentShow(), a.agentDiscover(), a.agentAdd(), a.agentEdit(), a.agentInspect(),
		a.agentEnable(true), a.agentEnable(false), a.agentRemove(), a.agentImport())
	return c
}

func (a *app) agentList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the agents", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			agents, err := c.Agents(ctx)
			if err != nil {
				return err
			}
			return a.Show(agents, func(w io.Writer) {
				var rows [][]string
				for _, g := range agents {
					rows = append(rows, []string{string(g.ID), string(g.Route), screen.Usable(g), screen.Inspected(g), screen.OneLine(g.Config.Where(), 60)})
				}
				a.List(w, "no agents yet: signalbox agent discover, then signalbox agent add", []string{"agent", "route", "state", "inspected", "where"}, rows)
			})
		}),
	}
}

func (a *app) agentShow() *cobra.Command {
	return &cobra.Command{
		Use: "show AGENT", Short: "Show one agent and what its inspection found", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeAgents,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			g, err := c.Agent(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Show(g, func(w io.Writer) { a.Agent(w, g) })
		}),
	}
}

func (a *app) agentDiscover() *cobra.Command {
	return &cobra.Command{
		Use: "discover", Short: "Look for known agents on this machine; runs nothing", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			found, err := c.Discover(ctx)
			if err != nil {
				return err
			}
			return a.Show(found, func(w io.Writer) {
				if len(found) == 0 {
					a.Say("no known agent is on the PATH; signalbox agent add registers any ACP agent by its path")
					return
				}
				a.Suggestions(w, found)
			})
		}),
	}
}

// agentFlags are the flags that describe an agent.
type agentFlags struct {
	name, preset, mode, modelURL string
	env, envFrom, randoms, state []string
}

func (f *agentFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.name, "name", "", "name for people")
	c.Flags().StringVar(&f.mode, "mode", "", "session mode to set before each prompt")
	c.Flags().StringArrayVar(&f.env, "env", nil, "NAME=VALUE for the agent's environment; no secrets")
	c.Flags().StringArrayVar(&f.envFrom, "env-from", nil, "NAME=VARIABLE: give the agent NAME with the value that VARIABLE has where serve runs")
	c.Flags().StringArrayVar(&f.randoms, "random-env", nil, "NAME that gets a random value at each start")
	c.Flags().StringArrayVar(&f.state, "state", nil, "FOLDER of the agent's own state; with any, it can write nowhere else")
	c.Flags().StringVar(&f.modelURL, "model-url", "", "address of the agent's model API, which stands where its settings have "+coord.ModelURLMark)
}

// apply puts what the flags say into a configuration.
func (f *agentFlags) apply(cfg *coord.AgentConfig) error {
	if f.name != "" {
		cfg.Name = f.name
	}
	if f.mode != "" {
		cfg.Mode = f.mode
	}
	if f.modelURL != "" {
		cfg.ModelURL = f.modelURL
	}
	cfg.State = append(cfg.State, f.state...)
	if err := pairs(f.env, &cfg.Env); err != nil {
		return err
	}
	if err := pairs(f.envFrom, &cfg.EnvFromEnv); err != nil {
		return err
	}
	cfg.RandomEnv = append(cfg.RandomEnv, f.randoms...)
	return nil
}

func pairs(list []string, into *map[string]string) error {
	for _, p := range list {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return coord.Errorf(coord.Invalid, "an environment setting is written NAME=VALUE")
		}
		if *into == nil {
			*into = map[string]string{}
		}
		(*into)[name] = value
	}
	return nil
}

func (a *app) agentAdd() *cobra.Command {
	var f agentFlags
	var p peerFlags
	var c *cobra.Command
	c = &cobra.Command{
		Use: "add AGENT [flags] [-- PROGRAM ARG…]", Short: "Register an agent by its program, from a preset, or as a peer on the network", Args: cobra.MinimumNArgs(1),
		Long: `Add registers an agent under an id of your choice and inspects it: the program is
started, answers for itself, and is ended; no work and no login. Programs found
on the PATH are stored by their absolute path. A program speaks ACP unless a
preset says otherwise, as codex does. One that cannot be used yet, for want of a
login perhaps, is registered all the same; add then exits 13, as edit and inspect
do: you are needed.

A peer is reached, not started. Of an A2A peer the card is fetched; work goes to
the one origin that is registered. A Tincan peer is reached by the program
tincan, the one on the PATH unless another is named.`,
		Example: `  signalbox agent add codex --preset codex
  signalbox agent add opencode --preset opencode
  signalbox agent add reviewer --env-from MODEL_API_KEY=OPENAI_API_KEY -- signalbox model-agent --base-url https://api.openai.com/v1 --model NAME
  signalbox agent add scout --a2a https://peer.example/.well-known/agent-card.json --a2a-version 1.0 --credential scout
  signalbox agent add night-desk --tincan night-desk --profile ~/.config/tincan/client.json`,
		RunE: a.with(func(ctx context.Context, server *client.Client, args []string) error {
			cfg := coord.AgentConfig{Route: coord.RouteACP}
			if f.preset != "" {
				var err error
				if cfg, err = preset(ctx, server, f.preset, len(args) > 1); err != nil {
					return err
				}
			}
			if p.tincan != "" && len(args) == 1 {
				args = append(args, "tincan")
			}
			if len(args) > 1 {
				program, err := absolute(args[1])
				if err != nil {
					return err
				}
				cfg.Executable = program
				if len(args) > 2 || f.preset == "" {
					cfg.Args = args[2:]
				}
			}
			if err := f.apply(&cfg); err != nil {
				return err
			}
			if err := p.apply(c, &cfg); err != nil {
				return err
			}
			if _, err := server.AddAgent(ctx, args[0], cfg); err != nil {
				return err
			}
			return a.inspect(ctx, server, args[0], a.Show)
		}),
	}
	c.Flags().StringVar(&f.preset, "preset", "", "start from a suggestion of signalbox agent discover")
	f.add(c)
	p.add(c, a.completeCredentials)
	c.MarkFlagsMutuallyExclusive("a2a", "tincan", "preset")
	return c
}

// preset gives what a preset suggests: as it was found on this machine, or,
// where the program is named beside it, without one.
func preset(ctx context.Context, c *client.Client, name string, named bool) (coord.AgentConfig, error) {
	found, err := c.Discover(ctx)
	if err != nil {
		return coord.AgentConfig{}, err
	}
	if at := slices.IndexFunc(found, func(s directory.Suggestion) bool { return s.Preset == name && s.Config != nil }); at >= 0 {
		return *found[at].Config, nil
	}
	known, err := c.Presets(ctx)
	if err != nil {
		return coord.AgentConfig{}, err
	}
	at := slices.IndexFunc(known, func(p api.Preset) bool { return p.Name == name })
	switch {
	case at < 0:
		return coord.AgentConfig{}, coord.Errorf(coord.NotFound, "there is no preset %s: see signalbox agent discover", screen.OneLine(name, 40))
	case !named:
		return coord.AgentConfig{}, coord.Errorf(coord.NotFound, "the program of the preset %s is not on the PATH of signalbox serve: name it, as in signalbox agent add AGENT --preset %s -- /path/to/program", name, name)
	}
	return known[at].Config, nil
}

// absolute finds a program as a shell would.
func absolute(program string) (string, error) {
	found, err := exec.LookPath(program)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return "", coord.Errorf(coord.Invalid, "the program %s was not found: give its path, behind --", screen.OneLine(program, 80))
	}
	return found, nil
}

func (a *app) agentEdit() *cobra.Command {
	var f agentFlags
	var p peerFlags
	var c *cobra.Command
	c = &cobra.Command{
		Use: "edit AGENT [flags] [-- PROGRAM ARG…]", Short: "Make a new revision of an agent; what was approved keeps the old one", Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeAgents,
		RunE: a.with(func(ctx context.Context, server *client.Client, args []string) error {
			g, err := server.Agent(ctx, args[0])
			if err != nil {
				return err
			}
			cfg := g.Config
			if len(args) > 1 {
				program, err := absolute(args[1])
				if err != nil {
					return err
				}
				cfg.Executable, cfg.Args = program, args[2:]
			}
			if err := f.apply(&cfg); err != nil {
				return err
			}
			if err := p.apply(c, &cfg); err != nil {
				return err
			}
			if _, err := server.ReviseAgent(ctx, args[0], g.Revision, cfg); err != nil {
				return err
			}
			return a.inspect(ctx, server, args[0], a.Show)
		}),
	}
	f.add(c)
	p.add(c, a.completeCredentials)
	return c
}

func (a *app) agentInspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect AGENT…", Short: "Start an agent, see what it is, and end it; no work, no login", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeAgents,
		Long: `Inspect starts an agent, sees what it is, and ends it: no work and no login. Of a
peer the card or the list is fetched. Of several agents --json writes a line for
each. It exits 13 when one of them cannot be used until you did something.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			show := a.Show
			if a.JSON && len(args) > 1 {
				show = func(g any, _ func(io.Writer)) error { return a.Line(g) }
			}
			var needed error
			for _, id := range args {
				err := a.inspect(ctx, c, id, show)
				if errors.Is(err, follow.ErrNeeded) {
					needed = err // the others are inspected all the same
				} else if err != nil {
					return err
				}
			}
			return needed
		}),
	}
}

// inspect shows an agent as it is found now. It ends the command with ErrNeeded
// when a person must do something before the agent can get work.
func (a *app) inspect(ctx context.Context, c *client.Client, id string, show func(v any, words func(io.Writer)) error) error {
	a.Say("inspecting %s …", screen.OneLine(id, 64))
	g, err := c.InspectAgent(ctx, id)
	if err != nil {
		return err
	}
	if err := show(g, func(w io.Writer) { a.Agent(w, g) }); err != nil || !screen.Needy(g) {
		return err
	}
	a.Say("%s is registered, and gets no work yet: mend that, then signalbox agent inspect %s", g.ID, g.ID)
	return follow.ErrNeeded
}

func (a *app) agentEnable(on bool) *cobra.Command {
	use, short := "enable", "Let plans use an agent again"
	if !on {
		use, short = "disable", "Keep new plans from using an agent; what runs goes on"
	}
	return &cobra.Command{
		Use: use + " AGENT", Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeAgents,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			g, err := c.EnableAgent(ctx, args[0], on)
			if err != nil {
				return err
			}
			return a.Show(g, func(w io.Writer) { fmt.Fprintf(w, "%s is %sd\n", g.ID, use) })
		}),
	}
}

func (a *app) agentRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove AGENT", Short: "Take an agent out of the directory; its history stays", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeAgents,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.RemoveAgent(ctx, args[0]); err != nil {
				return err
			}
			a.Say("%s was removed", args[0])
			return nil
		}),
	}
}

func (a *app) agentImport() *cobra.Command {
	return &cobra.Command{
		Use: "import FILE", Short: "Show what an ACP registry file suggests; registers and runs nothing", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			b, err := a.readFile(args[0], coord.MaxBody)
			if err != nil {
				return err
			}
			found, err := c.ImportRegistry(ctx, b)
			if err != nil {
				return err
			}
			return a.Show(found, func(w io.Writer) {
				for _, p := range found {
					fmt.Fprintf(w, "%s  %s\n", screen.Clean(p.Name), screen.Clean(p.Title))
					if len(p.Commands) > 0 {
						fmt.Fprintf(w, "  %s %s\n", screen.Clean(strings.Join(p.Commands, " or ")), screen.Clean(strings.Join(p.Config.Args, " ")))
					}
					if p.Note != "" {
						fmt.Fprint(w, screen.Indent(screen.Wrap(screen.Clean(p.Note), a.Width-4), "  "))
					}
				}
			})
		}),
	}
}

// completeAgents offers the agents' ids.
func (a *app) completeAgents(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return offer(a, (*client.Client).Agents, func(g coord.Agent) string { return string(g.ID) + "\t" + screen.OneLine(g.Name, 40) })(cmd, args, word)
}
