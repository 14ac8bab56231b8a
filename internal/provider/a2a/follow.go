package a2a

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/netguard"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// run takes the answer to the work and follows the task to its end.
func (s *session) run(life context.Context, a *answer, err error, patience *time.Timer) {
	defer s.leave()
	s.progress = time.Now()
	switch {
	case err != nil:
		s.refused(life, err)
	case a.stream != nil:
		err := s.consume(life, a, patience)
		if s.taskID() == "" {
			s.refused(life, err)
			return
		}
		s.after(err)
	default:
		result, err := a.one()
		a.close()
		var n news
		if err == nil {
			n, err = readNews(s.e.version, result)
		}
		if err == nil && n.task == nil && n.message == nil {
			err = malformed("neither a task nor a message in answer to the work")
		}
		if err != nil {
			s.refused(life, err)
			return
		}
		patience.Stop()
		s.take(n)
		s.closeIfOver()
	}
	s.follow()
}

// leave says that nothing more can come; where the session was closed, Close
// has the last word.
func (s *session) leave() {
	if s.isOver() {
		s.q.End()
	}
}

// refused takes that there is no receipt. Only the peer's own error in answer
// to this request is its word; anything else may have come after it took the
// work.
func (s *session) refused(life context.Context, err error) {
	if s.isOver() {
		return // a message was all that there is
	}
	rpc, ok := errors.AsType[*rpcError](err)
	if ok && rpc.certain() {
		s.receive(receiptError, fmt.Sprint(rpc.code))
		end := &provider.End{State: coord.AttemptRejected, Cause: provider.CauseRefused, Reason: "The peer refused the work: it answered with " + rpc.Error() + "."}
		switch rpc.code {
		case codeInternal:
			end.State, end.Cause, end.Reason = coord.AttemptFailed, provider.CauseProviderError, "The peer failed: it answered with "+rpc.Error()+"."
		case codeNoMethod, codeVersion:
			end.Cause = provider.CauseVersion
			end.Reason = "The peer does not speak the registered version " + s.e.version + ": it answered with " + rpc.Error() + ". Nothing was sent in another version."
		}
		end.Reason = stdio.Reason(end.Reason)
		s.finish(provider.Event{Kind: provider.EventEnd, End: end})
		return
	}
	if _, ok := errors.AsType[*netguard.Unsent](err); ok {
		s.mu.Lock()
		s.unsent = true
		s.mu.Unlock()
		s.finish(provider.Event{Kind: provider.EventLost, Lost: &provider.Lost{Cause: provider.CauseGone, Reason: "The work was not sent: " + told(err) + ".", Activity: coord.Ended}})
		return
	}
	if errors.Is(context.Cause(life), errSilent) {
		s.lose(provider.CauseGone, "The peer took the work and named no task within "+coord.Duration(s.timing.Receipt).String()+", so it cannot be asked what became of it.")
		return
	}
	if errors.Is(context.Cause(s.ctx), errClosed) {
		return // Close tells
	}
	cause := provider.CauseGone
	if f, ok := errors.AsType[*faultError](err); ok {
		cause = f.cause
	}
	s.lose(cause, "The work left, and no task came back: "+told(err)+". It may run all the same.")
}

func (s *session) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// receive puts the receipt.
func (s *session) receive(kind, reference string) {
	s.q.Put(provider.Event{Kind: provider.EventReceipt, Receipt: &coord.Receipt{Kind: kind, Reference: reference, At: s.clock()}}, 0)
	close(s.received)
}

// consume takes the events of a stream until that is over, and says why it is.
// Until the receipt patience bounds the wait; then a quiet stream has the task
// asked for beside it, and stays open: there are servers that stop the work when
// nobody listens.
func (s *session) consume(ctx context.Context, a *answer, patience *time.Timer) error {
	events, done := make(chan []event), make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			some := a.events(s.e.version)
			select {
			case events <- some:
			case <-done:
				return
			}
			if err := some[len(some)-1].err; err != nil && !isFault(err) {
				return
			}
		}
	}()
	defer func() {
		close(done)
		a.close()
		<-gone
	}()
	quiet := time.NewTimer(s.timing.Quiet)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case some := <-events:
			before := s.progress
			for _, ev := range some {
				if err := s.event(ev); err != nil {
					return err
				}
				if s.lostAlready() {
					return errClosed
				}
			}
			if s.progress != before { // what says nothing of the task is silence too
				quiet.Reset(s.timing.Quiet)
			}
			if patience != nil && s.taskID() != "" {
				patience.Stop()
				patience = nil
			}
		case <-quiet.C:
			quiet.Reset(s.timing.Quiet)
			s.aside()
		case <-s.look:
			s.aside()
		}
		if s.lostAlready() {
			return errClosed
		}
	}
}

// isFault reports whether an event could not be understood, after which the
// stream can be read on.
func isFault(err error) bool {
	f, ok := errors.AsType[*faultError](err)
	return ok && f.cause == provider.CauseProtocol
}

func (s *session) lostAlready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost || s.closed
}

// aside asks for the task while a stream is open.
func (s *session) aside() {
	if s.taskID() != "" && !s.isOver() {
		s.ask(true)
	}
}

// event takes one event of a stream.
func (s *session) event(ev event) error {
	switch {
	case ev.err == nil:
		s.take(ev.news)
		if s.status.state.terminal() && !s.isOver() {
			s.conclude()
		}
		return nil
	case isFault(ev.err):
		s.drop("unreadable")
		return nil
	}
	return ev.err
}

// drop counts what is ignored. A peer that sends much of it is not followed
// any more.
func (s *session) drop(what string) {
	s.dropped[what]++
	s.drops++
	if s.drops > coord.MaxNoiseLines {
		s.lose(provider.CauseNoise, fmt.Sprintf("The peer sent %d messages that cannot be read or belong to other work.", s.drops))
	}
}

// take takes news of our task. The first ones are the receipt.
func (s *session) take(n news) {
	task, in := n.ids()
	known, where := s.taskID(), s.contextID()
	switch {
	case n == (news{}):
		return // of a kind that a later version may have
	case s.isOver():
		s.q.PutLate(n.kind())
		return
	case known == "" && n.message != nil:
		s.direct(n.message)
		return
	case len(task) > maxID || len(in) > maxID: // both are kept, in a receipt and with each request
		s.drop("unreadable")
		return
	case known == "":
		s.mu.Lock()
		s.task = task
		s.mu.Unlock()
		s.receive(receiptTask, task)
	case task != known && !(task == "" && n.message != nil), in != "" && where != "" && in != where:
		s.drop("foreign")
		return
	}
	if where == "" && in != "" {
		s.mu.Lock()
		s.context = in
		s.mu.Unlock()
	}
	switch {
	case n.task != nil:
		s.whole(n.task)
	case n.artifact != nil:
		s.moved()
		s.say(s.view.merge(*n.artifact))
	case n.status != nil:
		s.reach(n.status.Status, nil)
	case n.message != nil:
		s.narrate("message", n.message)
	}
}

// closeIfOver ends the attempt when the task, as the peer told it whole, is
// over.
func (s *session) closeIfOver() {
	if s.status.state.terminal() && !s.isOver() {
		s.close()
	}
}

func (n news) kind() string {
	switch {
	case n.task != nil:
		return "task"
	case n.message != nil:
		return "message"
	case n.status != nil:
		return "status update: " + n.status.Status.state.String()
	default:
		return "artifact update"
	}
}

func (s *session) contextID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.context
}

// moved notes that the task shows progress.
func (s *session) moved() { s.progress, s.stalled = time.Now(), false }

// say puts text of the answer.
func (s *session) say(text string) {
	if text != "" {
		s.moved()
		s.q.Put(provider.Event{Kind: provider.EventText, Text: &coord.Text{Channel: coord.ChannelMessage, Text: text}}, len(text))
	}
}

// narrate puts what the peer says beside its answer, once.
func (s *session) narrate(status string, m *message) {
	text := strings.TrimSpace(m.text())
	if text == "" || s.told == m.ID+text {
		return
	}
	s.told = m.ID + text
	s.moved()
	first, _, _ := strings.Cut(text, "\n")
	act := &coord.Activity{Kind: "message", Title: clip(first, coord.MaxTitle), Status: status}
	if act.Title != text {
		act.Detail = clip(text, coord.MaxReason)
	}
	s.q.Put(provider.Event{Kind: provider.EventActivity, Activity: act}, len(act.Detail))
}

// whole takes the task as the peer tells it whole.
func (s *session) whole(t *task) {
	text := s.view.snapshot(t.Artifacts)
	if !s.resumed || s.seen() {
		s.say(text) // an earlier process has shown most of it; the end carries all
	}
	s.reach(t.Status, t.History)
}

// reach takes the task's state.
func (s *session) reach(st status, history []message) {
	if st.state == noState {
		return
	}
	if st.state != s.status.state || st.Stamp != s.status.Stamp {
		s.moved()
	}
	s.status = st
	switch {
	case st.state.interrupted():
		s.interrupt(st, history)
	case st.state.terminal():
	default:
		s.goOn()
		s.narrate(st.state.String(), st.Message)
	}
}

// direct takes a message that is the whole answer: there is no task.
func (s *session) direct(m *message) {
	s.receive(receiptMessage, clip(m.ID, maxID))
	a := artifact{ID: m.ID, Parts: m.Parts}
	s.say(s.view.merge(artifactUpdate{Artifact: a}))
	s.end(&provider.End{State: coord.AttemptCompleted})
}

// conclude ends the attempt once the task is over. What the peer answers to a
// last request for the task counts more than what its stream said; if it cannot
// say, the stream's word stands. But a task that is asked for and goes on is not
// cancelled, whatever a stream says: it is followed.
func (s *session) conclude() {
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.timing.Settle, errSilent)
	defer cancel()
	wait := s.timing.Poll / 10
	var other *task
	for range 4 {
		t, err := s.e.get(ctx, s.timing.Call, s.taskID(), 0)
		if err == nil && s.ours(t) {
			other = t
			if t.Status.state.terminal() {
				s.say(s.view.snapshot(t.Artifacts))
				s.status, other = t.Status, nil
				break
			}
		}
		if !pause(ctx, wait) {
			break
		}
		wait *= 4
	}
	switch {
	case s.ctx.Err() != nil:
	case s.status.state == canceled && other != nil:
		s.whole(other)
	default:
		s.close()
	}
}

// ours reports whether a task is in the context that it was in before.
func (s *session) ours(t *task) bool {
	in := s.contextID()
	return in == "" || t.ContextID == "" || t.ContextID == in
}

// close ends the attempt in the state that the task ended in.
func (s *session) close() {
	s.mu.Lock()
	asked := s.cancelled
	s.mu.Unlock()
	e := endOf(s.status, asked)
	if e.State == coord.AttemptCompleted {
		s.say(s.view.closing(s.status.Message))
	}
	s.end(e)
}

// endOf puts a terminal status in the words of the port. asked tells that we
// cancelled.
func endOf(st status, asked bool) *provider.End {
	words := ""
	if said := st.Message.text(); said != "" {
		words = " It says: " + quote(said) + "."
	}
	end := &provider.End{}
	switch st.state {
	case canceled:
		end.State, end.Cause, end.Reason = coord.AttemptCancelled, provider.CauseCancelled, "The peer cancelled the task without having been asked to."
		if asked {
			end.Reason = "The peer confirmed that the task is cancelled."
		}
	case failed:
		end.State, end.Cause, end.Reason = coord.AttemptFailed, provider.CauseProviderError, "The task failed at the peer."+words
	case rejected:
		end.State, end.Cause, end.Reason = coord.AttemptRejected, provider.CauseRefused, "The peer rejected the work."+words
	default:
		end.State = coord.AttemptCompleted
		if asked {
			end.Cause, end.Reason = provider.CauseAfterCancel, "The peer completed the task although a stop had been asked for."
		}
	}
	end.Reason = stdio.Reason(end.Reason)
	return end
}

// end puts the contents and the end, with the answer where what was shown is
// not it.
func (s *session) end(e *provider.End) {
	for _, c := range s.view.contents() {
		s.q.Put(c, contentSize(c))
	}
	if s.view.amended && e.State == coord.AttemptCompleted {
		whole := s.view.told()
		e.Answer = &whole
		if s.view.cut() {
			e.Reason = strings.TrimSpace(e.Reason + " The answer is longer than what is kept of it.")
		}
	}
	s.finish(provider.Event{Kind: provider.EventEnd, End: e})
}

func contentSize(e provider.Event) int {
	if e.Content == nil {
		return 0
	}
	return len(e.Content.Bytes)
}
