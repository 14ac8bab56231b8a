package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"signalbox/internal/api"
	"signalbox/internal/coord"
)

// cutStream is what of an event stream arrived before it was cut: the events,
// and the id after which to resume.
type cutStream struct {
	events []coord.Event
	last   string
	resync bool
}

// listen reads an event stream from a cursor until n bytes came or the cursor
// is at head, and then drops the connection.
func (w *world) listen(cursor string, head int64, n int64) (s cutStream) {
	w.t.Helper()
	s.last = cursor
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, w.door.url+"/api/events", http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	req.Header.Set("Last-Event-ID", cursor)
	res, err := web.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		w.t.Fatalf("the stream from %s gives %d", cursor, res.StatusCode)
	}
	in := bufio.NewReader(io.LimitReader(res.Body, n))
	var id, name string
	var data bytes.Buffer
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return s // in the midst of a frame, which counts for nothing
		}
		if err != nil {
			w.t.Fatalf("the stream from %s: %v", cursor, err)
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			data.WriteString(value)
		case "":
			if line != "\n" {
				continue // a comment
			}
			if id != "" {
				s.last = id
			}
			if name == "resync" {
				s.resync = true
				return s
			}
			if data.Len() > 0 {
				var e coord.Event
				if err := json.Unmarshal(data.Bytes(), &e); err != nil {
					w.t.Fatalf("an event is none: %v", err)
				}
				s.events = append(s.events, e)
				if e.Seq >= head {
					return s
				}
			}
			id, name = "", ""
			data.Reset()
		}
	}
}

// events gives what was journaled after seq and until now.
func (w *world) events(seq int64) []coord.Event {
	w.t.Helper()
	now := must[api.Status](w, "status")(w.client.Status(w.ctx))
	if now.Head == seq {
		return nil
	}
	return w.listen(api.Cursor(now.Epoch, seq), now.Head, 1<<30).events
}

// TestNoEventIsLostOrDoubledHoweverTheStreamIsCut resumes after each sequence,
// and cuts each stream at random bytes until everything has come.
func TestNoEventIsLostOrDoubledHoweverTheStreamIsCut(t *testing.T) {
	w := newWorld(t)
	random := cuts(t)
	w.scripted("asker", "ask")
	w.scripted("streamer", "stream")
	ref := w.run(plan(task("ask", "asker", "ask"), task("stream", "streamer", "stream", "ask")))
	w.decide(w.asked(ref, "ask"), coord.DecisionApprove, "yes")

	// While things happen: cut again and again.
	start := must[api.Status](w, "status")(w.client.Status(w.ctx))
	cursor, next := api.Cursor(start.Epoch, 0), int64(1)
	take := func(s cutStream) {
		t.Helper()
		if s.resync {
			t.Fatalf("resync at %s", cursor)
		}
		for _, e := range s.events {
			if e.Seq != next {
				t.Fatalf("event %d came where %d was due, after %s", e.Seq, next, cursor)
			}
			next++
		}
		cursor = s.last
	}
	for next <= start.Head+40 {
		take(w.listen(cursor, start.Head+40, 1+random.Int64N(2000)))
	}
	w.stage.open("streamer")
	w.settles(ref, coord.JobCompleted)

	// And afterwards from each place there is.
	end := must[api.Status](w, "status")(w.client.Status(w.ctx))
	whole := w.listen(api.Cursor(end.Epoch, 0), end.Head, 1<<30).events
	for from := range end.Head {
		cursor, next = api.Cursor(end.Epoch, from), from+1
		take(w.listen(cursor, end.Head, 1+random.Int64N(4000)))
		if next <= end.Head {
			take(w.listen(cursor, min(end.Head, next+3), 1<<30))
		}
	}
	for i, e := range whole {
		if e.Seq != int64(i)+1 {
			t.Fatalf("event %d at place %d", e.Seq, i+1)
		}
	}
	for _, bad := range []string{"x", "-", "1.5", end.Epoch + "-x", end.Epoch + "-", strings.Repeat("9", 30)} {
		if status, body := w.do(http.MethodGet, "/api/events", "", "Last-Event-ID", bad); status != http.StatusUnprocessableEntity {
			t.Errorf("cursor %q: %d %s", bad, status, body)
		}
	}
	for _, useless := range []string{api.Cursor("another", 1), "-1", api.Cursor(end.Epoch, end.Head+1000), fmt.Sprint(end.Head + 1000)} {
		if s := w.listen(useless, end.Head, 200); !s.resync {
			t.Errorf("cursor %q: no resync", useless)
		}
	}
}
