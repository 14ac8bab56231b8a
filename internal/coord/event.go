package coord

import "encoding/json"

// EventKind says what an event is about: a thing and what happened to it.
type EventKind string

// The events of the journal. Data is the changed thing as a document, but for
// text and activity, which have their own types below.
const (
	WorkerStarted  EventKind = "worker.started"
	WorkerStopped  EventKind = "worker.stopped"
	AdmissionMoved EventKind = "admission.changed"
	AgentChanged   EventKind = "agent.changed"
	AgentInspected EventKind = "agent.inspected"
	JobChanged     EventKind = "job.changed"
	TaskChanged    EventKind = "task.changed"
	AttemptChanged EventKind = "attempt.changed"
	AttemptText    EventKind = "attempt.text"
	AttemptActed   EventKind = "attempt.activity"
	AttemptCalled  EventKind = "attempt.call"
	AttemptLate    EventKind = "attempt.late"
	RequestChanged EventKind = "request.changed"
	ArtifactKept   EventKind = "artifact.kept"
	CredentialMade EventKind = "credential.changed"
	ChangesMoved   EventKind = "changes.changed"
	CertificateSet EventKind = "certificate.changed"
)

// EventKinds lists every kind, for documentation and filters.
var EventKinds = []EventKind{
	WorkerStarted, WorkerStopped, AdmissionMoved, AgentChanged, AgentInspected, JobChanged, TaskChanged,
	AttemptChanged, AttemptText, AttemptActed, AttemptCalled, AttemptLate, RequestChanged, ArtifactKept, CredentialMade,
	ChangesMoved, CertificateSet,
}

// Event is one fact of the journal, numbered by one global sequence.
type Event struct {
	// Seq is assigned by the journal's writer, from 1 without gaps.
	Seq     int64           `json:"seq"`
	At      Moment          `json:"at"`
	Kind    EventKind       `json:"kind"`
	Job     JobID           `json:"job,omitempty"`
	Task    TaskID          `json:"task,omitempty"`
	Attempt AttemptID       `json:"attempt,omitempty"`
	Request RequestID       `json:"request,omitempty"`
	Agent   AgentID         `json:"agent,omitempty"`
	By      *Actor          `json:"by,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Text is the data of AttemptText: a piece of what an agent wrote, in order.
type Text struct {
	// Channel is "message" for the answer, "thought" for the agent's thinking.
	Channel string `json:"channel"`
	Text    string `json:"text"`
}

// The channels of Text.
const (
	ChannelMessage = "message"
	ChannelThought = "thought"
)

// Activity is the data of AttemptActed: something the agent says it does, a
// tool call or a step of its plan. It is a claim, not evidence.
type Activity struct {
	// ID correlates later entries about the same thing; the agent's own id.
	ID     string `json:"id,omitempty"`
	Kind   string `json:"kind"`
	Title  string `json:"title,omitempty"`
	Status string `json:"status,omitempty"`
	// Detail is bounded text about it, such as a command or a path.
	Detail string `json:"detail,omitempty"`
}

// ActivityStalled is the status of an activity which says that an agent far away
// has shown no progress for long. It ends nothing: only the agent, the deadline
// and the operator do.
const ActivityStalled = "stalled"

// ToolCall is the data of AttemptCalled: what Signalbox did when an agent
// called one of its tools. Unlike an activity it is no claim.
type ToolCall struct {
	Tool string `json:"tool"`
	// Path within the workspace, where the tool works on one.
	Path string `json:"path,omitempty"`
	// Failed tells that it was refused or went wrong; Note says why.
	Failed bool   `json:"failed,omitempty"`
	Note   string `json:"note,omitempty"`
	// SHA256, in hex, and Size in bytes are those of the file as it was given
	// or taken.
	SHA256 string `json:"sha256,omitempty"`
	Size   int64  `json:"size,omitempty"`
}

// Role is what a credential may do.
type Role string

// The roles, from most to least. Each may do what those after it may.
const (
	RoleOperator Role = "operator"
	RoleDraft    Role = "draft"
	RoleRead     Role = "read"
)

// Allows reports whether a credential of role r may do what needs need.
func (r Role) Allows(need Role) bool {
	rank := map[Role]int{RoleRead: 1, RoleDraft: 2, RoleOperator: 3}
	return rank[r] > 0 && rank[need] > 0 && rank[r] >= rank[need]
}

// Actor is who did something: recorded with every decision. Credential, role
// and door come from the front door; presence is how the person was present,
// as far as the door can tell.
type Actor struct {
	Credential CredentialID `json:"credential,omitempty"`
	Name       string       `json:"name,omitempty"`
	Role       Role         `json:"role"`
	// Door is "api", "browser", "config" or "worker" (Signalbox itself).
	Door string `json:"door"`
	// Presence is "none", "terminal", "browser" or "passkey".
	Presence string `json:"presence"`
}

// WorkerActor is Signalbox acting by its own rules: a deadline, a loss.
var WorkerActor = Actor{Role: RoleOperator, Door: "worker", Presence: "none"}

// Credential is a bearer token or a browser session as kept: never its value.
type Credential struct {
	ID   CredentialID `json:"id"`
	Name string       `json:"name"`
	Role Role         `json:"role"`
	// Kind is "token" or "session".
	Kind string `json:"kind"`
	// Hash is the SHA-256 of the value, in hex; it never leaves the worker.
	Hash    string  `json:"hash,omitempty"`
	Made    Moment  `json:"made"`
	Revoked *Moment `json:"revoked,omitempty"`
	// CSRF is the SHA-256, in hex, of a session's CSRF token.
	CSRF string `json:"csrf,omitempty"`
}
