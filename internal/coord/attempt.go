package coord

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Attempt is one try at a task by one agent. A task has at most one attempt
// that may have been sent, ever.
type Attempt struct {
	ID     AttemptID    `json:"id"`
	Job    JobID        `json:"job"`
	Task   TaskID       `json:"task"`
	Key    string       `json:"key"`
	Number int          `json:"number"`
	Agent  AgentID      `json:"agent"`
	Route  Route        `json:"route"`
	State  AttemptState `json:"state"`
	// Generation is that of the owner which runs or ran it.
	Generation int64 `json:"generation"`
	// Prompt is the SHA-256, in hex, of the exact text to be sent.
	Prompt string `json:"prompt,omitempty"`
	// Handle is committed with the intent to send.
	Handle *Handle `json:"handle,omitempty"`
	// Handed is what Send said became of the work: "", "handed_over" or "unknown".
	Handed HandedOver `json:"handed,omitempty"`
	// Receipt is the first correlated evidence; it never changes.
	Receipt *Receipt     `json:"receipt,omitempty"`
	Cancel  Cancellation `json:"cancel"`
	// Activity of an unknown attempt: whether something may still run.
	Activity ActivityState `json:"activity,omitempty"`
	// Cause is a word for programs, Reason a sentence for people: why the
	// attempt ended or is unknown.
	Cause  string `json:"cause,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Transient marks a not_sent that another attempt may mend.
	Transient bool `json:"transient,omitempty"`
	// Reconciled marks an end that was found after the attempt was unknown.
	Reconciled bool        `json:"reconciled,omitempty"`
	Evidence   []Evidence  `json:"evidence,omitempty"`
	Resolution *Resolution `json:"resolution,omitempty"`
	Statement  *Statement  `json:"statement,omitempty"`
	Usage      Usage       `json:"usage"`
	// Late counts correlated messages that came after a known end.
	Late     int     `json:"late,omitempty"`
	Made     Moment  `json:"made"`
	Sent     *Moment `json:"sent,omitempty"`
	Observed Moment  `json:"observed"`
	Ended    *Moment `json:"ended,omitempty"`
}

// Handle is what Prepare yields: plain versioned data by which any later
// process can ask the provider about the attempt.
type Handle struct {
	Version int             `json:"version"`
	Data    json.RawMessage `json:"data"`
}

// HandedOver is what became of the work-bearing bytes.
type HandedOver string

// The answers of Send. NotSent is certain: zero bytes left.
const (
	HandedNothing HandedOver = "not_sent"
	HandedAll     HandedOver = "handed_over"
	HandedUnknown HandedOver = "unknown"
)

// Receipt is the provider's first correlated evidence that it has the work.
type Receipt struct {
	// Kind says what it was: an update, a request, an answer, a task id.
	Kind string `json:"kind"`
	// Reference is the provider's own id for the work.
	Reference string `json:"reference"`
	At        Moment `json:"at"`
}

// ActivityState says whether an attempt of unknown outcome may still act.
type ActivityState string

// The activity states.
const (
	MayRun ActivityState = "may_run"
	Ended  ActivityState = "ended"
)

// Cancellation is the request to stop an attempt and what became of it.
type Cancellation struct {
	State CancelState `json:"state"`
	Cause CancelCause `json:"cause,omitempty"`
	By    *Actor      `json:"by,omitempty"`
	At    *Moment     `json:"at,omitempty"`
}

// CancelCause says why a cancellation was asked for.
type CancelCause string

// The causes.
const (
	CauseOperator CancelCause = "operator"
	CauseDeadline CancelCause = "deadline"
	CauseShutdown CancelCause = "shutdown"
	CauseLimit    CancelCause = "limit"
)

// Evidence is one thing known about an attempt whose outcome is not.
type Evidence struct {
	// Source is "signalbox" (it did or saw it), "provider" (it said so) or
	// "operator" (a person's statement).
	Source string `json:"source"`
	Fact   string `json:"fact"`
	At     Moment `json:"at"`
}

// MaxEvidence bounds the evidence kept of one attempt; the first and the
// newest entries are kept.
const MaxEvidence = 64

// Resolution is the operator's statement about an unknown attempt. The attempt
// stays unknown: the statement is no observation.
type Resolution struct {
	How    ResolutionKind `json:"how"`
	Reason string         `json:"reason,omitempty"`
	// Text is the adopted result, when the operator gave one.
	Text string `json:"text,omitempty"`
	By   Actor  `json:"by"`
	At   Moment `json:"at"`
}

// ResolutionKind is one of the three ways to resolve an unknown.
type ResolutionKind string

// The resolutions.
const (
	// Adopted: the operator states that the task is done.
	Adopted ResolutionKind = "adopted"
	// NeverRan: the operator states, with a reason, that the work never ran.
	NeverRan ResolutionKind = "never_ran"
	// Abandoned: the operator gives the task up.
	Abandoned ResolutionKind = "abandoned"
)

func (r Resolution) follow() (TaskEvent, string) {
	switch r.How {
	case Adopted:
		return TaskComplete, "adopted by the operator"
	case NeverRan:
		return TaskFail, "never ran, by the operator's statement: " + r.Reason
	default:
		return TaskFail, "abandoned by the operator"
	}
}

// Usage is what an attempt used, where the agent tells it.
type Usage struct {
	InputTokens  int64 `json:"input_tokens,omitempty"`
	OutputTokens int64 `json:"output_tokens,omitempty"`
	TotalTokens  int64 `json:"total_tokens,omitempty"`
	// Cost is in Currency's unit, as the provider wrote it.
	Cost     string `json:"cost,omitempty"`
	Currency string `json:"currency,omitempty"`
	// Source is "provider" (it said so) or "measured"; "" when nothing is known.
	Source string `json:"source,omitempty"`
}

// Tokens is the total, as told or added up.
func (u Usage) Tokens() int64 { return max(u.TotalTokens, u.InputTokens+u.OutputTokens) }

// String gives tokens and money in words and says where they are known from;
// it is "" when nothing is. Cost and Currency are the provider's own text.
func (u Usage) String() string {
	var used []string
	if n := u.Tokens(); n > 0 {
		used = append(used, strconv.FormatInt(n, 10)+" tokens")
	}
	if u.Cost != "" {
		used = append(used, strings.TrimSpace(u.Cost+" "+u.Currency))
	}
	text := strings.Join(used, " and ")
	switch {
	case text == "":
	case u.Source == "measured":
		text += ", as measured here"
	case u.Source == "provider":
		text += ", as the agent told"
	}
	return text
}

// Change is one event of an attempt with all that belongs to it.
type Change struct {
	On AttemptEvent
	At Moment
	// Generation is the writer's; an attempt is changed only by its owner or,
	// once unknown, by any current one.
	Generation int64
	Handle     *Handle
	Prompt     string
	Receipt    *Receipt
	Cause      string
	Reason     string
	Transient  bool
	Activity   ActivityState
	Statement  *Statement
	Evidence   []Evidence
}

// Live reports whether the attempt is on its way: neither ended nor unknown.
func (a Attempt) Live() bool { return a.State != AttemptUnknown && !Attempts.Final(a.State) }

// MaySend reports whether work-bearing bytes may have left for this attempt.
func (a Attempt) MaySend() bool {
	return a.Sent != nil && a.State != AttemptNotSent
}

// HoldsLeases reports whether the attempt keeps its agent and workspace: it is
// live, or unknown and may still run.
func (a Attempt) HoldsLeases() bool {
	return a.Live() || a.State == AttemptUnknown && a.Activity == MayRun && a.Resolution == nil
}

// Apply moves the attempt. It is a Conflict when the table does not list the
// move, when another owner's generation writes, or when the attempt was
// resolved by the operator.
func (a Attempt) Apply(c Change) (Attempt, error) {
	if a.Live() && c.Generation != a.Generation {
		return a, Errorf(Conflict, "attempt %s belongs to generation %d, not %d", a.ID, a.Generation, c.Generation)
	}
	if a.Resolution != nil {
		return a, Errorf(Conflict, "attempt %s was resolved by the operator (%s)", a.ID, a.Resolution.How)
	}
	to, err := Attempts.Next(a.State, c.On)
	if err != nil {
		return a, err
	}
	if to == AttemptSending && c.Handle == nil {
		return a, Errorf(Internal, "attempt %s has no handle to be sent with", a.ID)
	}
	wasUnknown := a.State == AttemptUnknown
	a.State, a.Observed = to, c.At
	if c.Handle != nil {
		a.Handle = c.Handle
	}
	if c.Prompt != "" {
		a.Prompt = c.Prompt
	}
	if c.Receipt != nil && a.Receipt == nil {
		a.Receipt = c.Receipt
	}
	if c.Statement != nil {
		a.Statement = c.Statement
	}
	a.Transient = c.Transient
	a.Cause, a.Reason = c.Cause, c.Reason
	a.addEvidence(c.Evidence...)
	switch {
	case to == AttemptSending:
		a.Sent = &c.At
	case to == AttemptUnknown:
		a.Activity = c.Activity
		if a.Activity == "" {
			a.Activity = MayRun
		}
		a.Cancel = a.Cancel.follow(CancelLose)
	case Attempts.Final(to):
		a.Ended = &c.At
		a.Activity = ""
		a.Reconciled = wasUnknown
		if to == AttemptCancelled || to == AttemptNotSent {
			a.Cancel = a.Cancel.follow(CancelConfirm)
		} else {
			a.Cancel = a.Cancel.follow(CancelOvertake)
		}
	default:
		a.Activity = ""
		a.Reconciled = a.Reconciled || wasUnknown
	}
	return a, nil
}

// follow moves the cancellation if its table allows it and leaves it otherwise.
func (c Cancellation) follow(on CancelEvent) Cancellation {
	if to, err := Cancellations.Next(c.State, on); err == nil {
		c.State = to
	}
	return c
}

// RequestCancel records that a stop was asked for. It is a Conflict when the
// attempt is over or a stop was asked for already.
func (a Attempt) RequestCancel(cause CancelCause, by Actor, at Moment) (Attempt, error) {
	if !a.Live() {
		return a, Errorf(Conflict, "attempt %s is %s: there is nothing to cancel", a.ID, a.State)
	}
	to, err := Cancellations.Next(a.Cancel.State, CancelRequest)
	if err != nil {
		return a, err
	}
	a.Cancel = Cancellation{State: to, Cause: cause, By: &by, At: &at}
	a.addEvidence(Evidence{"signalbox", "a stop was asked for: " + string(cause), at})
	return a, nil
}

// DeclineCancel records that the route cannot cancel.
func (a Attempt) DeclineCancel(at Moment) (Attempt, error) {
	to, err := Cancellations.Next(a.Cancel.State, CancelDecline)
	if err != nil {
		return a, err
	}
	a.Cancel.State, a.Observed = to, at
	return a, nil
}

// Resolve records the operator's statement about an unknown attempt.
func (a Attempt) Resolve(r Resolution) (Attempt, error) {
	if a.State != AttemptUnknown {
		return a, Errorf(Conflict, "attempt %s is %s: only an unknown outcome is resolved", a.ID, a.State)
	}
	if a.Resolution != nil {
		return a, Errorf(Conflict, "attempt %s was resolved already (%s)", a.ID, a.Resolution.How)
	}
	if r.How == NeverRan && r.Reason == "" {
		return a, InvalidFields("a reason is needed to state that the work never ran", []Field{{"/reason", "required"}})
	}
	a.Resolution = &r
	a.addEvidence(Evidence{"operator", "resolved as " + string(r.How), r.At})
	return a, nil
}

// Note adds evidence without moving the attempt.
func (a Attempt) Note(e ...Evidence) Attempt {
	a.addEvidence(e...)
	return a
}

// addEvidence keeps the first half and the newest half within MaxEvidence.
func (a *Attempt) addEvidence(e ...Evidence) {
	all := append(append([]Evidence(nil), a.Evidence...), e...)
	if extra := len(all) - MaxEvidence; extra > 0 {
		all = append(all[:MaxEvidence/2], all[MaxEvidence/2+extra:]...)
	}
	a.Evidence = all
}
