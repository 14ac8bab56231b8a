package stdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"signalbox/internal/jsonwalk"
)

// Error codes of JSON-RPC 2.0.
const (
	CodeInvalidRequest = -32600
	CodeNoMethod       = -32601
	CodeInvalidParams  = -32602
)

// Message is any message as it arrives.
type Message struct {
	ID, Params, Result, Error json.RawMessage
	Method                    string
}

// keep makes the message's members its own: as read, they share memory with
// their line.
func (m Message) keep() Message {
	m.ID, m.Params, m.Result, m.Error = bytes.Clone(m.ID), bytes.Clone(m.Params), bytes.Clone(m.Result), bytes.Clone(m.Error)
	return m
}

// Outgoing is any message that is sent. Its member "jsonrpc" is that of
// Options.JSONRPC.
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

// classify reads one line of a protocol whose messages have this member
// "jsonrpc", "" for any or none. Whatever is not one message, such as a log
// line, a bare JSON value or a batch, is noise. Agents send thousands of
// notifications, so that no structure is filled and nothing is copied.
func classify(line []byte, jsonrpc string) (Message, kind) {
	var m Message
	line = bytes.TrimLeft(line, " \t")
	if !jsonwalk.IsObject(line) || !jsonwalk.Valid(line) {
		return m, noise
	}
	var version []byte
	for name, value := range jsonwalk.Members(line) {
		switch name {
		case "jsonrpc":
			version, _ = jsonwalk.Text(value)
		case "id":
			m.ID = value
		case "method":
			method, _ := jsonwalk.Text(value)
			m.Method = string(method)
		case "params":
			m.Params = value
		case "result":
			m.Result = value
		case "error":
			m.Error = value
		}
	}
	if jsonrpc != "" && string(version) != jsonrpc || !validID(m.ID) {
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
