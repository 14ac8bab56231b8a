package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"signalbox/internal/artifact"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
	"signalbox/internal/redact"
	"signalbox/internal/scheduler/workbench"
	"signalbox/internal/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tb is what testing.T and rapid.T have in common, as far as it is used here.
type tb interface {
	Helper()
	Error(...any)
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
}

// world is a journal in memory, a machine's clock, and workers that come and
// go. It lives in a synctest bubble.
type world struct {
	t      tb
	memory *journal.Memory
	store  Store
	quota  *artifact.Quota
	fake   *providertest.Fake
	secret *redact.Redactor
	// scratch is the folder of the attempts' own folders.
	scratch string
	tick    time.Duration

	// The machine: where its clocks are beyond the bubble's. The worker reads
	// them while the test moves them.
	clocks sync.Mutex
	boot   string
	wall   time.Duration // jumps of the wall clock
	slept  time.Duration
	start  time.Time

	// What tasks with tools need; nil where no test has any.
	contents  workspace.Store
	tester    workbench.Tester
	certifier Certifier
	space     *coord.WorkspaceIdentity

	// scripts are those that the model test draws from.
	scripts []providertest.Script

	*worker
}

// worker is one life of the process that owns the journal.
type worker struct {
	journal   *journal.Journal
	scheduler *Scheduler
	stop      context.CancelCauseFunc
	done      chan struct{}
	err       error // how Run ended, once done is closed
}

var operator = coord.Actor{Credential: "crd_1", Name: "op", Role: coord.RoleOperator, Door: "api", Presence: "terminal"}

// live runs fn in a world with one worker that runs.
func live(t *testing.T, script func(provider.Work) providertest.Script, fn func(w *world)) {
	t.Helper()
	liveOn(t, coord.RouteACP, script, fn)
}

func liveOn(t *testing.T, route coord.Route, script func(provider.Work) providertest.Script, fn func(w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store, err := artifact.New(dir, redact.New().String)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, route, script)
		w.store, w.scratch = store, dir
		w.begin()
		fn(w)
		w.end()
		if err := w.memory.Close(); err != nil {
			t.Error(err)
		}
	})
}

func newWorld(t tb, route coord.Route, script func(provider.Work) providertest.Script) *world {
	memory, err := journal.NewMemory(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, memory: memory, fake: providertest.NewFake(route, script), secret: redact.New(), tick: clockTick, boot: "boot-1", start: time.Now()}
	w.quota = artifact.NewQuota(artifact.DefaultLimits(), 0, nil)
	return w
}

// now is the machine's clock.
func (w *world) now() coord.Moment {
	w.clocks.Lock()
	defer w.clocks.Unlock()
	awake := time.Since(w.start)
	return coord.Moment{Wall: time.Now().Add(w.wall + w.slept).UTC(), BootID: w.boot, Boot: awake + w.slept, Awake: awake}
}

// shift moves the machine's clocks.
func (w *world) shift(move func()) {
	w.clocks.Lock()
	defer w.clocks.Unlock()
	move()
}

// begin starts a worker.
func (w *world) begin() {
	w.t.Helper()
	w.beginUnder(context.Background())
}

// beginUnder starts a worker whose context ends with parent.
func (w *world) beginUnder(parent context.Context) {
	w.t.Helper()
	j, err := journal.Open(context.Background(), journal.Options{Memory: w.memory, Clock: w.now, Redact: w.secret.String, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(parent)
	s := New(Options{Journal: j, Adapters: map[coord.Route]provider.Adapter{w.fake.Route(): w.fake}, Store: w.store, Quota: w.quota,
		Redactor: w.secret, Host: "here", Scratch: w.scratch, Logger: slog.New(slog.DiscardHandler),
		Contents: w.contents, Tester: w.tester, Certifier: w.certifier})
	s.tick = w.tick
	w.worker = &worker{journal: j, scheduler: s, stop: stop, done: make(chan struct{})}
	go func(run *worker) {
		defer close(run.done)
		run.err = s.Run(ctx)
	}(w.worker)
	synctest.Wait()
}

// end stops the worker as SIGTERM does.
func (w *world) end() {
	w.t.Helper()
	w.stop(errOver)
	<-w.done
	if w.err != nil {
		w.t.Errorf("the scheduler ended with %v", w.err)
	}
	if err := w.journal.Close(); err != nil {
		w.t.Error(err)
	}
}

// crash ends the worker as SIGKILL does: nothing more is committed, and what it
// followed is dropped.
func (w *world) crash() {
	w.t.Helper()
	if err := w.journal.Close(); err != nil {
		w.t.Error(err)
	}
	w.stop(errOver)
	w.scheduler.mu.Lock()
	for _, o := range w.scheduler.owners {
		o.leave(errOver)
	}
	w.scheduler.mu.Unlock()
	<-w.done
}

// plan makes tasks of "key agent [need ...]" lines.
func plan(deadline time.Duration, lines ...[]string) coord.Plan {
	p := coord.Plan{Deadline: coord.Duration(deadline)}
	for _, l := range lines {
		p.Tasks = append(p.Tasks, coord.PlanTask{Key: l[0], Agent: coord.AgentID(l[1]), Instruction: "do " + l[0], Needs: l[2:]})
	}
	return p.Completed()
}

// approve drafts a plan and runs it, as planning and approval do.
func (w *world) approve(p coord.Plan) coord.JobID {
	w.t.Helper()
	var id coord.JobID
	w.update(func(tx *journal.Tx) error {
		j, tasks, err := w.started(tx, p)
		if err != nil {
			return err
		}
		id = j.ID
		return w.scheduler.AdmitFirst(tx, j, tasks)
	})
	synctest.Wait()
	return id
}

// started is a job of a plan, and its tasks, that was approved just now.
func (w *world) started(tx *journal.Tx, p coord.Plan) (coord.Job, []coord.Task, error) {
	frozen := &coord.Frozen{Plan: p, Digest: "d"}
	for _, t := range p.Tasks {
		frozen.Tasks = append(frozen.Tasks, coord.FrozenTask{Key: t.Key, Agent: t.Agent, Revision: 1, Config: coord.AgentConfig{Route: w.fake.Route()}, Space: w.space})
	}
	j, err := tx.AddJob(coord.Job{Plan: p, Frozen: frozen, By: operator})
	if err != nil {
		return j, nil, err
	}
	now := tx.Now()
	if j, err = j.Apply(coord.JobRun, now); err != nil {
		return j, nil, err
	}
	j.Started = &now
	if err := tx.PutJob(j, &operator); err != nil {
		return j, nil, err
	}
	tasks := make([]coord.Task, len(p.Tasks))
	for i, t := range p.Tasks {
		state := coord.TaskBlocked
		if len(t.Needs) == 0 {
			state = coord.TaskReady
		}
		if tasks[i], err = tx.AddTask(coord.Task{Job: j.ID, Key: t.Key, Index: i, Agent: t.Agent, State: state, Needs: t.Needs}); err != nil {
			return j, nil, err
		}
	}
	return j, tasks, nil
}

func (w *world) update(fn func(tx *journal.Tx) error) {
	w.t.Helper()
	if err := w.journal.Update(context.Background(), fn); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) view(fn func(v *journal.View) error) {
	w.t.Helper()
	if err := w.journal.View(context.Background(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// sleep lets time pass while the machine is awake.
func (w *world) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) attempt(key string) coord.Attempt {
	w.t.Helper()
	var a coord.Attempt
	w.view(func(v *journal.View) (err error) {
		jobs, err := v.Jobs(0, 1)
		if err != nil {
			return err
		}
		a, err = v.Attempt(coord.AttemptRef{Task: coord.TaskRef{Job: coord.JobRef{ID: jobs[0].ID}, Key: key}})
		return err
	})
	return a
}

// states are those of the newest job and its tasks: "running a:ready b:blocked".
func (w *world) states() string {
	w.t.Helper()
	out := ""
	w.view(func(v *journal.View) error {
		jobs, err := v.Jobs(0, 1)
		if err != nil {
			return err
		}
		out = string(jobs[0].State)
		tasks, err := v.Tasks(jobs[0].ID)
		for _, t := range tasks {
			out += fmt.Sprintf(" %s:%s", t.Key, t.State)
		}
		return err
	})
	return out
}

func (w *world) requests() []coord.Request {
	w.t.Helper()
	var out []coord.Request
	w.view(func(v *journal.View) (err error) {
		out, err = v.Requests(0, 100)
		return err
	})
	return out
}

func (w *world) expect(states string) {
	w.t.Helper()
	if got := w.states(); got != states {
		w.t.Errorf("the job is\n  %s, want\n  %s", got, states)
	}
}

func (w *world) leases() int {
	w.t.Helper()
	n := 0
	w.view(func(v *journal.View) error {
		l, err := v.Leases()
		n = len(l)
		return err
	})
	return n
}
