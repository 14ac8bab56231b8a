package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/daemon"
	"signalbox/internal/directory"
	"signalbox/internal/screen"
)

func (a *app) serveCommand() *cobra.Command {
	var listen, config string
	c := &cobra.Command{
		Use: "serve", Short: "Run Signalbox on this machine", Args: cobra.NoArgs,
		Long: `Serve opens the front door on loopback and keeps a worker behind it. It prints a
one-time pairing link: open it in a browser, or give it to signalbox login. It
ends with Ctrl-C, SIGTERM or signalbox stop.`,
		Example: "  signalbox serve\n  signalbox serve --listen 0 --data ./state",
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := a.dir()
			if err != nil {
				return err
			}
			file, err := a.config(config, dir)
			if err != nil {
				return err
			}
			if listen == "" {
				listen = file.Listen
			}
			return a.serve(cmd.Context(), dir, listen, config)
		},
	}
	c.Flags().StringVar(&listen, "listen", "", "port on 127.0.0.1, 0 for any (default 7717)")
	c.Flags().StringVar(&config, "config", "", "configuration file (default: signalbox.toml in the data directory, if there)")
	return c
}

// configName is the configuration file's name in the data directory.
const configName = "signalbox.toml"

// config reads the configuration: the file named, which must be there, or that
// of the data directory, which may be.
func (a *app) config(name, dir string) (daemon.Config, error) {
	if name == "" {
		name = filepath.Join(dir, configName)
		// Where the data directory is a file, the worker says so.
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return daemon.Config{}, nil
		}
	}
	return daemon.LoadConfig(name)
}

// serve runs a front door until ctx ends.
func (a *app) serve(ctx context.Context, dir, listen, config string) error {
	worker := []string{"worker", "--data", dir}
	if config != "" {
		abs, err := filepath.Abs(config)
		if err != nil {
			return err
		}
		worker = append(worker, "--config", abs)
	}
	err := daemon.Serve(ctx, daemon.ServeOptions{
		Dir: dir, Listen: listen, Worker: worker, Version: a.Version, Stderr: a.Err,
		Logger: slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Ready: func(place daemon.Place, link daemon.Link) {
			ready := struct {
				URL  string `json:"url"`
				Pair string `json:"pair"`
				Data string `json:"data"`
			}{place.URL, link.URL, dir}
			// Who started serve reads this line; that it cannot be written is no
			// reason to stop.
			_ = a.Show(ready, func(w io.Writer) {
				fmt.Fprintf(w, "Signalbox is ready at %s, its data is in %s\n\n", place.URL, dir)
				fmt.Fprintf(w, "  become the operator (good once, for ten minutes):\n    signalbox login '%s'\n\n", link.URL)
				fmt.Fprintf(w, "  then, for example:\n    signalbox agent discover\n    signalbox run --agent NAME \"…\"\n")
			})
		},
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was asked to end, and did
	}
	return err
}

// workerCommand is what serve starts; it is of no use by itself.
func (a *app) workerCommand() *cobra.Command {
	var config string
	c := &cobra.Command{
		Use: "worker", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := a.dir()
			if err != nil {
				return err
			}
			file, err := a.config(config, dir)
			if err != nil {
				return err
			}
			declared := make([]directory.Declared, len(file.Agents))
			for i, agent := range file.Agents {
				declared[i] = directory.Declared{ID: agent.ID, Config: agent.AgentConfig}
			}
			err = daemon.Worker(context.WithoutCancel(cmd.Context()), daemon.WorkerOptions{
				Dir: dir, Version: a.Version, Build: a.Build(declared, file.Credentials), Stderr: a.Err,
			})
			if errors.Is(err, daemon.ErrReported) {
				return exitCode(codeOf(cmd.Context(), err)) // serve tells it
			}
			return err
		},
	}
	c.Flags().StringVar(&config, "config", "", "configuration file")
	return c
}

func (a *app) stopCommand() *cobra.Command {
	var drain bool
	c := &cobra.Command{
		Use: "stop", Short: "End Signalbox; --drain lets what runs finish first", Args: cobra.NoArgs,
		Long: `Stop ends serve and its worker. What runs is cancelled, and what does not confirm
that it stopped within 30 seconds ends as unknown. With --drain nothing more is
admitted, what runs may finish, and stop waits for it.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			address, err := a.address()
			if err != nil {
				return err
			}
			if err := c.Stop(ctx, drain); err != nil {
				return err
			}
			a.Say("stopping …")
			return waitGone(ctx, address)
		}),
	}
	c.Flags().BoolVar(&drain, "drain", false, "admit nothing more and wait until nothing runs")
	return c
}

func (a *app) pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pause", Short: "Admit no more tasks; what runs goes on", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error { return a.admission(ctx, c, true) }),
	}
}

func (a *app) resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "resume", Short: "Admit tasks again after pause", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error { return a.admission(ctx, c, false) }),
	}
}

func (a *app) admission(ctx context.Context, c *client.Client, paused bool) error {
	status, err := c.SetPaused(ctx, paused)
	if err != nil {
		return err
	}
	return a.Show(status, func(w io.Writer) {
		if paused {
			fmt.Fprintf(w, "paused: nothing more is admitted; what runs goes on (%s)\n", screen.Plural(status.Running+status.Waiting, "task"))
		} else {
			fmt.Fprintln(w, "tasks are admitted again")
		}
	})
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say how things stand", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			status, err := c.Status(ctx)
			if err != nil {
				return err
			}
			return a.Show(status, func(w io.Writer) {
				state := "admits tasks"
				switch {
				case status.Draining:
					state = "is draining: it ends when nothing runs"
				case status.Paused:
					state = "is paused: it admits no tasks (signalbox resume)"
				case status.LowDisk:
					state = fmt.Sprintf("admits no tasks: less than %s of disk is free", screen.Size(coord.MinFreeSpace))
				}
				fmt.Fprintf(w, "Signalbox %s on %s %s\n", status.Version, status.Host, state)
				fmt.Fprintf(w, "  %s open: %d tasks running, %d waiting for you, %d ready, %d blocked, %d unknown\n",
					screen.Plural(status.Jobs, "job"), status.Running, status.Waiting, status.Ready, status.Blocked, status.Unknown)
				if status.Requests > 0 || status.Unknown > 0 {
					fmt.Fprintf(w, "  %s and %s of unknown outcome wait for you: signalbox inbox\n", screen.Plural(status.Requests, "request"), screen.Plural(status.Unknown, "task"))
				}
				if n := len(status.UnsetCredentials); n > 0 {
					fmt.Fprintf(w, "  %s for peers without a value (%s): signalbox doctor\n", screen.Plural(n, "credential"), strings.Join(status.UnsetCredentials, ", "))
				}
			})
		}),
	}
}

func modelAgentCommand() *cobra.Command {
	// The program runs this before the command line is built, so that it starts
	// fast; here it stands for help and completion.
	return &cobra.Command{
		Use: "model-agent [flags]", Short: "Be an ACP agent that relays one prompt to a model API",
		Long: `Model-agent speaks ACP on its standard streams, takes one prompt and relays it to
an API of the OpenAI kind. Register it as an agent; see signalbox model-agent
--help for its flags.`,
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return coord.Errorf(coord.Internal, "model-agent is run by the program itself")
		},
	}
}
