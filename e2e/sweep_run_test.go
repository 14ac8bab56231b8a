//go:build fault

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/api"
	"signalbox/internal/approval"
	"signalbox/internal/client"
	"signalbox/internal/clock"
	"signalbox/internal/coord"
)

// scenario is a job that the sweep carries out again and again. The agent of a
// task has the task's key for its id.
type scenario struct {
	name  string
	tasks []coord.PlanTask
	modes map[string]string // of the agents
	// deny and stop are what the operator does: denies what is asked, stops the
	// first task when it has written something.
	deny, stop bool
	// base is a death that each run has, after which the swept ones come.
	base string
	// from is the point after whose first hit the sweep begins; what comes before
	// is the same in the first scenario. "" begins with the pairing.
	from string
	// only are the beginnings of the points to sweep, nil for all.
	only []string
	// ends tells that the job completes when the outcome of no attempt is unknown.
	ends bool
	// edit is what Codex does in a workspace. landing begins when it is done, with
	// the approval of what it wrote.
	edit    *edited
	landing bool
	// peers tells that those who work are the peers of the tasks' names.
	peers bool
}

// swept is one run of a scenario.
type swept struct {
	*world
	scenario
	outer  *testing.T
	deaths string
	trace  string
	log    string // the folder of the agents' own accounts
	ref    string
	shop   *shop // for an edit
	// counter counts what reaches the A2A peer, for peers.
	counter *counter
	space   string // the workspace of an edit
	// victim is a file that somebody else writes to between a death and the
	// restart, "" for none; was is the hash of what was there before, "" for
	// nothing.
	victim, was string

	mu      sync.Mutex
	seen    []coord.Event
	decided map[coord.RequestID]coord.DecisionState // as answered to the operator
	doors   int                                     // front doors that were killed
	fault   error                                   // of what follows or restarts
}

// open starts a run; deaths is as for SIGNALBOX_FAULT. What runs share lives as
// long as outer.
func (s scenario) open(t, outer *testing.T, deaths string) *swept {
	t.Helper()
	dir := t.TempDir()
	r := &swept{scenario: s, deaths: deaths, trace: filepath.Join(dir, "trace"), log: dir, decided: map[coord.RequestID]coord.DecisionState{}}
	env := []string{"SIGNALBOX_FAULT_TRACE=" + r.trace, "SIGNALBOX_FAULT=" + strings.Trim(s.base+","+deaths, ",")}
	if s.edit == nil {
		t.Parallel()
		r.world = openWorld(t, env...)
	} else {
		r.furnish(t, env)
	}
	r.outer = outer
	// From here on points are counted, and somebody dies.
	if err := os.WriteFile(r.trace, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// points gives the names of the points that were hit so far, in order.
func (r *swept) points() []string {
	r.t.Helper()
	b, err := os.ReadFile(r.trace)
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// run carries the job out, as an operator who is there, and checks everything
// that was promised. It gives the part of the trace in which deaths are swept.
func (r *swept) run() (points []string, first int) {
	r.t.Helper()
	stop := r.follow()
	for _, agent := range slices.Sorted(maps.Keys(r.modes)) {
		r.enroll(agent, r.modes[agent])
	}
	if r.peers {
		r.enlist(r.outer)
	}
	switch {
	case r.landing:
		r.land()
	case r.edit != nil:
		r.ref = r.world.run(plan(r.edit.task(r.space)))
		if r.name == underWay.name {
			r.poll("the tests run", func() bool { return len(r.shop.confined()) > 0 })
			r.restart()
		}
		r.operate()
	default:
		r.ref = r.world.run(plan(r.tasks...))
		r.operate()
	}
	r.gone()
	if r.deaths == "" && r.base == "" && r.name != underWay.name {
		r.poll("every session is closed", func() bool {
			all := r.points()
			return count(all, "attempt.close.after") >= count(all, "attempt.prepare.after")
		})
	}
	points = r.points()
	if r.base != "" {
		name, _, _ := strings.Cut(r.base, ":")
		first = slices.Index(points, name) + 1
	}
	if r.from != "" {
		first = slices.Index(points, r.from) + 1
	}
	if first == 0 && r.base+r.from != "" && r.deaths == "" {
		r.t.Fatalf("the point %s%s was not hit", r.base, r.from)
	}
	before := r.check()
	r.restart()
	r.gone()
	if after := r.check(); after != before {
		r.t.Errorf("after one more restart the job is\n%s\nbut was\n%s", after, before)
	}
	stop()
	r.compare()
	if r.fault != nil {
		r.t.Error(r.fault)
	}
	if r.peers {
		r.giveUp()
	}
	r.close()
	return points, first
}

// reached reports whether the run's own deaths came.
func (r *swept) reached() bool {
	point, _ := strings.CutPrefix(r.deaths, "parent@")
	point, _, _ = strings.Cut(point, ",")
	name, nth, _ := strings.Cut(point, ":")
	n, err := strconv.Atoi(nth)
	return err == nil && count(r.points(), name) >= n
}

func count(all []string, name string) (n int) {
	for _, p := range all {
		if p == name {
			n++
		}
	}
	return n
}

// follow reads the events and keeps a front door there, until the function that
// it gives is called.
func (r *swept) follow() (stop func()) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	var all sync.WaitGroup
	all.Go(func() {
		err := r.client.Follow(ctx, client.Filter{After: "0"}, func(e coord.Event) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.seen = append(r.seen, e)
			return nil
		})
		r.fail(ctx, err)
	})
	all.Go(func() { r.fail(ctx, r.keep(ctx)) })
	return func() {
		r.t.Helper()
		// The follower is to have seen all before it ends.
		head := must[api.Status](r.world, "status")(r.client.Status(r.ctx)).Head
		r.poll("all events were followed", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.fault != nil || len(r.seen) > 0 && r.seen[len(r.seen)-1].Seq >= head
		})
		cancel(errSeen)
		all.Wait()
	}
}

func (r *swept) fail(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && ctx.Err() == nil && r.fault == nil {
		r.fault = err
	}
}

// keep starts another front door where one was killed, after the worker of the
// dead one ended.
func (r *swept) keep(ctx context.Context) error {
	u, err := url.Parse(r.door.url)
	if err != nil {
		return err
	}
	for d := r.door; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-d.exited:
		}
		r.mu.Lock()
		r.doors++
		r.mu.Unlock()
		if r.victim != "" {
			if err := r.intrude(); err != nil {
				return err
			}
		}
		began := time.Now()
		next, _, err := r.launch(u.Port())
		if err != nil {
			return fmt.Errorf("the front door after a killed one: %w", err)
		}
		if took := time.Since(began); took > coord.OwnerWait {
			return fmt.Errorf("the worker of a killed front door stayed for %s", took)
		}
		d = next
		r.mu.Lock()
		r.door = d
		r.mu.Unlock()
	}
}

// enroll registers an agent of the sweep's own.
func (r *swept) enroll(agent, mode string) {
	r.t.Helper()
	name, value, _ := strings.Cut(r.mark, "=")
	r.list(agent, coord.AgentConfig{Route: coord.RouteACP, Executable: sweepAgent, Args: []string{mode, filepath.Join(r.log, agent)}, Env: map[string]string{name: value}})
}

// list puts an agent into the directory. Where a death strikes the inspection,
// the operator inspects again.
func (r *swept) list(agent string, cfg coord.AgentConfig) {
	r.t.Helper()
	must[coord.Agent](r.world, "add "+agent)(r.client.AddAgent(r.ctx, agent, cfg))
	for range 2 {
		a := must[coord.Agent](r.world, "inspect "+agent)(r.client.InspectAgent(r.ctx, agent))
		if a.Inspection != nil && a.Inspection.Problem == "" {
			return
		}
	}
	r.t.Fatalf("agent %s cannot be inspected", agent)
}

// operate decides and stops, until nothing of the job can move.
func (r *swept) operate() {
	r.t.Helper()
	stopped := false
	r.poll("the job is over", func() bool {
		inbox, err := r.client.Inbox(r.ctx)
		if r.away("inbox", err) {
			return false
		}
		for _, q := range inbox.Requests {
			if q.Content.Title == "decide" || r.edit != nil || r.peers {
				r.answer(q)
			}
		}
		if r.stop && !stopped && r.wrote() {
			_, err := r.client.CancelTask(r.ctx, r.ref, r.tasks[0].Key)
			// A conflict tells that it is over, because the worker died.
			stopped = coord.CodeOf(err) == coord.Conflict || !r.away("cancel", err)
		}
		job, err := r.client.Job(r.ctx, r.ref)
		return !r.away("job", err) && job.State != coord.JobRunning
	})
}

// away reports whether nobody answered yet after a death. The client waits for
// some time; on a busy machine a front door takes longer to come back.
func (r *swept) away(what string, err error) bool {
	r.t.Helper()
	if err != nil && coord.CodeOf(err) != coord.Unavailable {
		r.t.Fatalf("%s: %v", what, err)
	}
	return err != nil
}

func (r *swept) wrote() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.seen, func(e coord.Event) bool { return e.Kind == coord.AttemptText })
}

// answer decides a request, and remembers what was answered to that.
func (r *swept) answer(q coord.Request) {
	r.t.Helper()
	d := approval.Decision{Decision: coord.DecisionApprove, Digest: q.Digest}
	switch {
	case r.deny || q.Change != nil && q.Change.Path == denied:
		d.Decision = coord.DecisionDeny
	case q.Kind == coord.Question:
		d.Decision, d.Answer = coord.DecisionAnswer, string(q.ID)
	}
	decided, err := r.client.Decide(r.ctx, string(q.ID), d)
	// A conflict tells that its attempt was lost meanwhile.
	if coord.CodeOf(err) != coord.Conflict && !r.away("decide", err) {
		r.decided[q.ID] = decided.Decision
	}
}

// restart kills the worker once more and waits for the next.
func (r *swept) restart() {
	r.t.Helper()
	before := must[api.Status](r.world, "status")(r.client.Status(r.ctx)).Generation
	if err := syscall.Kill(r.worker(), syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	r.poll("another worker answers", func() bool {
		now, err := r.client.Status(r.ctx)
		return err == nil && now.Generation > before
	})
}

// close ends Signalbox in order and looks at what is left in the journal.
func (r *swept) close() {
	r.t.Helper()
	if err := r.door.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Error(err)
	}
	select {
	case <-r.door.exited:
	case <-r.ctx.Done():
		r.t.Fatalf("serve did not end: %v\n%s", context.Cause(r.ctx), r.world.log())
	}
	r.remains(clock.System())
}
