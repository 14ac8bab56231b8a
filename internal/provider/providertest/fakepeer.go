package providertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// peer is the other side of one attempt. Nothing runs by itself: advance plays
// all steps that are due by now. It is guarded by the fake's mutex.
type peer struct {
	fake   *Fake
	work   provider.Work
	script Script

	got bool
	// steps are those to come; since is when the last one was played.
	steps []Step
	since time.Time
	// queue holds events that no session took yet.
	queue    []provider.Event
	received bool
	said     strings.Builder
	asks     map[string]*ask
	answered []Answered
	end      *provider.End
	endTaken bool
	crashed  bool
	cut      bool
	lost     *provider.Lost
	cancels  int
	changed  chan struct{}
}

// ask is one request of the peer, or a call of a tool.
type ask struct {
	call    bool
	event   provider.Event // of a request
	done    bool
	outcome provider.Delivery
}

// wake makes every waiting Next look again.
func (p *peer) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// start gives the prompt to the peer.
func (p *peer) start(now time.Time) {
	p.got, p.since = true, now
	p.fake.sent = append(p.fake.sent, Sent{Attempt: p.work.Attempt, Prompt: p.work.Prompt, At: now})
}

// advance plays what is due and returns when to look again; zero for never
// without a change.
func (p *peer) advance(now time.Time) time.Time {
	for p.got && !p.crashed && p.lost == nil && len(p.steps) > 0 {
		s := p.steps[0]
		due := p.since.Add(s.After)
		if now.Before(due) {
			return due
		}
		if !p.play(s) {
			return time.Time{}
		}
		// A step that waited for something else counts from when that came.
		p.since = due
		if s.Do == Await || s.Do == Hold {
			p.since = now
		}
		if len(p.steps) > 0 {
			p.steps = p.steps[1:]
		}
	}
	return time.Time{}
}

// play does one step; false means that it waits.
func (p *peer) play(s Step) bool {
	switch s.Do {
	case Accept:
		p.emit()
	case Say:
		p.say(s.Text)
	case Think:
		p.emit(provider.Event{Kind: provider.EventText, Text: &coord.Text{Channel: coord.ChannelThought, Text: s.Text}})
	case Act:
		p.emit(provider.Event{Kind: provider.EventActivity, Activity: &coord.Activity{ID: s.Name, Kind: "tool", Title: s.Text, Status: s.Cause}})
	case Spend:
		p.emit(provider.Event{Kind: provider.EventUsage, Usage: s.Usage})
	case Attach:
		p.emit(provider.Event{Kind: provider.EventContent, Content: s.Content})
	case Flood:
		for range s.Count {
			p.say(s.Text)
		}
	case Ask:
		p.ask(s)
	case Call:
		p.call(s)
	case Await:
		a := p.asks[requestID(s.Name)]
		return a == nil || a.done
	case Withdraw:
		if a := p.asks[requestID(s.Name)]; a != nil && !a.done {
			a.done, a.outcome = true, provider.Undeliverable
			p.emit(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: requestID(s.Name)})
		}
	case End:
		if p.end == nil {
			end := &provider.End{State: s.State, Cause: s.Cause, Reason: s.Reason}
			if s.Text != "" {
				end.Answer = &s.Text
			}
			p.finish(end)
		}
	case Hold:
		select {
		case <-p.fake.hold(s.Name):
		default:
			return false
		}
	case Crash:
		p.crashed = true
		p.lose(or(s.Cause, provider.CauseGone), or(s.Reason, "the agent is gone"), coord.Ended)
	case Cut:
		p.cut = true
	case Oversize:
		p.crashed = true
		p.lose(provider.CauseFrame, "the agent sent a message beyond the limit", coord.Ended)
	case Noise:
		if s.Count > coord.MaxNoiseLines {
			p.crashed = true
			p.lose(provider.CauseNoise, "the agent prints what is not protocol", coord.Ended)
		}
	case EndAgain, Malformed, Foreign, Strange:
		// An adapter drops these; the fake has nothing to drop them from.
	default:
		panic(fmt.Sprintf("providertest: the fake does not know the step %q", s.Do))
	}
	return true
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func (p *peer) say(text string) {
	p.said.WriteString(text)
	p.emit(provider.Event{Kind: provider.EventText, Text: &coord.Text{Channel: coord.ChannelMessage, Text: text}})
}

// emit queues events, the receipt before the first.
func (p *peer) emit(events ...provider.Event) {
	if p.end != nil {
		for _, e := range events {
			p.queue = append(p.queue, provider.Event{Kind: provider.EventLate, Late: string(e.Kind)})
		}
		return
	}
	if !p.received {
		p.received = true
		p.queue = append(p.queue, provider.Event{Kind: provider.EventReceipt, Receipt: &coord.Receipt{Kind: "update", Reference: p.session()}})
	}
	p.queue = append(p.queue, events...)
}

func (p *peer) finish(e *provider.End) {
	end := *e
	p.emit(provider.Event{Kind: provider.EventEnd, End: &end})
	p.end = e
}

func (p *peer) lose(cause, reason string, activity coord.ActivityState) {
	if p.fake.route.Askable() {
		activity = coord.MayRun
	}
	p.lost = &provider.Lost{Cause: cause, Reason: reason, Activity: activity}
}

func (p *peer) session() string { return "fake-" + string(p.work.Attempt) }

func requestID(name string) string {
	b, _ := json.Marshal(name) // a string always marshals
	return string(b)
}

func (p *peer) ask(s Step) {
	id := requestID(s.Name)
	a := &ask{}
	p.asks[id] = a
	kind := coord.Permission
	if len(s.Options) == 0 && p.fake.route != coord.RouteACP {
		kind = coord.Question
	}
	a.event = provider.Event{Kind: provider.EventRequest, Request: &provider.Request{
		Kind:    kind,
		Origin:  coord.RequestOrigin{Session: p.session(), Request: id},
		Content: coord.RequestContent{Title: s.Text, Tool: "other"},
		Options: s.Options,
	}}
	p.emit(a.event)
	if p.cancels > 0 {
		p.answer(id, Answered{Name: s.Name}, provider.Undeliverable)
		p.emit(provider.Event{Kind: provider.EventWithdrawn, Withdrawn: id})
	}
}

// askAgain tells a new session the requests that wait for an answer.
func (p *peer) askAgain() {
	var again []provider.Event
	for _, id := range slices.Sorted(maps.Keys(p.asks)) {
		if a := p.asks[id]; !a.done && !a.call {
			again = append(again, a.event)
		}
	}
	p.queue = slices.DeleteFunc(p.queue, func(e provider.Event) bool {
		return e.Request != nil && p.asks[e.Request.Origin.Request] != nil && !p.asks[e.Request.Origin.Request].done
	})
	p.queue = append(p.queue, again...)
}

// call calls a tool, within what an adapter lets through.
func (p *peer) call(s Step) {
	id := requestID(s.Name)
	open := 0
	for _, a := range p.asks {
		if a.call && !a.done {
			open++
		}
	}
	p.asks[id] = &ask{call: true}
	offered := slices.ContainsFunc(p.work.Tools, func(t provider.Tool) bool { return t.Name == s.Text })
	if !offered || open == coord.MaxCalls || p.cancels > 0 {
		p.answer(id, Answered{Name: s.Name, Failed: true}, provider.Undeliverable)
		return
	}
	p.emit(provider.Event{Kind: provider.EventCall, Call: &provider.Call{
		Origin: coord.RequestOrigin{Session: p.session(), Item: s.Name, Request: id}, Tool: s.Text, Arguments: s.Arguments,
	}})
}

// answer records an answer that the peer got; outcome is what a later Respond
// is told.
func (p *peer) answer(id string, got Answered, outcome provider.Delivery) {
	a := p.asks[id]
	a.done, a.outcome = true, outcome
	p.answered = append(p.answered, got)
}

// cancel asks the peer to stop.
func (p *peer) cancel(now time.Time) provider.CancelOutcome {
	p.advance(now)
	p.cancels++
	if p.script.Cancel == CancelCannot {
		return provider.CancelUnsupported
	}
	if p.cancels > 1 {
		return provider.CancelAsked
	}
	for id, a := range p.asks {
		if !a.done {
			var name string
			_ = json.Unmarshal([]byte(id), &name) // made by requestID
			p.answer(id, Answered{Name: name, Failed: a.call}, provider.Undeliverable)
		}
	}
	if p.script.Cancel == CancelBreaks {
		return provider.CancelUnknown
	}
	if p.script.Cancel == CancelObey && p.end == nil {
		p.steps, p.since = p.script.CancelSteps, now
		if p.steps == nil {
			p.steps = []Step{{Do: End, State: coord.AttemptCancelled, Cause: provider.CauseCancelled}}
		}
	}
	return provider.CancelAsked
}
