package workbench

import (
	"strings"
	"testing"

	"signalbox/internal/coord"
)

func TestAnAgentIsToldWhatHappened(t *testing.T) {
	write := coord.Request{Kind: coord.WriteFile, Decision: coord.DecisionApproved, Content: coord.RequestContent{Title: "change a, +1 -1"}}
	with := func(r coord.Request, change func(*coord.Request)) coord.Request {
		change(&r)
		return r
	}
	tests := func(report coord.TestReport) coord.Request {
		return coord.Request{Kind: coord.RunTests, Decision: coord.DecisionApproved, Effect: coord.EffectApplied, Done: &coord.Done{Report: &report}}
	}
	for _, c := range []struct {
		name   string
		r      coord.Request
		output string
		failed bool
		want   string
	}{
		{"denied", with(write, func(r *coord.Request) {
			r.Decision, r.Effect, r.Decided = coord.DecisionDenied, coord.EffectVoid, &coord.Decided{Reason: "not there"}
		}), "", true, "The operator denied this: not there. It was not done. Propose something else"},
		{"expired", with(write, func(r *coord.Request) { r.Decision = coord.DecisionExpired }), "", true, "Nobody decided"},
		{"withdrawn", with(write, func(r *coord.Request) { r.Decision = coord.DecisionWithdrawn }), "", true, "Nobody decided"},
		{"applied", with(write, func(r *coord.Request) { r.Effect = coord.EffectApplied }), "", false, "Done: change a, +1 -1."},
		{"failed", with(write, func(r *coord.Request) {
			r.Effect, r.Done = coord.EffectFailed, &coord.Done{Note: "the file was changed"}
		}), "", true, "approved but not done: the file was changed."},
		{"diverged", with(write, func(r *coord.Request) { r.Effect = coord.EffectDiverged }), "", true, "Somebody else changed"},
		{"unknown", with(write, func(r *coord.Request) { r.Effect = coord.EffectUnknown }), "", true, "not known"},
		{"void", with(write, func(r *coord.Request) { r.Effect = coord.EffectVoid }), "", true, "not known"},
		{"tests passed", tests(coord.TestReport{Outcome: coord.TestsPassed, Passed: 2}), "fine", false, "passed: 2 passed, 0 failed, 0 skipped.\n\nWhat the run wrote:\nfine"},
		{"tests failed", tests(coord.TestReport{Outcome: coord.TestsFailed, Failed: 1}), "", true, "failed: 0 passed, 1 failed"},
		{"tests without a test", tests(coord.TestReport{Outcome: coord.TestsFailed, Reason: "No test ran."}), "", true, "0 skipped. No test ran."},
		{"tests that took too long", tests(coord.TestReport{Outcome: coord.TestsTimedOut}), "", true, "took too long"},
		{"tests that flooded", tests(coord.TestReport{Outcome: coord.TestsOutputLimit}), "", true, "wrote too much"},
		{"tests that were cancelled", tests(coord.TestReport{Outcome: coord.TestsCancelled}), "", true, "were cancelled"},
		{"tests that were refused", tests(coord.TestReport{Outcome: coord.TestsRefused, Reason: "no certificate"}), "", true, "were refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Answer(c.r, c.output)
			if got.Failed != c.failed || !strings.Contains(got.Text, c.want) {
				t.Errorf("it is told %+v, want %q", got, c.want)
			}
		})
	}
	for _, outcome := range []coord.TestOutcome{coord.TestsPassed, coord.TestsFailed, coord.TestsCancelled, coord.TestsTimedOut, coord.TestsOutputLimit, coord.TestsRefused} {
		if words[outcome] == "" {
			t.Errorf("there is no word for %s", outcome)
		}
	}
}

func TestStepsComeToOneEffect(t *testing.T) {
	step := func(states ...coord.StepState) (out []coord.LandingStep) {
		for _, s := range states {
			out = append(out, coord.LandingStep{State: s})
		}
		return out
	}
	for _, c := range []struct {
		name  string
		steps []coord.LandingStep
		want  coord.EffectEvent
		note  string
	}{
		{"all landed", step(coord.StepLanded, coord.StepLanded), coord.EffectSucceed, ""},
		{"one that failed", []coord.LandingStep{{State: coord.StepFailed, Note: "the disk is full"}}, coord.EffectFail, "the disk is full"},
		{"somebody was first", step(coord.StepForeign), coord.EffectFail, "no longer as it was"},
		{"a renaming of which only the new name is there", step(coord.StepLanded, coord.StepForeign), coord.EffectDiverge, "no longer as it was"},
		{"a renaming that did not begin", step(coord.StepForeign, coord.StepSkipped), coord.EffectFail, "no longer as it was"},
		{"somebody at the same moment", []coord.LandingStep{{State: coord.StepDiverged, Note: "both are kept"}}, coord.EffectDiverge, "both are kept"},
		{"landed, then at the same moment", []coord.LandingStep{{State: coord.StepLanded}, {State: coord.StepDiverged, Note: "both are kept"}}, coord.EffectDiverge, "both are kept"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if on, note := Outcome(c.steps); on != c.want || !strings.Contains(note, c.note) || (c.note == "") != (note == "") {
				t.Errorf("it comes to %s, %q; want %s, %q", on, note, c.want, c.note)
			}
		})
	}
}
