package screen

import (
	"io"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"

	"signalbox/internal/certification"
	"signalbox/internal/coord"
)

func TestWhatBecameOfAnApprovedEffectIsALine(t *testing.T) {
	title := coord.RequestContent{Title: "run the tests in a.test.ts"}
	for _, c := range []struct {
		name string
		r    coord.Request
		want string
	}{
		{"tests that passed", coord.Request{Content: title, Effect: coord.EffectApplied, Done: &coord.Done{Report: &coord.TestReport{Outcome: coord.TestsPassed, Passed: 3}}},
			"✔ passed  run the tests in a.test.ts: 3 passed, 0 failed, 0 skipped\n"},
		{"tests that flooded", coord.Request{Content: title, Effect: coord.EffectApplied, Done: &coord.Done{Report: &coord.TestReport{Outcome: coord.TestsOutputLimit, Reason: "Too much."}}},
			"✖ output limit  run the tests in a.test.ts: 0 passed, 0 failed, 0 skipped, Too much\n"},
		{"a write", coord.Request{Content: coord.RequestContent{Title: "change a, +1 -1"}, Effect: coord.EffectApplied}, "✔ applied  change a, +1 -1\n"},
		{"a write that was not made", coord.Request{Content: coord.RequestContent{Title: "change a"}, Effect: coord.EffectFailed, Done: &coord.Done{Note: "the file was\nchanged"}},
			"✖ failed  change a: the file was changed\n"},
		{"a write that nobody knows of", coord.Request{Content: coord.RequestContent{Title: "change a"}, Effect: coord.EffectUnknown}, "◆ unknown  change a\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			New(nil, &b, io.Discard).Effect(&b, c.r)
			if diff := cmp.Diff(c.want, b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatWasLeftOutIsToldBesideWhatLanded(t *testing.T) {
	var b strings.Builder
	New(nil, &b, io.Discard).Landed(&b, coord.ChangeSet{Number: 3, State: coord.ChangeSetLanded,
		Files:    []coord.FileChange{{Path: "a"}, {Path: "b"}},
		Verdicts: map[string]coord.Verdict{"a": coord.FileLeftOut, "b": coord.FileApproved},
		Steps:    []coord.LandingStep{{Path: "b", State: coord.StepLanded}}})
	if want := "c3 is landed\n  left_out  a\n  landed  b\n"; b.String() != want {
		t.Errorf("it is told as %q, want %q", b.String(), want)
	}
}

func TestACertificateFitsOnTheTerminalAndIsWholeElsewhere(t *testing.T) {
	long := "/opt/" + strings.Repeat("deep/", 40) + "bun"
	list := []certification.Standing{{Void: strings.Repeat("because ", 5), Certificate: coord.Certificate{
		Facts:  coord.CertificateFacts{Kernel: strings.Repeat("6.18 ", 20), Files: []coord.IdentityFile{{Role: coord.FileRunner, Path: long, SHA256: strings.Repeat("a", 64)}}},
		Probes: []coord.ProbeResult{{Name: "read_outside", Attempts: strings.Repeat("look ", 20), Verdict: coord.ProbeDenied, Outside: "ok", Inside: "ENOENT"}}}}}
	var b strings.Builder
	s := New(nil, &b, io.Discard)
	s.Certificates(&b, list, true)
	if !strings.Contains(b.String(), long) || !strings.Contains(b.String(), "read_outside") {
		t.Errorf("off a terminal it is\n%s", b.String())
	}
	b.Reset()
	s.TTY, s.Width = true, 80
	s.Certificates(&b, list, true)
	for line := range strings.Lines(b.String()) {
		// Why it does not hold is told whole.
		if n := lipgloss.Width(line); n > 80 && !strings.Contains(line, "because") {
			t.Errorf("a line has %d columns: %s", n, line)
		}
	}
	if !strings.Contains(b.String(), "deep/bun") {
		t.Errorf("the end of the path is not shown:\n%s", b.String())
	}
}
