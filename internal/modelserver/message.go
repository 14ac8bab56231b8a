package modelserver

import (
	"encoding/json"
	"slices"
	"strings"
)

// message is an entry of a chat's messages or of a response's input, whose
// entries are also calls, their outputs and more.
type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
	// ToolCallID is a chat's, of the answer to a call.
	ToolCallID string `json:"tool_call_id"`
	// Type and what follows are a response's input's.
	Type   string  `json:"type"`
	CallID string  `json:"call_id"`
	Output content `json:"output"`
	Tools  []tool  `json:"tools"`
}

// tool is a tool that a client offers, or a namespace of such.
type tool struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Tools []tool `json:"tools"`
}

// names are the names of tools, those of a namespace behind its own.
func names(tools []tool, prefix string) []string {
	var out []string
	for _, t := range tools {
		if t.Type == "namespace" {
			out = append(out, names(t.Tools, prefix+t.Name+".")...)
			continue
		}
		out = append(out, prefix+t.Name)
	}
	return out
}

// content is a string, or a list of parts of which those with text count.
type content string

func (c *content) UnmarshalJSON(b []byte) error {
	var whole string
	if json.Unmarshal(b, &whole) == nil { // null as well
		*c = content(whole)
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	*c = content(strings.Join(texts, "\n\n"))
	return nil
}

// input is a conversation, or a string that stands for one message.
type input []message

func (in *input) UnmarshalJSON(b []byte) error {
	var prompt string
	if json.Unmarshal(b, &prompt) == nil {
		*in = input{{Role: "user", Content: content(prompt)}}
		return nil
	}
	var messages []message
	if err := json.Unmarshal(b, &messages); err != nil {
		return err
	}
	*in = messages
	return nil
}

// prompt gives the last message of the user, and whether a tool has answered
// after it.
func (in input) prompt() (text string, toolAnswered bool) {
	for _, m := range slices.Backward(in) {
		switch m.Role {
		case "tool":
			toolAnswered = true
		case "user":
			return string(m.Content), toolAnswered
		}
	}
	return "", toolAnswered
}

// outputs are the answers to tool calls since the last message of the user.
func (in input) outputs() []Output {
	var out []Output
	for _, m := range slices.Backward(in) {
		switch {
		case m.Role == "user":
			slices.Reverse(out)
			return out
		case m.Type == "function_call_output" || m.Type == "custom_tool_call_output":
			out = append(out, Output{Call: m.CallID, Text: string(m.Output)})
		case m.Role == "tool":
			out = append(out, Output{Call: m.ToolCallID, Text: string(m.Content)})
		}
	}
	slices.Reverse(out)
	return out
}

// offered are the tools that a client put into the input.
func (in input) offered() []string {
	var out []string
	for _, m := range in {
		if m.Type == "additional_tools" {
			out = append(out, names(m.Tools, "")...)
		}
	}
	return out
}

// step is the one to be done when as many calls were answered; nil when all
// are done. Nothing is remembered, so the same request gets the same answer.
func (r Reply) step(answered int) *Step {
	for i, s := range r.Steps {
		if len(s.Calls) == 0 || answered < len(s.Calls) {
			return &r.Steps[i]
		}
		answered -= len(s.Calls)
	}
	return nil
}
