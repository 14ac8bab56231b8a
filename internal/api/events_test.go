package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/api"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// frame is one frame of an event stream as it came.
type frame struct{ id, event, data, comment string }

// follow opens an event stream; the frames end when the stream does.
func (w *world) follow(query string, headers ...string) (<-chan frame, func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancelCause(w.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/api/events"+query, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set(roleHeader, string(coord.RoleRead))
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("status %d, %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	out := make(chan frame, 16)
	go func() {
		defer close(out)
		defer res.Body.Close()
		var f frame
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case lines.Text() == "":
				out <- f
				f = frame{}
			case name == "id":
				f.id = value
			case name == "event":
				f.event = value
			case name == "data":
				f.data = value
			default:
				f.comment = lines.Text()
			}
		}
	}()
	w.t.Cleanup(func() {
		cancel(errors.New("the test is over"))
		for range out { // the reader has ended when it is closed
		}
	})
	return out, func() { cancel(errors.New("the reader leaves")) }
}

func next(t *testing.T, frames <-chan frame) frame {
	t.Helper()
	select {
	case f, open := <-frames:
		if !open {
			t.Fatal("the stream ended")
		}
		return f
	case <-time.After(20 * time.Second):
		t.Fatal("no frame came")
	}
	return frame{}
}

// append writes an event of a job.
func (w *world) append(job coord.JobID, kind coord.EventKind) int64 {
	w.t.Helper()
	var seq int64
	err := w.journal.Update(w.t.Context(), func(tx *journal.Tx) error {
		seq = tx.Append(coord.Event{Kind: kind, Job: job, Data: json.RawMessage(`{"text":"a\nb"}`)})
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return seq
}

func (w *world) cursor(seq int64) string { return api.Cursor(w.journal.Epoch(), seq) }

func event(t *testing.T, f frame) coord.Event {
	t.Helper()
	var e coord.Event
	if err := json.Unmarshal([]byte(f.data), &e); err != nil {
		t.Fatalf("%v: %+v", err, f)
	}
	return e
}

func TestAStreamResumesAfterTheCursorWithoutGapOrRepetition(t *testing.T) {
	w := newWorld(t, nil)
	const n = 2*coord.EventPage + 50 // more than two pages
	err := w.journal.Update(t.Context(), func(tx *journal.Tx) error {
		for range n {
			tx.Append(coord.Event{Kind: coord.AttemptText, Job: "job_a"})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	after := int64(0)
	for _, query := range []string{"?after=0", ""} { // the beginning, then as a browser comes back
		var headers []string
		if query == "" {
			headers = []string{"Last-Event-ID", w.cursor(after)}
		}
		frames, leave := w.follow(query, headers...)
		if f := next(t, frames); f.id != w.cursor(after) || f.data != "" {
			t.Fatalf("the first frame does not tell the cursor: %+v", f)
		}
		for range n / 2 {
			f := next(t, frames)
			after++
			if e := event(t, f); e.Seq != after || f.id != w.cursor(after) {
				t.Fatalf("event %d with id %s, want %d", e.Seq, f.id, after)
			}
		}
		leave()
	}
}

func TestAStreamWithoutCursorStartsNow(t *testing.T) {
	w := newWorld(t, nil)
	w.append("job_a", coord.JobChanged)
	frames, _ := w.follow("")
	if f := next(t, frames); f.id != w.cursor(1) {
		t.Fatalf("first frame %+v", f)
	}
	w.append("job_a", coord.TaskChanged)
	if e := event(t, next(t, frames)); e.Seq != 2 || e.Kind != coord.TaskChanged {
		t.Errorf("event %+v", e)
	}
}

func TestACursorOfNoUseGetsAResync(t *testing.T) {
	w := newWorld(t, nil)
	w.append("job_a", coord.JobChanged)
	for name, cursor := range map[string]string{"foreign epoch": "another-1", "ahead": w.cursor(99)} {
		t.Run(name, func(t *testing.T) {
			frames, _ := w.follow("", "Last-Event-ID", cursor)
			f := next(t, frames)
			var r api.Resync
			if err := json.Unmarshal([]byte(f.data), &r); err != nil || f.event != "resync" {
				t.Fatalf("%v: %+v", err, f)
			}
			if r.Head != w.journal.Head() || r.Epoch != w.journal.Epoch() || r.Reason == "" || f.id != w.cursor(r.Head) {
				t.Errorf("resync %+v, id %s", r, f.id)
			}
			seq := w.append("job_a", coord.JobChanged)
			if e := event(t, next(t, frames)); e.Seq != seq {
				t.Errorf("after the resync: event %d, want %d", e.Seq, seq)
			}
		})
	}
	w.ask(operator, http.MethodGet, "/api/events?after=rubbish", "").want(http.StatusUnprocessableEntity)
}

func TestAFilteredStreamShowsOnlyWhatWasAskedFor(t *testing.T) {
	w := newWorld(t, nil)
	w.addAgent("a")
	w.ask(operator, http.MethodPost, "/api/jobs", onePlan).want(http.StatusCreated)
	w.ask(operator, http.MethodPost, "/api/jobs", onePlan).want(http.StatusCreated)
	j := data[coord.Job](w.ask(operator, http.MethodGet, "/api/jobs/2", ""))
	frames, _ := w.follow("?after=0&job=2&kinds=job.changed,task.changed")
	next(t, frames) // the cursor
	w.append("job_other", coord.JobChanged)
	w.append(j.ID, coord.AttemptText)
	last := w.append(j.ID, coord.TaskChanged)
	var got []coord.EventKind
	for len(got) < 2 {
		f := next(t, frames)
		if f.data == "" {
			continue
		}
		e := event(t, f)
		if e.Job != j.ID {
			t.Errorf("event of %s", e.Job)
		}
		got = append(got, e.Kind)
		if len(got) == 2 && e.Seq != last {
			t.Errorf("last event %d, want %d", e.Seq, last)
		}
	}
	if diff := cmp.Diff([]coord.EventKind{coord.JobChanged, coord.TaskChanged}, got); diff != "" {
		t.Error(diff)
	}
	w.ask(operator, http.MethodGet, "/api/events?job=99", "").want(http.StatusNotFound)
}

func TestStreamsEndWithTheAPI(t *testing.T) {
	w := newWorld(t, nil)
	frames, _ := w.follow("")
	next(t, frames)
	w.api.Close()
	f := next(t, frames)
	if !strings.Contains(f.comment, "stopping") {
		t.Errorf("last frame %+v", f)
	}
	if f, open := <-frames; open {
		t.Errorf("a frame after the end: %+v", f)
	}
	w.ask(operator, http.MethodGet, "/api/events", "").want(http.StatusServiceUnavailable).problem(coord.Unavailable)
}

func TestAReaderThatTakesNothingHoldsUpNobody(t *testing.T) {
	w := newWorld(t, nil)
	stuck, _ := w.follow("?after=0")
	next(t, stuck)
	// Far more than all buffers hold.
	text := strings.Repeat("x", coord.MaxTextChunk)
	for range 10 {
		err := w.journal.Update(t.Context(), func(tx *journal.Tx) error {
			for range 100 {
				tx.Append(coord.Event{Kind: coord.AttemptText, Data: json.RawMessage(strconv.Quote(text))})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	head := w.journal.Head()
	live, _ := w.follow("?after=" + w.cursor(head-1))
	next(t, live)
	if e := event(t, next(t, live)); e.Seq != head {
		t.Errorf("event %d, want %d", e.Seq, head)
	}
	// The journal's readers are free: the stuck one holds no transaction.
	w.ask(operator, http.MethodGet, "/api/status", "").want(http.StatusOK)
}
