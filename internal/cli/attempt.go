package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/follow"
	"signalbox/internal/screen"
)

func (a *app) attemptCommand() *cobra.Command {
	c := &cobra.Command{Use: "attempt", Short: "Look into attempts, and settle those of unknown outcome"}
	c.AddCommand(a.attemptShow(), a.attemptOutput(), a.attemptReconcile(),
		a.resolve("adopt", "State that the task is done, with its result if you have it", coord.Adopted),
		a.resolve("never-ran", "State, with a reason, that the work never ran", coord.NeverRan),
		a.resolve("abandon", "Give the task up", coord.Abandoned))
	return c
}

func (a *app) attemptShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ATTEMPT", Short: "Say what is known of an attempt, what is not and why, and what you can do", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			e, err := c.Explain(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Show(e, func(w io.Writer) { a.Explanation(w, e) })
		}),
	}
}

func (a *app) attemptOutput() *cobra.Command {
	return &cobra.Command{
		Use: "output ATTEMPT", Short: "Write what the agent has written so far", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return c.Output(ctx, args[0], func(t coord.Text) error {
				if a.JSON {
					return a.Line(t)
				}
				if t.Channel != coord.ChannelMessage {
					return nil
				}
				_, err := io.WriteString(a.Screen, screen.Clean(t.Text))
				return err
			})
		}),
	}
}

func (a *app) attemptReconcile() *cobra.Command {
	return &cobra.Command{
		Use: "reconcile ATTEMPT", Short: "Ask the agent what became of the work; sends nothing again", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if _, err := c.Reconcile(ctx, args[0]); err != nil {
				return err
			}
			e, err := c.Explain(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Show(e, func(w io.Writer) { a.Explanation(w, e) })
		}),
	}
}

func (a *app) resolve(use, short string, how coord.ResolutionKind) *cobra.Command {
	var reason, file string
	c := &cobra.Command{
		Use: use + " ATTEMPT", Short: short, Args: cobra.ExactArgs(1),
		Long: short + `. This is your statement, kept with your name; the attempt itself stays of
unknown outcome, because nobody saw it.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			text := ""
			if file != "" {
				b, err := a.readFile(file, coord.MaxAnswerText)
				if err != nil {
					return err
				}
				text = string(b)
			}
			if a.Asks {
				e, err := c.Explain(ctx, args[0])
				if err != nil {
					return err
				}
				a.Explanation(a.Err, e)
				if yes, err := a.Ask(ctx, "\n"+short+"?"); err != nil || !yes {
					return follow.Declined(ctx, err)
				}
			}
			t, err := c.Resolve(ctx, args[0], how, reason, text)
			if err != nil {
				return err
			}
			return a.Show(t, func(w io.Writer) {
				fmt.Fprintf(w, "task %s: resolved as %s\n", t.Key, strings.ReplaceAll(string(how), "_", " "))
			})
		}),
	}
	c.Flags().StringVarP(&reason, "reason", "m", "", "why you are sure")
	if how == coord.NeverRan {
		_ = c.MarkFlagRequired("reason") // the flag is there: it was made above
	}
	if how == coord.Adopted {
		c.Flags().StringVar(&file, "result", "", "file with the result, - for standard input")
	}
	return c
}
