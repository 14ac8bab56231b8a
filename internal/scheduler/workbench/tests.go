package workbench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// Tester runs tests in the sandbox.
type Tester interface {
	// Plan says exactly what a run of files would be. It is Invalid for files
	// that no runner takes, and Unsupported where nothing is certified.
	Plan(ctx context.Context, space coord.WorkspaceIdentity, changes []coord.FileChange, files []string) (coord.TestRun, error)
	// Run makes the run if everything is still as it was planned, and is Stale
	// otherwise. The output is bounded by coord.MaxTestOutput.
	Run(ctx context.Context, space coord.WorkspaceIdentity, changes []coord.FileChange, run coord.TestRun) (coord.TestReport, []byte, error)
}

func (b *Bench) tests(ctx context.Context, c provider.Call) Reply {
	args, err := parse[testArguments](c.Arguments)
	did := coord.ToolCall{Tool: c.Tool, Path: strings.Join(args.Files, " ")}
	if err == nil && (len(args.Files) == 0 || len(args.Files) > coord.MaxTestFiles) {
		err = coord.Errorf(coord.Invalid, "name 1 to %d files of tests", coord.MaxTestFiles)
	}
	if err != nil {
		return Refused(did, err)
	}
	run, err := b.o.Tester.Plan(ctx, b.o.Space, b.overlay.Changes(), args.Files)
	if err != nil {
		return Refused(did, err)
	}
	reply := Reply{Did: did, Ask: &coord.Request{Kind: coord.RunTests, Test: &run, Content: coord.RequestContent{
		Title: "run the tests in " + strings.Join(args.Files, ", "), Tool: toolTests, Detail: detail(run)}}}
	reply.Granted = b.grant(args.Files)
	return reply
}

// grant takes one of the runs that the plan grants, or gives "".
func (b *Bench) grant(files []string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runs >= b.o.TestRuns || slices.ContainsFunc(files, func(f string) bool { return !slices.Contains(b.o.Tests, f) }) {
		return ""
	}
	b.runs++
	return fmt.Sprintf("the plan grants these tests: run %d of %d", b.runs, b.o.TestRuns)
}

// detail is what a person sees of a run before it is made.
func detail(run coord.TestRun) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\n%s %s\n", run.Program, strings.Join(run.Args, " "), run.SHA256, run.Program)
	for _, f := range run.Files {
		fmt.Fprintf(&out, "%s %s\n", f.SHA256, f.Path)
	}
	return out.String()
}

// Test makes an approved run.
func (b *Bench) Test(ctx context.Context, run coord.TestRun) (coord.TestReport, []byte, error) {
	return b.o.Tester.Run(ctx, b.o.Space, b.overlay.Changes(), run)
}
