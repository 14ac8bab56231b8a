package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// maxAsked bounds what one attempt may ask in all, and so what is remembered: a
// model that reads a file each second for two hours stays below.
const maxAsked = 10_000

// pending is one request of Codex that the owner of the attempt answers.
type pending struct {
	stdio.Pending
	id json.RawMessage
	// call is the id of the tool call, questions are what is asked otherwise.
	call      string
	questions []question
	// taken is guarded by the session's mutex: who set it answers.
	taken bool
}

// refusal is the answer that does nothing.
func (p *pending) refusal(why string) any {
	if p.questions != nil {
		return inputResult{map[string]inputAnswer{}}
	}
	return said(why, false)
}

// result is the answer that the owner gives.
func (p *pending) result(a provider.Answer) any {
	switch {
	case p.questions == nil && a.Result != nil:
		return said(a.Result.Text, !a.Result.Failed)
	case p.questions != nil && a.Decision == coord.DecisionAnswered:
		// One text answers all that was asked at once.
		r := inputResult{map[string]inputAnswer{}}
		for _, q := range p.questions {
			r.Answers[q.ID] = inputAnswer{[]string{a.Text}}
		}
		return r
	}
	return p.refusal("Signalbox did not carry the call out.")
}

// Ask takes a request of Codex.
func (s *session) Ask(id json.RawMessage, method string, params json.RawMessage) {
	switch {
	case method == askCall:
		s.askCall(id, params)
	case method == askInput:
		s.askInput(id, params)
	case declined[method] != nil:
		s.decline(id, method, params)
	default:
		s.c.Drop("request")
		s.c.Refuse(id, stdio.CodeNoMethod, "this client does not offer "+stdio.Cut(method, stdio.MaxQuote))
	}
}

// decline answers what Codex asks for a tool of its own, and tells of it: all
// of them are off, so it must not happen.
func (s *session) decline(id json.RawMessage, method string, params json.RawMessage) {
	s.c.Reply(stdio.Outgoing{ID: id, Result: declined[method]})
	if p := s.phase(); p.turn == "" || p.ended {
		return
	}
	s.note(coord.Activity{Kind: "request", Title: method, Status: "declined", Detail: stdio.Clip("Signalbox declined what Codex asked for a tool of its own: "+string(params), maxDetail)})
}

// note tells of an activity.
func (s *session) note(a coord.Activity) {
	s.q.Put(provider.Event{Kind: provider.EventActivity, Activity: &a}, len(a.Detail))
}

// mine reports whether a request belongs to the running turn, and refuses it
// otherwise.
func (s *session) mine(id json.RawMessage, method, thread, turn string) bool {
	p := s.phase()
	if p.turn != "" && !p.ended && thread == p.thread && turn == p.turn {
		return true
	}
	if p.ended {
		s.q.PutLate(method)
	}
	s.c.Drop("foreign_request")
	s.c.Refuse(id, stdio.CodeInvalidParams, "no such turn")
	return false
}

// askCall takes an item/tool/call.
func (s *session) askCall(id, params json.RawMessage) {
	var p callParams
	if stdio.Decode(params, &p) != nil || !s.mine(id, askCall, p.Thread, p.Turn) {
		return
	}
	refuse := func(why string) {
		s.c.Reply(stdio.Outgoing{ID: id, Result: said(why, false)})
		s.note(coord.Activity{ID: stdio.Cut(p.Call, maxID), Kind: "tool", Title: stdio.Clip(p.Tool, coord.MaxTitle), Status: "refused", Detail: why})
	}
	name, known := s.tools[p.Tool]
	switch {
	case !known || p.Namespace != "":
		refuse("There is no such tool here.")
		return
	case len(p.Arguments) > coord.MaxCallArguments:
		refuse(fmt.Sprintf("The arguments are longer than %d bytes.", coord.MaxCallArguments))
		return
	case len(p.Arguments) == 0 || len(p.Call) > maxID:
		refuse("The call cannot be read.")
		return
	}
	switch s.admit(&pending{id: id, call: p.Call}) {
	case admitted:
		s.q.Put(provider.Event{Kind: provider.EventCall, Call: &provider.Call{
			Origin: coord.RequestOrigin{Session: p.Thread, Turn: p.Turn, Item: p.Call, Request: string(id)}, Tool: name, Arguments: p.Arguments,
		}}, len(p.Arguments))
	case tooMany:
		refuse(fmt.Sprintf("More than %d calls are being carried out; wait for their answers.", coord.MaxCalls))
	case stopped:
		s.c.Reply(stdio.Outgoing{ID: id, Result: said("", false)})
	case reused:
		s.c.RefuseReused(&s.earlier(id).Pending, id)
	case failed:
	}
}

// askInput takes an item/tool/requestUserInput.
func (s *session) askInput(id, params json.RawMessage) {
	var p inputParams
	if stdio.Decode(params, &p) != nil || !s.mine(id, askInput, p.Thread, p.Turn) {
		return
	}
	entry := &pending{id: id, questions: append([]question{}, p.Questions...)}
	refuse := func(why string) {
		s.c.Reply(stdio.Outgoing{ID: id, Result: entry.refusal("")})
		s.note(coord.Activity{ID: stdio.Cut(p.Item, maxID), Kind: "question", Title: stdio.Clip(title(p.Questions), coord.MaxTitle), Status: "refused", Detail: why})
	}
	for _, q := range p.Questions {
		if q.Secret {
			// An answer is kept with the job, where a secret has no place.
			refuse("Codex asked for a secret, which Signalbox does not pass on.")
			return
		}
	}
	event := provider.Event{Kind: provider.EventRequest, Request: &provider.Request{
		Kind: coord.Question, Content: describe(p.Questions),
		Origin: coord.RequestOrigin{Session: p.Thread, Turn: p.Turn, Item: stdio.Cut(p.Item, maxID), Request: string(id)},
	}}
	switch s.admit(entry) {
	case admitted:
		s.q.Put(event, len(event.Request.Content.Detail))
	case tooMany:
		refuse(fmt.Sprintf("More than %d questions were open.", coord.MaxPendingRequests))
	case stopped:
		s.c.Reply(stdio.Outgoing{ID: id, Result: entry.refusal("")})
		s.q.Put(event, len(event.Request.Content.Detail))
		s.q.Put(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: string(id)}, 0)
	case reused:
		s.c.RefuseReused(&s.earlier(id).Pending, id)
	case failed:
	}
}

func title(questions []question) string {
	if len(questions) == 0 {
		return "Codex asks, and does not say what."
	}
	return questions[0].Question
}

// describe makes a request's content of all that is asked.
func describe(questions []question) coord.RequestContent {
	var b strings.Builder
	if len(questions) > 1 {
		fmt.Fprintf(&b, "%d questions are asked at once; one text answers them all.\n\n", len(questions))
	}
	for _, q := range questions {
		fmt.Fprintf(&b, "%s\n%s\n", q.Header, q.Question)
		for _, o := range q.Options {
			fmt.Fprintf(&b, "- %s: %s\n", o.Label, o.Description)
		}
		b.WriteString("\n")
	}
	c := coord.RequestContent{Title: title(questions), Tool: "question", Detail: strings.TrimSpace(b.String())}
	if len(c.Title) > coord.MaxTitle {
		c.Title = stdio.Clip(c.Title, coord.MaxTitle)
	}
	if len(c.Detail) > coord.MaxRequestContent {
		c.Detail, c.Cut = stdio.Clip(c.Detail, coord.MaxRequestContent), true
	}
	return c
}

// verdict is what becomes of a request.
type verdict int

const (
	admitted verdict = iota
	// tooMany are open.
	tooMany
	// stopped: the attempt is being cancelled.
	stopped
	// reused: the id was answered before.
	reused
	// failed: nothing may be answered, or the attempt is over.
	failed
)

// earlier is the request that had this id before.
func (s *session) earlier(id json.RawMessage) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[string(id)]
}

// admit records a request, within the bounds.
func (s *session) admit(p *pending) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.asked[string(p.id)]
	count, most := &s.calls, coord.MaxCalls
	if p.questions != nil {
		count, most = &s.questions, coord.MaxPendingRequests
	}
	switch {
	case old != nil && !old.taken:
		// Any answer would be taken for that to the first of the two.
		s.c.Drop("reused_id")
		return failed
	case old != nil:
		s.c.Drop("reused_id")
		return reused
	case len(s.asked) == maxAsked:
		s.c.Fail(provider.CauseRequests, "Codex called tools more often than one attempt may; it was ended.")
		return failed
	}
	p.Pending = stdio.NewPending()
	s.asked[string(p.id)] = p
	switch {
	case s.cancelled:
		p.taken = true
		p.Settle(provider.Undeliverable)
		return stopped
	case *count >= most:
		p.taken = true
		p.Settle(provider.Undeliverable)
		return tooMany
	}
	*count++
	return admitted
}

// take makes the caller, which holds the mutex, the one that answers all that
// is open.
func (s *session) take() []*pending {
	var open []*pending
	for _, p := range s.asked {
		if !p.taken {
			s.claimed(p)
			open = append(open, p)
		}
	}
	return open
}

func (s *session) claimed(p *pending) {
	p.taken = true
	if p.questions != nil {
		s.questions--
	} else {
		s.calls--
	}
}

// claim makes the caller the one that answers the request: nil when there is
// none, or somebody else is.
func (s *session) claim(id string) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.asked[id]
	if p == nil || p.taken {
		return nil
	}
	s.claimed(p)
	return p
}

// withdraw takes back a request that Codex wants no answer to any more.
func (s *session) withdraw(id string) {
	if p := s.claim(id); p != nil {
		p.Settle(provider.Undeliverable)
		s.q.Put(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: id}, 0)
	}
}

// withdrawCall does so by the id of the call.
func (s *session) withdrawCall(call string) {
	s.mu.Lock()
	var id string
	for key, p := range s.asked {
		if p.call == call && call != "" && !p.taken {
			id = key
		}
	}
	s.mu.Unlock()
	if id != "" {
		s.withdraw(id)
	}
}

// Respond writes the answer to a call or a question.
func (s *session) Respond(ctx context.Context, a provider.Answer) (provider.Delivery, error) {
	if p := s.claim(a.Request); p != nil {
		outcome, err := s.deliver(ctx, p, a)
		p.Settle(outcome)
		return outcome, err
	}
	s.mu.Lock()
	p := s.asked[a.Request]
	s.mu.Unlock()
	if p == nil {
		return provider.Undeliverable, coord.Errorf(coord.NotFound, "Codex has no such request")
	}
	return p.Outcome(ctx)
}

func (s *session) deliver(ctx context.Context, p *pending, a provider.Answer) (provider.Delivery, error) {
	if s.phase().ended || s.q.Over() {
		return provider.Undeliverable, nil
	}
	return s.c.Answer(ctx, p.id, p.result(a))
}
