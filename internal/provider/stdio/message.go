package stdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

// Error codes of JSON-RPC 2.0.
const (
	CodeInvalidRequest = -32600
	CodeNoMethod       = -32601
	CodeInvalidParams  = -32602
)

// Message is any message as it arrives.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// Outgoing is any message that is sent. Codex wants no member "jsonrpc" and
// tolerates it, other peers demand it: see Options.JSONRPC.
type Outgoing struct {
	JSONRPC string          `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *RPCError       `json:"error,omitempty"`
}

// RPCError is the error member of a response.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error quotes the peer.
func (e *RPCError) Error() string {
	return "error " + strconv.Itoa(e.Code) + " " + Quote(e.Message)
}

type kind int

const (
	noise kind = iota
	request
	notification
	response
)

// classify reads one line. Whatever is not one message, such as a log line, a
// bare JSON value or a batch, is noise.
func classify(line []byte) (Message, kind) {
	var m Message
	if !bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("{")) {
		return m, noise
	}
	if err := Decode(line, &m); err != nil || !validID(m.ID) {
		return m, noise
	}
	switch {
	case m.Method != "" && m.ID != nil:
		return m, request
	case m.Method != "":
		return m, notification
	case m.ID != nil && (m.Result != nil || m.Error != nil):
		return m, response
	}
	return m, noise
}

// validID reports whether a request id is absent, null, a string or an integer.
func validID(id json.RawMessage) bool {
	if id == nil || id[0] == '"' || string(id) == "null" {
		return true
	}
	_, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil
}

// Decode is json.Unmarshal, but a member of the wrong type counts as absent:
// peers of other versions send such. Callers check what they need.
func Decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return nil
	}
	return err
}
