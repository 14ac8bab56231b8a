// Package provider is the port between the scheduler and the ways to agents.
//
// An adapter promises: nothing that bears work leaves before Send; Send is
// called once; whatever happened, Send and the events say no more than is
// certain; Reattach and Reconcile never send work; and text from a peer is
// data. The conformance suite in providertest holds every adapter to this.
//
// All that crosses the port is plain data, so that an adapter may run on
// another machine: no callbacks, no readers. Backpressure is the pull: the
// owner of an attempt calls Next, commits what it got, and calls Next again.
package provider

import (
	"context"
	"encoding/json"
	"time"

	"signalbox/internal/coord"
)

// Adapter carries out one route. Its methods may be called from several
// goroutines at once.
type Adapter interface {
	// Route is the route that this adapter carries out.
	Route() coord.Route

	// Inspect observes an agent without work, login or installation. What is
	// wrong with the agent is told in Inspection.Problem; an error means that
	// nothing could be observed at all.
	Inspect(ctx context.Context, t Target) (coord.Inspection, error)

	// Prepare does everything that comes before the first work-bearing byte.
	// Its failure means that nothing was sent: an *Unsent error. On success the
	// session's handle is to be committed before Send.
	Prepare(ctx context.Context, w Work) (Session, error)

	// Reattach follows an attempt of an earlier process. Requests that still wait
	// for an answer are told again, with the ids that they had. Routes that
	// cannot give ErrGone.
	Reattach(ctx context.Context, w Work, h coord.Handle, r *coord.Receipt) (Session, error)

	// Reconcile asks what became of an attempt, and never sends work.
	Reconcile(ctx context.Context, w Work, h coord.Handle, r *coord.Receipt) (Verdict, error)
}

// Session is one prepared or running attempt. Send and Next belong to the one
// goroutine that owns the attempt; Respond, Cancel and Close may be called from
// others at any time and never wait behind Next.
type Session interface {
	// Handle is what any later process needs to ask about the attempt.
	Handle() coord.Handle

	// Send hands the work over, once. It answers what became of the bytes; the
	// error says why when they were not all handed over.
	Send(ctx context.Context) (coord.HandedOver, error)

	// Next gives the next event. The first one is EventReceipt, unless the
	// attempt is lost before there is one; the last one is EventEnd or
	// EventLost. After EventEnd it gives what comes late (EventLate) for as long
	// as the session is open and the peer is there, then io.EOF; after EventLost
	// io.EOF at once. A call that ends with its context has taken nothing.
	Next(ctx context.Context) (Event, error)

	// Respond brings the operator's answer to the provider. It is idempotent
	// by Answer.Request: a repeat gives the first outcome.
	Respond(ctx context.Context, a Answer) (Delivery, error)

	// Cancel asks the provider to stop and answers every open request as
	// cancelled. It is idempotent. Only an EventEnd in state cancelled confirms.
	Cancel(ctx context.Context) (CancelOutcome, error)

	// Close ends the session, and on local routes the whole process tree, and
	// waits for it. It is idempotent. It gives what is then certain.
	Close(ctx context.Context) (coord.ActivityState, error)
}

// Unsendable is what Send answers when the work must not leave: it was sent
// before (Internal), the attempt was stopped before that (Unavailable), or ctx
// has ended (its cause). Its error is nil when the work may leave.
func Unsendable(ctx context.Context, sent, stopped bool) (coord.HandedOver, error) {
	switch {
	case sent:
		return coord.HandedUnknown, coord.Errorf(coord.Internal, "the work was sent already")
	case stopped:
		return coord.HandedNothing, coord.Errorf(coord.Unavailable, "the attempt was stopped before the work was sent")
	case ctx.Err() != nil:
		return coord.HandedNothing, context.Cause(ctx)
	}
	return "", nil
}

// Target is an agent as configured, to be inspected.
type Target struct {
	Agent    coord.AgentID
	Revision int
	Config   coord.AgentConfig
	// Scratch is an existing empty folder that the agent may start in.
	Scratch string
}

// Work is an attempt to be made.
type Work struct {
	Attempt  coord.AttemptID
	Agent    coord.AgentID
	Revision int
	Config   coord.AgentConfig
	// Identity is what the operator approved; Prepare asks for the hashes again and gives
	// Unsent{Cause: CauseStale} when anything differs.
	Identity coord.Identity
	// Dir is the absolute folder to work in.
	Dir string
	// Prompt is the whole text, dependencies included.
	Prompt string
	// Answered are the provider's ids of the requests of this attempt that are
	// over for Signalbox: answered, or in a way that nobody can tell any more.
	// Waiting are those that are not. Both are set for Reattach, which tells the
	// latter again or withdraws them.
	Answered, Waiting []string
	// Tools are offered to the agent, which calls them with EventCall. An
	// adapter that cannot offer them gives Unsent{Cause: CauseConfig}: work is
	// never sent with fewer tools than were approved.
	Tools []Tool
}

// Tool is something that Signalbox does for an agent during its attempt.
type Tool struct {
	// Name is a lower-case word, unique among the tools of an attempt.
	Name string
	// Description tells the model what the tool does and what bounds it has.
	Description string
	// Schema is the JSON Schema of the arguments, an object.
	Schema json.RawMessage
}

// Unsent is the failure of Prepare: nothing was sent.
type Unsent struct {
	// Cause is one of the causes below.
	Cause string
	// Message is one sentence for the operator, without secrets or peer text.
	Message string
	// Transient tells that trying again may help.
	Transient bool
}

// Error gives the message.
func (u *Unsent) Error() string { return u.Message }

// Causes that adapters give for ends, losses and failures to send. They are
// words for programs; the sentence beside them is for people.
const (
	CauseSpawn         = "spawn_failed"
	CauseSetupTimeout  = "setup_timeout"
	CauseProtocol      = "protocol_error"
	CauseVersion       = "protocol_version"
	CauseAuth          = "auth_required"
	CauseStale         = "stale"
	CauseConfig        = "configuration"
	CauseGone          = "agent_gone"
	CauseMissing       = "task_missing"
	CauseFrame         = "frame_too_large"
	CauseNoise         = "noise_limit"
	CauseWriteTimeout  = "write_timeout"
	CauseRequests      = "request_limit"
	CauseStopReason    = "invalid_stop_reason"
	CauseTruncated     = "truncated"
	CauseTurnLimit     = "turn_limit"
	CauseRefused       = "refused"
	CauseEmpty         = "empty_result"
	CauseProviderError = "provider_error"
	CauseCancelled     = "cancelled"
	CauseAfterCancel   = "completed_after_cancel"
	CauseShutdown      = "shutdown"
)

// EventKind says which member of an Event is set.
type EventKind string

// The kinds of events.
const (
	EventReceipt EventKind = "receipt"
	// EventText: pieces of text of one channel that follow each other may come
	// as one.
	EventText     EventKind = "text"
	EventActivity EventKind = "activity"
	EventRequest  EventKind = "request"
	// EventCall: the agent calls one of the tools that it was offered. Respond
	// answers it with Answer.Result.
	EventCall EventKind = "call"
	// EventWithdrawn: the provider took a request or a call back; Withdrawn
	// names it.
	EventWithdrawn EventKind = "withdrawn"
	EventUsage     EventKind = "usage"
	EventContent   EventKind = "content"
	// EventLate is correlated but came after the end of the turn; it changes
	// nothing.
	EventLate EventKind = "late"
	EventEnd  EventKind = "end"
	EventLost EventKind = "lost"
)

// Event is one thing that the provider reported.
type Event struct {
	Kind EventKind `json:"kind"`
	// Cursor is the provider's own position, where it has one.
	Cursor    string          `json:"cursor,omitempty"`
	Receipt   *coord.Receipt  `json:"receipt,omitempty"`
	Text      *coord.Text     `json:"text,omitempty"`
	Activity  *coord.Activity `json:"activity,omitempty"`
	Request   *Request        `json:"request,omitempty"`
	Call      *Call           `json:"call,omitempty"`
	Withdrawn string          `json:"withdrawn,omitempty"`
	Usage     *coord.Usage    `json:"usage,omitempty"`
	Content   *Content        `json:"content,omitempty"`
	Late      string          `json:"late,omitempty"`
	End       *End            `json:"end,omitempty"`
	Lost      *Lost           `json:"lost,omitempty"`
}

// Request is something the provider asks of the operator.
type Request struct {
	Kind    coord.RequestKind    `json:"kind"`
	Origin  coord.RequestOrigin  `json:"origin"`
	Content coord.RequestContent `json:"content"`
	Options []coord.Option       `json:"options,omitempty"`
}

// Call is a call of a tool that was offered in Work.Tools. At most
// coord.MaxCalls are unanswered at once; the adapter refuses more by itself.
type Call struct {
	Origin coord.RequestOrigin `json:"origin"`
	// Tool is the name of an offered tool; the adapter refuses others itself.
	Tool string `json:"tool"`
	// Arguments are as the model wrote them, valid JSON of up to
	// coord.MaxCallArguments bytes, and not checked against the schema.
	Arguments json.RawMessage `json:"arguments"`
}

// Content is bytes that the provider sent as part of its answer, or an address
// that it named instead (Reference, never opened).
type Content struct {
	Name      string `json:"name"`
	Media     string `json:"media"`
	Bytes     []byte `json:"bytes,omitempty"`
	Reference string `json:"reference,omitempty"`
}

// End is the provider's own, correlated end of the attempt.
type End struct {
	// State is completed, failed, rejected or cancelled.
	State coord.AttemptState `json:"state"`
	Cause string             `json:"cause,omitempty"`
	// Reason is one sentence, without secrets; peer text in it is quoted and
	// bounded by coord.MaxReason.
	Reason string `json:"reason,omitempty"`
	// Answer is the whole answer of a completed attempt, where that is not what
	// the events of text add up to: the provider replaced a part of it, or an
	// earlier process took some of the events. nil elsewhere.
	Answer *string `json:"answer,omitempty"`
}

// Lost tells that the provider can no longer be followed here.
type Lost struct {
	Cause  string `json:"cause"`
	Reason string `json:"reason"`
	// Activity is whether it may still run, as far as is proven.
	Activity coord.ActivityState `json:"activity"`
}

// Answer is the operator's decision on its way to the provider.
type Answer struct {
	// Request is the provider's request id, as it came in Origin.Request.
	Request string `json:"request"`
	// Decision is approved, denied, answered, expired or withdrawn.
	Decision coord.DecisionState `json:"decision"`
	// Option is the chosen option's id; "" means none, which the adapter
	// expresses as its protocol's cancelled or refused.
	Option string `json:"option,omitempty"`
	Text   string `json:"text,omitempty"`
	// Result answers a call; Decision is then without meaning to the adapter.
	Result *Result `json:"result,omitempty"`
}

// Result is what became of a tool call, for the model to read.
type Result struct {
	Text string `json:"text"`
	// Failed tells that the call did not do what it was to do: it was refused,
	// denied or went wrong.
	Failed bool `json:"failed,omitempty"`
}

// Delivery is what became of an answer.
type Delivery string

// The outcomes of Respond.
const (
	Delivered     Delivery = "delivered"
	Undeliverable Delivery = "undeliverable"
	DeliveryLost  Delivery = "unknown"
)

// CancelOutcome is what became of the request to stop.
type CancelOutcome string

// The outcomes of Cancel.
const (
	CancelAsked       CancelOutcome = "asked"
	CancelUnsupported CancelOutcome = "unsupported"
	CancelUnknown     CancelOutcome = "unknown"
)

// Verdict is what Reconcile found.
type Verdict struct {
	Finding Finding `json:"finding"`
	// End is set with FoundEnded.
	End *End `json:"end,omitempty"`
	// Text is what the provider still holds of the answer, bounded.
	Text string `json:"text,omitempty"`
	// Evidence is one sentence a fact, for the operator.
	Evidence []string `json:"evidence,omitempty"`
	// Activity is set when the provider's activity is certain.
	Activity coord.ActivityState `json:"activity,omitempty"`
}

// Finding is the kind of a verdict.
type Finding string

// The findings. Absence is not proof: NotFound leaves the attempt unknown.
const (
	FoundNothing Finding = "nothing"
	FoundEnded   Finding = "ended"
	FoundWorking Finding = "working"
	NotFound     Finding = "not_found"
	// Fenced: the provider durably refuses this attempt's id, now and later:
	// the only proof that it was never and will never be run.
	Fenced Finding = "fenced"
)

// ErrGone is the answer of Reattach on routes whose sessions end with their
// process.
var ErrGone = coord.Errorf(coord.Unsupported, "the session ended with the process that held it")

// Timing holds the bounds that adapters keep; tests with real processes use
// shorter ones.
type Timing struct {
	Setup time.Duration
	Write time.Duration
	// Grace is the time between asking a process to end and killing it.
	Grace time.Duration
}

// DefaultTiming is what the product uses.
var DefaultTiming = Timing{Setup: coord.SetupTimeout, Write: coord.WriteTimeout, Grace: 2 * time.Second}

// EncodeHandle makes a handle of version v.
func EncodeHandle(v int, data any) (coord.Handle, error) {
	b, err := json.Marshal(data)
	return coord.Handle{Version: v, Data: b}, err
}
