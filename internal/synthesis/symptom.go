package synthesis

import (
	"fmt"
	"slices"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// agentLease is how the lease of an attempt's agent is named.
func agentLease(a coord.Attempt) string { return "agent:" + string(a.Agent) }

// runLease is the lease of one of the slots of admission.
const runLease = "run"

// symptoms decides what is wrong with what the chart shows.
func (c *chart) symptoms() []symptom {
	var out []symptom
	out = append(out, c.requestSymptoms()...)
	out = append(out, c.leaseSymptoms()...)
	out = append(out, c.jobSymptoms()...)
	return append(out, c.attemptSymptoms()...)
}

func (c *chart) requestSymptoms() []symptom {
	var out []symptom
	for _, r := range c.requests {
		a, known := c.attempts[r.Attempt]
		if known && a.Live() {
			continue
		}
		out = append(out, symptom{
			Finding{RequestOrphan, Warning, fmt.Sprintf("request r%d", r.Number),
				"It waits for a decision or a delivery, and the attempt that asked is over or lost.",
				"'signalbox doctor --repair' withdraws it: nobody is there to take an answer.", true},
			func(tx *journal.Tx) error {
				return tx.PutRequest(r.Lose("the attempt that asked is over or lost", tx.Now()), nil)
			},
		})
	}
	return out
}

func (c *chart) leaseSymptoms() []symptom {
	var out []symptom
	for _, l := range c.leases {
		a, known := c.attempts[l.Holder]
		// An unknown attempt that may run keeps all but its slot.
		if known && a.HoldsLeases() && (a.Live() || l.Name != runLease) {
			continue
		}
		out = append(out, symptom{
			Finding{LeaseOrphan, Warning, "lease " + l.Name,
				fmt.Sprintf("It is held by attempt %s, which is over or does not exist, and keeps others waiting.", l.Holder),
				"'signalbox doctor --repair' frees it.", true},
			func(tx *journal.Tx) error { return tx.ReleaseOne(l.Name, l.Holder) },
		})
	}
	for _, a := range c.sorted() {
		held := slices.ContainsFunc(c.leases, func(l journal.Lease) bool { return l.Holder == a.ID && l.Name == agentLease(a) })
		if a.HoldsLeases() && !held {
			out = append(out, symptom{Finding: Finding{LeaseMissing, Fault, "attempt " + string(a.ID),
				"It may run and does not hold its agent, so another task could be given to the same agent.",
				"'signalbox pause', let what runs end, and report this with an export of its job.", false}})
		}
	}
	return out
}

func (c *chart) jobSymptoms() []symptom {
	var out []symptom
	for _, j := range c.jobs {
		for _, t := range c.tasks[j.ID] {
			a, known := c.attempts[t.Attempt]
			if !known {
				continue
			}
			on, reason := t.Follow(a)
			if on == "" {
				continue
			}
			out = append(out, symptom{
				Finding{TaskBehind, Warning, fmt.Sprintf("task %d/%s", j.Number, t.Key),
					fmt.Sprintf("It is %s and its attempt is %s.", t.State, a.State),
					"'signalbox doctor --repair' lets it follow its attempt.", true},
				func(tx *journal.Tx) error { return tx.MoveTask(t.ID, on, reason) },
			})
		}
		if on := j.Follow(c.tasks[j.ID]); on != "" {
			out = append(out, symptom{
				Finding{JobBehind, Warning, fmt.Sprintf("job %d", j.Number),
					fmt.Sprintf("It is %s, and the states of its tasks mean another state.", j.State),
					"'signalbox doctor --repair' lets it follow its tasks.", true},
				func(tx *journal.Tx) error {
					now, err := j.Apply(on, tx.Now())
					if err != nil {
						return err
					}
					return tx.PutJob(now, nil)
				},
			})
		}
		if left := j.Left(c.now); j.Started != nil && j.State == coord.JobRunning && left < -2*coord.CancelWindow {
			out = append(out, symptom{Finding: Finding{Overdue, Warning, fmt.Sprintf("job %d", j.Number),
				fmt.Sprintf("It still runs %s after its deadline.", (-left).Round(time.Second)),
				fmt.Sprintf("'signalbox job show %d' tells which task moves; restarting Signalbox evaluates it anew.", j.Number), false}})
		}
	}
	return out
}

func (c *chart) attemptSymptoms() []symptom {
	var out []symptom
	for _, a := range c.sorted() {
		subject := fmt.Sprintf("attempt %s of task %s", a.ID, a.Key)
		switch {
		case a.State == coord.AttemptUnknown && a.Resolution == nil:
			out = append(out, symptom{Finding: Finding{UnknownOutcome, Note, subject,
				"How it ended is not known. " + activityWords(a.Activity),
				fmt.Sprintf("'signalbox attempt show %s' says what is known; then reconcile or resolve it.", a.ID), false}})
		case a.Live() && a.Generation != c.generation && !a.Route.Askable():
			out = append(out, symptom{Finding: Finding{AttemptForeign, Warning, subject,
				"It belongs to an earlier worker, and this one neither follows it nor has given it up.",
				"Restart Signalbox: at its start it settles what earlier workers left.", false}})
		case a.State == coord.AttemptWaiting && a.Cancel.State == coord.CancelNone && !slices.ContainsFunc(c.requests, func(r coord.Request) bool { return r.Attempt == a.ID && r.Decision == coord.DecisionOpen }):
			out = append(out, symptom{Finding: Finding{WaitingForNothing, Warning, subject,
				"It waits for the operator, and no request of it is open.",
				"Cancel its task if it does not go on by itself.", false}})
		}
	}
	return out
}

func activityWords(s coord.ActivityState) string {
	if s == coord.Ended {
		return "Nothing of it runs any more."
	}
	return "It may still run, so its agent and workspace stay taken."
}

// sorted gives the attempts in the order in which they were made.
func (c *chart) sorted() []coord.Attempt {
	out := make([]coord.Attempt, 0, len(c.attempts))
	for _, a := range c.attempts {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b coord.Attempt) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out
}
