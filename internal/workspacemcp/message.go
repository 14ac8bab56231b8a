package workspacemcp

import (
	"bytes"
	"encoding/json"
	"slices"
)

// versions are those of the Model Context Protocol that are the same in all
// that is used here, newest first.
var versions = [...]string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Error codes of JSON-RPC 2.0.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
)

// incoming is any message of the agent.
type incoming struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// outgoing is any message to the agent.
type outgoing struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

type initializeParams struct {
	ProtocolVersion string `json:"protocolVersion"`
}

type initializeResult struct {
	ProtocolVersion string         `json:"protocolVersion"`
	Capabilities    capabilities   `json:"capabilities"`
	ServerInfo      implementation `json:"serverInfo"`
}

// capabilities declares tools and no changes of their list.
type capabilities struct {
	Tools struct{} `json:"tools"`
}

type implementation struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type listResult struct {
	Tools []tool `json:"tools"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

type callParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// callResult is what became of a call. An error in it is for the model to read;
// one of JSON-RPC would be for the program.
type callResult struct {
	Content []content `json:"content"`
	IsError bool      `json:"isError,omitempty"`
}

type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type cancelledParams struct {
	RequestID json.RawMessage `json:"requestId"`
}

func textResult(text string, failed bool) callResult {
	return callResult{Content: []content{{"text", text}}, IsError: failed}
}

// negotiate gives the client's version if it is known, else ours.
func negotiate(asked string) string {
	if slices.Contains(versions[:], asked) {
		return asked
	}
	return versions[0]
}

// validID reports whether an id is a string or a number: others have no answer.
func validID(id json.RawMessage) bool {
	return len(id) > 0 && (id[0] == '"' || id[0] == '-' || '0' <= id[0] && id[0] <= '9')
}

// object reports whether arguments are a JSON object.
func object(raw json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
}
