package scheduler

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"signalbox/internal/artifact"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/redact"
	"signalbox/internal/scheduler/workbench"
	"signalbox/internal/workspace"
)

// Store keeps bytes by their hash, durably before Put returns.
type Store interface {
	Put(ctx context.Context, r io.Reader, limit int64) (artifact.Ref, error)
	Open(sha256 string) (io.ReadCloser, int64, error)
}

// Children ends what older owners of the journal left running.
type Children interface {
	Sweep(ctx context.Context, ids []process.Identity) error
}

// Certifier says which operations beyond its inspection an agent may be given
// now, and why not the others; testing, for the files of tests that a task is
// granted.
type Certifier interface {
	Certified(ctx context.Context, a coord.Agent, tests []string) ([]coord.Operation, map[coord.Operation]string)
}

// Options are what a Scheduler needs. Children may be nil where no route starts
// processes.
type Options struct {
	Journal  *journal.Journal
	Adapters map[coord.Route]provider.Adapter
	Store    Store
	Quota    *artifact.Quota
	Children Children
	// Contents keeps what agents write, and Tester runs tests. Without Contents
	// no task works in a workspace, without a Tester none runs tests.
	Contents workspace.Store
	Tester   workbench.Tester
	// Certifier says whether an agent may still write and test. Without one
	// none may.
	Certifier Certifier
	Redactor  *redact.Redactor
	// Host is this machine's name in leases.
	Host string
	// Scratch is the folder in which each attempt without a workspace gets an
	// empty one of its own.
	Scratch string
	Logger  *slog.Logger
}

// Scheduler carries jobs out. Run does the work; everything else may be called
// at any time.
type Scheduler struct {
	Options
	poke chan struct{}
	tick time.Duration

	mu       sync.Mutex
	owners   map[coord.AttemptID]*owner
	busy     map[coord.RequestID]bool
	unproven map[coord.AttemptID]bool // sessions that could not be ended
	landing  bool                     // a change set is landing now
	draining bool
	// open: Run follows what others admit, and no task waits for room before
	// theirs. admissions counts those under way.
	open       bool
	admissions int
	idle       chan struct{} // closed when nothing runs while draining
	work       sync.WaitGroup
}

// New makes a Scheduler.
func New(o Options) *Scheduler {
	return &Scheduler{
		Options: o, poke: make(chan struct{}, 1), tick: clockTick, idle: make(chan struct{}),
		owners: map[coord.AttemptID]*owner{}, busy: map[coord.RequestID]bool{}, unproven: map[coord.AttemptID]bool{},
	}
}

// Errors by which the endings of an attempt's context are told apart.
var (
	errOver     = errors.New("the attempt is over")
	errGiveUp   = errors.New("the wait for the provider is over")
	errTextWait = errors.New("text waits to be committed")
)

// clockTick is how often the clock is looked at while Run waits: timers stand still
// while the machine sleeps, deadlines do not.
const clockTick = time.Second

// Run schedules until ctx ends. It then lets nothing more be admitted, cancels what
// could not be followed later, and returns when every attempt is settled; that takes
// the cancel window at most, and what a provider needs to be ended.
func (s *Scheduler) Run(ctx context.Context) error {
	defer s.work.Wait()
	defer s.setOpen(false)
	// What is under way, and what an earlier worker left, is ended by the state
	// machine, not by the context: a stop is never a failure, even one that comes
	// before the first look.
	doing := context.WithoutCancel(ctx)
	if err := errors.Join(s.sweep(doing), s.carryOver(doing)); err != nil {
		return err
	}
	var agenda journal.Agenda
	for {
		seen := s.Journal.Head()
		stopping := ctx.Err() != nil
		if stopping {
			s.setOpen(false)
		}
		st, err := s.load(doing, &agenda, stopping)
		if err != nil {
			return err
		}
		s.setOpen(!stopping && !st.queued())
		now := s.Journal.Now()
		actions, wake := evaluate(st, now)
		progressed := false
		for _, a := range actions {
			did, err := s.apply(doing, a)
			if err != nil {
				return err
			}
			progressed = progressed || did
		}
		if progressed {
			continue
		}
		if s.settled(st) && stopping {
			return nil
		}
		// A stop that came since the state was loaded is not yet decided upon.
		var stop <-chan struct{}
		if !stopping {
			stop = ctx.Done()
		}
		if !s.wait(stop, seen, now, wake) {
			return s.Journal.Err()
		}
	}
}

// setOpen says whether others may admit.
func (s *Scheduler) setOpen(open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = open
}

// settled reports whether nothing runs that this process answers for, and
// tells those who wait until nothing runs at all.
func (s *Scheduler) settled(st state) bool {
	settled, idle := !st.admissions, !st.admissions
	for _, a := range st.attempts {
		if a.Live() {
			idle = false
			settled = settled && a.Route.Askable()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.draining && idle {
		select {
		case <-s.idle:
		default:
			close(s.idle)
		}
	}
	return settled
}

// wait returns when the journal moved beyond seen, someone poked, stop ended, or
// wake has passed since now; false when the journal failed.
func (s *Scheduler) wait(stop <-chan struct{}, seen int64, now coord.Moment, wake time.Duration) bool {
	timer := time.NewTimer(min(max(wake, time.Millisecond), s.tick))
	defer timer.Stop()
	for {
		select {
		case <-s.Journal.Changed(seen):
			// The head is read first: what moves between the two is not missed.
			if head := s.Journal.Head(); s.Journal.Moved() <= seen {
				seen = head
				continue
			}
		case <-s.poke:
		case <-timer.C:
			// Timers stand still while the machine sleeps, so the clock is asked.
			if left := wake - s.Journal.Now().Since(now); left > 0 {
				timer.Reset(min(max(left, time.Millisecond), s.tick))
				continue
			}
		case <-stop:
		case <-s.Journal.Failed():
			return false
		}
		return true
	}
}

// nudge makes Run look again.
func (s *Scheduler) nudge() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// load reads all that evaluate needs, by way of what was read before.
func (s *Scheduler) load(ctx context.Context, agenda *journal.Agenda, stopping bool) (state, error) {
	// The owners are read before the journal: an owner that leaves in between
	// has committed how its attempt ended. One that comes in between is missing
	// here, so who acts upon that looks again in the commit.
	st := s.here()
	st.stopping = stopping
	err := s.Journal.View(ctx, func(v *journal.View) error { return agenda.Read(v) })
	if err != nil {
		return st, err
	}
	st.jobs, st.tasks, st.attempts, st.requests, st.changes = agenda.Jobs, agenda.Tasks, agenda.Attempts, agenda.Requests, agenda.ChangeSets
	st.hold(agenda.Paused, agenda.Leases)
	return st, nil
}

// here is the part of the state that this process knows without the journal's
// rows.
func (s *Scheduler) here() state {
	st := state{
		owned: map[coord.AttemptID]ownership{}, busy: map[coord.RequestID]bool{}, unproven: map[coord.AttemptID]bool{},
		held: map[string]int{}, host: s.Host,
	}
	if free, err := s.Journal.Free(); err != nil || free < coord.MinFreeSpace {
		st.lowDisk = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, o := range s.owners {
		st.owned[id] = ownership{o.phase(), o.agent}
	}
	for id := range s.busy {
		st.busy[id] = true
	}
	for id := range s.unproven {
		st.unproven[id] = true
	}
	st.draining, st.landing, st.admissions = s.draining, s.landing, s.admissions > 0
	return st
}

// queued reports whether a task waits to be admitted.
func (st *state) queued() bool {
	for _, tasks := range st.tasks {
		if slices.ContainsFunc(tasks, func(t coord.Task) bool { return t.State == coord.TaskReady }) {
			return true
		}
	}
	return false
}

// hold adds what keeps tasks from being admitted.
func (st *state) hold(paused bool, leases []journal.Lease) {
	st.closed = paused || st.draining
	for _, l := range leases {
		st.held[l.Name]++
	}
}

// SetPaused stops or opens the admission of tasks; what runs goes on.
func (s *Scheduler) SetPaused(ctx context.Context, paused bool, by coord.Actor) error {
	return s.Journal.Update(ctx, func(tx *journal.Tx) error { return tx.SetPaused(paused, by) })
}

// Drain admits nothing more, for the life of this process. The channel is
// closed when nothing runs any more.
func (s *Scheduler) Drain() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.nudge()
	return s.idle
}

// Status is how things stand.
type Status struct {
	Jobs     int  `json:"jobs" doc:"Jobs that run or need attention"`
	Blocked  int  `json:"blocked"`
	Ready    int  `json:"ready"`
	Running  int  `json:"running"`
	Waiting  int  `json:"waiting" doc:"Tasks that wait for the operator"`
	Unknown  int  `json:"unknown" doc:"Tasks whose outcome is not known and not resolved"`
	Requests int  `json:"requests" doc:"Requests that wait for a decision"`
	Paused   bool `json:"paused"`
	Draining bool `json:"draining"`
	// LowDisk: less than coord.MinFreeSpace is free, so nothing is dispatched.
	LowDisk bool   `json:"low_disk"`
	Free    uint64 `json:"free_bytes"`
}

// Status counts what is open.
func (s *Scheduler) Status(ctx context.Context) (Status, error) {
	var out Status
	var agenda journal.Agenda
	st, err := s.load(ctx, &agenda, false)
	if err != nil {
		return out, err
	}
	out.Jobs, out.Paused = len(st.jobs), agenda.Paused
	for _, tasks := range st.tasks {
		for _, t := range tasks {
			switch t.State {
			case coord.TaskBlocked:
				out.Blocked++
			case coord.TaskReady:
				out.Ready++
			case coord.TaskRunning:
				out.Running++
			case coord.TaskWaiting:
				out.Waiting++
			case coord.TaskUnknown:
				out.Unknown++
			case coord.TaskCompleted, coord.TaskFailed, coord.TaskCancelled, coord.TaskSkipped:
			}
		}
	}
	for _, r := range st.requests {
		if r.Decision == coord.DecisionOpen {
			out.Requests++
		}
	}
	s.mu.Lock()
	out.Draining = s.draining
	s.mu.Unlock()
	if out.Free, err = s.Journal.Free(); err != nil {
		return out, err
	}
	out.LowDisk = out.Free < coord.MinFreeSpace
	return out, nil
}
