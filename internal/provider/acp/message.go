package acp

import "encoding/json"

// protocolVersion is the only one that this package speaks.
const protocolVersion = 1

// Error codes of ACP.
const (
	codeAuthRequired = -32000
	codeNotFound     = -32002
	codeCancelled    = -32800
)

// The methods that are sent or answered. All others are refused.
const (
	methodInitialize = "initialize"
	methodNew        = "session/new"
	methodLoad       = "session/load"
	methodSetMode    = "session/set_mode"
	methodSetConfig  = "session/set_config_option"
	methodPrompt     = "session/prompt"
	methodCancel     = "session/cancel"
	methodUpdate     = "session/update"
	methodPermission = "session/request_permission"
	methodWithdraw   = "$/cancel_request"
)

type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

type initializeParams struct {
	ProtocolVersion    int                `json:"protocolVersion"`
	ClientCapabilities clientCapabilities `json:"clientCapabilities"`
	ClientInfo         implementation     `json:"clientInfo"`
}

// clientCapabilities offers nothing: an agent that writes through us writes the
// disk all the same, and a terminal would be outside of every confinement.
type clientCapabilities struct {
	FS struct {
		ReadTextFile  bool `json:"readTextFile"`
		WriteTextFile bool `json:"writeTextFile"`
	} `json:"fs"`
	Terminal bool `json:"terminal"`
}

type initializeResult struct {
	ProtocolVersion json.RawMessage `json:"protocolVersion"`
	Capabilities    struct {
		LoadSession bool `json:"loadSession"`
		Prompt      struct {
			Image           bool `json:"image"`
			Audio           bool `json:"audio"`
			EmbeddedContext bool `json:"embeddedContext"`
		} `json:"promptCapabilities"`
		Session struct {
			List   json.RawMessage `json:"list"`
			Resume json.RawMessage `json:"resume"`
			Close  json.RawMessage `json:"close"`
		} `json:"sessionCapabilities"`
	} `json:"agentCapabilities"`
	AuthMethods []authMethod   `json:"authMethods"`
	AgentInfo   implementation `json:"agentInfo"`
}

type authMethod struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Type        string   `json:"type"`
	Args        []string `json:"args"`
}

// newParams are those of session/new and, with a session id, session/load.
type newParams struct {
	Meta       any         `json:"_meta,omitempty"`
	SessionID  string      `json:"sessionId,omitempty"`
	Cwd        string      `json:"cwd"`
	MCPServers []mcpServer `json:"mcpServers"`
}

// mcpServer is a tool server that the agent starts and talks to on its standard
// streams, which every agent must support.
type mcpServer struct {
	Name    string        `json:"name"`
	Command string        `json:"command"`
	Args    []string      `json:"args"`
	Env     []envVariable `json:"env"`
}

type envVariable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type newResult struct {
	SessionID string `json:"sessionId"`
	Modes     *struct {
		Current   string `json:"currentModeId"`
		Available []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"availableModes"`
	} `json:"modes"`
	ConfigOptions []struct {
		ID       string `json:"id"`
		Category string `json:"category"`
	} `json:"configOptions"`
}

type setModeParams struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
}

type setConfigParams struct {
	SessionID string `json:"sessionId"`
	ConfigID  string `json:"configId"`
	Value     string `json:"value"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type promptParams struct {
	SessionID string      `json:"sessionId"`
	Prompt    []textBlock `json:"prompt"`
}

type cancelParams struct {
	SessionID string `json:"sessionId"`
}

type promptResult struct {
	StopReason json.RawMessage `json:"stopReason"`
	// Usage is unstable in the schema and read where it is given.
	Usage *struct {
		Input  int64 `json:"inputTokens"`
		Output int64 `json:"outputTokens"`
		Total  int64 `json:"totalTokens"`
	} `json:"usage"`
}

// outcome is the answer to a permission request.
type outcome struct {
	Outcome  string `json:"outcome"`
	OptionID string `json:"optionId,omitempty"`
}

type permissionResult struct {
	Outcome outcome `json:"outcome"`
}

// chosen is the outcome for an option, "" for none.
func chosen(option string) permissionResult {
	if option == "" {
		return permissionResult{outcome{Outcome: "cancelled"}}
	}
	return permissionResult{outcome{Outcome: "selected", OptionID: option}}
}
