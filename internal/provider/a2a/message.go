package a2a

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/jsonwalk"
)

// The versions of the protocol.
const (
	v03 = "0.3"
	v10 = "1.0"
)

// methods are the names of what is called.
type methods struct {
	send, stream, get, cancel, subscribe, list string
}

// methodsOf are those of each version. 0.3 lists no tasks over JSON-RPC.
var methodsOf = map[string]methods{
	v03: {"message/send", "message/stream", "tasks/get", "tasks/cancel", "tasks/resubscribe", ""},
	v10: {"SendMessage", "SendStreamingMessage", "GetTask", "CancelTask", "SubscribeToTask", "ListTasks"},
}

// state is that of a task.
type state int

const (
	noState state = iota // a state that the peer itself calls unknown
	submitted
	working
	inputRequired
	authRequired
	completed
	canceled
	failed
	rejected
)

// statesOf are the states as each version writes them. The first of each says
// nothing, and one that is not listed is refused.
var statesOf = map[string]map[string]state{
	v03: {
		"unknown": noState, "submitted": submitted, "working": working, "input-required": inputRequired, "auth-required": authRequired,
		"completed": completed, "canceled": canceled, "failed": failed, "rejected": rejected,
	},
	v10: {
		"TASK_STATE_UNSPECIFIED": noState, "TASK_STATE_SUBMITTED": submitted, "TASK_STATE_WORKING": working,
		"TASK_STATE_INPUT_REQUIRED": inputRequired, "TASK_STATE_AUTH_REQUIRED": authRequired, "TASK_STATE_COMPLETED": completed,
		"TASK_STATE_CANCELED": canceled, "TASK_STATE_FAILED": failed, "TASK_STATE_REJECTED": rejected,
	},
}

// terminal states are the last of a task.
func (s state) terminal() bool { return s >= completed }

// interrupted states wait for us.
func (s state) interrupted() bool { return s == inputRequired || s == authRequired }

var stateNames = [...]string{"unknown", "submitted", "working", "input required", "authorization required", "completed", "cancelled", "failed", "rejected"}

// String gives the state in words.
func (s state) String() string { return stateNames[s] }

// part is a part of a message or an artifact, of either version.
type part struct {
	Kind     string          `json:"kind"`
	Text     *string         `json:"text"`
	Data     json.RawMessage `json:"data"`
	Raw      *string         `json:"raw"`
	URL      *string         `json:"url"`
	Media    string          `json:"mediaType"`
	Filename string          `json:"filename"`
	File     *struct {
		Bytes *string `json:"bytes"`
		URI   *string `json:"uri"`
		Media string  `json:"mimeType"`
		Name  string  `json:"name"`
	} `json:"file"`
}

// message is a message of either version.
type message struct {
	Kind      string `json:"kind"`
	ID        string `json:"messageId"`
	TaskID    string `json:"taskId"`
	ContextID string `json:"contextId"`
	Role      string `json:"role"`
	Parts     []part `json:"parts"`
}

// status is where a task is.
type status struct {
	Word    string   `json:"state"`
	Message *message `json:"message"`
	Stamp   string   `json:"timestamp"`
	state   state
}

// artifact is what a task produced.
type artifact struct {
	ID    string `json:"artifactId"`
	Name  string `json:"name"`
	Parts []part `json:"parts"`
}

// task is a task as the peer tells it whole.
type task struct {
	Kind      string     `json:"kind"`
	ID        string     `json:"id"`
	ContextID string     `json:"contextId"`
	Status    status     `json:"status"`
	Artifacts []artifact `json:"artifacts"`
	History   []message  `json:"history"`
}

// statusUpdate and artifactUpdate are pieces of a task in a stream.
type statusUpdate struct {
	TaskID    string `json:"taskId"`
	ContextID string `json:"contextId"`
	Status    status `json:"status"`
}

type artifactUpdate struct {
	TaskID    string   `json:"taskId"`
	ContextID string   `json:"contextId"`
	Artifact  artifact `json:"artifact"`
	Append    bool     `json:"append"`
}

// news is one thing that a peer told: exactly one member is set, or none when
// it is of a kind that does not concern us.
type news struct {
	task     *task
	message  *message
	status   *statusUpdate
	artifact *artifactUpdate
}

// ids are the task and the context that the news are about, "" where they do
// not say.
func (n news) ids() (task, context string) {
	switch {
	case n.task != nil:
		return n.task.ID, n.task.ContextID
	case n.message != nil:
		return n.message.TaskID, n.message.ContextID
	case n.status != nil:
		return n.status.TaskID, n.status.ContextID
	case n.artifact != nil:
		return n.artifact.TaskID, n.artifact.ContextID
	}
	return "", ""
}

// readNews reads the result of a send, or one event of a stream.
func readNews(version string, result json.RawMessage) (news, error) {
	if !jsonwalk.IsObject(result) {
		return news{}, malformed("a result that is no object")
	}
	if version == v03 {
		kind, _ := jsonwalk.Text(jsonwalk.Member(result, "kind"))
		return readKind(version, string(kind), result)
	}
	var n news
	found := 0
	for name, value := range jsonwalk.Members(result) {
		kind := kindOf(name)
		if kind == "" || jsonwalk.IsNull(value) {
			continue
		}
		found++
		var err error
		if n, err = readKind(version, kind, value); err != nil {
			return news{}, err
		}
	}
	if found > 1 {
		return news{}, malformed("a result that is several things at once")
	}
	return n, nil
}

// kindOf gives the word of 0.3 for a member of a result in 1.0, "" for another.
func kindOf(member string) string {
	switch member {
	case "task", "message":
		return member
	case "statusUpdate":
		return "status-update"
	case "artifactUpdate":
		return "artifact-update"
	}
	return ""
}

func readKind(version, kind string, value json.RawMessage) (news, error) {
	switch kind {
	case "task":
		t, err := readTask(version, value)
		return news{task: t}, err
	case "message":
		var m message
		if json.Unmarshal(value, &m) != nil || m.ID == "" {
			return news{}, malformed("a message without an id, or of another form")
		}
		return news{message: &m}, nil
	case "status-update":
		var u statusUpdate
		if json.Unmarshal(value, &u) != nil || u.TaskID == "" {
			return news{}, malformed("a status update without its task, or of another form")
		}
		return news{status: &u}, u.Status.read(version)
	case "artifact-update":
		u, ok := plain(value)
		if !ok {
			u = artifactUpdate{}
			ok = json.Unmarshal(value, &u) == nil
		}
		if !ok || u.TaskID == "" {
			return news{}, malformed("an artifact update without its task, or of another form")
		}
		return news{artifact: &u}, nil
	}
	return news{}, nil
}

// readTask reads a task that the peer told whole.
func readTask(version string, value json.RawMessage) (*task, error) {
	var t task
	if json.Unmarshal(value, &t) != nil || t.ID == "" || len(t.ID) > maxID || len(t.ContextID) > maxID {
		return nil, malformed("a task without an id, or of another form")
	}
	return &t, t.Status.read(version)
}

func (s *status) read(version string) error {
	known, ok := statesOf[version][s.Word]
	if !ok {
		return malformed("a task in the state " + quote(s.Word) + ", which version " + version + " does not have")
	}
	s.state = known
	return nil
}

// maxID bounds the ids of tasks, contexts and messages. Real ones are UUIDs.
const maxID = 512

// text gives the text parts of a message, and its data in JSON, one after the
// other.
func (m *message) text() string {
	if m == nil {
		return ""
	}
	var b strings.Builder
	for _, p := range m.Parts {
		piece := ""
		switch {
		case p.Text != nil:
			piece = *p.Text
		case len(p.Data) > 0:
			piece = string(p.Data)
		}
		if piece != "" && b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(piece)
	}
	return b.String()
}

// file gives what of a part is no text: bytes, JSON, or an address. It is false
// for text, for a part of no known kind, and for bytes that cannot be decoded,
// of which bad tells. What it says beside its bytes is bounded here: it is held
// until the end, with that of all other files.
func (p part) file(name string) (f file, ok, bad bool) {
	defer func() {
		f.name, f.media, f.reference = clip(f.name, coord.MaxTitle), clip(f.media, coord.MaxTitle), clip(f.reference, coord.MaxURL)
	}()
	f = file{name: or(p.Filename, name), media: p.Media}
	encoded, address := p.Raw, p.URL
	if p.File != nil {
		f.name, f.media = or(p.File.Name, name), p.File.Media
		encoded, address = p.File.Bytes, p.File.URI
	}
	switch {
	case p.Text != nil:
		return f, false, false
	case encoded != nil:
		b, err := decode64(*encoded)
		f.bytes, f.media = b, or(f.media, "application/octet-stream")
		return f, err == nil, err != nil
	case address != nil:
		f.reference = *address
		return f, true, false
	case len(p.Data) > 0:
		f.bytes, f.media = bytes.Clone(p.Data), "application/json"
		if p.Filename == "" {
			f.name += ".json"
		}
		return f, true, false
	}
	return f, false, false
}

// decode64 takes both alphabets, with and without padding, as ProtoJSON does.
func decode64(s string) ([]byte, error) {
	s = strings.TrimRight(s, "=")
	if strings.ContainsAny(s, "-_") {
		return base64.RawURLEncoding.DecodeString(s)
	}
	return base64.RawStdEncoding.DecodeString(s)
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// outgoing is a message of ours.
type outgoing struct {
	Kind      string    `json:"kind,omitempty"`
	ID        string    `json:"messageId"`
	Role      string    `json:"role"`
	Parts     []outPart `json:"parts"`
	TaskID    string    `json:"taskId,omitempty"`
	ContextID string    `json:"contextId,omitempty"`
}

type outPart struct {
	Kind string `json:"kind,omitempty"`
	Text string `json:"text"`
}

// newMessage makes a message with one text.
func newMessage(version, id, text string) outgoing {
	if version == v03 {
		return outgoing{Kind: "message", ID: id, Role: "user", Parts: []outPart{{"text", text}}}
	}
	return outgoing{ID: id, Role: "ROLE_USER", Parts: []outPart{{"", text}}}
}

// sendParams are those of a send.
type sendParams struct {
	Tenant        string         `json:"tenant,omitempty"`
	Message       outgoing       `json:"message"`
	Configuration *configuration `json:"configuration,omitempty"`
}

// configuration asks a send not to wait for the end of the work: the two
// versions say so with opposite words.
type configuration struct {
	Blocking          *bool `json:"blocking,omitempty"`
	ReturnImmediately bool  `json:"returnImmediately,omitempty"`
}

func nonblocking(version string) *configuration {
	if version == v03 {
		return &configuration{Blocking: new(bool)}
	}
	return &configuration{ReturnImmediately: true}
}

// taskParams are those of all calls about one task.
type taskParams struct {
	Tenant        string `json:"tenant,omitempty"`
	ID            string `json:"id"`
	HistoryLength *int   `json:"historyLength,omitempty"`
}
