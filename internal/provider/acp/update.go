package acp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"path"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/jsonwalk"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// updateParams are those of session/update. One struct holds the members of
// all variants, so that a message is decoded once.
type updateParams struct {
	SessionID string `json:"sessionId"`
	Update    update `json:"update"`
}

type update struct {
	Variant string `json:"sessionUpdate"`
	toolCall
	Entries []planEntry `json:"entries"`
	// Used is the size of the context, the nearest to a total that there is.
	Used int64 `json:"used"`
	Cost *struct {
		Amount   json.Number `json:"amount"`
		Currency string      `json:"currency"`
	} `json:"cost"`
}

// readUpdate reads the params of session/update. Nearly all that an agent sends
// are pieces of text, so those are walked; their content shares memory with the
// params.
func readUpdate(params json.RawMessage) (updateParams, error) {
	var p updateParams
	var id, body []byte
	for name, value := range jsonwalk.Members(params) {
		switch name {
		case "sessionId":
			id, _ = jsonwalk.Text(value)
		case "update":
			body = value
		}
	}
	variant, _ := jsonwalk.Text(jsonwalk.Member(body, "sessionUpdate"))
	switch string(variant) {
	case "agent_message_chunk", "agent_thought_chunk":
		p.SessionID, p.Update.Variant, p.Update.Content = string(id), string(variant), jsonwalk.Member(body, "content")
		return p, nil
	}
	return p, stdio.Decode(params, &p)
}

// toolCall is what tool_call, tool_call_update and a permission's toolCall say
// of one. A null member is one that was left out.
type toolCall struct {
	ID        string          `json:"toolCallId"`
	Title     string          `json:"title"`
	Kind      string          `json:"kind"`
	Status    string          `json:"status"`
	RawInput  json.RawMessage `json:"rawInput"`
	Content   json.RawMessage `json:"content"`
	Locations json.RawMessage `json:"locations"`
	// long marks a call of which more was told than is remembered.
	long bool
}

type planEntry struct {
	Content string `json:"content"`
	Status  string `json:"status"`
}

// variants are the stable ones of the schema of SDK 2.4.0: true where the
// variant belongs to a turn, so that it is evidence that the agent has the
// prompt. The others may still be on their way from the setup.
var variants = map[string]bool{
	"user_message_chunk":        true,
	"agent_message_chunk":       true,
	"agent_thought_chunk":       true,
	"tool_call":                 true,
	"tool_call_update":          true,
	"plan":                      true,
	"available_commands_update": false,
	"current_mode_update":       false,
	"config_option_update":      false,
	"session_info_update":       false,
	"usage_update":              false,
	"notice":                    false,
	"compaction_update":         false,
	"compaction_summary_chunk":  false,
}

// events are what an update of a known variant means to the port.
func (u update) events() []provider.Event {
	switch u.Variant {
	case "agent_message_chunk":
		return u.chunk(coord.ChannelMessage)
	case "agent_thought_chunk":
		return u.chunk(coord.ChannelThought)
	case "tool_call", "tool_call_update":
		return []provider.Event{{Kind: provider.EventActivity, Activity: &coord.Activity{
			ID: stdio.Cut(u.ID, maxID), Kind: or(stdio.Cut(u.Kind, maxName), "tool"), Title: stdio.Clip(u.Title, coord.MaxTitle), Status: stdio.Cut(u.Status, maxName), Detail: u.summary(),
		}}}
	case "plan":
		events := make([]provider.Event, 0, min(len(u.Entries), maxPlan))
		for _, e := range u.Entries[:min(len(u.Entries), maxPlan)] {
			events = append(events, provider.Event{Kind: provider.EventActivity, Activity: &coord.Activity{
				Kind: "plan", Title: stdio.Clip(e.Content, coord.MaxTitle), Status: stdio.Cut(e.Status, maxName),
			}})
		}
		return events
	}
	return nil
}

// late names an update of a known variant that came after the end, with the
// beginning of its text.
func (u update) late() string {
	for _, e := range u.events() {
		if e.Text != nil {
			return u.Variant + " " + stdio.Quote(e.Text.Text)
		}
	}
	return u.Variant
}

// The bounds of single members.
const (
	maxID   = 256
	maxName = 64
	maxPlan = 64
	// maxDetail bounds the text of an activity.
	maxDetail = 1 << 10
)

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// summary is a tool call's input in few words.
func (t toolCall) summary() string {
	if !t.hasInput() {
		return ""
	}
	return stdio.Clip(string(t.RawInput), maxDetail)
}

func (t toolCall) hasInput() bool {
	s := string(t.RawInput)
	return s != "" && s != "null" && s != "{}"
}

// usage adds what an update tells to what is known.
func (u update) usage(known coord.Usage) coord.Usage {
	if u.Used > 0 {
		known.TotalTokens, known.Source = u.Used, "provider"
	}
	if u.Cost != nil {
		known.Cost, known.Currency, known.Source = stdio.Cut(u.Cost.Amount.String(), maxName), stdio.Cut(u.Cost.Currency, maxName), "provider"
	}
	return known
}

// usage adds what the answer to a prompt tells to what is known.
func (r promptResult) usage(known coord.Usage) coord.Usage {
	if u := r.Usage; u != nil && u.Input > 0 {
		known.InputTokens, known.OutputTokens, known.TotalTokens, known.Source = u.Input, max(0, u.Output), max(0, u.Total), "provider"
	}
	return known
}

// block is a content block.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MimeType string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Resource struct {
		URI      string `json:"uri"`
		MimeType string `json:"mimeType"`
		Text     string `json:"text"`
		Blob     string `json:"blob"`
	} `json:"resource"`
}

func (u update) chunk(channel string) []provider.Event {
	if kind, _ := jsonwalk.Text(jsonwalk.Member(u.Content, "type")); string(kind) == "text" {
		text := u.text()
		if text == "" {
			return nil
		}
		return []provider.Event{{Kind: provider.EventText, Text: &coord.Text{Channel: channel, Text: text}}}
	}
	var b block
	if stdio.Decode(u.Content, &b) != nil {
		return nil
	}
	c := b.content()
	if c == nil || channel != coord.ChannelMessage {
		return nil
	}
	return []provider.Event{{Kind: provider.EventContent, Content: c}}
}

// text is that of a text block. Half of a surrogate pair becomes U+FFFD.
func (u update) text() string {
	value := jsonwalk.Member(u.Content, "text")
	if text, ok := jsonwalk.Text(value); ok {
		return string(text)
	}
	var text string
	_ = stdio.Decode(value, &text) // what is no string counts as absent
	return text
}

// content is a block that is not text, nil when it is of an unknown type or
// cannot be read. A link is a reference and never opened.
func (b block) content() *provider.Content {
	switch b.Type {
	case "image", "audio":
		return embedded(or(b.Name, b.Type), b.MimeType, b.Data)
	case "resource":
		name := path.Base(or(b.Resource.URI, "resource"))
		if b.Resource.Blob != "" {
			return embedded(name, b.Resource.MimeType, b.Resource.Blob)
		}
		return &provider.Content{Name: stdio.Clip(name, coord.MaxTitle), Media: or(stdio.Cut(b.Resource.MimeType, maxName), "text/plain"), Bytes: []byte(b.Resource.Text)}
	case "resource_link":
		if b.URI == "" {
			return nil
		}
		return &provider.Content{Name: stdio.Clip(or(b.Name, path.Base(b.URI)), coord.MaxTitle), Media: stdio.Cut(b.MimeType, maxName), Reference: stdio.Clip(b.URI, coord.MaxReason)}
	}
	return nil
}

// embedded decodes bytes; the frame's limit bounds them.
func embedded(name, media, data string) *provider.Content {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimRight(data, "\n"))
	if err != nil {
		return nil
	}
	return &provider.Content{Name: stdio.Clip(name, coord.MaxTitle), Media: or(stdio.Cut(media, maxName), "application/octet-stream"), Bytes: raw}
}

// stopped says what a prompt's answer means. said is whether anything came in
// the turn; cancelled whether we had asked to stop.
func stopped(m stdio.Message, said, asked bool) (*provider.End, *promptResult) {
	var r promptResult
	if err := stdio.Unpack(m, methodPrompt, &r); err != nil {
		return refused(err, asked), nil
	}
	var why string
	_ = json.Unmarshal(r.StopReason, &why) // any other type is no stop reason
	end := &provider.End{State: coord.AttemptFailed}
	switch why {
	case "end_turn":
		if !said {
			end.Cause, end.Reason = provider.CauseEmpty, "The agent ended its turn without an answer."
			break
		}
		end.State = coord.AttemptCompleted
		if asked {
			end.Cause, end.Reason = provider.CauseAfterCancel, "The agent completed its turn although a stop had been asked for."
		}
	case "max_tokens":
		end.Cause, end.Reason = provider.CauseTruncated, "The agent's answer was cut off at its limit of tokens."
	case "max_turn_requests":
		end.Cause, end.Reason = provider.CauseTurnLimit, "The agent used up its requests to the model for one turn."
	case "refusal":
		end.State, end.Cause, end.Reason = coord.AttemptRejected, provider.CauseRefused, "The agent refused the work."
	case "cancelled":
		end.Cause, end.Reason = provider.CauseCancelled, "The agent stopped without having been asked to."
		if asked {
			end.State, end.Reason = coord.AttemptCancelled, "The agent confirmed that it stopped."
		}
	default:
		end.Cause, end.Reason = provider.CauseStopReason, "The agent ended its turn with a stop reason that the protocol does not have: "+stdio.Quote(string(r.StopReason))+"."
	}
	return end, &r
}

// refused says what an error in place of a result means. -32800 is the
// protocol's own word for a request that was cancelled.
func refused(err error, asked bool) *provider.End {
	var rpc *stdio.RPCError
	switch {
	case !errors.As(err, &rpc):
		return &provider.End{State: coord.AttemptFailed, Cause: provider.CauseStopReason, Reason: "The agent's answer to the prompt has no result."}
	case rpc.Code == codeCancelled && asked:
		return &provider.End{State: coord.AttemptCancelled, Cause: provider.CauseCancelled, Reason: "The agent confirmed that it stopped."}
	case rpc.Code == codeAuthRequired:
		return &provider.End{State: coord.AttemptFailed, Cause: provider.CauseProviderError, Reason: stdio.Reason("The agent answered the prompt with " + rpc.Error() + ", which stands for a login that is missing or a quota that is used up.")}
	}
	return &provider.End{State: coord.AttemptFailed, Cause: provider.CauseProviderError, Reason: stdio.Reason("The agent answered the prompt with " + rpc.Error() + ".")}
}
