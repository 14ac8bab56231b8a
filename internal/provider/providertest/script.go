package providertest

import (
	"encoding/json"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// Script is what a peer does, as plain data: it crosses to peers that are
// processes of their own.
type Script struct {
	// Setup is how preparation goes, before any work.
	Setup Setup `json:"setup,omitempty"`
	// SetupDelay passes before the peer is ready.
	SetupDelay time.Duration `json:"setup_delay,omitempty"`
	// Send is what the fake's Send answers, HandedAll when empty. Peers with a
	// connection cannot play it.
	Send coord.HandedOver `json:"send,omitempty"`
	// Steps are what the peer does once it has the prompt. After the last one
	// it stays, silent.
	Steps []Step `json:"steps"`
	// Cancel is what the peer does when it is asked to stop.
	Cancel OnCancel `json:"cancel,omitempty"`
	// CancelSteps take the place of the steps not yet played when Cancel is
	// CancelObey; none means that the peer confirms at once.
	CancelSteps []Step `json:"cancel_steps,omitempty"`
	// Verdict is what the fake's Reconcile answers instead of what is so.
	Verdict *provider.Verdict `json:"verdict,omitempty"`
}

// Setup is how preparation goes.
type Setup string

// The ways of preparation.
const (
	SetupReady Setup = ""
	// SetupCrash: the peer ends before it is ready. Trying again may help.
	SetupCrash Setup = "crash"
	// SetupSilent: the peer never answers. Trying again may help.
	SetupSilent Setup = "silent"
	// SetupAuth: the peer wants a login first.
	SetupAuth Setup = "auth"
	// SetupVersion: the peer speaks another version of its protocol.
	SetupVersion Setup = "version"
)

// OnCancel is what a peer does when it is asked to stop.
type OnCancel string

// The ways to take a cancellation.
const (
	CancelObey   OnCancel = ""
	CancelIgnore OnCancel = "ignore"
	// CancelCannot: the route has no way to ask. Peers of routes that have
	// one cannot play it.
	CancelCannot OnCancel = "unsupported"
	// CancelBreaks: whether the peer heard it is not known. For the fake only.
	CancelBreaks OnCancel = "unknown"
)

// Step is one thing a peer does.
type Step struct {
	Do Do `json:"do"`
	// After is waited before.
	After time.Duration `json:"after,omitempty"`
	// Text is what is said, or the title of what is asked or done. Of the fake's
	// End it is the whole answer, where that is not what was said.
	Text string `json:"text,omitempty"`
	// Name is the label of Ask, Call, Await, Withdraw and Hold.
	Name string `json:"name,omitempty"`
	// Arguments are those of Call, whose tool is Text.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Options are those of Ask.
	Options []coord.Option `json:"options,omitempty"`
	// State is that of End.
	State coord.AttemptState `json:"state,omitempty"`
	// Cause and Reason are those of the fake's End and Crash; Cause is also the
	// status of its Act.
	Cause  string `json:"cause,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Count is how often a Flood or Noise repeats.
	Count int `json:"count,omitempty"`
	// Usage is that of Spend, Content that of Attach.
	Usage   *coord.Usage      `json:"usage,omitempty"`
	Content *provider.Content `json:"content,omitempty"`
}

// Do names what a step does.
type Do string

// The steps.
const (
	// Accept gives evidence of the work and nothing else.
	Accept Do = "accept"
	// Say is a piece of the answer, Think one of the thinking.
	Say   Do = "say"
	Think Do = "think"
	// Act tells of a tool call.
	Act    Do = "act"
	Spend  Do = "spend"
	Attach Do = "attach"
	// Ask asks the operator, Call calls a tool; Await waits for the answer;
	// Withdraw takes the request back.
	Ask      Do = "ask"
	Call     Do = "call"
	Await    Do = "await"
	Withdraw Do = "withdraw"
	// End ends the turn with State, EndAgain repeats the end.
	End      Do = "end"
	EndAgain Do = "end_again"
	// Flood says Text Count times at once.
	Flood Do = "flood"
	// Crash ends the peer. Cut ends the connection while the peer works on,
	// on routes where that is possible.
	Crash Do = "crash"
	Cut   Do = "cut"
	// Hold waits until the test calls Release with Name. For the fake only.
	Hold Do = "hold"
	// Noise writes Count lines that are not protocol, Malformed one message
	// that cannot be read, Oversize one that is too long, Foreign an update of
	// somebody else's work, Strange one of a kind that does not exist.
	Noise     Do = "noise"
	Malformed Do = "malformed"
	Oversize  Do = "oversize"
	Foreign   Do = "foreign"
	Strange   Do = "strange"
)

// YesNo are options as most agents offer them.
func YesNo() []coord.Option {
	return []coord.Option{
		{ID: "yes", Name: "Allow", Kind: coord.AllowOnce},
		{ID: "always", Name: "Always allow", Kind: coord.AllowAlways},
		{ID: "no", Name: "Reject", Kind: coord.RejectOnce},
	}
}

// Answers is a script that says text and completes.
func Answers(text string) Script {
	return Script{Steps: []Step{{Do: Say, Text: text}, {Do: End, State: coord.AttemptCompleted}}}
}

// Answered is what a peer was answered to one of its requests.
type Answered struct {
	// Name is the request's label.
	Name string `json:"name"`
	// Option is the chosen option, "" for cancelled or refused without one.
	Option string `json:"option"`
	// Text is the answer to a question, or what a call gave.
	Text string `json:"text,omitempty"`
	// Failed is set of a call that was refused or went wrong.
	Failed bool `json:"failed,omitempty"`
}
