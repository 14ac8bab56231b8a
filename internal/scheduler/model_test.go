package scheduler

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"signalbox/internal/artifact"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
)

// The model test lets a machine, an operator and agents do anything in any
// order, and checks after each step what Signalbox promises. An in-memory database
// proves nothing about durability; that is the crash sweep's part.

// modelSteps is how many steps the model test takes; SIGNALBOX_MODEL_STEPS sets
// another number.
const modelSteps = 3000

// memoryStore keeps artifacts in memory: their durability is tested elsewhere.
type memoryStore struct{}

func (memoryStore) Put(_ context.Context, r io.Reader, limit int64) (artifact.Ref, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit))
	return artifact.Ref{SHA256: digest(string(b)), Size: int64(len(b))}, err
}

func TestNothingThatCanHappenBreaksAPromise(t *testing.T) {
	steps := modelSteps
	if s := os.Getenv("SIGNALBOX_MODEL_STEPS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		steps = n
	}
	const each = 60
	setFlag(t, "rapid.steps", each)
	setFlag(t, "rapid.checks", max(steps/each, 1))
	scratch := t.TempDir()
	taken := 0
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			m := newModel(rt, scratch)
			rt.Repeat(m.actions(&taken))
			m.finish()
		})
	})
	t.Logf("%d steps", taken)
	if taken < steps/2 {
		t.Errorf("only %d steps were taken, want about %d", taken, steps)
	}
}

func setFlag(t *testing.T, name string, value int) {
	t.Helper()
	old := flag.Lookup(name).Value.String()
	if err := flag.Set(name, strconv.Itoa(value)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, old) })
}

// model is a world with what was seen of it.
type model struct {
	*world
	t *rapid.T

	receipts  map[coord.AttemptID]coord.Receipt
	decisions map[coord.RequestID]coord.Decided
	ends      map[coord.AttemptID]coord.AttemptState
	head      int64
	// changed are the jobs that events named since the last look.
	changed map[coord.JobID]bool
}

func newModel(t *rapid.T, scratch string) *model {
	m := &model{t: t, changed: map[coord.JobID]bool{}, receipts: map[coord.AttemptID]coord.Receipt{}, decisions: map[coord.RequestID]coord.Decided{}, ends: map[coord.AttemptID]coord.AttemptState{}}
	route := rapid.SampledFrom([]coord.Route{coord.RouteACP, coord.RouteACP, coord.RouteA2A}).Draw(t, "route")
	scripts := rapid.Custom(func(t *rapid.T) providertest.Script { return drawScript(t, route) })
	m.world = newWorld(t, route, func(w provider.Work) providertest.Script {
		// The script of an attempt is drawn before its job is approved, so that
		// only one goroutine draws.
		return m.scripts[scriptOf(w.Prompt)]
	})
	m.store, m.scratch = memoryStore{}, scratch
	// Virtual hours pass: looking at the clock each second would be most of the work.
	m.tick = 5 * time.Minute
	m.scripts = rapid.SliceOfN(scripts, 6, 6).Draw(t, "scripts")
	m.begin()
	return m
}

// scriptOf finds the script's number at the start of an instruction.
func scriptOf(prompt string) int {
	n, err := strconv.Atoi(prompt[len("do "):len("do x")])
	if err != nil {
		return 0
	}
	return n
}

func drawScript(t *rapid.T, route coord.Route) providertest.Script {
	delay := rapid.SampledFrom([]time.Duration{0, 0, time.Second, 20 * time.Second, 5 * time.Minute})
	s := providertest.Script{
		Setup:      rapid.SampledFrom([]providertest.Setup{"", "", "", "", providertest.SetupCrash, providertest.SetupSilent, providertest.SetupAuth}).Draw(t, "setup"),
		SetupDelay: delay.Draw(t, "setup delay"),
		Send:       rapid.SampledFrom([]coord.HandedOver{"", "", "", "", coord.HandedNothing, coord.HandedUnknown}).Draw(t, "send"),
		Cancel:     rapid.SampledFrom([]providertest.OnCancel{"", "", providertest.CancelIgnore, providertest.CancelCannot, providertest.CancelBreaks}).Draw(t, "on cancel"),
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "steps") {
		name := fmt.Sprint("q", i)
		after := delay.Draw(t, "after")
		switch rapid.SampledFrom([]string{"say", "think", "act", "spend", "ask", "ask", "withdraw", "cut", "crash", "accept"}).Draw(t, "do") {
		case "say":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Say, Text: "word", After: after})
		case "think":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Think, Text: "hm", After: after})
		case "act":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Act, Text: "tool", After: after})
		case "accept":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Accept, After: after})
		case "spend":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Spend, After: after, Usage: &coord.Usage{TotalTokens: 10, Source: "provider"}})
		case "ask":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Ask, Name: name, Text: "may I", Options: providertest.YesNo(), After: after},
				providertest.Step{Do: providertest.Await, Name: name})
		case "withdraw":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Ask, Name: name, Text: "may I", Options: providertest.YesNo()},
				providertest.Step{Do: providertest.Withdraw, Name: name, After: after})
		case "cut":
			if route.Askable() {
				s.Steps = append(s.Steps, providertest.Step{Do: providertest.Cut, After: after})
			}
		case "crash":
			if rapid.IntRange(0, 3).Draw(t, "crashes") == 0 {
				s.Steps = append(s.Steps, providertest.Step{Do: providertest.Crash, After: after})
			}
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "ends") > 0 {
		state := rapid.SampledFrom([]coord.AttemptState{coord.AttemptCompleted, coord.AttemptCompleted, coord.AttemptCompleted, coord.AttemptFailed, coord.AttemptRejected}).Draw(t, "end")
		s.Steps = append(s.Steps, providertest.Step{Do: providertest.Say, Text: "."}, providertest.Step{Do: providertest.End, State: state, After: delay.Draw(t, "after")})
	}
	return s
}

// actions are what can happen.
func (m *model) actions(taken *int) map[string]func(*rapid.T) {
	counted := func(fn func(*rapid.T)) func(*rapid.T) {
		return func(t *rapid.T) {
			*taken++
			fn(t)
			synctest.Wait()
		}
	}
	return map[string]func(*rapid.T){
		"":        func(*rapid.T) { m.check() },
		"approve": counted(m.approveSome),
		"wait": counted(func(t *rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 11 * time.Second, 31 * time.Second, 10 * time.Minute}).Draw(t, "wait"))
		}),
		"wait a little": counted(func(t *rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, 90 * time.Millisecond, time.Second}).Draw(t, "wait"))
		}),
		"the machine sleeps": counted(func(t *rapid.T) {
			slept := rapid.SampledFrom([]time.Duration{time.Minute, 90 * time.Minute}).Draw(t, "slept")
			m.shift(func() { m.slept += slept })
		}),
		"the clock jumps": counted(func(t *rapid.T) {
			jump := rapid.SampledFrom([]time.Duration{-26 * time.Hour, -time.Minute, time.Hour}).Draw(t, "jump")
			m.shift(func() { m.wall += jump })
		}),
		"the worker crashes": counted(func(t *rapid.T) {
			m.crash()
			if rapid.Bool().Draw(t, "reboot") {
				m.shift(func() {
					m.boot += "'"
					m.start, m.slept = time.Now(), 0
				})
			}
			m.begin()
		}),
		"the worker stops":  counted(func(*rapid.T) { m.end(); m.begin() }),
		"cancel an attempt": counted(m.cancelSome),
		"decide":            counted(m.decideSome),
		"resolve":           counted(m.resolveSome),
		"pause": counted(func(t *rapid.T) {
			if err := m.scheduler.SetPaused(context.Background(), rapid.Bool().Draw(t, "paused"), operator); err != nil {
				t.Fatal(err)
			}
		}),
		"reconcile": counted(m.reconcileSome),
	}
}

func (m *model) approveSome(t *rapid.T) {
	var lines [][]string
	for i := range rapid.IntRange(1, 4).Draw(t, "tasks") {
		line := []string{fmt.Sprintf("%d-t%d", rapid.IntRange(0, len(m.scripts)-1).Draw(t, "script"), i), fmt.Sprint("agent", rapid.IntRange(0, 3).Draw(t, "agent"))}
		for _, before := range lines {
			if rapid.IntRange(0, 2).Draw(t, "needs") == 0 {
				line = append(line, before[0])
			}
		}
		lines = append(lines, line)
	}
	p := plan(rapid.SampledFrom([]time.Duration{time.Minute, 2 * time.Hour}).Draw(t, "deadline"), lines...)
	if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		p.Limits.Tokens = 15
	}
	m.approve(p)
}

// some draws one of a list, or skips the step when there is none.
func some[T any](t *rapid.T, list []T) T {
	if len(list) == 0 {
		t.Skip("nothing to choose from")
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(t, "which")]
}

// lenient runs an operation that may conflict with what is.
func (m *model) lenient(fn func(tx *journal.Tx) error) {
	err := m.journal.Update(context.Background(), fn)
	if code := coord.CodeOf(err); code != "" && code != coord.Conflict && code != coord.NotFound {
		m.t.Fatal(err)
	}
}

func (m *model) cancelSome(t *rapid.T) {
	a := some(t, m.open())
	m.lenient(func(tx *journal.Tx) error {
		_, err := tx.CancelAttempt(a.ID, coord.CauseOperator, operator)
		return err
	})
}

func (m *model) decideSome(t *rapid.T) {
	r := some(t, m.requests())
	on := rapid.SampledFrom([]coord.DecisionEvent{coord.DecisionApprove, coord.DecisionDeny}).Draw(t, "decision")
	m.lenient(func(tx *journal.Tx) error {
		_, err := tx.DecideRequest(r.ID, coord.Choice{On: on, By: operator})
		return err
	})
}

func (m *model) resolveSome(t *rapid.T) {
	a := some(t, m.open())
	how := rapid.SampledFrom([]coord.ResolutionKind{coord.Adopted, coord.NeverRan, coord.Abandoned}).Draw(t, "how")
	m.lenient(func(tx *journal.Tx) error {
		_, err := tx.ResolveAttempt(a.ID, coord.Resolution{How: how, Reason: "said so", By: operator})
		return err
	})
}

func (m *model) reconcileSome(t *rapid.T) {
	a := some(t, m.open())
	_, err := m.scheduler.Reconcile(context.Background(), coord.AttemptRef{ID: a.ID}, operator)
	if code := coord.CodeOf(err); code == coord.Internal {
		t.Fatal(err)
	}
}

func (m *model) open() (out []coord.Attempt) {
	m.view(func(v *journal.View) (err error) {
		out, err = v.OpenAttempts()
		return err
	})
	return out
}

// check holds what changed since the last look, and what is open, against what
// is promised.
func (m *model) check() {
	synctest.Wait()
	if m.journal.Head() == m.head {
		return
	}
	m.eventsHold()
	sent := map[coord.AttemptID]int{}
	for _, s := range m.fake.Sent() {
		sent[s.Attempt]++
	}
	m.view(func(v *journal.View) error {
		for id := range m.changed {
			if err := m.jobHolds(v, id, sent); err != nil {
				return err
			}
		}
		clear(m.changed)
		return m.leasesHold(v)
	})
}

// jobHolds checks a job with everything that belongs to it.
func (m *model) jobHolds(v *journal.View, id coord.JobID, sent map[coord.AttemptID]int) error {
	j, err := v.JobHead(coord.JobRef{ID: id})
	if err != nil {
		return err
	}
	tasks, err := v.Tasks(id)
	if err != nil {
		return err
	}
	if on := j.Follow(tasks); on != "" {
		m.t.Fatalf("job %d is %s and its tasks say %s", j.Number, j.State, on)
	}
	attempts, err := v.Attempts(id)
	if err != nil {
		return err
	}
	perTask, byID := map[coord.TaskID]int{}, map[coord.AttemptID]coord.Attempt{}
	for _, a := range attempts {
		byID[a.ID] = a
		m.attemptHolds(a, sent[a.ID])
		if sent[a.ID] > 0 && a.State != coord.AttemptNotSent {
			perTask[a.Task]++
		}
	}
	for task, n := range perTask {
		if n > 1 {
			m.t.Fatalf("task %s was sent by %d attempts", task, n)
		}
	}
	requests, err := v.JobRequests(id)
	for _, r := range requests {
		m.requestHolds(r, byID[r.Attempt])
	}
	return err
}

// leasesHold checks that what may run holds its leases, and nothing else does.
func (m *model) leasesHold(v *journal.View) error {
	leases, err := v.Leases()
	if err != nil {
		return err
	}
	open, err := v.OpenAttempts()
	if err != nil {
		return err
	}
	running, holders, agents := 0, map[coord.AttemptID]coord.Attempt{}, map[coord.AgentID]coord.AttemptID{}
	for _, a := range open {
		if a.Live() {
			running++
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

// attemptHolds checks one attempt against what was seen of it before.
func (m *model) attemptHolds(a coord.Attempt, sent int) {
	switch {
	case sent > 1:
		m.t.Fatalf("attempt %s was sent %d times", a.ID, sent)
	case sent == 1 && a.Sent == nil:
		m.t.Fatalf("attempt %s was sent without a durable intent", a.ID)
	case sent == 0 && a.Receipt != nil:
		m.t.Fatalf("attempt %s has a receipt for nothing", a.ID)
	case a.State == coord.AttemptCancelled && a.Cancel.State != coord.CancelConfirmed && a.Cancel.State != coord.CancelNone:
		m.t.Fatalf("attempt %s is cancelled and its cancellation %s", a.ID, a.Cancel.State)
	}
	if a.Cancel.State == coord.CancelConfirmed && sent == 1 && a.State == coord.AttemptCancelled && m.fake.Cancelled(a.ID) == 0 && !a.Reconciled {
		m.t.Fatalf("attempt %s is confirmed as cancelled and its agent was never asked", a.ID)
	}
	if r, seen := m.receipts[a.ID]; seen && (a.Receipt == nil || *a.Receipt != r) {
		m.t.Fatalf("the receipt of %s changed", a.ID)
	}
	if a.Receipt != nil {
		m.receipts[a.ID] = *a.Receipt
	}
	if s, seen := m.ends[a.ID]; seen && a.State != s {
		m.t.Fatalf("attempt %s ended as %s and is now %s", a.ID, s, a.State)
	}
	if coord.Attempts.Final(a.State) {
		m.ends[a.ID] = a.State
	}
}

func (m *model) leased(leases []journal.Lease, name string, holder coord.AttemptID) {
	if !slices.ContainsFunc(leases, func(l journal.Lease) bool { return l.Name == name && l.Holder == holder }) {
		m.t.Fatalf("%s may run and does not hold %s", holder, name)
	}
}

// requestHolds checks one request against its attempt and what was seen before.
func (m *model) requestHolds(r coord.Request, a coord.Attempt) {
	if r.Decision == coord.DecisionOpen && (a.State != coord.AttemptWaiting || a.Cancel.State != coord.CancelNone) {
		m.t.Fatalf("r%d is open, its attempt is %s and its cancellation %s", r.Number, a.State, a.Cancel.State)
	}
	before, seen := m.decisions[r.ID]
	if seen && (r.Decided == nil || r.Decided.At != before.At || r.Decided.Option != before.Option) {
		m.t.Fatalf("the decision of r%d changed", r.Number)
	}
	if r.Decided != nil {
		m.decisions[r.ID] = *r.Decided
	}
	if r.Decision == coord.DecisionApproved {
		return
	}
	for _, got := range m.fake.Answered(r.Attempt) {
		if `"`+got.Name+`"` == r.Origin.Request && got.Option == "yes" {
			m.t.Fatalf("r%d is %s and the agent was told yes", r.Number, r.Decision)
		}
	}
}

// eventsHold checks that the sequence grows without a gap.
func (m *model) eventsHold() {
	m.view(func(v *journal.View) error {
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
					m.changed[e.Job] = true
				}
			}
		}
	})
}

// finish lets everything come to its end: with agents that are gone and no
// operator, every job ends or says that it needs attention.
func (m *model) finish() {
	if err := m.scheduler.SetPaused(context.Background(), false, operator); err != nil {
		m.t.Fatal(err)
	}
	time.Sleep(coord.MaxDeadline + time.Hour)
	synctest.Wait()
	m.check()
	m.view(func(v *journal.View) error {
		jobs, err := v.Jobs(0, 1000, coord.JobRunning)
		for _, j := range jobs {
			tasks, terr := v.Tasks(j.ID)
			m.t.Errorf("job %d runs for ever: %+v, %v", j.Number, tasks, terr)
		}
		return err
	})
	m.end()
	if err := m.memory.Close(); err != nil {
		m.t.Error(err)
	}
}
