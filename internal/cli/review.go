package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"signalbox/internal/approval"
	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/follow"
	"signalbox/internal/screen"
)

// reviewFlags decide off a terminal.
type reviewFlags struct {
	approve, discard, list bool
	approval.Review
}

func (a *app) reviewCommand() *cobra.Command {
	var f reviewFlags
	c := &cobra.Command{
		Use: "review [CHANGES]", Short: "Look at what agents wrote, and let it land or discard it", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeChangeSets,
		Long: `Review shows the changes that agents made and Signalbox held back, exactly. On y
they land in the workspace: each file only if it is still as it was. Without a
change set all that wait are gone through. Elsewhere than at a terminal the
changes are written out; --approve or --discard then decide on exactly what
--digest names, and --only on some of the files.`,
		Example: "  signalbox review\n  signalbox review c7 --approve --digest DIGEST --only src/parser.go",
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return a.review(ctx, c, args, f)
		}),
	}
	c.Flags().BoolVar(&f.approve, "approve", false, "let the change set land, without asking")
	c.Flags().BoolVar(&f.discard, "discard", false, "throw the change set away, without asking")
	c.Flags().BoolVar(&f.list, "list", false, "only list the change sets, decided or not")
	c.Flags().StringVar(&f.Digest, "digest", "", "digest of the change set as you saw it")
	c.Flags().StringSliceVar(&f.Only, "only", nil, "land only these files")
	c.Flags().StringVarP(&f.Reason, "message", "m", "", "a comment for the record")
	c.MarkFlagsMutuallyExclusive("approve", "discard", "list")
	return c
}

func (a *app) review(ctx context.Context, c *client.Client, args []string, f reviewFlags) error {
	if f.list {
		sets, _, err := c.ChangeSets(ctx, 0, coord.MaxPage)
		if err != nil {
			return err
		}
		return a.Show(sets, func(w io.Writer) { a.changeSets(w, sets) })
	}
	refs := args
	if len(refs) == 0 {
		in, err := c.Inbox(ctx)
		if err != nil {
			return err
		}
		for _, s := range in.ChangeSets {
			refs = append(refs, fmt.Sprintf("c%d", s.Number))
		}
		switch {
		case len(refs) == 0:
			a.Say("no changes wait for a review")
			return nil
		case !a.Asks:
			return a.Show(in.ChangeSets, func(w io.Writer) { a.changeSets(w, in.ChangeSets) })
		}
	}
	for _, ref := range refs {
		if err := a.reviewOne(ctx, c, ref, f); err != nil {
			return err
		}
	}
	return nil
}

// changeSets writes a line for each.
func (a *app) changeSets(w io.Writer, sets []coord.ChangeSet) {
	var rows [][]string
	for _, s := range sets {
		rows = append(rows, []string{fmt.Sprintf("c%d", s.Number), a.State(string(s.State)), string(s.Agent), s.Key, screen.Ago(s.Opened.Wall), screen.About(s)})
	}
	a.Rows(w, []string{"changes", "state", "agent", "task", "since", "files"}, rows)
}

func (a *app) reviewOne(ctx context.Context, c *client.Client, ref string, f reviewFlags) error {
	if f.approve || f.discard {
		if f.Digest == "" {
			return coord.Errorf(coord.Invalid, "name what you looked at: --digest, from signalbox review %s --json", ref)
		}
		f.Decision = coord.ChangeSetDiscard
		if f.approve {
			f.Decision = coord.ChangeSetApprove
		}
		return a.decideChanges(ctx, c, ref, f.Review)
	}
	d, err := c.Display(ctx, ref)
	if err != nil {
		return err
	}
	if !a.Asks || a.JSON || d.ChangeSet.State != coord.ChangeSetOpen {
		return a.Show(d, func(w io.Writer) { a.Changes(w, d) })
	}
	a.Changes(a.Err, d)
	f.Digest = d.ChangeSet.Digest
	for {
		fmt.Fprintf(a.Err, "\nlet c%d land? [y]es, [n]o and discard it, [f]ile by file, [c]omment, [s]kip: ", d.ChangeSet.Number)
		answer, err := a.ReadLine(ctx)
		if err != nil {
			a.Say("")
			return follow.Declined(ctx, err)
		}
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			f.Decision = coord.ChangeSetApprove
			return a.decideChanges(ctx, c, ref, f.Review)
		case "n", "no":
			f.Decision = coord.ChangeSetDiscard
			return a.decideChanges(ctx, c, ref, f.Review)
		case "f":
			return a.fileByFile(ctx, c, ref, d, f.Review)
		case "c":
			if err := a.commentOn(ctx, c, ref); err != nil {
				return err
			}
		case "s", "":
			a.Say("c%d waits", d.ChangeSet.Number)
			return nil
		}
	}
}

// fileByFile asks for each file.
func (a *app) fileByFile(ctx context.Context, c *client.Client, ref string, d approval.Display, r approval.Review) error {
	r.Only = nil
	for _, f := range d.Files {
		a.Diff(a.Err, f)
		yes, err := a.Ask(ctx, "let "+screen.OneLine(f.Change.Path, coord.MaxTitle)+" land?")
		if err != nil {
			return follow.Declined(ctx, err)
		}
		if yes {
			r.Only = append(r.Only, f.Change.Path)
		}
	}
	r.Decision = coord.ChangeSetApprove
	if len(r.Only) == 0 {
		r.Decision = coord.ChangeSetDiscard
	}
	return a.decideChanges(ctx, c, ref, r)
}

func (a *app) commentOn(ctx context.Context, c *client.Client, ref string) error {
	fmt.Fprint(a.Err, "comment: ")
	text, err := a.ReadLine(ctx)
	if err != nil {
		return follow.Declined(ctx, err)
	}
	if _, err = c.Comment(ctx, ref, strings.TrimSpace(text)); err == nil {
		a.Say("noted")
	}
	return err
}

// landingLook is how often a landing is looked at: it takes milliseconds a file.
const landingLook = 50 * time.Millisecond

// decideChanges decides, and sees a landing to its end.
func (a *app) decideChanges(ctx context.Context, c *client.Client, ref string, r approval.Review) error {
	s, err := c.Review(ctx, ref, r)
	if err != nil {
		return err
	}
	tick := time.NewTicker(landingLook)
	defer tick.Stop()
	for !coord.ChangeSets.Final(s.State) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if s, err = c.ChangeSet(ctx, ref); err != nil {
			return err
		}
	}
	if err := a.Show(s, func(w io.Writer) { a.Landed(w, s) }); err != nil {
		return err
	}
	if s.State == coord.ChangeSetPartial || s.State == coord.ChangeSetStale {
		return exitCode(exitFailed)
	}
	return nil
}

func (a *app) completeChangeSets(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	waiting := func(c *client.Client, ctx context.Context) ([]coord.ChangeSet, error) {
		in, err := c.Inbox(ctx)
		return in.ChangeSets, err
	}
	return offer(a, waiting, func(s coord.ChangeSet) string { return fmt.Sprintf("c%d\t%s: %s", s.Number, s.Agent, screen.About(s)) })(cmd, args, word)
}
