package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/planning"
	"signalbox/internal/screen"
	"signalbox/internal/synthesis"
)

func (a *app) jobCommand() *cobra.Command {
	c := &cobra.Command{Use: "job", Short: "Draft, review, run and follow jobs"}
	c.AddCommand(a.jobList(), a.jobShow(), a.jobDraft(), a.jobValidate(), a.jobEdit(), a.jobDiscard(), a.jobRun(), a.jobWait(),
		a.jobCancel(), a.jobResult(), a.jobRetry(), a.jobContinue(), a.jobExport())
	return c
}

func (a *app) jobList() *cobra.Command {
	var limit int
	var before int64
	c := &cobra.Command{
		Use: "list", Short: "List jobs, newest first", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			jobs, next, err := c.Jobs(ctx, before, limit)
			if err != nil {
				return err
			}
			if err := a.Show(jobs, func(w io.Writer) {
				var rows [][]string
				for _, j := range jobs {
					rows = append(rows, []string{strconv.FormatInt(j.Number, 10), a.State(string(j.State)), screen.Ago(j.Drafted.Wall), screen.OneLine(j.Title, coord.MaxTitle)})
				}
				a.List(w, "no jobs to list: signalbox run drafts one", []string{"job", "state", "drafted", "title"}, rows)
			}); err != nil {
				return err
			}
			if next > 0 {
				a.Say("older ones: --before %d", next)
			}
			return nil
		}),
	}
	c.Flags().IntVar(&limit, "limit", 20, "at most this many")
	c.Flags().Int64Var(&before, "before", 0, "only jobs with lower numbers")
	return c
}

// jobView is a job with what belongs to it, as job show gives it.
type jobView struct {
	coord.Job
	Tasks    []coord.Task    `json:"tasks"`
	Attempts []coord.Attempt `json:"attempts"`
}

func (a *app) jobShow() *cobra.Command {
	return &cobra.Command{
		Use: "show JOB", Short: "Show a job, its plan and its tasks", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeJobs,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			j, err := c.Job(ctx, args[0])
			if err != nil {
				return err
			}
			v := jobView{Job: j}
			if v.Tasks, err = c.Tasks(ctx, args[0]); err != nil {
				return err
			}
			if v.Attempts, err = c.Attempts(ctx, args[0]); err != nil {
				return err
			}
			return a.Show(v, func(w io.Writer) {
				a.Review(w, j)
				a.Tasks(w, v.Job, v.Tasks)
			})
		}),
	}
}

// plan reads a plan file, "-" being standard input.
func (a *app) plan(name string) (coord.Plan, error) {
	b, err := a.readFile(name, coord.MaxBody)
	if err != nil {
		return coord.Plan{}, err
	}
	return planning.ParseFile(name, b)
}

func (a *app) jobDraft() *cobra.Command {
	return &cobra.Command{
		Use: "draft FILE", Short: "Draft a job from a plan file (JSON or TOML; - is standard input)", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := a.plan(args[0])
			if err != nil {
				return err
			}
			j, err := c.Draft(ctx, p)
			if err != nil {
				return err
			}
			return a.drafted(j)
		}),
	}
}

// drafted shows a new draft and says how it is run.
func (a *app) drafted(j coord.Job) error {
	if err := a.Show(j, func(w io.Writer) { a.Review(w, j) }); err != nil {
		return err
	}
	a.Say("drafted as job %d; look at it and run it: signalbox job run %d", j.Number, j.Number)
	return nil
}

func (a *app) jobValidate() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE", Short: "Check a plan file; keeps nothing and spends nothing", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := a.plan(args[0])
			if err != nil {
				return err
			}
			if p, err = c.Validate(ctx, p); err != nil {
				return err
			}
			return a.Show(p, func(w io.Writer) {
				fmt.Fprintf(w, "the plan is valid: %s in %s\n", screen.Plural(len(p.Tasks), "task"), screen.Plural(len(screen.Steps(p)), "step"))
			})
		}),
	}
}

func (a *app) jobEdit() *cobra.Command {
	return &cobra.Command{
		Use: "edit JOB FILE", Short: "Replace the plan of a draft", Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeJobs,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := a.plan(args[1])
			if err != nil {
				return err
			}
			j, err := c.Job(ctx, args[0])
			if err != nil {
				return err
			}
			if j, err = c.Revise(ctx, args[0], j.Revision, p); err != nil {
				return err
			}
			return a.Show(j, func(w io.Writer) { a.Review(w, j) })
		}),
	}
}

func (a *app) jobDiscard() *cobra.Command {
	return a.jobAct("discard JOB", "Throw a draft away", (*client.Client).Discard)
}

func (a *app) jobCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel JOB[/TASK]", Short: "Ask a job or one task to stop; it has stopped when its agent confirms", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeJobs,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if job, key, ok := strings.Cut(args[0], "/"); ok {
				t, err := c.CancelTask(ctx, job, key)
				if err != nil {
					return err
				}
				return a.Show(t, func(w io.Writer) { fmt.Fprintf(w, "asked task %s/%s to stop; it is %s\n", job, t.Key, t.State) })
			}
			j, err := c.CancelJob(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Show(j, func(w io.Writer) {
				fmt.Fprintf(w, "asked job %d to stop; it is %s. signalbox job wait %d tells how it ends\n", j.Number, j.State, j.Number)
			})
		}),
	}
}

func (a *app) jobRetry() *cobra.Command {
	return a.jobAct("retry JOB", "Draft a job's unfinished tasks again, with the completed results as data", (*client.Client).Retry)
}

// jobAct is a command that does one thing to a job and shows what came of it.
func (a *app) jobAct(use, short string, do func(*client.Client, context.Context, string) (coord.Job, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeJobs,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			j, err := do(c, ctx, args[0])
			if err != nil {
				return err
			}
			if j.State == coord.JobDraft {
				return a.drafted(j)
			}
			return a.Show(j, func(w io.Writer) { fmt.Fprintf(w, "job %d is %s\n", j.Number, j.State) })
		}),
	}
}

func (a *app) jobContinue() *cobra.Command {
	return &cobra.Command{
		Use: "continue JOB FILE", Short: "Draft a new plan whose first tasks get the job's results as data", Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeJobs,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := a.plan(args[1])
			if err != nil {
				return err
			}
			j, err := c.Continue(ctx, args[0], p)
			if err != nil {
				return err
			}
			return a.drafted(j)
		}),
	}
}

func (a *app) jobResult() *cobra.Command {
	return &cobra.Command{
		Use: "result JOB", Short: "Show what came of a job, each statement attributed", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeJobs,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			r, err := c.Result(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Show(r, func(w io.Writer) { a.Result(w, r) })
		}),
	}
}

func (a *app) jobExport() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use: "export JOB", Short: "Write all evidence of a job as one archive that anybody can verify", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeJobs,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if output == "-" {
				return c.Export(ctx, args[0], a.Screen)
			}
			name := output
			if name == "" {
				name = "signalbox-job-" + strings.ReplaceAll(args[0], "/", "-") + ".zip"
			}
			if err := write(name, func(w io.Writer) error { return c.Export(ctx, args[0], w) }); err != nil {
				return err
			}
			if err := a.Show(struct {
				File string `json:"file"`
			}{name}, func(w io.Writer) { fmt.Fprintln(w, name) }); err != nil {
				return err
			}
			a.Say("check it anywhere with: signalbox verify %s", name)
			return nil
		}),
	}
	c.Flags().StringVarP(&output, "output", "o", "", "file to write, - for standard output (default signalbox-job-N.zip)")
	return c
}

// write makes a new file with what fill gives, whole or not at all.
func write(name string, fill func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".signalbox-*")
	if err != nil {
		return coord.Errorf(coord.Unavailable, "%s cannot be written: %s", name, reason(err))
	}
	defer os.Remove(f.Name())
	if err := fill(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return coord.Errorf(coord.Unavailable, "%s cannot be written: %s", name, reason(err))
	}
	// Link refuses to replace a file, as a rename would not.
	if err := os.Link(f.Name(), name); err != nil {
		if errors.Is(err, os.ErrExist) {
			return coord.Errorf(coord.Conflict, "%s is there already: name another file with --output", name)
		}
		return coord.Errorf(coord.Unavailable, "%s cannot be written: %s", name, reason(err))
	}
	return nil
}

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify FILE", Short: "Check an exported archive, with nothing but the archive", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return coord.Errorf(coord.Invalid, "%s cannot be read: %s", args[0], reason(err))
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				return coord.Errorf(coord.Invalid, "%s cannot be read: %s", args[0], reason(err))
			}
			report, err := synthesis.Verify(f, info.Size())
			if err != nil {
				return err
			}
			if err := a.Show(report, func(w io.Writer) {
				for _, fault := range report.Faults {
					fmt.Fprintf(w, "✖ %s\n", screen.Clean(fault))
				}
				if len(report.Faults) == 0 {
					fmt.Fprintf(w, "✔ job %d, plan %s: %d members, %s, every hash matches\n", report.Number, screen.Short(report.Digest), report.Members, screen.Size(report.Bytes))
				}
			}); err != nil {
				return err
			}
			if len(report.Faults) > 0 {
				return coord.Errorf(coord.Conflict, "the archive is not what its manifest says")
			}
			return nil
		},
	}
}

// completeJobs offers the latest jobs' numbers.
func (a *app) completeJobs(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	latest := func(c *client.Client, ctx context.Context) ([]coord.Job, error) {
		jobs, _, err := c.Jobs(ctx, 0, 30)
		return jobs, err
	}
	return offer(a, latest, func(j coord.Job) string {
		return fmt.Sprintf("%d\t%s: %s", j.Number, j.State, screen.OneLine(j.Title, 40))
	})(cmd, args, word)
}

// itoa is a job's number as a reference.
func itoa(n int64) string { return strconv.FormatInt(n, 10) }
