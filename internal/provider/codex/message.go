package codex

import (
	"encoding/json"
)

// The methods that are sent. Nothing else ever is: a test reads the source of
// this package for it.
const (
	methodInitialize  = "initialize"
	methodInitialized = "initialized"
	methodAccount     = "account/read"
	methodConfig      = "config/read"
	methodThread      = "thread/start"
	methodTurn        = "turn/start"
	methodInterrupt   = "turn/interrupt"
	methodTurns       = "thread/turns/list"
	// methodExec runs a program in Codex's sandbox, for probes alone.
	methodExec = "command/exec"
)

// The requests of the server that are answered with more than an error.
const (
	askCall        = "item/tool/call"
	askInput       = "item/tool/requestUserInput"
	askCommand     = "item/commandExecution/requestApproval"
	askChange      = "item/fileChange/requestApproval"
	askPermissions = "item/permissions/requestApproval"
	askElicitation = "mcpServer/elicitation/request"
	askPatch       = "applyPatchApproval"
	askExec        = "execCommandApproval"
)

// declined are the answers that decline what Codex asks for its own tools,
// which are off and must not ask.
var declined = map[string]any{
	askCommand:     map[string]any{"decision": "decline"},
	askChange:      map[string]any{"decision": "decline"},
	askPermissions: map[string]any{"permissions": map[string]any{}, "scope": "turn"},
	askElicitation: map[string]any{"action": "decline", "content": nil, "_meta": nil},
	askPatch:       map[string]any{"decision": "denied"},
	askExec:        map[string]any{"decision": "denied"},
}

type clientInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

type initializeParams struct {
	ClientInfo   clientInfo `json:"clientInfo"`
	Capabilities struct {
		// ExperimentalAPI is needed for dynamicTools.
		ExperimentalAPI bool     `json:"experimentalApi"`
		OptOut          []string `json:"optOutNotificationMethods"`
	} `json:"capabilities"`
}

type initializeResult struct {
	// UserAgent is the one place that tells the version: "client/0.163.0 (...".
	UserAgent string `json:"userAgent"`
	Home      string `json:"codexHome"`
}

type accountResult struct {
	Account *struct {
		Type string `json:"type"`
		Plan string `json:"planType"`
	} `json:"account"`
	Requires bool `json:"requiresOpenaiAuth"`
}

type configResult struct {
	Config json.RawMessage `json:"config"`
}

// threadParams are those of thread/start.
type threadParams struct {
	Model          string         `json:"model,omitempty"`
	Provider       string         `json:"modelProvider,omitempty"`
	Cwd            string         `json:"cwd"`
	ApprovalPolicy string         `json:"approvalPolicy"`
	Reviewer       string         `json:"approvalsReviewer"`
	Sandbox        string         `json:"sandbox"`
	History        string         `json:"historyMode,omitempty"`
	Ephemeral      bool           `json:"ephemeral,omitempty"`
	Environments   []any          `json:"environments"`
	Tools          []dynamicTool  `json:"dynamicTools"`
	Instructions   string         `json:"developerInstructions"`
	Config         map[string]any `json:"config"`
}

type dynamicTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"inputSchema"`
}

// threadResult is what thread/start answers: what is in force.
type threadResult struct {
	Thread struct {
		ID        string `json:"id"`
		Ephemeral bool   `json:"ephemeral"`
		History   string `json:"historyMode"`
		Status    struct {
			Type string `json:"type"`
		} `json:"status"`
	} `json:"thread"`
	Model          string          `json:"model"`
	Provider       string          `json:"modelProvider"`
	ApprovalPolicy json.RawMessage `json:"approvalPolicy"`
	Reviewer       string          `json:"approvalsReviewer"`
	Sandbox        struct {
		Type    string `json:"type"`
		Network *bool  `json:"networkAccess"`
	} `json:"sandbox"`
	Profile json.RawMessage `json:"activePermissionProfile"`
}

type textInput struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type turnParams struct {
	Thread  string      `json:"threadId"`
	Message string      `json:"clientUserMessageId"`
	Input   []textInput `json:"input"`
}

type turnResult struct {
	Turn turn `json:"turn"`
}

type interruptParams struct {
	Thread string `json:"threadId"`
	Turn   string `json:"turnId"`
}

type turnsParams struct {
	Thread string `json:"threadId"`
	View   string `json:"itemsView"`
}

type turnsResult struct {
	Data []turn `json:"data"`
}

// turn is one turn of a thread.
type turn struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Error  *fault `json:"error"`
	Items  []item `json:"items"`
	// Completed is null where a turn was cut off by the death of its process.
	Completed *float64 `json:"completedAt"`
}

// fault is why a turn failed.
type fault struct {
	Message string `json:"message"`
	// Info is a word, or an object whose one member is named by it.
	Info json.RawMessage `json:"codexErrorInfo"`
}

// item is an item of a turn; one struct holds the members of all its types
// that are told.
type item struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Client  string `json:"clientId"`
	Text    string `json:"text"`
	Phase   string `json:"phase"`
	Status  string `json:"status"`
	Command string `json:"command"`
	Server  string `json:"server"`
	Tool    string `json:"tool"`
	Query   string `json:"query"`
	Changes []struct {
		Path string `json:"path"`
	} `json:"changes"`
}

// notice holds the members of all notifications that are read.
type notice struct {
	Thread string `json:"threadId"`
	TurnID string `json:"turnId"`
	Turn   turn   `json:"turn"`
	Item   item   `json:"item"`
	ItemID string `json:"itemId"`
	Delta  string `json:"delta"`
	Usage  struct {
		Total struct {
			Total  int64 `json:"totalTokens"`
			Input  int64 `json:"inputTokens"`
			Output int64 `json:"outputTokens"`
		} `json:"total"`
	} `json:"tokenUsage"`
	Error     fault           `json:"error"`
	WillRetry bool            `json:"willRetry"`
	Request   json.RawMessage `json:"requestId"`
	Plan      []struct {
		Step   string `json:"step"`
		Status string `json:"status"`
	} `json:"plan"`
	To string `json:"toModel"`
}

// of is the turn that a notification belongs to.
func (n notice) of() string {
	if n.TurnID != "" {
		return n.TurnID
	}
	return n.Turn.ID
}

// callParams are those of item/tool/call.
type callParams struct {
	Thread    string          `json:"threadId"`
	Turn      string          `json:"turnId"`
	Call      string          `json:"callId"`
	Namespace string          `json:"namespace"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

type callResult struct {
	Content []contentItem `json:"contentItems"`
	Success bool          `json:"success"`
}

type contentItem struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// said is the answer to a call.
func said(text string, success bool) callResult {
	r := callResult{Content: []contentItem{}, Success: success}
	if text != "" {
		r.Content = append(r.Content, contentItem{Type: "inputText", Text: text})
	}
	return r
}

// inputParams are those of item/tool/requestUserInput.
type inputParams struct {
	Thread    string     `json:"threadId"`
	Turn      string     `json:"turnId"`
	Item      string     `json:"itemId"`
	Questions []question `json:"questions"`
}

type question struct {
	ID       string `json:"id"`
	Header   string `json:"header"`
	Question string `json:"question"`
	Other    bool   `json:"isOther"`
	Secret   bool   `json:"isSecret"`
	Options  []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
}

type inputResult struct {
	Answers map[string]inputAnswer `json:"answers"`
}

type inputAnswer struct {
	Answers []string `json:"answers"`
}
