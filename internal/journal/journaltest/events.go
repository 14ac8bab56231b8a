package journaltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

func testOrder(t *testing.T, e Engine) {
	j := e.open(t, t.TempDir(), At(Start))
	const writers, each = 8, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				var seq int64
				update := j.Update
				if i%2 == 1 {
					update = j.UpdateText
				}
				err := update(t.Context(), func(tx *journal.Tx) error {
					seq = tx.Append(coord.Event{Kind: coord.AttemptText, Attempt: coord.AttemptID(fmt.Sprint("att_", w)), Data: json.RawMessage(fmt.Sprint(i))})
					return nil
				})
				if err != nil {
					t.Errorf("update: %v", err)
				}
				if head := j.Head(); head < seq {
					t.Errorf("head is %d after the commit of %d", head, seq)
				}
			}
		})
	}
	wg.Wait()
	all := read(t, j)
	if len(all) != writers*each || j.Head() != writers*each {
		t.Fatalf("%d events and head %d, want %d", len(all), j.Head(), writers*each)
	}
	next := map[coord.AttemptID]int{}
	for i, e := range all {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has sequence %d", i+1, e.Seq)
		}
		if want := fmt.Sprint(next[e.Attempt]); string(e.Data) != want {
			t.Fatalf("event %d of %s is %s, want %s", e.Seq, e.Attempt, e.Data, want)
		}
		next[e.Attempt]++
	}
}

func testPages(t *testing.T, e Engine) {
	j := e.open(t, t.TempDir(), At(Start))
	by := coord.WorkerActor
	full := coord.Event{
		Kind: coord.TaskChanged, Job: "job_a", Task: "tsk_a", Attempt: "att_a", Request: "req_a", Agent: "codex",
		By: &by, Data: json.RawMessage(`{"big":9007199254740993,"text":"a < b & \"c\" \u2028"}`),
	}
	for i := range 10 {
		e := coord.Event{Kind: coord.JobChanged, Job: []coord.JobID{"job_a", "job_b"}[i%2]}
		if i%3 == 0 {
			e.Attempt = "att_a"
		}
		add(t, j, e)
	}
	add(t, j, full)
	add(t, j, coord.Event{Kind: coord.WorkerStarted})
	for _, c := range []struct {
		name   string
		after  int64
		filter journal.EventFilter
		limit  int
		want   []int64
	}{
		{"a first page", 0, journal.EventFilter{}, 3, []int64{1, 2, 3}},
		{"the page after a cursor", 3, journal.EventFilter{}, 3, []int64{4, 5, 6}},
		{"a last, shorter page", 10, journal.EventFilter{}, 9, []int64{11, 12}},
		{"after the head", 12, journal.EventFilter{}, 9, []int64{}},
		{"one job", 0, journal.EventFilter{Job: "job_a"}, 9, []int64{1, 3, 5, 7, 9, 11}},
		{"one job after a cursor", 5, journal.EventFilter{Job: "job_a"}, 2, []int64{7, 9}},
		{"one attempt of one job", 0, journal.EventFilter{Job: "job_b", Attempt: "att_a"}, 9, []int64{4, 10}},
		{"a job that has none", 0, journal.EventFilter{Job: "job_c"}, 9, []int64{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := j.View(t.Context(), func(v *journal.View) error {
				got, err := v.Events(c.after, c.filter, c.limit)
				if diff := cmp.Diff(c.want, seqs(got)); diff != "" {
					t.Errorf("sequences (-want +got):\n%s", diff)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	err := j.View(t.Context(), func(v *journal.View) error {
		_, err := v.Events(0, journal.EventFilter{Attempt: "att_a"}, 9)
		return err
	})
	wantCode(t, err, coord.Internal, "att_a")
	full.Seq, full.At = 11, Start
	got := read(t, j)[10]
	// RawMessage compares as the bytes that were given, so numbers keep their
	// digits; only the escaping of < and the like may differ.
	var want, have any
	if err := json.Unmarshal(full.Data, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got.Data, &have); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	full.Data, got.Data = nil, nil
	if diff := cmp.Diff(full, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

// testJobs writes events of a few jobs at random distances, among operations
// that fail after they wrote, and restarts.
func testJobs(t *testing.T, e Engine) {
	random := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	j := e.open(t, dir, At(Start))
	want := map[journal.EventFilter][]int64{}
	errUndone := errors.New("undone")
	for head := int64(0); head < 2000; {
		var of []coord.Event
		for range 1 + random.IntN(30) {
			job := coord.JobID(fmt.Sprint("job_", random.IntN(12)))
			if random.IntN(200) == 0 {
				job = "job_seldom"
			}
			of = append(of, coord.Event{Kind: coord.AttemptText, Job: job, Attempt: coord.AttemptID(fmt.Sprint("att_", random.IntN(2), "_of_", job))})
		}
		fails := random.IntN(3) == 0
		err := j.Update(t.Context(), func(tx *journal.Tx) error {
			for _, e := range of {
				tx.Append(e)
			}
			if fails {
				return errUndone
			}
			return nil
		})
		if fails != errors.Is(err, errUndone) {
			t.Fatalf("update: %v", err)
		}
		if fails {
			continue
		}
		for _, e := range of {
			head++
			for _, f := range []journal.EventFilter{{Job: e.Job}, {Job: e.Job, Attempt: e.Attempt}} {
				want[f] = append(want[f], head)
			}
		}
		if random.IntN(20) == 0 {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = e.open(t, dir, At(Start))
		}
	}
	for f, all := range want {
		for _, after := range []int64{0, 1, 255, 256, 257, 1000, all[len(all)-1]} {
			rest := all[sort.Search(len(all), func(i int) bool { return all[i] > after }):]
			for _, limit := range []int{1, 3, len(all)} {
				var got []coord.Event
				err := j.View(t.Context(), func(v *journal.View) (err error) {
					got, err = v.Events(after, f, limit)
					return err
				})
				if diff := cmp.Diff(rest[:min(limit, len(rest))], seqs(got)); err != nil || diff != "" {
					t.Fatalf("%d events of %+v after %d: %v\n%s", limit, f, after, err, diff)
				}
			}
		}
	}
}

func testVisible(t *testing.T, e Engine) {
	j := e.open(t, t.TempDir(), At(Start))
	changed := j.Changed(0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		// Whatever Head tells can be read, and operations are read whole.
		for {
			select {
			case <-stop:
				return
			default:
			}
			head := j.Head()
			if n := len(read(t, j)); int64(n) < head || n%2 != 0 {
				t.Errorf("%d events are visible at head %d", n, head)
				return
			}
		}
	})
	for i := range int64(50) {
		err := j.Update(t.Context(), func(tx *journal.Tx) error {
			tx.Append(coord.Event{Kind: coord.JobChanged})
			tx.Append(coord.Event{Kind: coord.JobChanged})
			if head := j.Head(); head != 2*i {
				t.Errorf("head is %d before the commit after %d", head, 2*i)
			}
			select {
			case <-changed:
				if i == 0 {
					t.Error("Changed is closed before the commit")
				}
			default:
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if head := j.Head(); head != 2*i+2 {
			t.Fatalf("head is %d after the commit, want %d", head, 2*i+2)
		}
	}
	close(stop)
	wg.Wait()
}

func testChanged(t *testing.T, e Engine) {
	j := e.open(t, t.TempDir(), At(Start))
	open := func(after int64) bool {
		select {
		case <-j.Changed(after):
			return false
		default:
			return true
		}
	}
	early, later := j.Changed(0), j.Changed(2)
	if !open(0) {
		t.Error("Changed(0) is closed in an empty journal")
	}
	add(t, j, coord.Event{Kind: coord.JobChanged})
	<-early
	if open(0) || !open(1) {
		t.Error("at head 1, Changed(0) must be closed and Changed(1) open")
	}
	add(t, j, coord.Event{Kind: coord.JobChanged})
	select {
	case <-later:
		t.Error("Changed(2) is closed at head 2")
	default:
	}
	add(t, j, coord.Event{Kind: coord.JobChanged})
	<-later
}

func testRedaction(t *testing.T, e Engine) {
	dir := t.TempDir()
	j := e.open(t, dir, At(Start))
	add(t, j, coord.Event{
		Kind: coord.AgentChanged, Agent: "codex",
		By:   &coord.Actor{Name: "by " + Secret},
		Data: json.RawMessage(`{"deep":[{"` + Secret + `":"a \"` + Secret + `\" b","escaped":"\u00733cret","n":1.50}]}`),
	})
	k := journal.Key{Scope: "scope", Name: "key", Digest: "digest"}
	if err := answer(t, j, k, made{Secret}, nothing); err != nil {
		t.Fatal(err)
	}
	got := read(t, j)[0]
	if got.By.Name != "by [redacted]" {
		t.Errorf("the actor's name is %q", got.By.Name)
	}
	if want := `{"deep":[{"[redacted]":"a \"[redacted]\" b","escaped":"[redacted]","n":1.50}]}`; string(got.Data) != want {
		t.Errorf("data is %s, want %s", got.Data, want)
	}
	if kept, err := answered(t, j, k); kept != `{"id":"[redacted]"}` || err != nil {
		t.Errorf("the kept answer is %s, %v", kept, err)
	}
}
