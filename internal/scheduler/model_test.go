package scheduler

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
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
//
// Each run draws anew, unless SIGNALBOX_MODEL_SEED says with which seed the first
// portion of the first world begins; those after it count on from there, so that
// a run in CI is the same each time. What fails is made small and told with its
// seed; the same test with -rapid.seed=SEED begins with it.

// modelSteps is how many steps the model test takes at least, and
// SIGNALBOX_MODEL_STEPS sets another number. A step is one thing that is done,
// with everything that follows from it at once.
const modelSteps = 20_000

// modelRun is how many steps are taken in one world, on average.
const modelRun = 60

// memoryStore keeps artifacts in memory: their durability is tested elsewhere.
type memoryStore struct{}

// Open finds nothing: only runs of tests are read back.
func (memoryStore) Open(sha256 string) (io.ReadCloser, int64, error) {
	return nil, 0, coord.Errorf(coord.NotFound, "there is no artifact %s", sha256)
}

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
	setFlag(t, "rapid.steps", modelRun)
	// The worlds are small and short-lived: fewer collections cost little space.
	percent := debug.SetGCPercent(400)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	scratch, start, seeds := t.TempDir(), time.Now(), newSeeds(t)
	var done tally
	t.Run("in", func(t *testing.T) {
		// In portions, so that all parts end at about the same time.
		setFlag(t, "rapid.checks", max(steps/modelRun/50, 1))
		for part := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("world", part), func(t *testing.T) {
				t.Parallel()
				for portion := 0; done.steps() < steps; portion++ {
					begun := seeds.begin(t, part, portion)
					rapid.Check(t, func(rt *rapid.T) {
						begun()
						rapid.SyncTest(rt, func(rt *rapid.T) {
							m := newModel(rt, scratch, &done)
							rt.Repeat(m.actions())
							m.finish()
						})
					})
				}
			})
		}
	})
	t.Logf("%d steps in %.1f s\n%s", done.steps(), time.Since(start).Seconds(), done.String())
	// A seed that is given lets the same happen again and again.
	if seed := flag.Lookup("rapid.seed").Value.String(); !t.Failed() && (seed == "0" || seeds.first != 0) {
		for _, name := range done.never() {
			t.Errorf("in %d steps it never happened: %s", done.steps(), name)
		}
	}
}

// seeds gives each portion its seed. Rapid has one flag for all of them and reads
// it as a portion begins, so one begins at a time.
type seeds struct {
	mu    sync.Mutex
	first uint64 // 0: each draws its own
}

func newSeeds(t *testing.T) *seeds {
	t.Helper()
	s := &seeds{}
	if given := os.Getenv("SIGNALBOX_MODEL_SEED"); given != "" {
		var err error
		if s.first, err = strconv.ParseUint(given, 10, 32); err != nil {
			t.Fatal(err)
		}
		setFlag(t, "rapid.seed", 0)
	}
	return s
}

// begin sets the seed of a portion; the function that it gives is called when
// the portion has begun.
func (s *seeds) begin(t *testing.T, part, portion int) func() {
	if s.first == 0 {
		return func() {}
	}
	s.mu.Lock()
	if err := flag.Set("rapid.seed", strconv.FormatUint(s.first+uint64(part)<<32+uint64(portion), 10)); err != nil {
		t.Error(err)
	}
	return sync.OnceFunc(s.mu.Unlock)
}

func setFlag(t *testing.T, name string, value int) {
	t.Helper()
	old := flag.Lookup(name).Value.String()
	if err := flag.Set(name, strconv.Itoa(value)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, old) })
}

// modelAgents is how many agents there are.
const modelAgents = 4

func modelAgent(i int) coord.AgentID { return coord.AgentID(fmt.Sprint("agent", i)) }

// model is a world with what was seen of it.
type model struct {
	*world
	t     *rapid.T
	done  *tally
	tests *numbered
	seen
}

func newModel(t *rapid.T, scratch string, done *tally) *model {
	m := &model{t: t, done: done, seen: newSeen()}
	route := rapid.SampledFrom([]coord.Route{coord.RouteACP, coord.RouteACP, coord.RouteA2A}).Draw(t, "route")
	scripts := rapid.Custom(func(t *rapid.T) providertest.Script { return drawScript(t, route) })
	m.world = newWorld(t, route, func(w provider.Work) providertest.Script {
		// The script of an attempt is drawn before its job is approved, so that
		// only one goroutine draws.
		script := m.scripts[scriptOf(w.Prompt)]
		done.plays(script)
		return script
	})
	m.store, m.scratch = memoryStore{}, scratch
	// Virtual hours pass: looking at the clock each second would be most of the work.
	m.tick = 5 * time.Minute
	m.scripts = rapid.SliceOfN(scripts, 6, 6).Draw(t, "scripts")
	m.tool()
	m.begin()
	m.update(func(tx *journal.Tx) error {
		for i := range modelAgents {
			if err := tx.PutAgent(coord.Agent{ID: modelAgent(i), Revision: 1, Enabled: true}, operator); err != nil {
				return err
			}
		}
		return nil
	})
	t.Cleanup(func() {
		// What failed is told, and not that its world was left alive.
		m.crash()
		_ = m.memory.Close()
	})
	return m
}

// actions are what can happen.
func (m *model) actions() map[string]func(*rapid.T) {
	// An action that finds nothing to act on skips, and is no step.
	counted := func(fn func(*rapid.T) (what string)) func(*rapid.T) {
		return func(t *rapid.T) {
			what := fn(t)
			synctest.Wait()
			m.done.step(what)
		}
	}
	return map[string]func(*rapid.T){
		"":        func(*rapid.T) { m.check() },
		"approve": counted(m.approveSome),
		"approve between the two readings of the loop": counted(m.approveBeside),
		"wait": counted(func(t *rapid.T) string {
			time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 11 * time.Second, 31 * time.Second, 10 * time.Minute}).Draw(t, "wait"))
			return timePasses
		}),
		"wait a little": counted(func(t *rapid.T) string {
			time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, 90 * time.Millisecond, time.Second}).Draw(t, "wait"))
			return timePasses
		}),
		"the machine sleeps": counted(func(t *rapid.T) string {
			slept := rapid.SampledFrom([]time.Duration{time.Minute, 90 * time.Minute}).Draw(t, "slept")
			m.shift(func() { m.slept += slept })
			return machineSleeps
		}),
		"the clock jumps": counted(func(t *rapid.T) string {
			jump := rapid.SampledFrom([]time.Duration{-26 * time.Hour, -time.Minute, time.Hour}).Draw(t, "jump")
			m.shift(func() { m.wall += jump })
			if jump < 0 {
				return clockJumpsBack
			}
			return clockJumpsAhead
		}),
		"the worker crashes": counted(func(t *rapid.T) string {
			m.crash()
			defer m.begin()
			if !rapid.Bool().Draw(t, "reboot") {
				return workerCrashes
			}
			m.shift(func() {
				m.boot += "'"
				m.start, m.slept = time.Now(), 0
			})
			return machineReboots
		}),
		"the worker crashes while tests run": counted(func(t *rapid.T) string {
			if !slices.ContainsFunc(m.asked, func(id coord.RequestID) bool { return m.requested[id].Effect == coord.EffectApplying }) {
				t.Skip("no tests run")
			}
			m.crash()
			m.begin()
			return workerCrashes
		}),
		"the worker stops": counted(func(*rapid.T) string {
			m.end()
			m.begin()
			return workerStops
		}),
		"cancel an attempt": counted(m.cancelSome),
		"decide":            counted(m.decideSome),
		"decide in time":    counted(m.decideOpen),
		"resolve":           counted(m.resolveSome),
		"pause": counted(func(t *rapid.T) string {
			paused := rapid.Bool().Draw(t, "paused")
			if err := m.scheduler.SetPaused(context.Background(), paused, operator); err != nil {
				t.Fatal(err)
			}
			if paused {
				return admissionPauses
			}
			return admissionOpens
		}),
		"reconcile": counted(m.reconcileSome),
	}
}

func (m *model) approveSome(t *rapid.T) string {
	running := 0
	for _, state := range m.jobs {
		if state == coord.JobRunning {
			running++
		}
	}
	if running > coord.MaxRunning {
		t.Skip("more would only wait")
	}
	var lines [][]string
	for i := range rapid.IntRange(1, 4).Draw(t, "tasks") {
		line := []string{fmt.Sprintf("%d-t%d", rapid.IntRange(0, len(m.scripts)-1).Draw(t, "script"), i), string(modelAgent(rapid.IntRange(0, modelAgents-1).Draw(t, "agent")))}
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
	for i := range p.Tasks {
		// A folder for each attempt would be most of what the disk does here.
		p.Tasks[i].Workspace = m.scratch
		// What an earlier process offered is not offered again, so that only
		// agents that end with it get tools.
		if !m.fake.Route().Askable() && rapid.IntRange(0, 2).Draw(t, "tools") == 0 {
			p.Tasks[i].Operations = []coord.Operation{coord.Read, coord.Write, coord.Test}
			p.Tasks[i].Tests, p.Tasks[i].TestRuns = []string{testFile}, rapid.IntRange(0, 2).Draw(t, "granted")
		}
	}
	m.approve(p)
	return jobApproved
}

// approveBeside approves after the scheduler's loop looked for its owners and before
// it reads the journal, and has it act upon that. The journal in memory has one
// reader and writer at a time, so the loop itself is never there.
func (m *model) approveBeside(t *rapid.T) string {
	before := m.scheduler.here()
	m.approveSome(t)
	st, err := m.scheduler.load(context.Background(), &journal.Agenda{}, false)
	if err != nil {
		t.Fatal(err)
	}
	st.owned = before.owned
	actions, _ := evaluate(st, m.journal.Now())
	for _, a := range actions {
		if _, err := m.scheduler.apply(context.Background(), a); err != nil {
			t.Fatal(err)
		}
	}
	return approvedBeside
}

// some draws one of a list, or skips the step when there is none.
func some[T any](t *rapid.T, list []T) T {
	if len(list) == 0 {
		t.Skip("nothing to choose from")
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(t, "which")]
}

// lenient runs an operation that may conflict with what is, and gives what
// then happened.
func (m *model) lenient(what string, fn func(tx *journal.Tx) error) string {
	err := m.journal.Update(context.Background(), fn)
	switch code := coord.CodeOf(err); code {
	case "":
		return what
	case coord.Conflict, coord.NotFound:
		return operatorRefused
	default:
		m.t.Fatal(err)
		return ""
	}
}

func (m *model) cancelSome(t *rapid.T) string {
	a := some(t, m.open)
	return m.lenient(attemptCancelled, func(tx *journal.Tx) error {
		_, err := tx.CancelAttempt(a.ID, coord.CauseOperator, operator)
		return err
	})
}

func (m *model) decideSome(t *rapid.T) string { return m.decide(t, some(t, m.asked)) }

func (m *model) decideOpen(t *rapid.T) string {
	var open []coord.RequestID
	for _, id := range m.asked {
		if m.requested[id].Decision == coord.DecisionOpen {
			open = append(open, id)
		}
	}
	return m.decide(t, some(t, open))
}

func (m *model) decide(t *rapid.T, id coord.RequestID) string {
	on := rapid.SampledFrom([]coord.DecisionEvent{coord.DecisionApprove, coord.DecisionDeny}).Draw(t, "decision")
	return m.lenient(requestDecided+string(on), func(tx *journal.Tx) error {
		_, err := tx.DecideRequest(id, coord.Choice{On: on, By: operator})
		return err
	})
}

func (m *model) resolveSome(t *rapid.T) string {
	a := some(t, m.open)
	how := rapid.SampledFrom([]coord.ResolutionKind{coord.Adopted, coord.NeverRan, coord.Abandoned}).Draw(t, "how")
	return m.lenient(unknownResolved+string(how), func(tx *journal.Tx) error {
		_, err := tx.ResolveAttempt(a.ID, coord.Resolution{How: how, Reason: "said so", By: operator})
		return err
	})
}

func (m *model) reconcileSome(t *rapid.T) string {
	a := some(t, m.open)
	_, err := m.scheduler.Reconcile(context.Background(), coord.AttemptRef{ID: a.ID}, operator)
	switch code := coord.CodeOf(err); code {
	case "":
		return providerAsked
	case coord.Internal:
		t.Fatal(err)
	}
	return operatorRefused
}

// finish lets everything come to its end: with agents that are gone and no
// operator, every job ends or says that it needs attention.
func (m *model) finish() {
	if err := m.scheduler.SetPaused(context.Background(), false, operator); err != nil {
		m.t.Fatal(err)
	}
	time.Sleep(coord.MaxDeadline + time.Hour)
	m.check()
	m.allHolds()
	m.nothingIsHalfDone()
	m.view(func(v *journal.View) error {
		jobs, err := v.Jobs(0, 1000, coord.JobRunning)
		for _, j := range jobs {
			tasks, terr := v.Tasks(j.ID)
			m.t.Errorf("job %d runs for ever: %+v, %v", j.Number, tasks, terr)
		}
		return err
	})
	m.end()
}
