//go:build fault

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
	"signalbox/internal/synthesis"
)

// told are the lines that an agent wrote into its own account.
func (r *swept) told(agent string) []string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.log, agent))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// check compares what Signalbox says with what the agents counted, and gives
// what it says in few words.
func (r *swept) check() string {
	r.t.Helper()
	var said strings.Builder
	job := r.job(r.ref)
	fmt.Fprintf(&said, "job %s", job.State)
	attempts := must[[]coord.Attempt](r.world, "attempts")(r.client.Attempts(r.ctx, r.ref))
	unknown := false
	for _, t := range must[[]coord.Task](r.world, "tasks")(r.client.Tasks(r.ctx, r.ref)) {
		fmt.Fprintf(&said, "\n%s %s", t.Key, t.State)
		var sent []coord.Attempt
		for _, a := range attempts {
			if a.Task != t.ID {
				continue
			}
			fmt.Fprintf(&said, " [%d %s %s %s]", a.Number, a.State, a.Activity, a.Cause)
			r.settled(a)
			unknown = unknown || a.State == coord.AttemptUnknown
			// What provably was not handed over, at a stop between intent and send, is
			// tried again; the prompts are counted.
			if a.Sent != nil && a.State != coord.AttemptNotSent {
				sent = append(sent, a)
			}
		}
		r.counted(t, sent)
	}
	if r.ends && !unknown && r.killed() == 0 && job.State != coord.JobCompleted {
		r.t.Errorf("nothing is unknown, and the job is %s:\n%s", job.State, &said)
	}
	requests, _, err := r.client.Requests(r.ctx, 0, coord.MaxPage)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, q := range requests {
		fmt.Fprintf(&said, "\n%s %s %s", q.Content.Title, q.Decision, q.Delivery)
		r.answered(q)
	}
	if r.edit != nil {
		r.checkEdit(&said)
	}
	for _, f := range must[[]synthesis.Finding](r.world, "doctor")(r.client.Check(r.ctx)) {
		// Bytes are stored before their row is committed, and a death in between
		// leaves them; the doctor takes them away when they are a day old.
		if f.Code != synthesis.UnknownOutcome && (f.Code != synthesis.BytesOrphan || f.Severity != synthesis.Note) {
			r.t.Errorf("the doctor finds %s: %s", f.Code, f.Explanation)
		}
	}
	return said.String()
}

func (r *swept) killed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.doors
}

// settled checks an attempt of a job that is over.
func (r *swept) settled(a coord.Attempt) {
	r.t.Helper()
	switch {
	case a.Live():
		r.t.Errorf("attempt %s/%d is %s when the job is over", a.Key, a.Number, a.State)
	case a.State == coord.AttemptUnknown && a.Activity != coord.Ended && !r.peers:
		r.t.Errorf("attempt %s/%d is unknown and %s, though its processes are gone", a.Key, a.Number, a.Activity)
	case a.State == coord.AttemptCompleted && (a.Receipt == nil || a.Statement == nil || a.Handed != coord.HandedAll):
		r.t.Errorf("attempt %s/%d completed with receipt %v, statement %v, handed %q", a.Key, a.Number, a.Receipt, a.Statement, a.Handed)
	case a.State != coord.AttemptNotSent && a.State != coord.AttemptCancelled && (a.Sent == nil || a.Handle == nil):
		r.t.Errorf("attempt %s/%d is %s without an intent to send", a.Key, a.Number, a.State)
	case a.State == coord.AttemptNotSent && a.Sent != nil && (a.Receipt != nil || a.Handed != "" || a.Statement != nil || a.Cause != provider.CauseCancelled):
		r.t.Errorf("attempt %s/%d was meant to be sent and is told as not sent, by %s: %+v", a.Key, a.Number, a.Cause, a)
	case a.State == coord.AttemptUnknown && (a.Cause == "" || a.Reason == ""):
		r.t.Errorf("attempt %s/%d is unknown without a reason", a.Key, a.Number)
	}
}

// counted checks a task against the number of prompts that its agent got.
func (r *swept) counted(t coord.Task, sent []coord.Attempt) {
	r.t.Helper()
	prompts := r.prompts(t.Key)
	switch {
	case prompts > 1:
		r.t.Errorf("the agent of task %s got %d prompts", t.Key, prompts)
	case prompts > len(sent):
		r.t.Errorf("the agent of task %s got a prompt, and no attempt was meant to be sent", t.Key)
	case len(sent) > 1:
		r.t.Errorf("task %s has %d attempts that were meant to be sent", t.Key, len(sent))
	case t.State == coord.TaskCompleted && prompts != 1:
		r.t.Errorf("task %s is completed, and its agent got %d prompts", t.Key, prompts)
	}
	for _, a := range sent {
		if prompts == 0 && (a.Receipt != nil || a.State != coord.AttemptUnknown && a.State != coord.AttemptCancelled) {
			r.t.Errorf("attempt %s/%d is %s with the receipt %v, and its agent got no prompt", a.Key, a.Number, a.State, a.Receipt)
		}
	}
}

// answered checks a request of a job that is over.
func (r *swept) answered(q coord.Request) {
	r.t.Helper()
	if q.Decision == coord.DecisionOpen {
		r.t.Errorf("request %s is open when the job is over", q.Content.Title)
	}
	if was, ok := r.decided[q.ID]; ok && (q.Decision != was || q.Decided == nil || q.Decided.By.Door != "api") {
		r.t.Errorf("request %s was %s by the operator, and is %s by %+v", q.Content.Title, was, q.Decision, q.Decided)
	}
	answers := r.answers(q)
	switch q.Delivery {
	case coord.DeliveryDelivered, coord.DeliveryUnknown:
		if answers > 1 {
			r.t.Errorf("the agent got %d answers to request %s", answers, q.Content.Title)
		}
	case coord.DeliveryUndeliverable:
		if answers > 0 {
			r.t.Errorf("request %s is undeliverable, and its agent has the answer", q.Content.Title)
		}
	case coord.DeliveryNone, coord.DeliveryDelivering:
		if q.Decision == coord.DecisionWithdrawn && q.Delivery == coord.DeliveryNone && q.Content.Title == "leave" {
			return // its agent took it back, so there is nothing to bring
		}
		r.t.Errorf("the answer to request %s is %s when the job is over", q.Content.Title, q.Delivery)
	}
}

// prompts counts what the agent of a task got.
func (r *swept) prompts(key string) int {
	r.t.Helper()
	switch {
	case r.landing:
		return 1 // before this run
	case r.edit != nil:
		return r.shop.turns()
	case r.peers:
		return r.got(key)
	}
	return count(r.told(key), "prompt")
}

// answers counts the answers to a request that its agent got.
func (r *swept) answers(q coord.Request) (n int) {
	r.t.Helper()
	if r.edit != nil {
		if _, ok := r.shop.outputs()[q.Origin.Item]; ok {
			return 1
		}
		return 0
	}
	if r.peers {
		return r.gotAnswer(q)
	}
	for _, line := range r.told(q.Key) {
		if strings.HasPrefix(line, "answer "+q.Content.Title) {
			n++
		}
	}
	return n
}

// compare checks the events that were followed across the deaths: they are
// still there, as they were, without a gap, and what they say of attempts
// follows from what was committed before each death.
func (r *swept) compare() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var again []coord.Event
	err := r.client.Follow(r.ctx, client.Filter{After: "0"}, func(e coord.Event) error {
		if again = append(again, e); len(again) >= len(r.seen) {
			return errSeen
		}
		return nil
	})
	if !errors.Is(err, errSeen) {
		r.t.Fatalf("read all events again: %v", err)
	}
	if diff := cmp.Diff(r.seen, again); diff != "" {
		r.t.Errorf("the events are not those that were seen (-seen +now):\n%s", diff)
	}
	p := past{askable: r.peers, attempts: map[coord.AttemptID]*course{}}
	for i, e := range r.seen {
		if e.Seq != int64(i)+1 {
			r.t.Fatalf("event %d has the sequence %d", i+1, e.Seq)
		}
		if err := p.add(e); err != nil {
			r.t.Errorf("event %d: %v", e.Seq, err)
		}
	}
	for id, c := range p.attempts {
		if c.orphan {
			r.t.Errorf("nobody settled attempt %s, which was %s at a death", id, c.state)
		}
	}
}

// past follows attempts by the events alone.
type past struct {
	// askable tells that one that has a receipt is followed across a death.
	askable  bool
	attempts map[coord.AttemptID]*course
}

type course struct {
	state   coord.AttemptState
	receipt *coord.Receipt
	orphan  bool // its worker died
}

func (p *past) add(e coord.Event) error {
	switch e.Kind {
	case coord.WorkerStarted:
		for _, c := range p.attempts {
			c.orphan = c.state != coord.AttemptUnknown && !coord.Attempts.Final(c.state) && (!p.askable || c.receipt == nil)
		}
		return nil
	case coord.AttemptChanged:
	case coord.AttemptText, coord.AttemptActed, coord.ArtifactKept:
		if c := p.attempts[e.Attempt]; c == nil || c.orphan {
			return fmt.Errorf("%s of an attempt that nobody follows", e.Kind)
		}
		return nil
	default:
		return nil
	}
	var now struct {
		State   coord.AttemptState
		Cause   string
		Receipt *coord.Receipt
	}
	if err := json.Unmarshal(e.Data, &now); err != nil {
		return err
	}
	c := p.attempts[e.Attempt]
	if c == nil {
		c = &course{state: now.State}
		p.attempts[e.Attempt] = c
	}
	before := *c
	c.state, c.receipt = now.State, now.Receipt
	switch {
	case before.receipt != nil && !cmp.Equal(before.receipt, now.Receipt):
		return fmt.Errorf("the receipt was %+v and is %+v", before.receipt, now.Receipt)
	case coord.Attempts.Final(before.state) && now.State != before.state:
		return fmt.Errorf("the attempt was %s and is %s", before.state, now.State)
	case before.state == coord.AttemptUnknown && now.State != coord.AttemptUnknown:
		return fmt.Errorf("the attempt was unknown and is %s, though nobody was asked", now.State)
	case !before.orphan:
		return nil
	}
	sent := before.state != coord.AttemptQueued && before.state != coord.AttemptPreparing
	if now.State == before.state {
		return nil // the next worker took it over, and settles it at once
	}
	c.orphan = false
	if sent && (now.State != coord.AttemptUnknown || now.Cause != "worker_restart") || !sent && now.State != coord.AttemptNotSent {
		return fmt.Errorf("the attempt was %s at a death, and is then %s (%s)", before.state, now.State, now.Cause)
	}
	return nil
}

// remains checks what is left in the journal after an orderly end.
func (r *swept) remains(clock coord.Clock) {
	r.t.Helper()
	j, err := journal.Open(r.ctx, journal.Options{Dir: r.dir, Clock: clock, Redact: func(s string) string { return s }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	err = j.View(r.ctx, func(v *journal.View) error {
		leases, err := v.Leases()
		if len(leases) > 0 {
			r.t.Errorf("leases are left: %+v", leases)
		}
		if err != nil {
			return err
		}
		left, err := v.Processes(j.Generation())
		for _, p := range left {
			r.t.Errorf("a process is left in the journal: %s", p.Identity)
		}
		return err
	})
	if err := errors.Join(err, j.Close()); err != nil {
		r.t.Fatal(err)
	}
	err = filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(r.dir, path)
		if where, _, below := strings.Cut(rel, "/"); below && (where == "scratch" || where == "confinement") || err == nil && d.Type()&fs.ModeSocket != 0 {
			r.t.Errorf("%s is left in the data directory", rel)
		}
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
}
