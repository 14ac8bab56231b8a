package coord

import (
	"fmt"
	"slices"
	"strings"
)

// Machine is a transition table: the whole of what may happen to a thing.
type Machine[S, E ~string] struct {
	// Name is the thing's word in the documentation.
	Name string
	// Initial is the state it is made in.
	Initial S
	// Rows are the transitions; no two share a source and an event.
	Rows []Row[S, E]
}

// Row is one line of a transition table.
type Row[S, E ~string] struct {
	From []S
	On   E
	To   S
	// Why is a few words for the documentation, where the names do not say it.
	Why string
}

// Next gives the state that from moves to on event on, or a Conflict error.
func (m Machine[S, E]) Next(from S, on E) (S, error) {
	for _, r := range m.Rows {
		if r.On == on && slices.Contains(r.From, from) {
			return r.To, nil
		}
	}
	return from, Errorf(Conflict, "%s is %s: %s does not apply", m.Name, from, on)
}

// States lists every state in the order in which the table names them.
func (m Machine[S, E]) States() []S {
	out := []S{m.Initial}
	for _, r := range m.Rows {
		for _, s := range append(slices.Clone(r.From), r.To) {
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// Final reports whether no row leaves s.
func (m Machine[S, E]) Final(s S) bool {
	return !slices.ContainsFunc(m.Rows, func(r Row[S, E]) bool { return slices.Contains(r.From, s) })
}

// Mermaid draws the table as a Mermaid state diagram.
func (m Machine[S, E]) Mermaid() string {
	var out strings.Builder
	fmt.Fprintf(&out, "stateDiagram-v2\n    [*] --> %s\n", m.Initial)
	for _, r := range m.Rows {
		for _, from := range r.From {
			fmt.Fprintf(&out, "    %s --> %s: %s\n", from, r.To, r.On)
		}
	}
	for _, s := range m.States() {
		if m.Final(s) {
			fmt.Fprintf(&out, "    %s --> [*]\n", s)
		}
	}
	return out.String()
}

// JobState is the state of a job.
type JobState string

// The states of a job.
const (
	JobDraft     JobState = "draft"
	JobRunning   JobState = "running"
	JobAttention JobState = "needs_attention"
	JobCompleted JobState = "completed"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
)

// JobEvent moves a job.
type JobEvent string

// The events of a job.
const (
	JobRun      JobEvent = "run"
	JobDiscard  JobEvent = "discard"
	JobMove     JobEvent = "move"
	JobStick    JobEvent = "stick"
	JobComplete JobEvent = "complete"
	JobFail     JobEvent = "fail"
	JobCancel   JobEvent = "cancel"
)

// Jobs is the table of jobs.
var Jobs = Machine[JobState, JobEvent]{
	Name: "job", Initial: JobDraft,
	Rows: []Row[JobState, JobEvent]{
		{[]JobState{JobDraft}, JobRun, JobRunning, "the operator approved the frozen plan"},
		{[]JobState{JobDraft}, JobDiscard, JobCancelled, "the draft was thrown away"},
		{[]JobState{JobRunning}, JobStick, JobAttention, "nothing can move and an unknown is unresolved"},
		{[]JobState{JobAttention}, JobMove, JobRunning, "something can move again"},
		{[]JobState{JobRunning, JobAttention}, JobComplete, JobCompleted, "every task completed"},
		{[]JobState{JobRunning, JobAttention}, JobFail, JobFailed, "a task failed or was skipped"},
		{[]JobState{JobRunning, JobAttention}, JobCancel, JobCancelled, "a task was cancelled and none failed"},
	},
}

// TaskState is the state of a task.
type TaskState string

// The states of a task.
const (
	TaskBlocked   TaskState = "blocked"
	TaskReady     TaskState = "ready"
	TaskRunning   TaskState = "running"
	TaskWaiting   TaskState = "waiting"
	TaskCompleted TaskState = "completed"
	TaskFailed    TaskState = "failed"
	TaskCancelled TaskState = "cancelled"
	TaskSkipped   TaskState = "skipped"
	TaskUnknown   TaskState = "unknown"
)

// TaskEvent moves a task.
type TaskEvent string

// The events of a task.
const (
	TaskUnblock  TaskEvent = "unblock"
	TaskStart    TaskEvent = "start"
	TaskAsk      TaskEvent = "ask"
	TaskResume   TaskEvent = "resume"
	TaskAgain    TaskEvent = "again"
	TaskComplete TaskEvent = "complete"
	TaskFail     TaskEvent = "fail"
	TaskCancel   TaskEvent = "cancel"
	TaskSkip     TaskEvent = "skip"
	TaskLose     TaskEvent = "lose"
)

// Tasks is the table of tasks.
var Tasks = Machine[TaskState, TaskEvent]{
	Name: "task", Initial: TaskBlocked,
	Rows: []Row[TaskState, TaskEvent]{
		{[]TaskState{TaskBlocked}, TaskUnblock, TaskReady, "every need completed"},
		{[]TaskState{TaskReady}, TaskStart, TaskRunning, "an attempt was admitted"},
		{[]TaskState{TaskRunning, TaskUnknown}, TaskAsk, TaskWaiting, "the agent asks the operator"},
		{[]TaskState{TaskWaiting, TaskUnknown}, TaskResume, TaskRunning, "no request is open any more"},
		{[]TaskState{TaskRunning, TaskUnknown}, TaskAgain, TaskReady, "the attempt provably sent nothing"},
		{[]TaskState{TaskRunning, TaskWaiting, TaskUnknown}, TaskComplete, TaskCompleted, ""},
		{[]TaskState{TaskRunning, TaskWaiting, TaskUnknown}, TaskFail, TaskFailed, ""},
		{[]TaskState{TaskBlocked, TaskReady, TaskRunning, TaskWaiting, TaskUnknown}, TaskCancel, TaskCancelled, ""},
		{[]TaskState{TaskBlocked, TaskReady}, TaskSkip, TaskSkipped, "a need failed or the deadline passed"},
		{[]TaskState{TaskRunning, TaskWaiting}, TaskLose, TaskUnknown, "the attempt's outcome is not known"},
	},
}

// AttemptState is the state of an attempt.
type AttemptState string

// The states of an attempt.
const (
	AttemptQueued    AttemptState = "queued"
	AttemptPreparing AttemptState = "preparing"
	AttemptSending   AttemptState = "sending"
	AttemptAccepted  AttemptState = "accepted"
	AttemptWorking   AttemptState = "working"
	AttemptWaiting   AttemptState = "waiting"
	AttemptCompleted AttemptState = "completed"
	AttemptFailed    AttemptState = "failed"
	AttemptRejected  AttemptState = "rejected"
	AttemptCancelled AttemptState = "cancelled"
	AttemptNotSent   AttemptState = "not_sent"
	AttemptUnknown   AttemptState = "unknown"
)

// AttemptEvent moves an attempt.
type AttemptEvent string

// The events of an attempt.
const (
	AttemptPrepare  AttemptEvent = "prepare"
	AttemptIntend   AttemptEvent = "intend"
	AttemptReceive  AttemptEvent = "receive"
	AttemptProgress AttemptEvent = "progress"
	AttemptAsk      AttemptEvent = "ask"
	AttemptComplete AttemptEvent = "complete"
	AttemptFail     AttemptEvent = "fail"
	AttemptReject   AttemptEvent = "reject"
	AttemptCancel   AttemptEvent = "cancel"
	AttemptNotSend  AttemptEvent = "not_send"
	AttemptLose     AttemptEvent = "lose"
)

var mayHaveBeenSent = []AttemptState{AttemptSending, AttemptAccepted, AttemptWorking, AttemptWaiting}

// Attempts is the table of attempts.
var Attempts = Machine[AttemptState, AttemptEvent]{
	Name: "attempt", Initial: AttemptQueued,
	Rows: []Row[AttemptState, AttemptEvent]{
		{[]AttemptState{AttemptQueued}, AttemptPrepare, AttemptPreparing, "leases taken"},
		{[]AttemptState{AttemptPreparing}, AttemptIntend, AttemptSending, "the intent to send is durable"},
		{[]AttemptState{AttemptSending, AttemptUnknown}, AttemptReceive, AttemptAccepted, "the first correlated evidence"},
		{[]AttemptState{AttemptAccepted, AttemptWaiting, AttemptUnknown}, AttemptProgress, AttemptWorking, ""},
		{[]AttemptState{AttemptAccepted, AttemptWorking, AttemptUnknown}, AttemptAsk, AttemptWaiting, "a request is open"},
		{[]AttemptState{AttemptAccepted, AttemptWorking, AttemptWaiting, AttemptUnknown}, AttemptComplete, AttemptCompleted, ""},
		{append([]AttemptState{AttemptUnknown}, mayHaveBeenSent...), AttemptFail, AttemptFailed, ""},
		{append([]AttemptState{AttemptUnknown}, mayHaveBeenSent...), AttemptReject, AttemptRejected, "the provider refused the work"},
		{append([]AttemptState{AttemptQueued, AttemptPreparing, AttemptUnknown}, mayHaveBeenSent...), AttemptCancel, AttemptCancelled, "confirmed, or nothing was sent"},
		{[]AttemptState{AttemptQueued, AttemptPreparing}, AttemptNotSend, AttemptNotSent, "no byte of the work left"},
		{[]AttemptState{AttemptSending, AttemptUnknown}, AttemptNotSend, AttemptNotSent, "zero bytes handed over, or fenced by the provider"},
		{mayHaveBeenSent, AttemptLose, AttemptUnknown, "lost after the intent to send"},
	},
}

// CancelState is the state of a cancellation.
type CancelState string

// The states of a cancellation.
const (
	CancelNone        CancelState = "none"
	CancelRequested   CancelState = "requested"
	CancelConfirmed   CancelState = "confirmed"
	CancelUnsupported CancelState = "unsupported"
	CancelOvertaken   CancelState = "overtaken"
	CancelUnknown     CancelState = "unknown"
)

// CancelEvent moves a cancellation.
type CancelEvent string

// The events of a cancellation.
const (
	CancelRequest  CancelEvent = "request"
	CancelConfirm  CancelEvent = "confirm"
	CancelDecline  CancelEvent = "decline"
	CancelOvertake CancelEvent = "overtake"
	CancelLose     CancelEvent = "lose"
)

// Cancellations is the table of cancellations.
var Cancellations = Machine[CancelState, CancelEvent]{
	Name: "cancellation", Initial: CancelNone,
	Rows: []Row[CancelState, CancelEvent]{
		{[]CancelState{CancelNone}, CancelRequest, CancelRequested, ""},
		{[]CancelState{CancelRequested, CancelUnsupported, CancelUnknown}, CancelConfirm, CancelConfirmed, "the provider's own terminal state, or nothing was sent"},
		{[]CancelState{CancelRequested}, CancelDecline, CancelUnsupported, "the route cannot cancel"},
		{[]CancelState{CancelRequested, CancelUnsupported, CancelUnknown}, CancelOvertake, CancelOvertaken, "another end came first and stands"},
		{[]CancelState{CancelRequested}, CancelLose, CancelUnknown, "no confirmation within the window"},
	},
}

// DecisionState is what the operator decided of a request.
type DecisionState string

// The states of a decision.
const (
	DecisionOpen      DecisionState = "open"
	DecisionApproved  DecisionState = "approved"
	DecisionDenied    DecisionState = "denied"
	DecisionAnswered  DecisionState = "answered"
	DecisionExpired   DecisionState = "expired"
	DecisionWithdrawn DecisionState = "withdrawn"
)

// DecisionEvent moves a decision.
type DecisionEvent string

// The events of a decision.
const (
	DecisionApprove  DecisionEvent = "approve"
	DecisionDeny     DecisionEvent = "deny"
	DecisionAnswer   DecisionEvent = "answer"
	DecisionExpire   DecisionEvent = "expire"
	DecisionWithdraw DecisionEvent = "withdraw"
)

// Decisions is the table of decisions: the first one wins.
var Decisions = Machine[DecisionState, DecisionEvent]{
	Name: "decision", Initial: DecisionOpen,
	Rows: []Row[DecisionState, DecisionEvent]{
		{[]DecisionState{DecisionOpen}, DecisionApprove, DecisionApproved, ""},
		{[]DecisionState{DecisionOpen}, DecisionDeny, DecisionDenied, ""},
		{[]DecisionState{DecisionOpen}, DecisionAnswer, DecisionAnswered, ""},
		{[]DecisionState{DecisionOpen}, DecisionExpire, DecisionExpired, "the deadline passed"},
		{[]DecisionState{DecisionOpen}, DecisionWithdraw, DecisionWithdrawn, "the attempt ended, was lost or is being cancelled"},
	},
}

// EffectState is what became of an approved effect on the operator's side.
type EffectState string

// The states of an effect.
const (
	EffectNone     EffectState = "none"
	EffectApplying EffectState = "applying"
	EffectApplied  EffectState = "applied"
	EffectFailed   EffectState = "failed"
	EffectDiverged EffectState = "diverged"
	EffectUnknown  EffectState = "unknown"
	EffectVoid     EffectState = "void"
)

// EffectEvent moves an effect.
type EffectEvent string

// The events of an effect.
const (
	EffectApply   EffectEvent = "apply"
	EffectSucceed EffectEvent = "succeed"
	EffectFail    EffectEvent = "fail"
	EffectDiverge EffectEvent = "diverge"
	EffectLose    EffectEvent = "lose"
	EffectAnnul   EffectEvent = "annul"
)

// Effects is the table of effects.
var Effects = Machine[EffectState, EffectEvent]{
	Name: "effect", Initial: EffectNone,
	Rows: []Row[EffectState, EffectEvent]{
		{[]EffectState{EffectNone}, EffectApply, EffectApplying, "approved, and the attempt is live and not cancelling"},
		{[]EffectState{EffectApplying}, EffectSucceed, EffectApplied, ""},
		{[]EffectState{EffectApplying}, EffectFail, EffectFailed, ""},
		{[]EffectState{EffectApplying}, EffectDiverge, EffectDiverged, "something else changed the same place"},
		{[]EffectState{EffectApplying}, EffectLose, EffectUnknown, ""},
		{[]EffectState{EffectNone}, EffectAnnul, EffectVoid, "it will never start"},
	},
}

// DeliveryState is whether the answer to a request reached the agent.
type DeliveryState string

// The states of a delivery.
const (
	DeliveryNone          DeliveryState = "none"
	DeliveryDelivering    DeliveryState = "delivering"
	DeliveryDelivered     DeliveryState = "delivered"
	DeliveryUndeliverable DeliveryState = "undeliverable"
	DeliveryUnknown       DeliveryState = "unknown"
)

// DeliveryEvent moves a delivery.
type DeliveryEvent string

// The events of a delivery.
const (
	DeliveryStart   DeliveryEvent = "start"
	DeliverySucceed DeliveryEvent = "succeed"
	DeliveryFail    DeliveryEvent = "fail"
	DeliveryLose    DeliveryEvent = "lose"
)

// Deliveries is the table of deliveries.
var Deliveries = Machine[DeliveryState, DeliveryEvent]{
	Name: "delivery", Initial: DeliveryNone,
	Rows: []Row[DeliveryState, DeliveryEvent]{
		{[]DeliveryState{DeliveryNone}, DeliveryStart, DeliveryDelivering, "decided, and the attempt is live"},
		{[]DeliveryState{DeliveryDelivering}, DeliverySucceed, DeliveryDelivered, "on stdio: the frame was written, no more"},
		{[]DeliveryState{DeliveryNone, DeliveryDelivering}, DeliveryFail, DeliveryUndeliverable, "nobody is there to take it, and nothing was written"},
		{[]DeliveryState{DeliveryDelivering}, DeliveryLose, DeliveryUnknown, "lost while it was written"},
	},
}

// ChangeSetState is the state of a change set.
type ChangeSetState string

// The states of a change set.
const (
	ChangeSetOpen      ChangeSetState = "open"
	ChangeSetApproved  ChangeSetState = "approved"
	ChangeSetLanding   ChangeSetState = "landing"
	ChangeSetLanded    ChangeSetState = "landed"
	ChangeSetPartial   ChangeSetState = "partial"
	ChangeSetDiscarded ChangeSetState = "discarded"
	ChangeSetStale     ChangeSetState = "stale"
)

// ChangeSetEvent moves a change set.
type ChangeSetEvent string

// The events of a change set.
const (
	ChangeSetApprove ChangeSetEvent = "approve"
	ChangeSetDiscard ChangeSetEvent = "discard"
	ChangeSetLand    ChangeSetEvent = "land"
	ChangeSetFinish  ChangeSetEvent = "finish"
	ChangeSetDivide  ChangeSetEvent = "divide"
	ChangeSetOutdate ChangeSetEvent = "outdate"
)

// ChangeSets is the table of change sets. Nothing leads back to landing: what
// one approval allowed is done once.
var ChangeSets = Machine[ChangeSetState, ChangeSetEvent]{
	Name: "change set", Initial: ChangeSetOpen,
	Rows: []Row[ChangeSetState, ChangeSetEvent]{
		{[]ChangeSetState{ChangeSetOpen}, ChangeSetApprove, ChangeSetApproved, "whole or file by file"},
		{[]ChangeSetState{ChangeSetOpen}, ChangeSetDiscard, ChangeSetDiscarded, ""},
		{[]ChangeSetState{ChangeSetApproved}, ChangeSetLand, ChangeSetLanding, "the steps are durable"},
		{[]ChangeSetState{ChangeSetLanding}, ChangeSetFinish, ChangeSetLanded, "every approved file landed"},
		{[]ChangeSetState{ChangeSetLanding}, ChangeSetDivide, ChangeSetPartial, "a file did not land; nothing of the operator's was overwritten"},
		{[]ChangeSetState{ChangeSetOpen, ChangeSetApproved}, ChangeSetOutdate, ChangeSetStale, "the workspace is another, or another change set took this one's place"},
	},
}
