package scheduler

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"testing/synctest"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// seen is what the model test has seen of a world at its last look. A look
// reads what events told of since, and everything that is open; at the end
// everything is read once more, and must be what was seen.
type seen struct {
	head     int64
	sent     map[coord.AttemptID]int
	sends    int
	jobs     map[coord.JobID]coord.JobState
	attempts map[coord.AttemptID]coord.Attempt
	tries    map[coord.TaskID][]coord.AttemptID
	// open are the attempts that are live, or unknown and unresolved, in the
	// order in which they came.
	open      []coord.Attempt
	requested map[coord.RequestID]coord.Request
	asks      map[coord.AttemptID][]coord.RequestID
	asked     []coord.RequestID // in the order in which they came
}

func newSeen() seen {
	return seen{sent: map[coord.AttemptID]int{}, jobs: map[coord.JobID]coord.JobState{}, attempts: map[coord.AttemptID]coord.Attempt{},
		tries: map[coord.TaskID][]coord.AttemptID{}, requested: map[coord.RequestID]coord.Request{}, asks: map[coord.AttemptID][]coord.RequestID{}}
}

// changed are the rows that events named.
type changed struct {
	jobs     map[coord.JobID]bool
	attempts map[coord.AttemptID]bool
	requests map[coord.RequestID]bool
}

// check holds what changed since the last look, and what is open, against what
// is promised.
func (m *model) check() {
	synctest.Wait()
	sent := m.fake.Sent()
	if m.journal.Head() == m.head && len(sent) == m.sends {
		return
	}
	c := changed{map[coord.JobID]bool{}, map[coord.AttemptID]bool{}, map[coord.RequestID]bool{}}
	for _, s := range sent[m.sends:] {
		m.sent[s.Attempt]++
		c.attempts[s.Attempt] = true
	}
	m.sends = len(sent)
	m.view(func(v *journal.View) error {
		if err := m.eventsHold(v, c); err != nil {
			return err
		}
		for id := range c.jobs {
			if err := m.jobHolds(v, id); err != nil {
				return err
			}
		}
		for _, id := range slices.Sorted(maps.Keys(c.attempts)) {
			a, err := v.Attempt(coord.AttemptRef{ID: id})
			if err != nil {
				return err
			}
			m.attemptHolds(a)
			for _, r := range m.asks[id] {
				c.requests[r] = true
			}
		}
		for _, id := range slices.Sorted(maps.Keys(c.requests)) {
			r, err := v.Request(coord.RequestRef{ID: id})
			if err != nil {
				return err
			}
			m.requestHolds(r)
		}
		return m.leasesHold(v)
	})
}

// eventsHold checks that the sequence grows without a gap, and gathers what the
// events name.
func (m *model) eventsHold(v *journal.View, c changed) error {
	for {
		page, err := v.Events(m.head, journal.EventFilter{}, 500)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, e := range page {
			if e.Seq != m.head+1 {
				m.t.Fatalf("event %d comes after %d", e.Seq, m.head)
			}
			m.head = e.Seq
			if e.Job != "" {
				c.jobs[e.Job] = true
			}
			if e.Attempt != "" {
				c.attempts[e.Attempt] = true
			}
			if e.Request != "" {
				c.requests[e.Request] = true
			}
		}
	}
}

// jobHolds checks a job against its tasks.
func (m *model) jobHolds(v *journal.View, id coord.JobID) error {
	j, err := v.JobHead(coord.JobRef{ID: id})
	if err != nil {
		return err
	}
	tasks, err := v.Tasks(id)
	if err != nil {
		return err
	}
	m.jobs[id] = j.State
	if on := j.Follow(tasks); on != "" {
		m.t.Fatalf("job %d is %s and its tasks say %s", j.Number, j.State, on)
	}
	return nil
}

// leasesHold checks that what may run holds its leases, and nothing else does.
func (m *model) leasesHold(v *journal.View) error {
	leases, err := v.Leases()
	if err != nil {
		return err
	}
	running, holders, agents := 0, map[coord.AttemptID]coord.Attempt{}, map[coord.AgentID]coord.AttemptID{}
	for _, a := range m.open {
		if a.Live() {
			running++
			m.leased(leases, "run", a.ID)
		}
		if !a.HoldsLeases() {
			continue
		}
		holders[a.ID] = a
		if other, taken := agents[a.Agent]; taken {
			m.t.Fatalf("agent %s works for %s and %s", a.Agent, other, a.ID)
		}
		agents[a.Agent] = a.ID
		m.leased(leases, "agent:"+string(a.Agent), a.ID)
	}
	if running > coord.MaxRunning {
		m.t.Fatalf("%d attempts are live", running)
	}
	for _, l := range leases {
		if a, holds := holders[l.Holder]; !holds || l.Name == "run" && !a.Live() {
			m.t.Fatalf("%s keeps the lease %s and is not on its way", l.Holder, l.Name)
		}
	}
	return nil
}

func (m *model) leased(leases []journal.Lease, name string, holder coord.AttemptID) {
	if !slices.ContainsFunc(leases, func(l journal.Lease) bool { return l.Name == name && l.Holder == holder }) {
		m.t.Fatalf("%s may run and does not hold %s", holder, name)
	}
}

// attemptHolds checks one attempt against what was seen of it before.
func (m *model) attemptHolds(a coord.Attempt) {
	before, known := m.attempts[a.ID]
	if !known {
		m.tries[a.Task] = append(m.tries[a.Task], a.ID)
	}
	m.attempts[a.ID] = a
	sent := m.sent[a.ID]
	switch {
	case sent > 1:
		m.t.Fatalf("attempt %s was sent %d times", a.ID, sent)
	case sent == 1 && a.Sent == nil:
		m.t.Fatalf("attempt %s was sent without a durable intent", a.ID)
	case sent == 0 && a.Receipt != nil:
		m.t.Fatalf("attempt %s has a receipt for nothing", a.ID)
	case a.State == coord.AttemptCancelled && a.Cancel.State != coord.CancelConfirmed && a.Cancel.State != coord.CancelNone:
		m.t.Fatalf("attempt %s is cancelled and its cancellation %s", a.ID, a.Cancel.State)
	case a.Cancel.State == coord.CancelConfirmed && sent == 1 && a.State == coord.AttemptCancelled && m.fake.Cancelled(a.ID) == 0 && !a.Reconciled:
		m.t.Fatalf("attempt %s is confirmed as cancelled and its agent was never asked", a.ID)
	case before.Receipt != nil && (a.Receipt == nil || *a.Receipt != *before.Receipt):
		m.t.Fatalf("the receipt of %s changed", a.ID)
	case known && coord.Attempts.Final(before.State) && a.State != before.State:
		m.t.Fatalf("attempt %s ended as %s and is now %s", a.ID, before.State, a.State)
	}
	m.open = slices.DeleteFunc(m.open, func(o coord.Attempt) bool { return o.ID == a.ID })
	if a.Live() || a.State == coord.AttemptUnknown && a.Resolution == nil {
		m.open = append(m.open, a)
		slices.SortFunc(m.open, func(a, b coord.Attempt) int { return cmp.Compare(a.ID, b.ID) })
	}
	ran := 0
	for _, id := range m.tries[a.Task] {
		if m.sent[id] > 0 && m.attempts[id].State != coord.AttemptNotSent {
			ran++
		}
	}
	if ran > 1 {
		m.t.Fatalf("task %s was sent by %d attempts", a.Task, ran)
	}
	if a.State != before.State {
		m.done.saw(attemptIs + string(a.State))
	}
	if a.Cancel.State != before.Cancel.State {
		m.done.saw(stopIs + string(a.Cancel.State))
		m.done.saw(stopIsFor + string(a.Cancel.Cause))
	}
	if known && a.Live() && a.Generation != before.Generation {
		m.done.saw(attemptFollows)
	}
}

// requestHolds checks one request against its attempt and what was seen before.
func (m *model) requestHolds(r coord.Request) {
	before, known := m.requested[r.ID]
	if !known {
		m.asks[r.Attempt] = append(m.asks[r.Attempt], r.ID)
		m.asked = append(m.asked, r.ID)
	}
	m.requested[r.ID] = r
	a := m.attempts[r.Attempt]
	if r.Decision == coord.DecisionOpen && (a.State != coord.AttemptWaiting || a.Cancel.State != coord.CancelNone) {
		m.t.Fatalf("r%d is open, its attempt is %s and its cancellation %s", r.Number, a.State, a.Cancel.State)
	}
	if d := before.Decided; d != nil && (r.Decided == nil || r.Decided.At != d.At || r.Decided.Option != d.Option || r.Decision != before.Decision) {
		m.t.Fatalf("the decision of r%d changed", r.Number)
	}
	if r.Decision != before.Decision {
		m.done.saw(requestIs + string(r.Decision))
	}
	if r.Delivery != before.Delivery {
		m.done.saw(deliveryIs + string(r.Delivery))
	}
	m.effectHolds(before, r)
	if r.Decision == coord.DecisionApproved {
		return
	}
	for _, got := range m.fake.Answered(r.Attempt) {
		if `"`+got.Name+`"` == r.Origin.Request && got.Option == "yes" {
			m.t.Fatalf("r%d is %s and the agent was told yes", r.Number, r.Decision)
		}
	}
}

// allHolds reads everything once more: an event told of each change, so it is
// what was seen.
func (m *model) allHolds() {
	attempts, requests := map[coord.AttemptID]coord.Attempt{}, map[coord.RequestID]coord.Request{}
	m.view(func(v *journal.View) error {
		jobs, err := v.Jobs(0, 1000)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if err := m.jobHolds(v, j.ID); err != nil {
				return err
			}
			of, err := v.Attempts(j.ID)
			if err != nil {
				return err
			}
			for _, a := range of {
				attempts[a.ID] = a
			}
			asked, err := v.JobRequests(j.ID)
			if err != nil {
				return err
			}
			for _, r := range asked {
				requests[r.ID] = r
			}
		}
		return nil
	})
	if !reflect.DeepEqual(m.requested, requests) {
		m.t.Fatalf("a request changed and no event told of it:\n%v\n%v", m.requested, requests)
	}
	if !reflect.DeepEqual(m.attempts, attempts) {
		m.t.Fatalf("an attempt changed and no event told of it:\n%v\n%v", m.attempts, attempts)
	}
	for _, r := range requests {
		m.requestHolds(r)
	}
}
