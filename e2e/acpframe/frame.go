// Package acpframe reads what a client of the Agent Client Protocol sends, as far
// as the agents that the tests play look at it.
package acpframe

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"

	"signalbox/internal/coord"
)

// Frame is any message of a client. Method is "" in an answer.
type Frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Prompt []struct {
			Text string `json:"text"`
		} `json:"prompt"`
	} `json:"params"`
	Result struct {
		Outcome struct {
			OptionID string `json:"optionId"`
		} `json:"outcome"`
	} `json:"result"`
}

// Reader reads frames, of coord.MaxFrame bytes at most.
type Reader struct{ lines *bufio.Scanner }

// New makes a Reader of an agent's input.
func New(in io.Reader) *Reader {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, coord.MaxFrame)
	return &Reader{lines}
}

// Next gives the next frame, and io.EOF at the end of the input.
func (r *Reader) Next() (Frame, error) {
	var f Frame
	if !r.lines.Scan() {
		return f, cmp.Or(r.lines.Err(), io.EOF)
	}
	return f, json.Unmarshal(r.lines.Bytes(), &f)
}
