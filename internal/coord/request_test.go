package coord_test

import (
	"strings"
	"testing"

	"signalbox/internal/coord"
)

func options(list ...string) []coord.Option {
	var out []coord.Option
	for _, s := range list {
		id, kind, _ := strings.Cut(s, ":")
		out = append(out, coord.Option{ID: id, Name: id, Kind: coord.OptionKind(kind)})
	}
	return out
}

func permission(o ...string) coord.Request {
	return coord.Request{Number: 7, Kind: coord.Permission, Decision: coord.DecisionOpen, Effect: coord.EffectNone,
		Delivery: coord.DeliveryNone, Options: options(o...)}
}

func TestDecisionTakesAnOptionByKindAndNeverByPlace(t *testing.T) {
	cases := []struct {
		name    string
		request coord.Request
		choice  coord.Choice
		option  string
		code    coord.Code
	}{
		{"approve where allowing is listed first", permission("yes:allow_once", "no:reject_once"), coord.Choice{On: coord.DecisionApprove}, "yes", ""},
		{"approve where allowing is listed last", permission("no:reject_once", "yes:allow_once"), coord.Choice{On: coord.DecisionApprove}, "yes", ""},
		{"approve never takes always by itself", permission("always:allow_always", "yes:allow_once"), coord.Choice{On: coord.DecisionApprove}, "yes", ""},
		{"approve where only always allows", permission("always:allow_always"), coord.Choice{On: coord.DecisionApprove}, "", coord.Unsupported},
		{"approve always by name", permission("always:allow_always"), coord.Choice{On: coord.DecisionApprove, Option: "always"}, "always", ""},
		{"approve with two ways to allow", permission("a:allow_once", "b:allow_once"), coord.Choice{On: coord.DecisionApprove}, "", coord.Invalid},
		{"approve one of two by name", permission("a:allow_once", "b:allow_once"), coord.Choice{On: coord.DecisionApprove, Option: "b"}, "b", ""},
		{"approve by the name of a rejection", permission("yes:allow_once", "no:reject_once"), coord.Choice{On: coord.DecisionApprove, Option: "no"}, "", coord.Invalid},
		{"approve by a name that is not there", permission("yes:allow_once"), coord.Choice{On: coord.DecisionApprove, Option: "x"}, "", coord.Invalid},
		{"approve without options", permission(), coord.Choice{On: coord.DecisionApprove}, "", coord.Unsupported},
		{"approve an id that stands twice", permission("x:allow_once", "x:reject_once"), coord.Choice{On: coord.DecisionApprove}, "", coord.Unsupported},
		{"approve an id that stands twice by name", permission("x:allow_once", "x:allow_once"), coord.Choice{On: coord.DecisionApprove, Option: "x"}, "", coord.Invalid},
		{"approve an unknown kind by name", permission("x:allow_forever"), coord.Choice{On: coord.DecisionApprove, Option: "x"}, "", coord.Invalid},
		{"deny takes the rejection", permission("yes:allow_once", "no:reject_once"), coord.Choice{On: coord.DecisionDeny}, "no", ""},
		{"deny takes once before always", permission("never:reject_always", "no:reject_once"), coord.Choice{On: coord.DecisionDeny}, "no", ""},
		{"deny takes always when nothing else rejects", permission("never:reject_always"), coord.Choice{On: coord.DecisionDeny}, "never", ""},
		{"deny where everything allows", permission("yes:allow_once"), coord.Choice{On: coord.DecisionDeny}, "", ""},
		{"deny without options", permission(), coord.Choice{On: coord.DecisionDeny}, "", ""},
		{"deny an id that stands twice", permission("x:reject_once", "x:allow_once"), coord.Choice{On: coord.DecisionDeny}, "", ""},
		{"deny by the name of an allowance", permission("yes:allow_once", "no:reject_once"), coord.Choice{On: coord.DecisionDeny, Option: "yes"}, "", coord.Invalid},
		{"answer a permission", permission("yes:allow_once"), coord.Choice{On: coord.DecisionAnswer, Answer: "x"}, "", coord.Invalid},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.request.Decide(c.choice)
			if coord.CodeOf(err) != c.code {
				t.Fatalf("error %v, want code %q", err, c.code)
			}
			if err != nil {
				if got.Decision != coord.DecisionOpen {
					t.Errorf("the request is %s after a refused decision", got.Decision)
				}
				return
			}
			if got.Decided.Option != c.option {
				t.Errorf("option %q, want %q", got.Decided.Option, c.option)
			}
		})
	}
}

func TestWhatCannotBeShownWholeCannotBeApproved(t *testing.T) {
	r := permission("yes:allow_once", "no:reject_once")
	r.Content.Cut = true
	if _, err := r.Decide(coord.Choice{On: coord.DecisionApprove}); coord.CodeOf(err) != coord.Unsupported {
		t.Errorf("approving gave %v", err)
	}
	if _, err := r.Decide(coord.Choice{On: coord.DecisionDeny}); err != nil {
		t.Errorf("denying gave %v", err)
	}
}

func TestQuestionIsAnsweredOrDenied(t *testing.T) {
	q := coord.Request{Kind: coord.Question, Decision: coord.DecisionOpen}
	if _, err := q.Decide(coord.Choice{On: coord.DecisionApprove}); coord.CodeOf(err) != coord.Invalid {
		t.Errorf("approving a question gave %v", err)
	}
	got, err := q.Decide(coord.Choice{On: coord.DecisionAnswer, Answer: "42"})
	if err != nil || got.Decision != coord.DecisionAnswered || got.Decided.Answer != "42" {
		t.Errorf("answering gave %+v, %v", got.Decided, err)
	}
}

func TestFirstDecisionWins(t *testing.T) {
	first, err := permission("yes:allow_once").Decide(coord.Choice{On: coord.DecisionApprove, By: operator})
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []coord.DecisionEvent{coord.DecisionApprove, coord.DecisionDeny, coord.DecisionExpire, coord.DecisionWithdraw} {
		again, err := first.Decide(coord.Choice{On: on})
		if coord.CodeOf(err) != coord.Conflict || again.Decision != coord.DecisionApproved {
			t.Errorf("%s after an approval gave %s, %v", on, again.Decision, err)
		}
	}
}

func TestLossOfTheAttemptSettlesEveryFactOfARequest(t *testing.T) {
	cases := []struct {
		name     string
		before   coord.Request
		decision coord.DecisionState
		effect   coord.EffectState
		delivery coord.DeliveryState
	}{
		{"open", coord.Request{Decision: coord.DecisionOpen, Effect: coord.EffectNone, Delivery: coord.DeliveryNone},
			coord.DecisionWithdrawn, coord.EffectVoid, coord.DeliveryUndeliverable},
		{"approved, nothing done yet", coord.Request{Decision: coord.DecisionApproved, Effect: coord.EffectNone, Delivery: coord.DeliveryNone},
			coord.DecisionApproved, coord.EffectVoid, coord.DeliveryUndeliverable},
		{"approved and on its way", coord.Request{Decision: coord.DecisionApproved, Effect: coord.EffectNone, Delivery: coord.DeliveryDelivering},
			coord.DecisionApproved, coord.EffectVoid, coord.DeliveryUnknown},
		{"delivered", coord.Request{Decision: coord.DecisionDenied, Effect: coord.EffectVoid, Delivery: coord.DeliveryDelivered},
			coord.DecisionDenied, coord.EffectVoid, coord.DeliveryDelivered},
		{"an effect that began stays as it is", coord.Request{Decision: coord.DecisionApproved, Effect: coord.EffectApplying, Delivery: coord.DeliveryNone},
			coord.DecisionApproved, coord.EffectApplying, coord.DeliveryUndeliverable},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := c.before.Lose("lost", at(1, 1, 0, "a"))
			if got.Decision != c.decision || got.Effect != c.effect || got.Delivery != c.delivery {
				t.Errorf("%s, %s, %s; want %s, %s, %s", got.Decision, got.Effect, got.Delivery, c.decision, c.effect, c.delivery)
			}
			if got.Undelivered() {
				t.Error("an answer still waits to be delivered")
			}
		})
	}
}

func TestDigestCoversAllThatIsDisplayed(t *testing.T) {
	base := permission("yes:allow_once")
	base.Attempt, base.Origin.Request, base.Content.Title = "att_1", "1", "Write a file"
	changes := map[string]func(*coord.Request){
		"kind":    func(r *coord.Request) { r.Kind = coord.Question },
		"attempt": func(r *coord.Request) { r.Attempt = "att_2" },
		"origin":  func(r *coord.Request) { r.Origin.Request = "2" },
		"title":   func(r *coord.Request) { r.Content.Title = "Delete a file" },
		"detail":  func(r *coord.Request) { r.Content.Detail = "x" },
		"option":  func(r *coord.Request) { r.Options = options("yes:allow_always") },
		"change":  func(r *coord.Request) { r.Change = &coord.FileChange{Path: "a", Kind: coord.FileDeleted, Before: "1"} },
		"test":    func(r *coord.Request) { r.Test = &coord.TestRun{Runner: "bun"} },
	}
	for name, change := range changes {
		other := base
		change(&other)
		if other.ComputeDigest() == base.ComputeDigest() {
			t.Errorf("the digest does not cover the %s", name)
		}
	}
	decided, err := base.Decide(coord.Choice{On: coord.DecisionApprove})
	if err != nil || decided.ComputeDigest() != base.ComputeDigest() {
		t.Errorf("deciding changed the digest (%v)", err)
	}
}
