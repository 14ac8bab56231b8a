package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"signalbox/internal/jsonwalk"
	"signalbox/internal/provider/stdio"
)

// protocolVersion is the only one that this package speaks.
const protocolVersion = 1

// Error codes of JSON-RPC 2.0 and of ACP.
const (
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeAuthRequired   = -32000
	codeNotFound       = -32002
	codeCancelled      = -32800
)

// The methods that are sent or answered. All others are answered with
// codeNoMethod.
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

// envelope is any message as it arrives. It shares memory with its line.
type envelope struct {
	ID, Params, Result, Error json.RawMessage
	Method                    string
}

// keep makes the envelope's members its own.
func (e envelope) keep() envelope {
	e.ID, e.Params, e.Result, e.Error = bytes.Clone(e.ID), bytes.Clone(e.Params), bytes.Clone(e.Result), bytes.Clone(e.Error)
	return e
}

// kind is what an envelope is.
type kind int

const (
	noise kind = iota
	request
	notification
	response
)

// classify reads one line. Whatever is not one JSON-RPC 2.0 message, such as
// a log line, a bare JSON value or a batch, is noise.
func classify(line []byte) (envelope, kind) {
	var e envelope
	line = bytes.TrimLeft(line, " \t")
	if !jsonwalk.IsObject(line) || !jsonwalk.Valid(line) {
		return e, noise
	}
	var version []byte
	for name, value := range jsonwalk.Members(line) {
		switch name {
		case "jsonrpc":
			version, _ = jsonwalk.Text(value)
		case "id":
			e.ID = value
		case "method":
			method, _ := jsonwalk.Text(value)
			e.Method = string(method)
		case "params":
			e.Params = value
		case "result":
			e.Result = value
		case "error":
			e.Error = value
		}
	}
	if string(version) != "2.0" || !validID(e.ID) {
		return e, noise
	}
	switch {
	case e.Method != "" && e.ID != nil:
		return e, request
	case e.Method != "":
		return e, notification
	case e.ID != nil && (e.Result != nil || e.Error != nil):
		return e, response
	}
	return e, noise
}

// validID reports whether a request id is absent, null, a string or an integer.
func validID(id json.RawMessage) bool {
	if id == nil || id[0] == '"' || string(id) == "null" {
		return true
	}
	_, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil
}

// decode is json.Unmarshal, lenient as the schema asks: an optional member of
// the wrong type counts as absent. Callers check the required ones.
func decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return nil
	}
	return err
}

// rpcError is the error member of a response.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error quotes the peer.
func (e *rpcError) Error() string {
	return "error " + strconv.Itoa(e.Code) + " " + stdio.Quote(e.Message)
}

// outgoing is any message that we send.
type outgoing struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

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
