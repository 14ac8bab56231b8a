package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/credential"
	"signalbox/internal/daemon"
	"signalbox/internal/screen"
)

// token finds the credential for an address, the environment first.
func (a *app) token(address string) (string, error) {
	if t := a.Env("SIGNALBOX_TOKEN"); t != "" {
		return t, nil
	}
	dir, err := a.dir()
	if err != nil {
		return "", err
	}
	return credential.Find(dir, address)
}

func (a *app) loginCommand() *cobra.Command {
	var file, show bool
	var name string
	c := &cobra.Command{
		Use:   "login LINK",
		Short: "Become the operator with the pairing link that serve printed",
		Long: `Login exchanges the one-time pairing link for an operator's token and keeps it in
the keyring of your desktop. Where there is no keyring, --file keeps it in the
data directory with mode 0600: every program that runs as you can read it
there, agents included. --show prints it once instead, for SIGNALBOX_TOKEN.`,
		Example: `  signalbox login 'http://127.0.0.1:7717/pair#…'`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			link, err := url.Parse(args[0])
			if err != nil || link.Fragment == "" || link.Host == "" {
				return coord.Errorf(coord.Invalid, "this is not a pairing link: it looks like http://127.0.0.1:7717/pair#… and needs quotes in a shell")
			}
			// A link is good once, so where the token goes is tried first.
			if !file && !show && !credential.KeyringWorks() {
				return coord.Errorf(coord.Unavailable, "there is no keyring here, and the link was not used: log in with --file to keep the token in a file, or with --show to see it")
			}
			paired, err := credential.Redeem(cmd.Context(), link, name)
			if err != nil {
				return err
			}
			return a.keep(link, paired, file, show)
		},
	}
	c.Flags().BoolVar(&file, "file", false, "keep the token in a file of the data directory")
	c.Flags().BoolVar(&show, "show", false, "print the token instead of keeping it")
	c.Flags().StringVar(&name, "name", "cli", "name of the token in lists")
	c.MarkFlagsMutuallyExclusive("file", "show")
	return c
}

// keep puts a token where it was asked for.
func (a *app) keep(link *url.URL, paired daemon.Paired, file, show bool) error {
	address := link.Scheme + "://" + link.Host
	where := "your keyring"
	switch {
	case show:
		return a.Show(struct {
			Token string `json:"token"`
		}{paired.Token}, func(w io.Writer) { _, _ = io.WriteString(w, paired.Token+"\n") })
	case file:
		dir, err := a.dir()
		if err != nil {
			return err
		}
		where = credential.File(dir)
		if err := credential.KeepInFile(dir, paired.Token); err != nil {
			return err
		}
		a.Say("! agents run as your user and can read this file; a keyring would keep it from\n  them")
	default:
		if err := credential.KeepInKeyring(address, paired.Token); err != nil {
			return err
		}
	}
	a.Say("you are the operator of %s\nthe token is in %s", address, where)
	return nil
}

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Forget the token that login kept", Args: cobra.NoArgs,
		Long: "Logout removes the token from the keyring and the data directory. The token itself stays good until it is revoked: signalbox token revoke.",
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.dir()
			if err != nil {
				return err
			}
			address, err := a.address()
			if err != nil {
				address = "" // nothing runs, so only the file can be found
			}
			fromKeyring, fromFile, err := credential.Forget(dir, address)
			if err == nil || fromKeyring {
				a.LoggedOut(fromKeyring, fromFile)
			}
			return err
		},
	}
}

func (a *app) tokenCommand() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Make, list and revoke tokens for scripts and assistants"}
	var role, name string
	add := &cobra.Command{
		Use: "add", Short: "Make a token; it is shown once", Args: cobra.NoArgs,
		Example: "  signalbox token add --name assistant --role draft",
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			t, err := c.AddToken(ctx, name, coord.Role(role))
			if err != nil {
				return err
			}
			if err := a.Show(t, func(w io.Writer) { fmt.Fprintln(w, t.Token) }); err != nil {
				return err
			}
			a.Say("this is shown once; it is %s with the role %s", t.ID, t.Role)
			return nil
		}),
	}
	add.Flags().StringVar(&role, "role", string(coord.RoleRead), "operator, draft or read")
	add.Flags().StringVar(&name, "name", "", "what it is for")
	_ = add.MarkFlagRequired("name") // the flag is there: it was made above
	c.AddCommand(add, &cobra.Command{
		Use: "list", Short: "List tokens and browser sessions, without their values", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			tokens, err := c.Tokens(ctx)
			if err != nil {
				return err
			}
			return a.Show(tokens, func(w io.Writer) {
				var rows [][]string
				for _, t := range tokens {
					rows = append(rows, []string{string(t.ID), t.Kind, string(t.Role), screen.Ago(t.Made.Wall), screen.OneLine(t.Name, 40)})
				}
				a.Rows(w, []string{"id", "kind", "role", "made", "name"}, rows)
			})
		}),
	}, &cobra.Command{
		Use: "revoke ID", Short: "End a token or a browser session for good", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.RevokeToken(ctx, args[0]); err != nil {
				return err
			}
			a.Say("%s is revoked", screen.OneLine(args[0], 40))
			return nil
		}),
	})
	return c
}
