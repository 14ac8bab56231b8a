package coord_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
)

var operator = coord.Actor{Role: coord.RoleOperator, Door: "browser", Presence: "browser", Name: "ada"}

// attemptAt gives an attempt of generation 1 that went the common way to a state.
func attemptAt(t *testing.T, s coord.AttemptState) coord.Attempt {
	t.Helper()
	a := coord.Attempt{
		ID: "att_1", State: coord.Attempts.Initial, Generation: 1,
		Cancel: coord.Cancellation{State: coord.Cancellations.Initial},
	}
	path := map[coord.AttemptState][]coord.AttemptEvent{
		coord.AttemptQueued:    {},
		coord.AttemptPreparing: {coord.AttemptPrepare},
		coord.AttemptSending:   {coord.AttemptPrepare, coord.AttemptIntend},
		coord.AttemptAccepted:  {coord.AttemptPrepare, coord.AttemptIntend, coord.AttemptReceive},
		coord.AttemptWorking:   {coord.AttemptPrepare, coord.AttemptIntend, coord.AttemptReceive, coord.AttemptProgress},
		coord.AttemptWaiting:   {coord.AttemptPrepare, coord.AttemptIntend, coord.AttemptReceive, coord.AttemptAsk},
		coord.AttemptUnknown:   {coord.AttemptPrepare, coord.AttemptIntend, coord.AttemptLose},
		coord.AttemptCompleted: {coord.AttemptPrepare, coord.AttemptIntend, coord.AttemptReceive, coord.AttemptComplete},
		coord.AttemptFailed:    {coord.AttemptPrepare, coord.AttemptIntend, coord.AttemptFail},
		coord.AttemptRejected:  {coord.AttemptPrepare, coord.AttemptIntend, coord.AttemptReject},
		coord.AttemptCancelled: {coord.AttemptCancel},
		coord.AttemptNotSent:   {coord.AttemptPrepare, coord.AttemptNotSend},
	}[s]
	for i, on := range path {
		a = move(t, a, coord.Change{On: on, At: at(1000+i, i, 0, "a")})
	}
	if a.State != s {
		t.Fatalf("the way to %s ends at %s", s, a.State)
	}
	return a
}

// move applies a change of the attempt's own generation.
func move(t *testing.T, a coord.Attempt, c coord.Change) coord.Attempt {
	t.Helper()
	c.Generation = a.Generation
	if c.On == coord.AttemptIntend {
		c.Handle = &coord.Handle{Version: 1}
	}
	if c.On == coord.AttemptReceive {
		c.Receipt = &coord.Receipt{Kind: "update", Reference: "s1"}
	}
	out, err := a.Apply(c)
	if err != nil {
		t.Fatalf("%s on %s: %v", c.On, a.State, err)
	}
	return out
}

func TestNoAttemptIsSentWithoutAHandle(t *testing.T) {
	a := attemptAt(t, coord.AttemptPreparing)
	if _, err := a.Apply(coord.Change{On: coord.AttemptIntend, Generation: 1}); coord.CodeOf(err) != coord.Internal {
		t.Errorf("sending without a handle gave %v", err)
	}
}

func TestOnlyTheOwnersGenerationMovesALiveAttempt(t *testing.T) {
	for _, s := range coord.Attempts.States() {
		a := attemptAt(t, s)
		_, err := a.Apply(coord.Change{On: coord.AttemptFail, Generation: 2})
		_, table := coord.Attempts.Next(s, coord.AttemptFail)
		switch {
		case a.Live() && coord.CodeOf(err) != coord.Conflict:
			t.Errorf("%s: another generation wrote a live attempt: %v", s, err)
		case !a.Live() && (err == nil) != (table == nil):
			t.Errorf("%s: the table says %v, Apply says %v", s, table, err)
		}
	}
}

func TestReceiptNeverChanges(t *testing.T) {
	a := attemptAt(t, coord.AttemptAccepted)
	first := *a.Receipt
	a = move(t, a, coord.Change{On: coord.AttemptProgress, Receipt: &coord.Receipt{Kind: "other", Reference: "s2"}})
	if diff := cmp.Diff(first, *a.Receipt); diff != "" {
		t.Errorf("the receipt changed:\n%s", diff)
	}
}

func TestCancellationFollowsTheEndOfItsAttempt(t *testing.T) {
	cases := []struct {
		on   coord.AttemptEvent
		want coord.CancelState
	}{
		{coord.AttemptCancel, coord.CancelConfirmed},
		{coord.AttemptComplete, coord.CancelOvertaken},
		{coord.AttemptFail, coord.CancelOvertaken},
		{coord.AttemptReject, coord.CancelOvertaken},
		{coord.AttemptLose, coord.CancelUnknown},
		{coord.AttemptAsk, coord.CancelRequested},
	}
	for _, c := range cases {
		a, err := attemptAt(t, coord.AttemptWorking).RequestCancel(coord.CauseOperator, operator, at(2000, 20, 0, "a"))
		if err != nil {
			t.Fatal(err)
		}
		if a = move(t, a, coord.Change{On: c.on}); a.Cancel.State != c.want {
			t.Errorf("after %s the cancellation is %s, want %s", c.on, a.Cancel.State, c.want)
		}
	}
}

func TestCancellationOfALostAttemptIsSettledByReconciliation(t *testing.T) {
	for on, want := range map[coord.AttemptEvent]coord.CancelState{
		coord.AttemptCancel: coord.CancelConfirmed, coord.AttemptComplete: coord.CancelOvertaken, coord.AttemptNotSend: coord.CancelConfirmed,
	} {
		a, err := attemptAt(t, coord.AttemptWorking).RequestCancel(coord.CauseDeadline, coord.WorkerActor, at(2000, 20, 0, "a"))
		if err != nil {
			t.Fatal(err)
		}
		a = move(t, a, coord.Change{On: coord.AttemptLose})
		a = move(t, a, coord.Change{On: on})
		if a.Cancel.State != want || !a.Reconciled {
			t.Errorf("reconciled by %s: cancellation %s, reconciled %t; want %s, true", on, a.Cancel.State, a.Reconciled, want)
		}
	}
}

func TestNoStopIsAskedForTwiceOrOfWhatIsOver(t *testing.T) {
	for _, s := range coord.Attempts.States() {
		a := attemptAt(t, s)
		asked, err := a.RequestCancel(coord.CauseOperator, operator, at(2000, 20, 0, "a"))
		if a.Live() != (err == nil) {
			t.Errorf("%s: live is %t, and asking gave %v", s, a.Live(), err)
		}
		if err != nil {
			continue
		}
		if _, err := asked.RequestCancel(coord.CauseDeadline, operator, at(2001, 21, 0, "a")); coord.CodeOf(err) != coord.Conflict {
			t.Errorf("%s: asking again gave %v", s, err)
		}
	}
}

func TestUnknownMayRunUntilTheContraryIsProven(t *testing.T) {
	working := attemptAt(t, coord.AttemptWorking)
	unproven := move(t, working, coord.Change{On: coord.AttemptLose})
	if unproven.Activity != coord.MayRun || !unproven.HoldsLeases() || unproven.Live() {
		t.Errorf("lost without proof: %s, leases %t", unproven.Activity, unproven.HoldsLeases())
	}
	proven := move(t, working, coord.Change{On: coord.AttemptLose, Activity: coord.Ended})
	if proven.Activity != coord.Ended || proven.HoldsLeases() {
		t.Errorf("lost with proof: %s, leases %t", proven.Activity, proven.HoldsLeases())
	}
}

func TestResolutionKeepsTheAttemptUnknownAndFreesItsLeases(t *testing.T) {
	lost := attemptAt(t, coord.AttemptUnknown)
	resolved, err := lost.Resolve(coord.Resolution{How: coord.Abandoned, By: operator})
	if err != nil {
		t.Fatal(err)
	}
	if resolved.State != coord.AttemptUnknown || resolved.HoldsLeases() {
		t.Errorf("resolved: %s, leases %t", resolved.State, resolved.HoldsLeases())
	}
	if _, err := resolved.Resolve(coord.Resolution{How: coord.Adopted}); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("a second resolution gave %v", err)
	}
	if _, err := resolved.Apply(coord.Change{On: coord.AttemptComplete, Generation: 1}); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("reconciling what was resolved gave %v", err)
	}
	if _, err := lost.Resolve(coord.Resolution{How: coord.NeverRan}); coord.CodeOf(err) != coord.Invalid {
		t.Errorf("never ran without a reason gave %v", err)
	}
	if _, err := attemptAt(t, coord.AttemptWorking).Resolve(coord.Resolution{How: coord.Adopted}); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("resolving what still works gave %v", err)
	}
}

func TestEvidenceKeepsTheFirstAndTheNewest(t *testing.T) {
	a := coord.Attempt{}
	for i := range 3 * coord.MaxEvidence {
		a = a.Note(coord.Evidence{Fact: fmt.Sprint(i)})
	}
	if len(a.Evidence) != coord.MaxEvidence {
		t.Fatalf("%d entries kept", len(a.Evidence))
	}
	first, last := a.Evidence[0].Fact, a.Evidence[coord.MaxEvidence-1].Fact
	if first != "0" || last != fmt.Sprint(3*coord.MaxEvidence-1) {
		t.Errorf("kept from %s to %s", first, last)
	}
}

func TestNotingEvidenceLeavesOtherCopiesAlone(t *testing.T) {
	a := coord.Attempt{Evidence: make([]coord.Evidence, 1, 8)}
	b, c := a.Note(coord.Evidence{Fact: "b"}), a.Note(coord.Evidence{Fact: "c"})
	if b.Evidence[1].Fact != "b" || c.Evidence[1].Fact != "c" {
		t.Errorf("two notes share memory: %v, %v", b.Evidence, c.Evidence)
	}
}

func TestUsageInWordsSaysWhereItIsKnownFrom(t *testing.T) {
	for want, u := range map[string]coord.Usage{
		"": {Source: "provider", Currency: "USD"},
		"15 tokens and 0.10 USD, as the agent told": {InputTokens: 10, OutputTokens: 5, Cost: "0.10", Currency: "USD", Source: "provider"},
		"2, as the agent told":                      {Cost: "2", Source: "provider"},
		"7 tokens, as measured here":                {TotalTokens: 7, Source: "measured"},
		"9 tokens":                                  {TotalTokens: 9},
	} {
		if got := u.String(); got != want {
			t.Errorf("%#v is %q, want %q", u, got, want)
		}
	}
}
