package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"signalbox/internal/approval"
	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/follow"
	"signalbox/internal/screen"
)

func (a *app) requestCommand() *cobra.Command {
	c := &cobra.Command{Use: "request", Short: "See and decide what agents ask"}
	c.AddCommand(a.requestList(), a.requestShow(),
		a.decide("approve", "Allow what is asked, once unless you name another option", coord.DecisionApprove),
		a.decide("deny", "Refuse what is asked", coord.DecisionDeny),
		a.decide("answer", "Answer a question", coord.DecisionAnswer))
	return c
}

func (a *app) requestList() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "list", Short: "List the requests that wait; --all for the decided ones, too", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			var list []coord.Request
			none := "no request waits for you; --all lists the decided ones, too"
			if all {
				var err error
				none = "no agent has asked for anything yet"
				if list, _, err = c.Requests(ctx, 0, 100); err != nil {
					return err
				}
			} else {
				in, err := c.Inbox(ctx)
				if err != nil {
					return err
				}
				list = in.Requests
			}
			return a.Show(list, func(w io.Writer) {
				var rows [][]string
				for _, r := range list {
					rows = append(rows, []string{fmt.Sprintf("r%d", r.Number), a.State(string(r.Decision)), string(r.Delivery), string(r.Agent), r.Key, screen.Ago(r.Opened.Wall), screen.OneLine(r.Content.Title, coord.MaxTitle)})
				}
				a.List(w, none, []string{"request", "decision", "answer", "agent", "task", "asked", "for"}, rows)
			})
		}),
	}
	c.Flags().BoolVar(&all, "all", false, "the newest hundred, decided or not")
	return c
}

func (a *app) requestShow() *cobra.Command {
	return &cobra.Command{
		Use: "show REQUEST", Short: "Show one request whole", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeRequests,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			r, err := c.Request(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Show(r, func(w io.Writer) { a.Request(w, r) })
		}),
	}
}

func (a *app) decide(use, short string, on coord.DecisionEvent) *cobra.Command {
	var d approval.Decision
	c := &cobra.Command{
		Use: use + " REQUEST", Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeRequests,
		Long: short + `. At a terminal the request is shown first and you are asked. Elsewhere the
digest of what you looked at is needed (--digest, from request show --json), so
that nothing is decided unseen.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			d.Decision = on
			if d.Digest == "" {
				r, err := c.Request(ctx, args[0])
				if err != nil {
					return err
				}
				if on != coord.DecisionDeny && !a.Asks {
					return coord.Errorf(coord.Invalid, "off a terminal name what you looked at: --digest %s", r.Digest)
				}
				if a.Asks {
					a.Request(a.Err, r)
					if yes, err := a.Ask(ctx, use+" it?"); err != nil || !yes {
						return follow.Declined(ctx, err)
					}
				}
				d.Digest = r.Digest
			}
			r, err := c.Decide(ctx, args[0], d)
			if err != nil {
				return err
			}
			return a.Show(r, func(w io.Writer) { fmt.Fprintf(w, "r%d is %s\n", r.Number, r.Decision) })
		}),
	}
	c.Flags().StringVar(&d.Digest, "digest", "", "digest of the request as you saw it")
	c.Flags().StringVarP(&d.Reason, "message", "m", "", "a comment for the record")
	if on == coord.DecisionAnswer {
		c.Flags().StringVar(&d.Answer, "text", "", "the answer")
		_ = c.MarkFlagRequired("text") // the flag is there: it was made above
	} else {
		c.Flags().StringVar(&d.Option, "option", "", "one of the agent's own options, by its id")
	}
	return c
}

func (a *app) completeRequests(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	waiting := func(c *client.Client, ctx context.Context) ([]coord.Request, error) {
		in, err := c.Inbox(ctx)
		return in.Requests, err
	}
	return offer(a, waiting, func(r coord.Request) string {
		return fmt.Sprintf("r%d\t%s: %s", r.Number, r.Agent, screen.OneLine(r.Content.Title, 40))
	})(cmd, args, word)
}
