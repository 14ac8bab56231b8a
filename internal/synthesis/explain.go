package synthesis

import (
	"context"
	"fmt"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// Explanation says about one attempt, in plain words, what is known, what is
// not, and what a person can do.
type Explanation struct {
	Attempt coord.Attempt `json:"attempt"`
	// Known and NotKnown are sentences.
	Known    []string `json:"known"`
	NotKnown []string `json:"not_known"`
	// Why says why the attempt is in its state.
	Why string `json:"why"`
	// Evidence is what was recorded, oldest first.
	Evidence []coord.Evidence `json:"evidence"`
	// NextSteps are what a person can do now, best first.
	NextSteps []string `json:"next_steps"`
}

// Explain explains an attempt.
func (s *Synthesis) Explain(ctx context.Context, ref coord.AttemptRef) (Explanation, error) {
	var (
		job      coord.Job
		a        coord.Attempt
		requests []coord.Request
	)
	err := s.journal.View(ctx, func(v *journal.View) (err error) {
		if a, err = v.Attempt(ref); err != nil {
			return err
		}
		if job, err = v.JobHead(coord.JobRef{ID: a.Job}); err != nil {
			return err
		}
		all, err := v.JobRequests(a.Job)
		for _, r := range all {
			if r.Attempt == a.ID {
				requests = append(requests, r)
			}
		}
		return err
	})
	if err != nil {
		return Explanation{}, err
	}
	return explain(job, a, requests), nil
}

// explain decides what to say; it looks at nothing else.
func explain(job coord.Job, a coord.Attempt, requests []coord.Request) Explanation {
	e := Explanation{Attempt: a, Known: known(a), NotKnown: notKnown(a), Why: why(a), Evidence: append([]coord.Evidence{}, a.Evidence...)}
	for _, r := range requests {
		e.Known = append(e.Known, aboutRequest(r))
		if r.Delivery == coord.DeliveryUnknown {
			e.NotKnown = append(e.NotKnown, fmt.Sprintf("Whether the answer to request r%d reached the agent.", r.Number))
		}
		if r.Effect == coord.EffectUnknown {
			e.NotKnown = append(e.NotKnown, fmt.Sprintf("Whether the effect of request r%d took place.", r.Number))
		}
	}
	name := fmt.Sprintf("%d/%s/%d", job.Number, a.Key, a.Number)
	e.NextSteps = nextSteps(name, job, a, requests)
	return e
}

// known gives the facts about the way of the work, in the order of that way.
func known(a coord.Attempt) []string {
	out := []string{fmt.Sprintf("Attempt %d of task %s by agent %s was made at %s.", a.Number, a.Key, a.Agent, wall(a.Made))}
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case a.Sent == nil:
		say("No part of the work left Signalbox.")
	case a.State == coord.AttemptNotSent:
		say("The intent to send was recorded at %s, and it is certain that the work did not go out or will never be taken.", wall(*a.Sent))
	default:
		say("The intent to send was recorded at %s, before the first byte of the work.", wall(*a.Sent))
	}
	switch a.Handed {
	case coord.HandedAll:
		say("The whole work was handed over to the agent's connection.")
	case coord.HandedNothing, coord.HandedUnknown:
	}
	if r := a.Receipt; r != nil {
		say("The agent showed at %s that it had the work (%s %s).", wall(r.At), r.Kind, r.Reference)
	}
	if c := a.Cancel; c.At != nil {
		say("A stop was asked for at %s (%s); it is %s.", wall(*c.At), c.Cause, cancelWords(c.State))
	}
	if s := a.Statement; s != nil {
		say("There is a statement of %d bytes by the %s. It is a claim, not a proof.", s.Bytes, s.By)
	}
	if used := a.Usage.String(); used != "" {
		say("It used %s.", used)
	}
	if a.State == coord.AttemptUnknown && a.Activity == coord.Ended {
		say("Nothing of it runs on this machine any more: its processes are proven gone.")
	}
	if a.Ended != nil {
		say("It ended as %s at %s.", a.State, wall(*a.Ended))
	}
	if a.Reconciled {
		say("Its outcome was unknown for a time and was found out later.")
	}
	if a.Late > 0 {
		say("%d messages of the agent came after that end. They are kept apart and change nothing.", a.Late)
	}
	if r := a.Resolution; r != nil {
		say("The operator resolved it as %s at %s. That is a statement, not an observation.", r.How, wall(r.At))
	}
	return out
}

func cancelWords(s coord.CancelState) string {
	switch s {
	case coord.CancelNone:
		return "not asked for"
	case coord.CancelRequested:
		return "not confirmed yet"
	case coord.CancelConfirmed:
		return "confirmed"
	case coord.CancelUnsupported:
		return "not supported by the agent"
	case coord.CancelOvertaken:
		return "overtaken: another end came first"
	case coord.CancelUnknown:
		return "unknown: nobody confirmed it"
	}
	return string(s)
}

// notKnown gives what nobody can tell.
func notKnown(a coord.Attempt) []string {
	out := []string{}
	say := func(s string) { out = append(out, s) }
	if a.State == coord.AttemptUnknown {
		say("How the work ended, or whether it did.")
		if a.Handed != coord.HandedAll && a.Receipt == nil {
			say("Whether the agent got the work at all.")
		} else if a.Receipt == nil {
			say("Whether the agent began with the work: it never showed that it had it.")
		}
		if a.Activity == coord.MayRun {
			if a.Resolution == nil {
				say("Whether it still runs. Until that is proven or resolved, its agent and its workspace stay taken.")
			} else {
				say("Whether it still runs.")
			}
		}
		say("What it changed outside Signalbox before it was lost.")
		return out
	}
	if a.Live() && a.Sent != nil && a.Receipt == nil {
		say("Whether the agent has the work: nothing came back yet.")
	}
	if a.Cancel.State == coord.CancelRequested {
		say("Whether it stops: the agent did not confirm yet.")
	}
	if coord.Attempts.Final(a.State) && a.MaySend() {
		say("Whether what the agent says about its own work is true: Signalbox did not see that work.")
	}
	return out
}

// why gives one sentence about the state.
func why(a coord.Attempt) string {
	var s string
	switch a.State {
	case coord.AttemptQueued:
		s = "It waits to be prepared."
	case coord.AttemptPreparing:
		s = "The agent is being started; nothing of the work was sent yet."
	case coord.AttemptSending:
		s = "The work is being handed over."
	case coord.AttemptAccepted:
		s = "The agent has the work."
	case coord.AttemptWorking:
		s = "The agent works."
	case coord.AttemptWaiting:
		s = "The agent waits for the operator."
	case coord.AttemptCompleted:
		s = "The agent said that it is done."
	case coord.AttemptFailed:
		s = "The agent, or the connection to it, said that it failed."
	case coord.AttemptRejected:
		s = "The agent refused the work."
	case coord.AttemptCancelled:
		s = "It was stopped, and the stop is certain."
	case coord.AttemptNotSent:
		s = "The work was never sent."
	case coord.AttemptUnknown:
		s = "The work may have been sent, and how it ended is not proven, so it is not sent again."
	}
	if a.Reason != "" {
		s += " Recorded reason: " + strings.TrimSuffix(a.Reason, ".") + "."
	}
	return s
}

// aboutRequest gives the three facts of a request.
func aboutRequest(r coord.Request) string {
	return fmt.Sprintf("Request r%d (%s): decision %s, effect %s, delivery %s.", r.Number, r.Kind, r.Decision, r.Effect, r.Delivery)
}

// nextSteps gives what a person can do now.
func nextSteps(name string, job coord.Job, a coord.Attempt, requests []coord.Request) []string {
	out := []string{}
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case a.State == coord.AttemptUnknown && a.Resolution == nil:
		say("signalbox attempt reconcile %s: ask the agent's side again; it never sends work.", name)
		say("signalbox attempt adopt %s: you saw that the work is done.", name)
		say("signalbox attempt never-ran %s --reason TEXT: you can say how it is known that the work never ran.", name)
		say("signalbox attempt abandon %s: give the task up.", name)
		if a.Activity == coord.MayRun {
			out = append([]string{"Look first whether the agent still works, and end it there if it must not go on."}, out...)
		}
	case a.Live():
		for _, r := range requests {
			if r.Decision == coord.DecisionOpen {
				say("signalbox request show r%d: the agent waits for your decision.", r.Number)
			}
		}
		if a.Cancel.State == coord.CancelNone {
			say("signalbox job wait %d: follow it; signalbox job cancel %d: ask it to stop.", job.Number, job.Number)
		} else {
			say("Wait: the agent has %s of waking time to confirm the stop.", coord.CancelWindow)
		}
	case !coord.Jobs.Final(job.State):
		say("signalbox job show %d: the rest of its job goes on.", job.Number)
	case job.State == coord.JobCompleted:
		say("signalbox job result %d: read the result.", job.Number)
	default:
		say("signalbox job retry %d: draft what did not complete as a new job.", job.Number)
	}
	return out
}

func wall(m coord.Moment) string { return m.Wall.UTC().Format("2006-01-02 15:04:05Z") }
