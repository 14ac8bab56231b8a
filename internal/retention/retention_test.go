package retention_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signalbox/internal/artifact"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/retention"
	"signalbox/internal/synthesis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a real journal and a real store on a clock that the test moves.
type house struct {
	*retention.Retention
	t        *testing.T
	mu       sync.Mutex // the journal's keeper looks at the clock, too
	now      coord.Moment
	journal  *journal.Journal
	store    *artifact.Store
	contents *artifact.Contents
	quota    *artifact.Quota
	results  *synthesis.Synthesis
	staged   []coord.FileChange // by the attempts of jobs to come
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, now: coord.Moment{Wall: time.Now().UTC(), BootID: "boot"}}
	same := func(s string) string { return s }
	var err error
	h.journal, err = journal.Open(t.Context(), journal.Options{Dir: t.TempDir(), Clock: h.clock, Redact: same, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.journal.Close(); err != nil {
			t.Error(err)
		}
	})
	if h.store, err = artifact.New(t.TempDir(), same); err != nil {
		t.Fatal(err)
	}
	if h.contents, err = artifact.NewContents(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	h.quota = artifact.NewQuota(artifact.DefaultLimits(), 0, nil)
	h.results = synthesis.New(h.journal, h.store)
	h.Retention = retention.New(h.journal, h.results, h.store, h.quota, h.contents, slog.New(slog.DiscardHandler))
	return h
}

func (h *house) clock() coord.Moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// set moves the clock and gives where it was.
func (h *house) set(now coord.Moment) coord.Moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.now
	h.now = now
	return was
}

func (h *house) update(fn func(tx *journal.Tx) error) {
	h.t.Helper()
	if err := h.journal.Update(h.t.Context(), fn); err != nil {
		h.t.Fatal(err)
	}
}

// run makes a job of one task whose attempt ends as on says, with one artifact.
func (h *house) run(text string, on coord.AttemptEvent) coord.JobID {
	h.t.Helper()
	ref, err := h.store.Put(h.t.Context(), strings.NewReader(text), coord.MaxArtifact)
	if err != nil {
		h.t.Fatal(err)
	}
	var id coord.JobID
	h.update(func(tx *journal.Tx) error {
		p := coord.Plan{Tasks: []coord.PlanTask{{Agent: "a", Instruction: text}}}.Completed()
		j, err := tx.AddJob(coord.Job{Plan: p, Grant: &coord.Grant{Digest: "d"}})
		if err != nil {
			return err
		}
		now := tx.Now()
		id, j.Started = j.ID, &now
		if j, err = j.Apply(coord.JobRun, now); err != nil {
			return err
		}
		if err := tx.PutJob(j, nil); err != nil {
			return err
		}
		t, err := tx.AddTask(coord.Task{Job: id, Key: "task-1", Agent: "a", State: coord.TaskReady})
		if err != nil {
			return err
		}
		a, err := tx.AddAttempt(t, coord.RouteACP, "here")
		if err != nil {
			return err
		}
		if _, err := tx.AddArtifact(coord.Artifact{Job: id, Task: t.ID, Attempt: a.ID, Name: "answer.md", Size: ref.Size, SHA256: ref.SHA256}); err != nil {
			return err
		}
		if len(h.staged) > 0 {
			if err := tx.Stage(coord.ChangeSet{Attempt: a.ID, Base: coord.WorkspaceIdentity{Path: "/w"}, Files: h.staged}); err != nil {
				return err
			}
		}
		for _, c := range []coord.Change{{On: coord.AttemptIntend, Handle: &coord.Handle{Version: 1}}, {On: coord.AttemptReceive, Receipt: &coord.Receipt{Kind: "update", Reference: "s"}},
			{On: on, Activity: coord.Ended, Statement: &coord.Statement{Agent: "a", By: "agent", Text: text, SHA256: ref.SHA256}}} {
			if _, err := tx.MoveAttempt(a.ID, c); err != nil {
				return err
			}
		}
		return nil
	})
	space, err := h.quota.Reserve(id, ref.Size)
	if err == nil {
		err = space.Commit(ref.Size)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// pass lets time pass, with a look each day.
func (h *house) pass(d time.Duration) {
	h.t.Helper()
	for ; d > 0; d -= 24 * time.Hour {
		h.set(h.clock().Add(min(d, 24*time.Hour)))
		if err := h.Sweep(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *house) events() (out []coord.Event) {
	h.t.Helper()
	err := h.journal.View(h.t.Context(), func(v *journal.View) (err error) {
		out, err = v.Events(0, journal.EventFilter{}, 1000)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// has reports whether the bytes of text are stored.
func (h *house) has(text string) bool {
	sum := sha256.Sum256([]byte(text))
	r, _, err := h.store.Open(hex.EncodeToString(sum[:]))
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close()) == nil
}

func TestDetailGoesAfterNinetyDaysAndTheResultStaysAYear(t *testing.T) {
	h := newHouse(t)
	began := h.clock()
	id := h.run("the answer", coord.AttemptComplete)
	h.pass(coord.KeepDetail - time.Hour)
	if n := len(h.events()); n < 5 || !h.has("the answer") {
		t.Fatalf("before its time: %d events, bytes kept %v", n, h.has("the answer"))
	}
	h.pass(2 * time.Hour)
	if n := len(h.events()); n > 1 {
		t.Errorf("%d events are left of a job that ended %s ago", n, coord.KeepDetail)
	}
	if h.has("the answer") {
		t.Error("the bytes are still there")
	}
	if used := h.quota.Job(id); used.Used != 0 {
		t.Errorf("the job still takes %d bytes of the quota", used.Used)
	}
	r, err := h.results.Result(t.Context(), coord.JobRef{ID: id})
	if err != nil || len(r.Tasks) != 1 || r.Tasks[0].Statement == nil || r.Tasks[0].Statement.Text != "the answer" || r.Tasks[0].Receipt == nil {
		t.Errorf("the result that is kept: %+v, %v", r, err)
	}
	_, err = h.results.Explain(t.Context(), coord.AttemptRef{Task: coord.TaskRef{Job: coord.JobRef{ID: id}, Key: "task-1"}})
	if told := "removed by retention 90 days after its job had ended on " + began.Wall.Format(time.DateOnly); coord.CodeOf(err) != coord.NotFound || !strings.Contains(err.Error(), told) {
		t.Errorf("an attempt whose detail is gone is explained with %v", err)
	}
	h.pass(coord.KeepSummary)
	if _, err := h.results.Result(t.Context(), coord.JobRef{ID: id}); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("after a year the result gives %v", err)
	}
}

func TestChangesAreKeptWhileTheyWaitAndTheirContentsGoWithThem(t *testing.T) {
	h := newHouse(t)
	sha, err := h.contents.Put(t.Context(), []byte("package main\n"))
	if err != nil {
		t.Fatal(err)
	}
	h.staged = []coord.FileChange{{Path: "main.go", Kind: coord.FileNew, After: sha, Mode: 0o644, Size: 13}}
	id := h.run("an edit", coord.AttemptComplete)
	h.pass(coord.KeepDetail + 48*time.Hour)
	var c coord.ChangeSet
	h.update(func(tx *journal.Tx) error {
		all, err := tx.JobChangeSets(id)
		if err != nil || len(all) != 1 {
			return errors.Join(err, fmt.Errorf("%d change sets are kept", len(all)))
		}
		c, err = tx.DecideChangeSet(all[0].ID, coord.Review{On: coord.ChangeSetDiscard, By: coord.Actor{Role: coord.RoleOperator}})
		return err
	})
	if _, err := h.contents.Get(t.Context(), sha); err != nil {
		t.Errorf("the content of a change set that waits: %v", err)
	}
	h.pass(72 * time.Hour)
	err = h.journal.View(t.Context(), func(v *journal.View) error {
		_, err := v.ChangeSet(coord.ChangeSetRef{ID: c.ID})
		return err
	})
	if coord.CodeOf(err) != coord.NotFound {
		t.Errorf("a decided change set of an old job: %v", err)
	}
	if _, err := h.contents.Get(t.Context(), sha); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("its content: %v", err)
	}
}

func TestUnknownWorkIsKeptHoweverOld(t *testing.T) {
	h := newHouse(t)
	id := h.run("who knows", coord.AttemptLose)
	before := len(h.events())
	h.pass(2 * coord.KeepSummary)
	if n := len(h.events()); n != before || !h.has("who knows") {
		t.Errorf("%d of %d events are left, bytes kept %v", n, before, h.has("who knows"))
	}
	r, err := h.results.Result(t.Context(), coord.JobRef{ID: id})
	if err != nil || r.State != coord.JobAttention {
		t.Errorf("the job is %s, %v", r.State, err)
	}
}

func TestEventsGoFromTheBeginningWithoutAGap(t *testing.T) {
	h := newHouse(t)
	h.run("first, unknown for ever", coord.AttemptLose)
	h.run("second", coord.AttemptComplete)
	before := len(h.events())
	h.pass(coord.KeepDetail + time.Hour)
	if n := len(h.events()); n != before {
		t.Errorf("%d of %d events are left though the oldest belong to an unknown", n, before)
	}
}

func TestBytesThatAnotherJobHasStay(t *testing.T) {
	h := newHouse(t)
	h.run("shared", coord.AttemptComplete)
	h.pass(60 * 24 * time.Hour)
	h.run("shared", coord.AttemptComplete)
	h.pass(40 * 24 * time.Hour)
	if !h.has("shared") {
		t.Error("the younger job lost its bytes")
	}
}

func TestShortNumbersAreNeverGivenAgain(t *testing.T) {
	h := newHouse(t)
	h.run("first", coord.AttemptComplete)
	var asked coord.Request
	h.update(func(tx *journal.Tx) error {
		jobs, err := tx.Jobs(0, 1)
		if err != nil {
			return err
		}
		a, err := tx.Attempts(jobs[0].ID)
		if err != nil {
			return err
		}
		asked, err = tx.AddRequest(coord.Request{Attempt: a[0].ID, Kind: coord.Permission})
		return err
	})
	h.pass(coord.KeepDetail + time.Hour)
	h.pass(coord.KeepSummary)
	second := h.run("second", coord.AttemptLose)
	h.update(func(tx *journal.Tx) error {
		j, err := tx.JobHead(coord.JobRef{ID: second})
		if err != nil {
			return err
		}
		if j.Number != 2 {
			t.Errorf("the job after job 1, which was removed, is job %d", j.Number)
		}
		a, err := tx.Attempts(second)
		if err != nil {
			return err
		}
		again, err := tx.AddRequest(coord.Request{Attempt: a[0].ID, Kind: coord.Permission})
		if again.Number != asked.Number+1 {
			t.Errorf("the request after r%d, which was removed, is r%d", asked.Number, again.Number)
		}
		return err
	})
}

func TestAForgottenDraftDoesNotKeepAllEvents(t *testing.T) {
	h := newHouse(t)
	h.update(func(tx *journal.Tx) error {
		_, err := tx.AddJob(coord.Job{Plan: coord.Plan{Tasks: []coord.PlanTask{{Agent: "a", Instruction: "some day"}}}.Completed()})
		return err
	})
	h.run("the answer", coord.AttemptComplete)
	h.pass(coord.KeepDetail + time.Hour)
	if n := len(h.events()); n > 1 {
		t.Errorf("%d events are left because of a draft", n)
	}
}

func TestTheExportOfWhatIsKeptVerifies(t *testing.T) {
	h := newHouse(t)
	id := h.run("the answer", coord.AttemptComplete)
	h.pass(coord.KeepDetail + time.Hour)
	var archive bytes.Buffer
	if err := h.results.Export(t.Context(), coord.JobRef{ID: id}, &archive); err != nil {
		t.Fatal(err)
	}
	rep, err := synthesis.Verify(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	if err != nil || len(rep.Faults) > 0 || rep.Absent != 2 { // the plan and the answer
		t.Errorf("the report is %+v, %v", rep, err)
	}
}

// broken gives no result of one job.
type broken struct {
	retention.Results
	job coord.JobID
}

func (b broken) Result(ctx context.Context, ref coord.JobRef) (coord.Result, error) {
	if ref.ID == b.job {
		return coord.Result{}, coord.Errorf(coord.Internal, "its events cannot be read")
	}
	return b.Results.Result(ctx, ref)
}

func TestAJobThatCannotBeSummarizedDoesNotKeepTheOthers(t *testing.T) {
	h := newHouse(t)
	bad := h.run("unreadable", coord.AttemptComplete)
	h.run("readable", coord.AttemptComplete)
	h.Retention = retention.New(h.journal, broken{h.results, bad}, h.store, h.quota, h.contents, slog.New(slog.DiscardHandler))
	h.pass(coord.KeepDetail + time.Hour)
	if !h.has("unreadable") || h.has("readable") {
		t.Errorf("bytes kept: of the broken job %v, of the other %v", h.has("unreadable"), h.has("readable"))
	}
}

func TestAClockThatIsFarAheadForAWhileCostsNothing(t *testing.T) {
	h := newHouse(t)
	h.run("the answer", coord.AttemptComplete)
	h.pass(time.Hour)
	right := h.set(h.clock().Add(3 * coord.KeepSummary))
	if err := h.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.set(right)
	h.pass(time.Hour)
	if n := len(h.events()); n < 5 || !h.has("the answer") {
		t.Errorf("%d events are left, bytes kept %v", n, h.has("the answer"))
	}
}

func TestAnAnswerIsGivenAgainForSevenDays(t *testing.T) {
	h := newHouse(t)
	const more = 501 // than one transaction removes
	keep := func(name string) {
		t.Helper()
		ctx := journal.WithKey(t.Context(), journal.Key{Scope: "drafts", Name: name, Digest: "d"})
		if err := h.journal.Update(ctx, func(tx *journal.Tx) error { return tx.Answer("job_1") }); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(name string) (found bool) {
		t.Helper()
		err := h.journal.View(t.Context(), func(v *journal.View) (err error) {
			_, found, err = v.Answered(journal.Key{Scope: "drafts", Name: name, Digest: "d"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for i := range more {
		keep(strconv.Itoa(i))
	}
	h.pass(coord.KeepAnswer - time.Hour)
	keep("young")
	if !kept("0") {
		t.Error("an answer went before its time")
	}
	h.pass(2 * time.Hour)
	for i := range more {
		if kept(strconv.Itoa(i)) {
			t.Fatalf("answer %d is still there", i)
		}
	}
	if !kept("young") {
		t.Error("the young answer went with the old ones")
	}
	keep("0") // the key is new again
}
