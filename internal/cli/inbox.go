package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"signalbox/internal/api"
	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/screen"
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
