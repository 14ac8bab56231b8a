package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"signalbox/internal/coord"
)

// state is all that a decision depends on.
type state struct {
	jobs     []coord.Job // open, by number
	tasks    map[coord.JobID][]coord.Task
	attempts []coord.Attempt   // live, or unknown and unresolved
	requests []coord.Request   // open, or with an effect or a delivery that is not over
	changes  []coord.ChangeSet // open, approved or landing
	owned    map[coord.AttemptID]ownership
	busy     map[coord.RequestID]bool // being delivered or carried out now
	// unproven are attempts whose session could not be ended: something of them
	// may run until the next start ends it.
	unproven map[coord.AttemptID]bool
	landing  bool           // a change set is landing now
	held     map[string]int // leases taken, by name
	host     string
	// closed: nothing new is admitted, because the operator paused or drains.
	closed bool
	// draining: the operator drains, and waits until nothing runs.
	draining bool
	// admissions: the first tasks of a job are just being admitted with its
	// approval. jobs and attempts may not show them yet.
	admissions bool
	// lowDisk: nothing new is admitted until there is space again.
	lowDisk bool
	// stopping: the process is to end; attempts that cannot be asked for later
	// are cancelled.
	stopping bool
}

// ownership is an attempt that this process follows.
type ownership struct {
	phase phase
	agent coord.AgentID
}

// phase is how far the owner of an attempt is.
type phase int

const (
	admitting phase = iota + 1 // the attempt is not committed yet
	preparing
	following
	stopped // the provider was asked to stop
)

// actions, each carried out by apply.
type (
	// admit gives a ready task an attempt.
	admit struct{ task coord.Task }
	// move changes a task that no attempt changes.
	move struct {
		task   coord.TaskID
		on     coord.TaskEvent
		reason string
	}
	// lose settles an attempt that nobody follows.
	lose struct{ attempt coord.Attempt }
	// reattach follows an attempt of an earlier owner on an askable route.
	reattach struct{ attempt coord.Attempt }
	// proveEnded notes that nothing of an unknown attempt can still run.
	proveEnded struct{ attempt coord.AttemptID }
	// cancel asks for the end of an attempt by Signalbox's own rules.
	cancel struct {
		attempt coord.AttemptID
		cause   coord.CancelCause
	}
	// stop brings a cancellation to the provider.
	stop struct{ attempt coord.AttemptID }
	// giveUp ends the wait for a confirmation.
	giveUp struct{ attempt coord.AttemptID }
	// dismiss tells an owner that its attempt is over.
	dismiss struct{ attempt coord.AttemptID }
	// deliver brings an answer to the provider.
	deliver struct{ request coord.Request }
	// perform carries out what was approved.
	perform struct{ request coord.Request }
	// examine finds out how far an effect got that an earlier process began.
	examine struct{ request coord.Request }
	// land lands an approved change set, or goes on with one that an earlier
	// process began to land.
	land struct{ changes coord.ChangeSet }
)

type action interface{ act() }

func (admit) act()      {}
func (move) act()       {}
func (lose) act()       {}
func (reattach) act()   {}
func (proveEnded) act() {}
func (cancel) act()     {}
func (stop) act()       {}
func (giveUp) act()     {}
func (dismiss) act()    {}
func (deliver) act()    {}
func (perform) act()    {}
func (examine) act()    {}
func (land) act()       {}

// forever is longer than any wait; evaluate gives it when only a change of the
// journal can make a difference.
const forever = 24 * time.Hour

// again is how long a task waits for its next attempt after n that sent
// nothing.
func again(n int) time.Duration { return time.Second << (2 * (n - 1)) }

// evaluate decides what is to be done at now, and when to look again if nothing
// changes before.
func evaluate(s state, now coord.Moment) ([]action, time.Duration) {
	e := evaluation{state: s, now: now, wake: forever, live: map[coord.AttemptID]bool{}}
	// First what an earlier process began: when its attempt is told to be lost,
	// it is known what became of that.
	for _, r := range s.requests {
		if r.Effect == coord.EffectApplying && !s.busy[r.ID] {
			e.do(examine{r})
		}
	}
	for _, a := range s.attempts {
		e.attempt(a)
	}
	for _, id := range slices.Sorted(maps.Keys(s.owned)) {
		// Owners of what is over leave by themselves, but for those that still
		// prepare, and those that follow an unknown.
		if !e.live[id] && (s.owned[id].phase == preparing || s.stopping) {
			e.do(dismiss{id})
		}
	}
	for _, r := range s.requests {
		e.request(r)
	}
	e.landings()
	free := e.free()
	for _, j := range s.jobs {
		e.job(j, free)
	}
	return e.actions, e.wake
}

// admissible are the tasks of a job that can be admitted now.
func admissible(s state, j coord.Job, now coord.Moment) []coord.Task {
	e := evaluation{state: s, now: now, wake: forever}
	e.job(j, e.free())
	var out []coord.Task
	for _, a := range e.actions {
		if a, ok := a.(admit); ok {
			out = append(out, a.task)
		}
	}
	return out
}

type evaluation struct {
	state
	now     coord.Moment
	actions []action
	wake    time.Duration
	live    map[coord.AttemptID]bool
}

func (e *evaluation) do(a action) { e.actions = append(e.actions, a) }

// in asks to look again after d.
func (e *evaluation) in(d time.Duration) { e.wake = min(e.wake, max(d, 0)) }

func (e *evaluation) attempt(a coord.Attempt) {
	owner, owned := e.owned[a.ID]
	if a.Live() {
		e.live[a.ID] = true
	}
	switch {
	case !owned && a.Live() && a.Route.Askable() && a.Receipt != nil && !e.stopping:
		e.do(reattach{a})
		return
	case !owned && a.Live():
		e.do(lose{a})
		return
	case !owned && a.Activity == coord.MayRun && !a.Route.Askable() && !e.unproven[a.ID]:
		// The trees of older owners were ended before the first evaluation, and
		// an owner of this one ends its own before it leaves, or says that it
		// could not.
		e.do(proveEnded{a.ID})
		return
	case !a.Live():
		return
	}
	if e.stopping && a.Route.Askable() {
		// It can be asked for after the next start.
		e.do(dismiss{a.ID})
		return
	}
	left := forever
	if j := e.jobOf(a.Job); j != nil {
		left = j.Left(e.now)
	}
	switch a.Cancel.State {
	case coord.CancelNone:
		switch {
		case e.stopping:
			e.do(cancel{a.ID, coord.CauseShutdown})
		case left <= 0:
			e.do(cancel{a.ID, coord.CauseDeadline})
		default:
			e.in(left)
		}
	case coord.CancelRequested:
		if owner.phase == following {
			e.do(stop{a.ID})
		}
		if left := coord.CancelWindow - e.now.AwakeSince(*a.Cancel.At); left <= 0 {
			e.do(giveUp{a.ID})
		} else {
			e.in(left)
		}
	case coord.CancelConfirmed, coord.CancelUnsupported, coord.CancelOvertaken, coord.CancelUnknown:
		// It was asked to stop in vain, and was heard of again since.
		if e.stopping || left <= 0 {
			e.do(giveUp{a.ID})
		} else {
			e.in(left)
		}
	}
}

func (e *evaluation) request(r coord.Request) {
	heard := e.live[r.Attempt] && e.owned[r.Attempt].phase == following
	switch {
	case e.busy[r.ID] || r.Effect == coord.EffectApplying:
	case heard && r.Undone():
		e.do(perform{r})
	case heard && r.Undelivered():
		e.do(deliver{r})
	}
}

// landings lands one change set at a time, those that were begun first.
func (e *evaluation) landings() {
	if e.landing || e.stopping || e.lowDisk {
		return
	}
	for _, state := range []coord.ChangeSetState{coord.ChangeSetLanding, coord.ChangeSetApproved} {
		for _, c := range e.changes {
			if c.State == state {
				e.do(land{c})
				return
			}
		}
	}
}

func (e *evaluation) jobOf(id coord.JobID) *coord.Job {
	for i := range e.jobs {
		if e.jobs[i].ID == id {
			return &e.jobs[i]
		}
	}
	return nil
}

// slots are what attempts can still take in this turn.
type slots struct {
	run    int
	agents map[coord.AgentID]bool // taken
	writer bool                   // taken
}

func (e *evaluation) free() *slots {
	f := &slots{run: coord.MaxRunning - e.held["run"], agents: map[coord.AgentID]bool{}, writer: e.held["writer:"+e.host] > 0}
	for name := range e.held {
		if id, ok := strings.CutPrefix(name, "agent:"); ok {
			f.agents[coord.AgentID(id)] = true
		}
	}
	// An attempt that is over may still have its process: one at a time.
	for _, o := range e.owned {
		f.agents[o.agent] = true
	}
	return f
}

// diskWait is how often the disk is looked at again while it is too full.
const diskWait = 5 * time.Second

func (e *evaluation) job(j coord.Job, free *slots) {
	tasks := e.tasks[j.ID]
	byKey := map[string]coord.Task{}
	for _, t := range tasks {
		byKey[t.Key] = t
	}
	left := j.Left(e.now)
	for _, t := range tasks {
		undispatched := t.State == coord.TaskBlocked || t.State == coord.TaskReady
		switch {
		case undispatched && left <= 0:
			e.do(move{t.ID, coord.TaskSkip, "the deadline passed"})
		case t.State == coord.TaskBlocked:
			e.blocked(t, byKey)
		case t.State == coord.TaskReady:
			e.ready(t, free)
		}
		if undispatched {
			e.in(left)
		}
	}
}

// blocked moves a task whose needs are all over.
func (e *evaluation) blocked(t coord.Task, byKey map[string]coord.Task) {
	completed := true
	for _, key := range t.Needs {
		switch need := byKey[key]; need.State {
		case coord.TaskCompleted:
		case coord.TaskFailed, coord.TaskSkipped:
			e.do(move{t.ID, coord.TaskSkip, fmt.Sprintf("it needs %s, which is %s", key, need.State)})
			return
		case coord.TaskCancelled:
			// Not skipped, which would make a cancelled job a failed one.
			e.do(move{t.ID, coord.TaskCancel, fmt.Sprintf("it needs %s, which is cancelled", key)})
			return
		default:
			completed = false
		}
	}
	if completed {
		e.do(move{t.ID, coord.TaskUnblock, ""})
	}
}

func (e *evaluation) ready(t coord.Task, free *slots) {
	if e.lowDisk {
		e.in(diskWait)
	}
	if e.closed || e.lowDisk || e.stopping {
		return
	}
	if t.Attempts > 0 {
		if wait := again(t.Attempts) - e.now.Since(t.Changed); wait > 0 {
			e.in(wait)
			return
		}
	}
	if free.run <= 0 || free.agents[t.Agent] || t.Writes && free.writer {
		return
	}
	free.run--
	free.agents[t.Agent] = true
	free.writer = free.writer || t.Writes
	e.do(admit{t})
}
