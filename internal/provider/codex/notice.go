package codex

import (
	"encoding/json"
	"net/http"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

const (
	// maxDetail bounds the text of an activity.
	maxDetail = 1 << 10
	// maxMessages bounds the messages of one turn whose text is followed; the
	// text of more comes with their ends only.
	maxMessages = 1000
	maxPlan     = 64
)

// answer is what came of one message of the agent.
type answer struct {
	channel string
	length  int
}

// noticed are the notifications that are read, true where they belong to a
// turn. The others, such as news of the account, mean nothing to an attempt.
var noticed = map[string]bool{
	"turn/started":                    true,
	"turn/completed":                  true,
	"item/started":                    true,
	"item/completed":                  true,
	"item/agentMessage/delta":         true,
	"item/reasoning/summaryTextDelta": true,
	"item/reasoning/textDelta":        true,
	"item/reasoning/summaryPartAdded": true,
	"turn/plan/updated":               true,
	"thread/tokenUsage/updated":       true,
	"model/rerouted":                  true,
	"error":                           true,
	"serverRequest/resolved":          false,
	"warning":                         false,
}

// Notify takes a notification.
func (s *session) Notify(method string, params json.RawMessage) {
	turns, known := noticed[method]
	if !known {
		s.c.Drop("unread")
		return
	}
	var n notice
	p := s.phase()
	if stdio.Decode(params, &n) != nil {
		s.c.Drop("unreadable")
		return
	}
	switch {
	case n.Thread != p.thread || turns && n.of() == "" || p.turn != "" && turns && n.of() != p.turn:
		s.c.Drop("foreign")
	case !p.sent:
		s.c.Drop("early")
	case p.ended:
		s.q.PutLate(method + late(n))
	case method == "turn/started" || turns && p.turn == "":
		// The answer to turn/start comes first with the known versions; it must
		// name the same turn.
		if !s.learn(n.of()) || method == "turn/started" {
			return
		}
		s.read(method, n, len(params))
	default:
		s.read(method, n, len(params))
	}
}

// late is the beginning of the text of what came after the end.
func late(n notice) string {
	if n.Delta == "" {
		return ""
	}
	return " " + stdio.Quote(n.Delta)
}

// read takes a notification of the running turn.
func (s *session) read(method string, n notice, size int) {
	switch method {
	case "item/agentMessage/delta":
		s.speak(n.ItemID, "", n.Delta)
	case "item/reasoning/summaryTextDelta", "item/reasoning/textDelta":
		s.text(coord.ChannelThought, n.Delta)
	case "item/reasoning/summaryPartAdded":
		s.text(coord.ChannelThought, "\n\n")
	case "item/started":
		s.item(n.Item, false, size)
	case "item/completed":
		s.item(n.Item, true, size)
	case "turn/plan/updated":
		for _, step := range n.Plan[:min(len(n.Plan), maxPlan)] {
			s.note(coord.Activity{Kind: "plan", Title: stdio.Clip(step.Step, coord.MaxTitle), Status: stdio.Cut(step.Status, maxName)})
		}
	case "thread/tokenUsage/updated":
		s.spend(n)
	case "model/rerouted":
		s.note(coord.Activity{Kind: "model", Title: "The model became " + stdio.Quote(n.To) + ".", Status: "changed"})
	case "error":
		s.failure = n.Error
		if n.WillRetry {
			s.note(coord.Activity{Kind: "error", Title: stdio.Clip(n.Error.words(), coord.MaxTitle), Status: "retried"})
		}
	case "serverRequest/resolved":
		s.withdraw(string(n.Request))
	case "turn/completed":
		s.finish(n.Turn)
	}
}

// text puts a piece of text.
func (s *session) text(channel, text string) {
	if text != "" {
		s.q.Put(provider.Event{Kind: provider.EventText, Text: &coord.Text{Channel: channel, Text: text}}, len(text))
	}
}

// speak puts a piece of one of the agent's messages. What it says on its way is
// kept apart from the answer, where Codex tells the two apart.
func (s *session) speak(id, phase, piece string) {
	a := s.messages[id]
	if a == nil {
		if len(s.messages) == maxMessages || len(id) > maxID {
			return
		}
		a = &answer{channel: coord.ChannelMessage}
		s.messages[id] = a
	}
	if phase == "commentary" {
		a.channel = coord.ChannelThought
	}
	if piece == "" {
		return
	}
	a.length += len(piece)
	if s.speaking != id {
		if s.speaking != "" {
			piece = "\n\n" + piece
		}
		s.speaking = id
	}
	if a.channel == coord.ChannelMessage && strings.TrimSpace(piece) != "" {
		s.mu.Lock()
		s.said = true
		s.mu.Unlock()
	}
	s.text(a.channel, piece)
}

// item takes the beginning or the end of an item.
func (s *session) item(i item, completed bool, size int) {
	switch i.Type {
	case "agentMessage":
		s.speak(i.ID, i.Phase, "")
		// Pieces may be missing: a stream that was cut off and tried again, or
		// a model that sends none. The whole text begins with what came.
		if a := s.messages[i.ID]; completed && a != nil && len(i.Text) > a.length {
			s.speak(i.ID, i.Phase, i.Text[a.length:])
		}
	case "userMessage":
		if i.Client != s.attempt {
			s.note(coord.Activity{ID: stdio.Cut(i.ID, maxID), Kind: "message", Title: "Somebody else added a message to this turn.", Status: "foreign"})
		}
	case "dynamicToolCall":
		if completed {
			s.withdrawCall(i.ID)
		}
	case "reasoning", "functionCallOutput":
	default:
		s.q.Put(provider.Event{Kind: provider.EventActivity, Activity: i.activity(completed)}, size)
	}
}

// activity tells of an item that is neither text nor a call of our tools. The
// items of Codex's own tools are among them and must not come.
func (i item) activity(completed bool) *coord.Activity {
	a := coord.Activity{ID: stdio.Cut(i.ID, maxID), Kind: stdio.Cut(i.Type, maxName), Status: stdio.Cut(i.Status, maxName)}
	if a.Kind == "" {
		a.Kind = "item"
	}
	if a.Status == "" {
		a.Status = "started"
		if completed {
			a.Status = "completed"
		}
	}
	var paths []string
	for _, c := range i.Changes {
		paths = append(paths, c.Path)
	}
	for _, title := range []string{i.Command, strings.Join(paths, ", "), strings.TrimSpace(i.Server + " " + i.Tool), i.Query, i.Text, i.Type} {
		if a.Title == "" {
			a.Title = stdio.Clip(title, coord.MaxTitle)
		}
	}
	return &a
}

// spend puts what is known of the usage, if that is new.
func (s *session) spend(n notice) {
	t := n.Usage.Total
	u := coord.Usage{InputTokens: max(0, t.Input), OutputTokens: max(0, t.Output), TotalTokens: max(0, t.Total), Source: "provider"}
	if u != s.usage && u.Tokens() > 0 {
		s.usage = u
		s.q.Put(provider.Event{Kind: provider.EventUsage, Usage: &u}, 0)
	}
}

// finish takes the end of the turn.
func (s *session) finish(t turn) {
	s.mu.Lock()
	said, asked := s.said, s.cancelled
	s.ended = true
	s.mu.Unlock()
	if t.Error == nil {
		t.Error = &s.failure
	}
	s.q.Finish(provider.Event{Kind: provider.EventEnd, End: t.end(said, asked)})
}

// end says what the end of a turn means. said is whether there was an answer,
// asked whether a stop was asked for.
func (t turn) end(said, asked bool) *provider.End {
	end := &provider.End{State: coord.AttemptFailed}
	switch t.Status {
	case "completed":
		switch {
		case !said:
			end.Cause, end.Reason = provider.CauseEmpty, "Codex completed its turn without an answer."
		case asked:
			end.State, end.Cause, end.Reason = coord.AttemptCompleted, provider.CauseAfterCancel, "Codex completed its turn although a stop had been asked for."
		default:
			end.State = coord.AttemptCompleted
		}
	case "interrupted":
		end.Cause, end.Reason = provider.CauseCancelled, "Codex interrupted its turn without having been asked to."
		if asked {
			end.State, end.Reason = coord.AttemptCancelled, "Codex confirmed that it interrupted the turn."
		}
	case "failed":
		f := t.Error
		if f == nil {
			f = &fault{}
		}
		end.Cause, end.State = f.cause()
		end.Reason = stdio.Reason("Codex's turn failed: " + f.words() + ".")
	default:
		end.Cause, end.Reason = provider.CauseStopReason, "Codex ended its turn in a state that the protocol does not have: "+stdio.Quote(t.Status)+"."
	}
	return end
}

// kind names the kind of a fault, and the status of HTTP that it comes from, 0
// for none.
func (f fault) kind() (word string, status int) {
	if json.Unmarshal(f.Info, &word) == nil {
		return word, 0
	}
	var variant map[string]struct {
		Status int `json:"httpStatusCode"`
	}
	if stdio.Decode(f.Info, &variant) == nil && len(variant) == 1 {
		for word, of := range variant {
			return word, of.Status
		}
	}
	return "", 0
}

// words quotes what Codex says of a fault.
func (f fault) words() string {
	text := stdio.Quote(f.Message)
	if word, _ := f.kind(); word != "" {
		text += " (" + stdio.Cut(word, maxName) + ")"
	}
	return text
}

// cause is what a fault means to the port.
func (f fault) cause() (string, coord.AttemptState) {
	word, status := f.kind()
	if status == http.StatusUnauthorized {
		word = "unauthorized"
	}
	switch word {
	case "unauthorized":
		return provider.CauseAuth, coord.AttemptFailed
	case "contextWindowExceeded":
		return provider.CauseTruncated, coord.AttemptFailed
	case "sessionBudgetExceeded", "tooManyDenials":
		return provider.CauseTurnLimit, coord.AttemptFailed
	case "cyberPolicy", "misalignmentPolicyViolation":
		return provider.CauseRefused, coord.AttemptRejected
	}
	return provider.CauseProviderError, coord.AttemptFailed
}
