package certification

import (
	"context"

	"signalbox/internal/coord"
	"signalbox/internal/sandbox"
	"signalbox/internal/testrun"
)

// Tests runs tests for as long as a certificate holds for their runner. It is
// the scheduler's tester.
type Tests struct {
	Certification *Certification
	Tester        *testrun.Tester
	// Path gives the file that holds a content.
	Path func(sha256 string) string
}

// Plan says exactly what a run of files would be.
func (t Tests) Plan(ctx context.Context, space coord.WorkspaceIdentity, changes []coord.FileChange, files []string) (coord.TestRun, error) {
	run, err := t.Tester.Plan(ctx, t.request(space, changes, files, "", ""))
	if err != nil {
		return run, err
	}
	cert, err := t.certificate(ctx, run)
	if err == nil {
		// It is made ready while somebody decides.
		t.Certification.o.Box.Announce(cert.Facts.Tier)
	}
	return run, err
}

// Run makes a run that was approved. It is Stale when anything of it, or the
// certificate, no longer holds.
func (t Tests) Run(ctx context.Context, space coord.WorkspaceIdentity, changes []coord.FileChange, run coord.TestRun) (coord.TestReport, []byte, error) {
	cert, err := t.certificate(ctx, run)
	if err != nil {
		return coord.TestReport{}, nil, err
	}
	files := make([]string, len(run.Files))
	for i, f := range run.Files {
		files[i] = f.Path
	}
	res, err := t.Tester.Run(ctx, t.request(space, changes, files, run.Runner, cert.Facts.Tier), run)
	return res.Report, res.Output, err
}

func (t Tests) certificate(ctx context.Context, run coord.TestRun) (coord.Certificate, error) {
	return t.Certification.holding(ctx, []coord.IdentityFile{{Role: coord.FileRunner, Path: run.Program}}, "", 0)
}

func (t Tests) request(space coord.WorkspaceIdentity, changes []coord.FileChange, files []string, runner string, tier coord.Tier) testrun.Request {
	r := testrun.Request{Runner: runner, Workspace: space.Path, Files: files, Tier: tier}
	for _, c := range changes {
		if c.Kind == coord.FileRenamed {
			r.Changes = append(r.Changes, sandbox.Change{Path: c.From})
		}
		change := sandbox.Change{Path: c.Path, Mode: c.Mode}
		if c.After != "" {
			change.Content = t.Path(c.After)
		}
		r.Changes = append(r.Changes, change)
	}
	return r
}
