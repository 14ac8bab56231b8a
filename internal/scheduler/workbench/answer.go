package workbench

import (
	"fmt"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// Answer is what an agent is told of a request that is over.
func Answer(r coord.Request, output string) provider.Result {
	reason := ""
	if r.Decided != nil && r.Decided.Reason != "" {
		reason = ": " + r.Decided.Reason
	}
	switch r.Decision {
	case coord.DecisionDenied:
		return refused("The operator denied this%s. It was not done. Propose something else, or go on without it.", reason)
	case coord.DecisionExpired, coord.DecisionWithdrawn, coord.DecisionAnswered, coord.DecisionOpen:
		return refused("Nobody decided on this in time%s. It was not done.", reason)
	case coord.DecisionApproved:
	}
	if r.Done != nil && r.Done.Report != nil {
		return report(*r.Done.Report, output)
	}
	note := ""
	if r.Done != nil && r.Done.Note != "" {
		note = ": " + r.Done.Note
	}
	switch r.Effect {
	case coord.EffectApplied:
		return provider.Result{Text: "Done: " + r.Content.Title + "."}
	case coord.EffectFailed:
		return refused("It was approved but not done%s.", note)
	case coord.EffectDiverged:
		return refused("Somebody else changed the same place meanwhile%s. Read it again.", note)
	case coord.EffectNone, coord.EffectApplying, coord.EffectUnknown, coord.EffectVoid:
	}
	return refused("What became of it is not known%s. Look before you go on.", note)
}

func refused(format, detail string) provider.Result {
	return provider.Result{Text: fmt.Sprintf(format, detail), Failed: true}
}

// report tells a run of tests. Its output is data of the workspace's own.
func report(r coord.TestReport, output string) provider.Result {
	var out strings.Builder
	fmt.Fprintf(&out, "The tests %s: %d passed, %d failed, %d skipped.", words[r.Outcome], r.Passed, r.Failed, r.Skipped)
	if r.Reason != "" {
		fmt.Fprintf(&out, " %s.", strings.TrimSuffix(r.Reason, "."))
	}
	if output != "" {
		fmt.Fprintf(&out, "\n\nWhat the run wrote:\n%s", output)
	}
	return provider.Result{Text: out.String(), Failed: r.Outcome != coord.TestsPassed}
}

var words = map[coord.TestOutcome]string{
	coord.TestsPassed: "passed", coord.TestsFailed: "failed", coord.TestsCancelled: "were cancelled", coord.TestsTimedOut: "took too long",
	coord.TestsOutputLimit: "wrote too much", coord.TestsRefused: "were refused",
}
