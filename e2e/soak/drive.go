package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"regexp"
	"sync"
	"syscall"
	"time"

	"signalbox/internal/approval"
	"signalbox/internal/coord"
)

// drivers is how many jobs are under way at once.
const drivers = 4

// markOf finds the task in its prompt.
var markOf = regexp.MustCompile(`soak-[0-9]+-[0-9]+-[0-9]+`)

// parts are played by chance, the frequent ones more than once.
var parts = []string{
	"echo", "echo", "stream:30", "stream:80", "stream:200", "ask", "ask", "child:20", "flood",
	"exit", "exit-mute", "killed", "close", "noise", "empty", "foreign", "twice", "invented", "unasked", "ids", "same-ask",
}

// chance is the source of chance of one thing that happens, the same for the
// same seed whatever else happens meanwhile.
func (s *box) chance(of string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(of)) // never fails
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

// turn chooses what an agent does with a prompt, and counts it.
func (s *box) turn(_, prompt string) string {
	mark := markOf.FindString(prompt)
	part := parts[s.chance(mark).IntN(len(parts))]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[mark]++
	s.counts["prompts"]++
	s.counts["part "+part]++
	return part
}

// drive makes jobs, and trouble, until the span is over; it returns when every
// job has settled.
func (s *box) drive(ctx context.Context, span time.Duration) {
	over, cancel := context.WithTimeoutCause(ctx, span, errTime)
	defer cancel()
	// Those who help jobs to their end go on until the last is there.
	helping, done := context.WithCancelCause(ctx)
	var helpers, work sync.WaitGroup
	helpers.Go(func() { s.decide(helping) })
	helpers.Go(func() { s.watch(helping, span) })
	for i := range 3 {
		helpers.Go(func() { s.dawdle(helping, i) })
	}
	work.Go(func() { s.kill(over, span) })
	for d := range drivers {
		work.Go(func() {
			for n := 0; over.Err() == nil; n++ {
				if err := s.job(ctx, d, n); err != nil && ctx.Err() == nil {
					s.fault("job %d of driver %d: %v", n, d, err)
				}
			}
		})
	}
	work.Wait()
	done(errTime)
	helpers.Wait()
}

// patient calls again while the worker is away.
func patient[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if coord.CodeOf(err) != coord.Unavailable || ctx.Err() != nil {
			return v, err
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
		}
	}
}

// job makes one job and follows it until nothing of it can move.
func (s *box) job(ctx context.Context, d, n int) error {
	c := s.chance(fmt.Sprintf("job %d %d", d, n))
	bounded, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, errTime)
	defer cancel()
	plan := coord.Plan{Title: fmt.Sprintf("soak %d %d", d, n), Deadline: coord.Duration(2 * time.Minute)}
	for k := range 1 + c.IntN(3) {
		t := coord.PlanTask{Key: fmt.Sprintf("t%d", k), Agent: coord.AgentID(agentName(c.IntN(agents))), Instruction: fmt.Sprintf("Do soak-%d-%d-%d.", d, n, k)}
		if k > 0 && c.IntN(2) == 0 {
			t.Needs = []string{fmt.Sprintf("t%d", k-1)}
		}
		plan.Tasks = append(plan.Tasks, t)
	}
	j, err := patient(bounded, func() (coord.Job, error) { return s.client.Draft(bounded, plan) })
	if err != nil {
		return fmt.Errorf("draft: %w", err)
	}
	ref := fmt.Sprint(j.Number)
	if j, err = patient(bounded, func() (coord.Job, error) { return s.client.Freeze(bounded, ref) }); err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	_, err = patient(bounded, func() (coord.Job, error) { return s.client.Run(bounded, ref, j.Frozen.Digest) })
	if now, seen := s.client.Job(bounded, ref); err != nil && (seen != nil || now.State == coord.JobDraft) {
		return fmt.Errorf("run: %w", err) // otherwise the answer was lost with a worker, and the job runs
	}
	s.count("jobs")
	var cancelAt <-chan time.Time
	if c.IntN(4) == 0 {
		cancelAt = time.After(time.Duration(c.IntN(1500)) * time.Millisecond)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-cancelAt:
			cancelAt = nil
			if _, err := s.client.CancelJob(bounded, ref); err == nil {
				s.count("cancels")
			}
		case <-bounded.Done():
			return fmt.Errorf("job %s is %s: %w", ref, j.State, context.Cause(bounded))
		case <-tick.C:
			now, err := patient(bounded, func() (coord.Job, error) { return s.client.Job(bounded, ref) })
			if err != nil {
				return err
			}
			switch j = now; j.State {
			case coord.JobRunning:
			case coord.JobAttention:
				s.resolve(bounded, c, ref)
			default:
				s.count("job " + string(j.State))
				return nil
			}
		}
	}
}

// resolve is what an operator says of tasks whose outcome is unknown.
func (s *box) resolve(ctx context.Context, c *rand.Rand, ref string) {
	tasks, err := s.client.Tasks(ctx, ref)
	if err != nil {
		return // the worker is away; the next look comes soon
	}
	for _, t := range tasks {
		if t.State != coord.TaskUnknown {
			continue
		}
		how := []coord.ResolutionKind{coord.Adopted, coord.NeverRan, coord.Abandoned}[c.IntN(3)]
		if _, err := s.client.Resolve(ctx, ref+"/"+t.Key, how, "a soak", ""); err == nil {
			s.count("resolved " + string(how))
		}
	}
}

// decide answers what the agents ask, one way or the other.
func (s *box) decide(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		inbox, err := s.client.Inbox(ctx)
		if err != nil {
			continue // the worker is away
		}
		for _, r := range inbox.Requests {
			d := approval.Decision{Decision: coord.DecisionDeny, Digest: r.Digest}
			if s.chance(string(r.ID)).IntN(2) == 0 {
				d.Decision, d.Option = coord.DecisionApprove, "yes"
			}
			// A request may be withdrawn before it is decided.
			if _, err := s.client.Decide(ctx, string(r.ID), d); err == nil {
				s.count("decided " + string(d.Decision))
			}
		}
	}
}

// kill ends workers without a word, not in the last fifth of the span, so that
// the last one has lived when it is looked at.
func (s *box) kill(ctx context.Context, span time.Duration) {
	c := s.chance("kill")
	began := time.Now()
	for {
		pause := 5*time.Second + time.Duration(c.IntN(20_000))*time.Millisecond
		if time.Since(began)+pause > span*4/5 {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		err := s.end(ctx, syscall.SIGKILL)
		switch {
		case err == nil:
			s.count("worker kills")
		case ctx.Err() == nil && coord.CodeOf(err) != coord.Unavailable:
			s.fault("after a worker was killed: %v", err)
		}
	}
}

// dawdle reads all events from the beginning, hardly: some bytes each tenth of
// a second, and comes back when it is cut off.
func (s *box) dawdle(ctx context.Context, i int) {
	c := s.chance(fmt.Sprint("dawdle ", i))
	for ctx.Err() == nil {
		if err := s.sip(ctx, c); err != nil && ctx.Err() == nil {
			s.count("streams cut")
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (s *box) sip(ctx context.Context, c *rand.Rand) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/events?after=0", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	transport := &http.Transport{DisableKeepAlives: true, ReadBufferSize: 1 << 10}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	for range 20 + c.IntN(200) {
		if _, err := res.Body.Read(make([]byte, 1+c.IntN(4<<10))); err != nil {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
