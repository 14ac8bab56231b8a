package modelserver

import (
	"encoding/json"
	"slices"
	"strings"
)

// message is an entry of a chat's messages or of a response's input.
type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
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
