package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/follow"
	"signalbox/internal/screen"
)

// approvalFlags say how a plan is approved and followed.
type approvalFlags struct {
	approved string
	through  bool
}

func (f *approvalFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.approved, "approved", "", "approve without a question if the plan has this digest")
	c.Flags().BoolVar(&f.through, "through", false, "wait on when the operator is needed, instead of ending with 13")
}

func (a *app) runCommand() *cobra.Command {
	var f approvalFlags
	var agent, title, workspace, base string
	var read, write, each bool
	var tests []string
	var deadline time.Duration
	c := &cobra.Command{
		Use: "run TASK", Short: "Draft one task, look at it, run it on y, and follow it", Args: cobra.ExactArgs(1),
		Long: `Run drafts a job of one task, shows the whole plan, and runs it when you say y. It
streams what the agent writes, puts what the agent asks before you, and ends as
job wait does: 0 completed, 10 failed, 11 cancelled, 12 unknown, 13 you are
needed, 130 interrupted while the job runs on. Off a terminal it only drafts and ends with 13, unless --approved names
the digest of the plan. With - the task is read from standard input.`,
		Example: `  signalbox run --agent opencode --in . "Say what this project does"
  signalbox run --agent codex --in . --write --test src/p.test.ts "Fix the failing test"`,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			text := args[0]
			if text == "-" {
				b, err := a.readFile("-", coord.MaxInstruction)
				if err != nil {
					return err
				}
				text = string(b)
			}
			task := coord.PlanTask{Key: "task", Agent: coord.AgentID(agent), Instruction: text}
			if workspace != "" {
				var err error
				if task.Workspace, err = canonical(workspace); err != nil {
					return err
				}
			}
			task.Operations, task.Writes, task.Tests, task.Base = operations(read, write || each, len(tests) > 0), writes(each), tests, base
			j, err := c.Draft(ctx, coord.Plan{Title: title, Deadline: coord.Duration(deadline), Tasks: []coord.PlanTask{task}})
			if err != nil {
				return err
			}
			return a.approve(ctx, c, itoa(j.Number), f, true)
		}),
	}
	c.Flags().StringVarP(&agent, "agent", "a", "", "the agent to ask")
	c.Flags().StringVar(&title, "title", "", "title (default: the first line)")
	c.Flags().StringVar(&workspace, "in", "", "folder that the agent starts in (default: an empty one)")
	c.Flags().BoolVar(&read, "read", false, "let it read the folder through Signalbox")
	c.Flags().BoolVar(&write, "write", false, "let it change files there; the changes are held back for your review")
	c.Flags().BoolVar(&each, "each", false, "let it change files there, each after you allowed it")
	c.Flags().StringSliceVar(&tests, "test", nil, "let it run these files of tests in the sandbox")
	c.Flags().StringVar(&base, "base", "", "change set that the work starts from, such as c7")
	c.Flags().DurationVar(&deadline, "deadline", 0, "how long it may take, at most 2h (default 30m)")
	f.add(c)
	_ = c.MarkFlagRequired("agent") // the flag is there: it was made above
	_ = c.RegisterFlagCompletionFunc("agent", a.completeAgents)
	return c
}

// operations are those that the flags of run name; none are the default.
func operations(read, write, test bool) []coord.Operation {
	var out []coord.Operation
	if read || write || test {
		out = append(out, coord.Read)
	}
	if write {
		out = append(out, coord.Write)
	}
	if test {
		out = append(out, coord.Test)
	}
	return out
}

func writes(each bool) coord.WriteMode {
	if each {
		return coord.Each
	}
	return ""
}

// againCommand drafts a job once more with what the operator has to say.
func (a *app) againCommand() *cobra.Command {
	var f approvalFlags
	var message string
	c := &cobra.Command{
		Use: "again JOB", Short: "Give a job once more, with what is to be done differently", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeJobs,
		Long: `Again drafts the tasks of an ended job as a new one, each on top of the changes
that it made and that you did not discard, with its result as data and your
words added to its instruction. It then shows the plan and runs it on y, as run
does. Instead of the job a change set of it may be named.`,
		Example: `  signalbox again 12 -m "Keep the old name as an alias"`,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			ref := args[0]
			if _, err := coord.ParseChangeSetRef(ref); err == nil {
				s, err := c.ChangeSet(ctx, ref)
				if err != nil {
					return err
				}
				ref = string(s.Job)
			}
			j, err := c.Again(ctx, ref, message)
			if err != nil {
				return err
			}
			return a.approve(ctx, c, itoa(j.Number), f, true)
		}),
	}
	c.Flags().StringVarP(&message, "message", "m", "", "what is to be done differently")
	f.add(c)
	_ = c.MarkFlagRequired("message") // the flag is there: it was made above
	return c
}

func (a *app) jobRun() *cobra.Command {
	var f approvalFlags
	var wait bool
	c := &cobra.Command{
		Use: "run JOB", Short: "Look at a draft and run it on y", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeJobs,
		Long: `Run makes the draft exact (which agents, which programs by their hashes, which
folders), shows it, and approves it when you say y. Off a terminal it ends with
13, unless --approved names the digest of the exact plan.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return a.approve(ctx, c, args[0], f, wait || f.through)
		}),
	}
	c.Flags().BoolVar(&wait, "wait", false, "follow the job to its end")
	f.add(c)
	return c
}

// approve shows the exact plan, asks, and runs it.
func (a *app) approve(ctx context.Context, c *client.Client, ref string, f approvalFlags, wait bool) error {
	a.Say("looking at the agents …")
	j, err := c.Freeze(ctx, ref)
	if err != nil {
		if j, jerr := c.Job(ctx, ref); jerr == nil && j.State == coord.JobDraft {
			a.Say("job %d stays a draft", j.Number)
		}
		return err
	}
	switch {
	case f.approved != "" && f.approved == j.Frozen.Digest:
	case f.approved != "":
		return coord.Errorf(coord.Stale, "the plan's digest is %s, not the approved one: look at it again with signalbox job show %d", j.Frozen.Digest, j.Number)
	case !a.Asks:
		if a.JSON {
			if err := a.Document(j); err != nil {
				return err
			}
		} else {
			a.Review(a.Err, j)
		}
		a.Say("drafted as job %d and not run, because nobody is at a terminal to say y.\nrun it: signalbox job run %d --approved %s", j.Number, j.Number, j.Frozen.Digest)
		return follow.ErrNeeded
	default:
		a.Review(a.Err, j)
		yes, err := a.Ask(ctx, "\nrun it?")
		if err != nil || !yes {
			a.Say("job %d stays a draft: signalbox job run %d, or job discard %d", j.Number, j.Number, j.Number)
			return follow.Declined(ctx, err)
		}
	}
	cursor, err := c.Now(ctx)
	if err != nil {
		return err
	}
	if j, err = c.Run(ctx, ref, j.Frozen.Digest); err != nil {
		return err
	}
	if !wait {
		return a.Show(j, func(w io.Writer) {
			fmt.Fprintf(w, "job %d runs; follow it: signalbox job wait %d\n", j.Number, j.Number)
		})
	}
	return a.follow(ctx, c, j, cursor, f.through)
}

func (a *app) jobWait() *cobra.Command {
	var through bool
	c := &cobra.Command{
		Use: "wait JOB", Short: "Follow a job to its end", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeJobs,
		Long: `Wait writes what the agents write from now on and ends with the job: 0 completed,
10 failed, 11 cancelled, 12 unknown, 13 you are needed (at a terminal you are
asked instead; --through waits on), 130 interrupted while the job runs on.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			cursor, err := c.Now(ctx)
			if err != nil {
				return err
			}
			j, err := c.Job(ctx, args[0])
			if err != nil {
				return err
			}
			return a.follow(ctx, c, j, cursor, through)
		}),
	}
	c.Flags().BoolVar(&through, "through", false, "wait on when the operator is needed")
	return c
}

func (a *app) watchCommand() *cobra.Command {
	var job, after string
	var kinds []string
	c := &cobra.Command{
		Use: "watch", Short: "Follow everything that happens, a line for each event", Args: cobra.NoArgs,
		Example: "  signalbox watch --json --job 12 --after 0",
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			f := client.Filter{Job: job, After: after}
			for _, k := range kinds {
				f.Kinds = append(f.Kinds, coord.EventKind(k))
			}
			return c.Follow(ctx, f, func(e coord.Event) error {
				if a.JSON {
					return a.Line(e)
				}
				_, err := fmt.Fprintf(a.Screen, "%s  %6d  %-18s %s\n", e.At.Wall.Local().Format("15:04:05"), e.Seq, e.Kind, screen.OneLine(string(e.Data), max(a.Width-40, 40)))
				return err
			})
		}),
	}
	c.Flags().StringVar(&job, "job", "", "only this job")
	c.Flags().StringVar(&after, "after", "", "begin after this cursor; 0 is the beginning (default: now)")
	c.Flags().StringSliceVar(&kinds, "kinds", nil, "only these kinds of events")
	_ = c.RegisterFlagCompletionFunc("kinds", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var out []string
		for _, k := range coord.EventKinds {
			out = append(out, string(k))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

// follow writes what happens to a job until it is over, or the operator is
// needed and cannot be asked.
func (a *app) follow(ctx context.Context, c *client.Client, j coord.Job, cursor string, through bool) error {
	state, err := follow.New(a.Screen, c, j, through).Run(ctx, cursor)
	if err != nil {
		return err
	}
	return jobExit(state)
}
