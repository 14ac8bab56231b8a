// Package toolwire is what the worker and the tool server of an agent
// (`signalbox workspace-mcp`) say to each other on a Unix socket: one JSON
// object a line, framed by package jsonl.
//
// It promises that each message has exactly one meaning: exactly one member is
// set, unknown members are refused, and the first message carries a version.
// An agent may hold the token and speak this itself, so the messages give no
// other power than to list the tools of one attempt and to call them.
//
// The tool server opens with hello and waits for welcome or refused. Then it
// may send calls, each with a number greater than the one before, and withdraw
// them; the worker answers each call that was not withdrawn with one result.
package toolwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"signalbox/internal/coord"
)

// Version is what hello and welcome carry. The two ends are the same program,
// but an agent may outlive an update of it.
const Version = 1

// Command is the first argument that makes the program a tool server.
const Command = "workspace-mcp"

// The variables that the tool server gets from the agent that starts it.
const (
	// SocketEnv is the absolute path of the socket.
	SocketEnv = "SIGNALBOX_WORKSPACE_SOCKET"
	// TokenEnv is the attempt's token, a secret of 256 bits.
	TokenEnv = "SIGNALBOX_WORKSPACE_TOKEN"
)

const (
	// MaxHello bounds the first message, which comes from nobody knows whom.
	MaxHello = 1 << 10
	// MaxCall bounds a message to the worker: the arguments of a call, and
	// room for what is around them.
	MaxCall = coord.MaxCallArguments + 4<<10
	// MaxReply bounds a message to the tool server.
	MaxReply = coord.MaxFrame
	// MaxSocketPath is the longest path that every system takes as the name of
	// a socket: macOS has 104 bytes with the zero at the end, Linux 108.
	MaxSocketPath = 103
)

// Request is a message to the worker.
type Request struct {
	Hello    *Hello    `json:"hello,omitempty"`
	Call     *Call     `json:"call,omitempty"`
	Withdraw *Withdraw `json:"withdraw,omitempty"`
}

// Hello opens a connection.
type Hello struct {
	Version int    `json:"version"`
	Token   string `json:"token"`
}

// Call asks for one run of a tool.
type Call struct {
	// ID is greater than that of each earlier call of the connection.
	ID   int64  `json:"id"`
	Tool string `json:"tool"`
	// Arguments has at most coord.MaxCallArguments bytes.
	Arguments json.RawMessage `json:"arguments"`
}

// Withdraw takes a call back. It is not answered, and neither is the call.
type Withdraw struct {
	ID int64 `json:"id"`
}

// Reply is a message to the tool server.
type Reply struct {
	Welcome *Welcome `json:"welcome,omitempty"`
	Refused *Refused `json:"refused,omitempty"`
	Result  *Result  `json:"result,omitempty"`
}

// Welcome is the answer to a hello with the right token.
type Welcome struct {
	Version int    `json:"version"`
	Tools   []Tool `json:"tools"`
}

// Tool is one tool that may be called.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// Refused is the last message of a connection that is not served.
type Refused struct {
	// Reason is one sentence.
	Reason string `json:"reason"`
}

// Result answers a call.
type Result struct {
	ID     int64  `json:"id"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

var errMeaning = errors.New("a message must have exactly one member")

// ReadRequest reads one line from a tool server.
func ReadRequest(line []byte) (Request, error) {
	var r Request
	if err := strict(line, &r); err != nil {
		return r, err
	}
	return r, one(r.Hello != nil, r.Call != nil, r.Withdraw != nil)
}

// ReadReply reads one line from the worker.
func ReadReply(line []byte) (Reply, error) {
	var r Reply
	if err := strict(line, &r); err != nil {
		return r, err
	}
	return r, one(r.Welcome != nil, r.Refused != nil, r.Result != nil)
}

func one(members ...bool) error {
	n := 0
	for _, set := range members {
		if set {
			n++
		}
	}
	if n != 1 {
		return errMeaning
	}
	return nil
}

// strict is json.Unmarshal that refuses unknown members.
func strict(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the message")
	}
	return nil
}
