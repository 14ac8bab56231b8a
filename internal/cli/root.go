package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/credential/binding"
	"signalbox/internal/daemon"
	"signalbox/internal/directory"
	"signalbox/internal/follow"
	"signalbox/internal/screen"
)

// Program is what the command line runs in.
type Program struct {
	Version  string
	In       io.Reader
	Out, Err io.Writer
	// Env reads the environment; os.Getenv outside of tests.
	Env func(string) string
	// Build puts a worker together, with the agents and the credentials that the
	// configuration declares.
	Build func(agents []directory.Declared, credentials map[string]binding.Source) daemon.Build
}

// app is one run of the program.
type app struct {
	Program
	*screen.Screen
	dataDir, url string
	// started is set when the command line was understood; an error before is
	// one of usage.
	started bool
}

// Main runs one command and gives its exit code.
func Main(ctx context.Context, p Program, args []string) int {
	a := &app{Program: p, Screen: screen.New(p.In, p.Out, p.Err)}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	called, err := root.ExecuteContextC(ctx)
	if err != nil {
		if !a.started {
			err = usage(called, err)
		}
		a.tell(err)
	}
	return codeOf(ctx, err)
}

// tell writes an error for a person: what is wrong, where, and what to do.
func (a *app) tell(err error) {
	w := a.Err
	if _, ok := errors.AsType[exitCode](err); ok || errors.Is(err, follow.ErrNeeded) {
		return // what there was to say is on the screen
	}
	if errors.Is(err, errInterrupted) {
		fmt.Fprintln(w, "interrupted")
		return
	}
	st := a.Styles(screen.IsTerminal(a.Err))
	e, ok := errors.AsType[*coord.Error](err)
	if !ok {
		fmt.Fprintf(w, "%s %s\n", st.Bad.Render("error:"), screen.Clean(err.Error()))
		return
	}
	fmt.Fprintf(w, "%s %s\n", st.Bad.Render("error:"), screen.Clean(e.Message))
	for _, f := range e.Fields {
		place := f.Pointer
		if place == "" {
			place = "/"
		}
		fmt.Fprintf(w, "  %s  %s\n", st.Bold.Render(screen.Clean(place)), screen.Clean(f.Message))
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "signalbox",
		Short: "Coordinate agents that you can hold to account",
		Long: `Signalbox lets agents work for you and holds them to account: you approve the
plan before it runs, you decide what agents ask, no work is ever sent twice, and
what you get tells a claim from a proof.`,
		Example: `  # see a whole job in a few seconds, without an account
  signalbox demo
  # run it here, and log in with the link that it prints
  signalbox serve
  signalbox login 'LINK'
  # make an agent known, and give it a task
  signalbox agent discover
  signalbox agent add opencode --preset opencode
  signalbox run --agent opencode "Say what this project does"`,
		Version: a.Version, SilenceErrors: true, SilenceUsage: true,
	}
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { a.help(root.OutOrStdout(), c) })
	flags := root.PersistentFlags()
	flags.StringVar(&a.dataDir, "data", "", "data directory (default: $SIGNALBOX_DATA, or the user's state directory)")
	flags.StringVar(&a.url, "url", "", "address of a running Signalbox (default: $SIGNALBOX_URL, or what the data directory says)")
	flags.BoolVar(&a.JSON, "json", false, "write JSON: a document, or a line for each event or agent")
	root.AddGroup(&cobra.Group{ID: "work", Title: "Work"}, &cobra.Group{ID: "look", Title: "Look and decide"}, &cobra.Group{ID: "house", Title: "Keep it running"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	cobra.EnableCommandSorting = false // the order below is that of the work
	add("work", a.demoCommand(), a.runCommand(), a.againCommand(), a.jobCommand(), a.agentCommand())
	add("look", a.inboxCommand(), a.reviewCommand(), a.requestCommand(), a.attemptCommand(), a.watchCommand(), a.verifyCommand())
	add("house", a.serveCommand(), a.sandboxCommand(), a.loginCommand(), a.logoutCommand(), a.tokenCommand(), a.credentialCommand(), a.statusCommand(), a.doctorCommand(),
		a.pauseCommand(), a.resumeCommand(), a.stopCommand(), modelAgentCommand(), a.versionCommand())
	root.AddCommand(a.workerCommand())
	root.SetCompletionCommandGroupID("house")
	root.SetHelpCommand(a.helpCommand())
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	a.strict(root)
	return root
}

// strict makes every mistake in a command line a usage error. Cobra by itself
// shows help and succeeds on a mistyped nested command.
func (a *app) strict(c *cobra.Command) {
	if c.HasSubCommands() {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			message := fmt.Sprintf("%q is no command of %q", args[0], cmd.CommandPath())
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				message += "; did you mean " + strings.Join(near, " or ") + "?"
			} else {
				message += "; see " + cmd.CommandPath() + " --help"
			}
			return coord.Errorf(coord.Invalid, "%s", message)
		}
		c.SuggestionsMinimumDistance = 2
	} else if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			a.started = true
			return run(cmd, args)
		}
	}
	for _, sub := range c.Commands() {
		a.strict(sub)
	}
}

// usage makes an error of the command line invalid input. Cobra's errors of
// arguments count them; ours name them as the help does.
func usage(called *cobra.Command, err error) error {
	if _, ok := errors.AsType[*coord.Error](err); ok {
		return err
	}
	given := called.Flags().Args()
	if misfit := called.ValidateArgs(given); misfit != nil && misfit.Error() == err.Error() {
		return coord.Errorf(coord.Invalid, "%s", screen.Misfit(called.CommandPath(), called.Use, len(given)))
	}
	return coord.Errorf(coord.Invalid, "%s; see %s --help", err.Error(), called.CommandPath())
}

// dir gives the data directory.
func (a *app) dir() (string, error) {
	dir := a.dataDir
	if dir == "" {
		dir = a.Env("SIGNALBOX_DATA")
	}
	if dir == "" {
		state := a.Env("XDG_STATE_HOME")
		home := a.Env("HOME")
		switch {
		case state != "" && filepath.IsAbs(state):
		case home == "":
			return "", coord.Errorf(coord.Invalid, "there is no HOME, so name the data directory with --data")
		case runtime.GOOS == "darwin":
			state = filepath.Join(home, "Library", "Application Support")
		default:
			state = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(state, "signalbox")
	}
	return filepath.Abs(dir)
}

// address gives the URL of the running Signalbox.
func (a *app) address() (string, error) {
	if a.url != "" {
		return a.url, nil
	}
	if u := a.Env("SIGNALBOX_URL"); u != "" {
		return u, nil
	}
	dir, err := a.dir()
	if err != nil {
		return "", err
	}
	place, err := daemon.ReadPlace(dir)
	return place.URL, err
}

// connect gives a client with the credential of this user.
func (a *app) connect() (*client.Client, error) {
	address, err := a.address()
	if err != nil {
		return nil, err
	}
	token, err := a.token(address)
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{URL: address, Token: token, Terminal: a.Asks})
}

// with runs do with a client.
func (a *app) with(do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		return do(cmd.Context(), c, args)
	}
}

// offer completes a word with a line for each element of a list that Signalbox
// has: what is typed, and what it is about. Without Signalbox there is none.
func offer[T any](a *app, list func(*client.Client, context.Context) ([]T, error), line func(T) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, err := a.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		found, _ := list(c, cmd.Context()) // a completion has no place for an error
		var out []string
		for _, v := range found {
			out = append(out, line(v))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// readFile reads a file given by name, "-" being standard input.
func (a *app) readFile(name string, limit int64) ([]byte, error) {
	r := a.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, coord.Errorf(coord.Invalid, "%s cannot be read: %s", name, reason(err))
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, coord.Errorf(coord.Invalid, "%s cannot be read: %s", name, reason(err))
	case int64(len(b)) > limit:
		return nil, coord.Errorf(coord.Limit, "%s is longer than %d bytes", name, limit)
	}
	return b, nil
}

// reason is what the system says, without the name that stands beside it.
func reason(err error) string {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}
