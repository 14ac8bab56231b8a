package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/internal/api"
	"signalbox/internal/approval"
	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/screen"
	"signalbox/internal/synthesis"
)

func (a *app) inboxCommand() *cobra.Command {
	return &cobra.Command{
		Use: "inbox", Short: "Show all that waits for you", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			in, err := c.Inbox(ctx)
			if err != nil {
				return err
			}
			// An attempt is named by its job's number, which it does not carry.
			names := make([]string, len(in.Unknowns))
			for i, t := range in.Unknowns {
				j, err := c.Job(ctx, string(t.Job))
				if err != nil {
					return err
				}
				names[i] = fmt.Sprintf("%d/%s", j.Number, t.Key)
			}
			if err := a.Show(in, func(w io.Writer) { a.inbox(w, in, names) }); err != nil {
				return err
			}
			a.settle(in, names)
			return nil
		}),
	}
}

// inbox writes what waits, a line for each.
func (a *app) inbox(w io.Writer, in api.Inbox, unknowns []string) {
	var rows [][]string
	for _, r := range in.Requests {
		rows = append(rows, []string{fmt.Sprintf("r%d", r.Number), a.State(string(r.Decision)), string(r.Agent), screen.Ago(r.Opened.Wall), screen.OneLine(r.Content.Title, coord.MaxTitle)})
	}
	for _, c := range in.ChangeSets {
		rows = append(rows, []string{fmt.Sprintf("c%d", c.Number), a.State(string(c.State)), string(c.Agent), screen.Ago(c.Opened.Wall), screen.About(c)})
	}
	for i, t := range in.Unknowns {
		rows = append(rows, []string{unknowns[i], a.State(string(t.State)), string(t.Agent), screen.Ago(t.Observed.Wall), screen.OneLine(t.Reason, coord.MaxTitle)})
	}
	for _, j := range in.Drafts {
		rows = append(rows, []string{itoa(j.Number), a.State(string(j.State)), "", screen.Ago(j.Drafted.Wall), screen.OneLine(j.Title, coord.MaxTitle)})
	}
	if len(rows) > 0 {
		a.Rows(w, []string{"", "state", "agent", "since", "about"}, rows)
	}
}

// settle says how what waits is settled.
func (a *app) settle(in api.Inbox, unknowns []string) {
	if len(in.Requests)+len(in.ChangeSets)+len(in.Unknowns)+len(in.Drafts) == 0 {
		a.Say("nothing waits for you")
	}
	if len(in.Requests) > 0 {
		r, how := in.Requests[0], "approve"
		if r.Kind == coord.Question {
			how = "answer"
		}
		a.Say("a request:     signalbox request show r%d, then request %s r%d or deny r%d", r.Number, how, r.Number, r.Number)
	}
	if len(in.ChangeSets) > 0 {
		a.Say("changes:       signalbox review c%d", in.ChangeSets[0].Number)
	}
	if len(unknowns) > 0 {
		a.Say("an unknown:    signalbox attempt show %s", unknowns[0])
	}
	if len(in.Drafts) > 0 {
		a.Say("a draft:       signalbox job run %d, or job discard %d", in.Drafts[0].Number, in.Drafts[0].Number)
	}
}

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
						return declined(err)
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
					return declined(err)
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

// itoa is a job's number as a reference.
func itoa(n int64) string { return strconv.FormatInt(n, 10) }
