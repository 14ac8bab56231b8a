package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/screen"
	"signalbox/internal/synthesis"
)

func (a *app) doctorCommand() *cobra.Command {
	var repair bool
	c := &cobra.Command{
		Use: "doctor", Short: "Find and explain what is stuck, orphaned, inconsistent or missing", Args: cobra.NoArgs,
		Long: "Doctor reads everything that is kept, stored bytes included, and asks for the credentials of peers. With --repair it mends what is provably safe to mend, and nothing else. It exits 5 when an error is left.",
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			if repair {
				mended, err := c.Repair(ctx)
				if err != nil {
					return err
				}
				for _, f := range mended {
					a.Say("mended: %s: %s", screen.Clean(f.Subject), screen.Clean(f.Explanation))
				}
			}
			found, err := c.Check(ctx)
			if err != nil {
				return err
			}
			if err := a.Show(found, func(w io.Writer) { screen.Findings(w, found) }); err != nil {
				return err
			}
			for _, f := range found {
				if f.Severity == synthesis.Fault {
					return exitCode(exits[coord.Conflict])
				}
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&repair, "repair", false, "mend what is provably safe to mend")
	return c
}
