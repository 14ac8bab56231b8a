package journaltest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

func testReopen(t *testing.T, e Engine) {
	dir := t.TempDir()
	j := e.open(t, dir, At(Start))
	add(t, j, coord.Event{Kind: coord.JobChanged, Job: "job_1"}, coord.Event{Kind: coord.TaskChanged, Job: "job_1"})
	before, epoch, generation := read(t, j), j.Epoch(), j.Generation()
	if epoch == "" || generation < 1 {
		t.Errorf("epoch %q, generation %d", epoch, generation)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = e.open(t, dir, At(Start))
	if j.Head() != 2 || j.Epoch() != epoch || j.Generation() != generation+1 {
		t.Errorf("head %d, epoch %q, generation %d; want 2, %q, %d", j.Head(), j.Epoch(), j.Generation(), epoch, generation+1)
	}
	if diff := cmp.Diff(before, read(t, j)); diff != "" {
		t.Errorf("events (-before +after):\n%s", diff)
	}
	if seq := add(t, j, coord.Event{Kind: coord.JobChanged}); seq != 3 {
		t.Errorf("the next sequence is %d, want 3", seq)
	}
	if other := e.open(t, t.TempDir(), At(Start)); other.Epoch() == epoch {
		t.Error("two journals have one epoch")
	}
}

func testFloor(t *testing.T, e Engine) {
	dir := t.TempDir()
	j := e.open(t, dir, At(Start))
	add(t, j, coord.Event{Kind: coord.JobChanged})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	back := Start
	back.Wall, back.BootID, back.Boot = Start.Wall.Add(-time.Hour), "boot-2", time.Minute
	now := back
	j = e.open(t, dir, func() coord.Moment { return now })
	want := back
	want.Wall = Start.Wall
	if diff := cmp.Diff(want, j.Now()); diff != "" {
		t.Errorf("now, with the clock set back (-want +got):\n%s", diff)
	}
	now = Start.Add(time.Minute)
	if diff := cmp.Diff(now, j.Now()); diff != "" {
		t.Errorf("now, with the clock ahead again (-want +got):\n%s", diff)
	}
}

func testOwner(t *testing.T, e Engine) {
	dir := t.TempDir()
	j := e.open(t, dir, At(Start))
	_, err := e.Open(t, dir, At(Start))
	wantCode(t, err, coord.Conflict)
	add(t, j, coord.Event{Kind: coord.JobChanged})
}

func testFence(t *testing.T, e Engine) {
	dir := t.TempDir()
	j := e.open(t, dir, At(Start))
	add(t, j, coord.Event{Kind: coord.JobChanged})
	e.Usurp(t, dir)
	ran := false
	update := func() error {
		return j.Update(t.Context(), func(tx *journal.Tx) error {
			ran = true
			tx.Append(coord.Event{Kind: coord.JobChanged})
			return nil
		})
	}
	wantCode(t, update(), coord.Conflict, "another worker")
	<-j.Failed()
	wantCode(t, j.Err(), coord.Conflict)
	wantCode(t, update(), coord.Conflict)
	if ran || j.Head() != 1 || len(read(t, j)) != 1 {
		t.Errorf("a fenced owner wrote: ran %v, head %d", ran, j.Head())
	}
}

func testClose(t *testing.T, e Engine) {
	j := e.open(t, t.TempDir(), At(Start))
	inside, leave := make(chan struct{}), make(chan struct{})
	viewed, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		viewed <- j.View(t.Context(), func(*journal.View) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	go func() { closed <- j.Close() }()
	// Close has begun once a view is refused.
	for {
		err := j.View(t.Context(), func(*journal.View) error { return nil })
		if err != nil {
			wantCode(t, err, coord.Unavailable)
			break
		}
	}
	wantCode(t, j.Update(t.Context(), func(*journal.Tx) error { return nil }), coord.Unavailable, "closed")
	select {
	case err := <-closed:
		t.Errorf("Close returned while a view was open: %v", err)
		closed <- err
	default:
	}
	close(leave)
	if err := <-viewed; err != nil {
		t.Errorf("the open view: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
}
