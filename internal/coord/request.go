package coord

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// Request is something an agent asks of the operator. What was decided, what
// Signalbox did about it, and whether the answer reached the agent are three
// facts, kept apart.
type Request struct {
	ID RequestID `json:"id"`
	// Number is the short name, from 1; written r7.
	Number  int64       `json:"number"`
	Job     JobID       `json:"job"`
	Task    TaskID      `json:"task"`
	Key     string      `json:"key"`
	Attempt AttemptID   `json:"attempt"`
	Agent   AgentID     `json:"agent"`
	Kind    RequestKind `json:"kind"`
	// Origin is the provider's own session, turn and request id.
	Origin  RequestOrigin  `json:"origin"`
	Content RequestContent `json:"content"`
	// Options are the agent's own, unchanged and in its order.
	Options []Option `json:"options,omitempty"`
	// Change is what a request of kind write would do, Test what one of kind
	// test would run.
	Change *FileChange `json:"change,omitempty"`
	Test   *TestRun    `json:"test,omitempty"`
	// Digest is the SHA-256, in hex, over all that is asked: a decision carries
	// the one that was displayed.
	Digest    string        `json:"digest"`
	Decision  DecisionState `json:"decision"`
	Decided   *Decided      `json:"decided,omitempty"`
	Effect    EffectState   `json:"effect"`
	Delivery  DeliveryState `json:"delivery"`
	Delivered string        `json:"delivered_note,omitempty"`
	// Done is what Signalbox did because of the approval.
	Done   *Done  `json:"done,omitempty"`
	Opened Moment `json:"opened"`
}

// Done records an effect: what is needed to find out after a crash how far it
// got, and then how it came out.
type Done struct {
	// Steps of a write, committed before the first one is taken.
	Steps []LandingStep `json:"steps,omitempty"`
	// Report of a run of tests.
	Report *TestReport `json:"report,omitempty"`
	// Note is one sentence about how it came out.
	Note string `json:"note,omitempty"`
}

// RequestKind is what is asked for.
type RequestKind string

// The kinds.
const (
	// Permission: the agent wants to do something itself.
	Permission RequestKind = "permission"
	// Question: the agent wants an answer in words.
	Question RequestKind = "question"
	// WriteFile: the agent wants Signalbox to change a file of the workspace.
	WriteFile RequestKind = "write"
	// RunTests: the agent wants Signalbox to run tests in the sandbox.
	RunTests RequestKind = "test"
)

// Effective reports whether Signalbox itself carries out what is asked for,
// once it is approved.
func (k RequestKind) Effective() bool { return k == WriteFile || k == RunTests }

// RequestOrigin correlates a request with the provider's side.
type RequestOrigin struct {
	Session string `json:"session,omitempty"`
	Turn    string `json:"turn,omitempty"`
	Item    string `json:"item,omitempty"`
	// Request is the provider's request id, exactly as it was written.
	Request string `json:"request"`
}

// RequestContent is what the agent says it wants, as data.
type RequestContent struct {
	// Title is the agent's own headline.
	Title string `json:"title"`
	// Tool is the kind of tool, where the agent says it.
	Tool string `json:"tool,omitempty"`
	// Detail is everything else the agent gave, as readable text.
	Detail string `json:"detail,omitempty"`
	// Cut tells that the content was longer than may be shown; what is cut
	// cannot be approved, only denied.
	Cut bool `json:"cut,omitempty"`
}

// Option is one of the agent's own choices.
type Option struct {
	ID   string     `json:"id"`
	Name string     `json:"name"`
	Kind OptionKind `json:"kind"`
}

// OptionKind says what choosing an option means.
type OptionKind string

// The kinds of options.
const (
	AllowOnce    OptionKind = "allow_once"
	AllowAlways  OptionKind = "allow_always"
	RejectOnce   OptionKind = "reject_once"
	RejectAlways OptionKind = "reject_always"
)

// Allows reports whether choosing an option of this kind permits the act.
func (k OptionKind) Allows() bool { return k == AllowOnce || k == AllowAlways }

// Decided is who decided what, and why.
type Decided struct {
	By Actor  `json:"by"`
	At Moment `json:"at"`
	// Option is the id of the chosen option, "" when none was.
	Option string `json:"option,omitempty"`
	// Answer is the operator's answer to a question.
	Answer string `json:"answer,omitempty"`
	// Reason is a comment, or why the request was withdrawn.
	Reason string `json:"reason,omitempty"`
}

// ComputeDigest gives the digest of what is asked.
func (r Request) ComputeDigest() string {
	// Marshalling these types cannot fail: they hold strings and slices only.
	b, _ := json.Marshal(struct {
		Kind    RequestKind
		Attempt AttemptID
		Origin  RequestOrigin
		Content RequestContent
		Options []Option
		Change  *FileChange `json:",omitempty"`
		Test    *TestRun    `json:",omitempty"`
	}{r.Kind, r.Attempt, r.Origin, r.Content, r.Options, r.Change, r.Test})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Choice is a decision to be made.
type Choice struct {
	On     DecisionEvent
	Option string
	Answer string
	Reason string
	By     Actor
	At     Moment
}

// Decide applies the first decision; a later one is a Conflict that says what
// the first was. Approving takes an option that allows: the one named, else
// the only one that allows once. Denying takes an option that rejects, by kind
// and never by place; none is a denial all the same.
func (r Request) Decide(c Choice) (Request, error) {
	to, err := Decisions.Next(r.Decision, c.On)
	if err != nil {
		return r, Errorf(Conflict, "request r%d is %s already", r.Number, r.Decision)
	}
	option := c.Option
	switch c.On {
	case DecisionApprove:
		if r.Kind == Question {
			return r, Errorf(Invalid, "request r%d is a question: answer it, or deny it", r.Number)
		}
		if r.Content.Cut {
			return r, Errorf(Unsupported, "request r%d is longer than can be shown whole, so it cannot be approved; deny it", r.Number)
		}
		if r.Kind == Permission || c.Option != "" {
			if option, err = r.allowing(c.Option); err != nil {
				return r, err
			}
		}
	case DecisionDeny:
		if option, err = r.rejecting(c.Option); err != nil {
			return r, err
		}
		if r.Kind.Effective() {
			r.Effect = follow(Effects, r.Effect, EffectAnnul)
		}
	case DecisionAnswer:
		if r.Kind != Question {
			return r, Errorf(Invalid, "request r%d asks for a permission: approve or deny it", r.Number)
		}
	case DecisionExpire, DecisionWithdraw:
		option = ""
		r.Effect = follow(Effects, r.Effect, EffectAnnul)
	}
	r.Decision = to
	r.Decided = &Decided{By: c.By, At: c.At, Option: option, Answer: c.Answer, Reason: c.Reason}
	return r, nil
}

// follow moves to the next state if the table allows it and stays otherwise.
func follow[S, E ~string](m Machine[S, E], from S, on E) S {
	to, err := m.Next(from, on)
	if err != nil {
		return from
	}
	return to
}

// allowing gives the id of the option that an approval takes.
func (r Request) allowing(named string) (string, error) {
	var once []Option
	for _, o := range r.Options {
		if o.ID == named && named != "" && o.Kind.Allows() && r.unique(o.ID) {
			return o.ID, nil
		}
		if o.Kind == AllowOnce && r.unique(o.ID) {
			once = append(once, o)
		}
	}
	switch {
	case named != "":
		return "", Errorf(Invalid, "request r%d has no single option %s that allows; see 'request show r%d'", r.Number, quote(named), r.Number)
	case len(once) == 1:
		return once[0].ID, nil
	case len(once) == 0:
		return "", Errorf(Unsupported, "request r%d offers nothing that allows it once; name one of its options or deny it", r.Number)
	default:
		return "", Errorf(Invalid, "request r%d offers several ways to allow it; name the option", r.Number)
	}
}

// rejecting gives the id of the option that a denial takes, "" for none.
func (r Request) rejecting(named string) (string, error) {
	for _, kind := range []OptionKind{RejectOnce, RejectAlways} {
		for _, o := range r.Options {
			if o.Kind == kind && r.unique(o.ID) && (named == "" || o.ID == named) {
				return o.ID, nil
			}
		}
	}
	if named != "" {
		return "", Errorf(Invalid, "request r%d has no single option %s that rejects", r.Number, quote(named))
	}
	return "", nil
}

// unique reports whether one option only has this id: an id that stands twice
// could mean either.
func (r Request) unique(id string) bool {
	n := 0
	for _, o := range r.Options {
		if o.ID == id {
			n++
		}
	}
	return n == 1
}

// Undone reports whether an approved effect waits to be carried out.
func (r Request) Undone() bool {
	return r.Kind.Effective() && r.Decision == DecisionApproved && r.Effect == EffectNone
}

// Undelivered reports whether a decision waits to be brought to the agent: one
// with an effect does so once the effect is over.
func (r Request) Undelivered() bool {
	return slices.Contains([]DecisionState{DecisionApproved, DecisionDenied, DecisionAnswered}, r.Decision) &&
		r.Delivery == DeliveryNone && !r.Undone() && r.Effect != EffectApplying
}

// Perform moves the effect, or is a Conflict; done replaces what is known of
// it.
func (r Request) Perform(on EffectEvent, done Done) (Request, error) {
	to, err := Effects.Next(r.Effect, on)
	if err != nil {
		return r, err
	}
	r.Effect, r.Done = to, &done
	return r, nil
}

// Deliver moves the delivery, or is a Conflict.
func (r Request) Deliver(on DeliveryEvent, note string) (Request, error) {
	to, err := Deliveries.Next(r.Delivery, on)
	if err != nil {
		return r, err
	}
	r.Delivery, r.Delivered = to, note
	return r, nil
}

// Lose is what the end or loss of its attempt means for a request: an open one
// is withdrawn, an effect that did not start is void, an answer that was not
// delivered is undeliverable, and one that was under way is unknown.
func (r Request) Lose(reason string, at Moment) Request {
	if r.Decision == DecisionOpen {
		// The table always lists this move from open.
		r, _ = r.Decide(Choice{On: DecisionWithdraw, Reason: reason, By: WorkerActor, At: at})
	} else {
		r.Effect = follow(Effects, r.Effect, EffectAnnul)
	}
	switch r.Delivery {
	case DeliveryNone:
		r.Delivery, r.Delivered = follow(Deliveries, r.Delivery, DeliveryFail), reason
	case DeliveryDelivering:
		r.Delivery, r.Delivered = follow(Deliveries, r.Delivery, DeliveryLose), reason
	case DeliveryDelivered, DeliveryUndeliverable, DeliveryUnknown:
	}
	return r
}
