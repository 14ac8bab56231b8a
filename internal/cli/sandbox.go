package cli

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"signalbox/internal/certification"
	"signalbox/internal/client"
)

func (a *app) sandboxCommand() *cobra.Command {
	c := &cobra.Command{Use: "sandbox", Short: "Prove on this machine what edits and tests stand on"}
	c.AddCommand(a.sandboxCertify(), a.sandboxShow())
	return c
}

func (a *app) sandboxCertify() *cobra.Command {
	var verbose bool
	c := &cobra.Command{
		Use: "certify", Short: "Probe the sandbox and the agents' confinement now", Args: cobra.NoArgs,
		Long: `Certify tries, without any model, what a confined program and an agent must not be
able to do: read other folders and credentials, write, reach the network, start
programs, touch other processes. Each attempt is made outside first, where it
must work; one that does not is listed as not proven. What holds is good for two
hours, for exactly these programs and this boot of the machine. Agents are
offered write and test only while it holds. What speaks against the sandbox is
listed; --verbose lists every attempt, and --json has them all. It exits 10 when
something does not hold.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			a.Say("probing; some seconds, and a minute for each agent that does not answer …")
			made, err := c.Certify(ctx)
			if err != nil {
				return err
			}
			if err := a.Show(made, func(w io.Writer) { a.Certificates(w, made, verbose) }); err != nil {
				return err
			}
			if !slices.ContainsFunc(made, func(s certification.Standing) bool { return s.Certificate.Facts.Agent != "" }) {
				a.Say("no agent was certified: signalbox agent list, and agent show, say why")
			}
			if slices.ContainsFunc(made, func(s certification.Standing) bool { return s.Void != "" }) {
				return exitCode(exitFailed)
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&verbose, "verbose", false, "every attempt, not only what speaks against the sandbox")
	return c
}

func (a *app) sandboxShow() *cobra.Command {
	var all, verbose bool
	c := &cobra.Command{
		Use: "show", Short: "Show what was proven, and whether it still holds", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Certificates(ctx)
			if err != nil {
				return err
			}
			if !all {
				list = slices.DeleteFunc(list, func(s certification.Standing) bool { return s.Void != "" })
			}
			if len(list) == 0 {
				a.Say("nothing is proven now: signalbox sandbox certify")
			}
			return a.Show(list, func(w io.Writer) { a.Certificates(w, list, verbose) })
		}),
	}
	c.Flags().BoolVar(&all, "all", false, "also those that no longer hold")
	c.Flags().BoolVar(&verbose, "verbose", false, "every attempt, not only what speaks against the sandbox")
	return c
}
