package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/credential/binding"
	"signalbox/internal/screen"
)

func (a *app) credentialCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "credential", Short: "Keep the secrets that peers on the network ask for",
		Long: `A credential is the value that a peer on the network wants as a bearer token. The
configuration file names it, says where the value is, and binds it to the one
origin that it may go to:

[credentials.NAME] with origin = "https://peer.example" and either
env = "VARIABLE" or keyring = true.

A registration refers to it by its name. The value is read for each request, and
shown and stored nowhere else.`,
	}
	c.AddCommand(a.credentialList(), a.credentialSet(), a.credentialRemove())
	return c
}

func (a *app) credentialList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List credentials: where each may go, and whether it has a value", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			found, err := c.Credentials(ctx)
			if err != nil {
				return err
			}
			return a.Show(found, func(w io.Writer) {
				var rows [][]string
				for _, b := range found {
					configured := "yes"
					if !b.Configured {
						configured = "no: " + b.Problem
					}
					rows = append(rows, []string{b.Name, b.Origin, b.Source, configured})
				}
				a.List(w, "no credentials yet: signalbox credential --help says how one is declared", []string{"name", "origin", "source", "configured"}, rows)
			})
		}),
	}
}

// changedCredential is what set and remove say as JSON.
type changedCredential struct {
	Name       string `json:"name"`
	Configured bool   `json:"configured"`
}

func (a *app) credentialSet() *cobra.Command {
	var config string
	c := &cobra.Command{
		Use: "set NAME", Short: "Put the value of a credential into the keyring", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeCredentials,
		Long: `Set asks for the value, without showing it, or reads it from the standard input,
and puts it into the keyring of this user in place of the one before. The
configuration file must say keyring = true for the credential. The next request
to its origin uses the new value.`,
		Example: "  signalbox credential set scout\n  signalbox credential set scout < token.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if err := a.inKeyring(name, config); err != nil {
				return err
			}
			value, err := a.Secret(cmd.Context(), "value of "+name+": ", coord.MaxCredential)
			if err != nil {
				return err
			}
			if err := binding.Keep(name, value); err != nil {
				return err
			}
			return a.Show(changedCredential{name, true}, func(io.Writer) { a.Say("the keyring has the value of %s", name) })
		},
	}
	c.Flags().StringVar(&config, "config", "", "configuration file (default: signalbox.toml in the data directory)")
	return c
}

// inKeyring refuses a name whose value would be looked for elsewhere.
func (a *app) inKeyring(name, config string) error {
	if err := binding.CheckName(name); err != nil {
		return err
	}
	dir, err := a.dir()
	if err != nil {
		return err
	}
	file, err := a.config(config, dir)
	if err != nil {
		return err
	}
	switch s, known := file.Credentials[name]; {
	case !known:
		return coord.Errorf(coord.NotFound, "the configuration file has no [credentials.%s]: add it with keyring = true and the origin that the value may go to", name)
	case !s.Keyring:
		return coord.Errorf(coord.Conflict, "the configuration file says that the value of %s is in the variable %s: set it there, or write keyring = true in place of env", name, s.Env)
	}
	return nil
}

func (a *app) credentialRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove the value of a credential from the keyring", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeCredentials,
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			if err := binding.Forget(name); err != nil {
				return err
			}
			return a.Show(changedCredential{name, false}, func(io.Writer) { a.Say("the keyring has no value of %s any more", screen.OneLine(name, 64)) })
		},
	}
}

// completeCredentials offers the credentials' names, with where each may go.
func (a *app) completeCredentials(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return offer(a, (*client.Client).Credentials, func(b binding.BoundCredential) string { return b.Name + "\t" + b.Origin })(cmd, args, word)
}
