package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/sse"
)

// Resync is the data of an event stream's "resync": the cursor that was given
// is of no use here. Read the state anew; the stream goes on from Head.
type Resync struct {
	Epoch  string `json:"epoch"`
	Head   int64  `json:"head"`
	Reason string `json:"reason"`
}

// Cursor writes a place in the event sequence as the id of a stream.
func Cursor(epoch string, seq int64) string { return epoch + "-" + strconv.FormatInt(seq, 10) }

type eventsInput struct {
	LastEventID string   `header:"Last-Event-ID" maxLength:"100" doc:"The last id that was seen; resumes after it"`
	After       string   `query:"after" maxLength:"100" doc:"Like Last-Event-ID, where no header can be set; 0 is the beginning. Without either the stream starts now"`
	Job         string   `query:"job" maxLength:"100" doc:"Only events of this job: 12 or job_…"`
	Attempt     string   `query:"attempt" maxLength:"200" doc:"Only events of this attempt: 12/fix/1 or att_…"`
	Kinds       []string `query:"kinds" maxItems:"32" doc:"Only these kinds, separated by commas"`
}

func (a *API) addEvents() {
	o := a.describe(operation{id: "events", method: http.MethodGet, path: "/events", summary: "Follow what happens", tag: "events", role: coord.RoleRead})
	o.Description += " An event stream. Its ids are cursors of the form epoch-sequence; data is an Event. An event named resync means that the cursor is of no use: read the state anew. Frames with an id alone move the cursor of a filtered stream."
	schemas := a.huma.OpenAPI().Components.Schemas
	o.Responses = map[string]*huma.Response{"200": {
		Description: "Events until the client leaves or Signalbox stops",
		Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{
			Type:        huma.TypeString,
			Description: "Frames whose data is the schema Event, or Resync for the event resync",
			Extensions: map[string]any{"x-event-data": []any{
				schemas.Schema(typeOf[coord.Event](), true, ""), schemas.Schema(typeOf[Resync](), true, ""),
			}},
		}}},
	}}
	huma.Register(a.huma, o, func(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
		s, err := a.stream(ctx, in)
		if err != nil {
			p := a.problem(ctx, o.OperationID, err)
			if p.Code == coord.Limit {
				p = p.WithStatus(http.StatusTooManyRequests)
			}
			return nil, p
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			defer s.release()
			_, w := humago.Unwrap(c)
			s.run(ctx, w)
		}}, nil
	})
}

// stream is one open event stream.
type stream struct {
	api    *API
	filter journal.EventFilter
	kinds  []coord.EventKind
	// after is the cursor; sent is the last one that the reader was told.
	after, sent int64
	resync      string             // why the cursor is of no use, "" when it is
	by          coord.CredentialID // whose stream it is
	release     func()
}

// stream opens a stream: everything that can be refused is refused here.
func (a *API) stream(ctx context.Context, in *eventsInput) (*stream, error) {
	s := &stream{api: a, by: actor(ctx).Credential}
	var fields []coord.Field
	for i, kind := range in.Kinds {
		if !slices.Contains(coord.EventKinds, coord.EventKind(kind)) {
			fields = append(fields, coord.Field{Pointer: "/query/kinds/" + strconv.Itoa(i), Message: "there is no such kind of event"})
		}
		s.kinds = append(s.kinds, coord.EventKind(kind))
	}
	if err := coord.InvalidFields("the events cannot be followed", fields); err != nil {
		return nil, err
	}
	err := a.journal.View(ctx, func(v *journal.View) error {
		if err := s.choose(v, in); err != nil {
			return err
		}
		cursor := in.LastEventID
		if cursor == "" {
			cursor = in.After
		}
		return s.place(v, cursor)
	})
	if err != nil {
		return nil, err
	}
	return s, s.admit()
}

func (s *stream) choose(v *journal.View, in *eventsInput) error {
	if in.Job != "" {
		ref, err := coord.ParseJobRef(in.Job)
		if err != nil {
			return err
		}
		j, err := v.JobHead(ref)
		if err != nil {
			return err
		}
		s.filter.Job = j.ID
	}
	if in.Attempt != "" {
		ref, err := coord.ParseAttemptRef(in.Attempt)
		if err != nil {
			return err
		}
		at, err := v.Attempt(ref)
		if err != nil {
			return err
		}
		s.filter.Attempt = at.ID
	}
	return nil
}

// place sets the cursor, or the reason for a resync.
func (s *stream) place(v *journal.View, cursor string) error {
	head, err := v.Head()
	if err != nil {
		return err
	}
	if cursor == "" {
		s.after = head
		return nil
	}
	epoch, number, found := cutLast(cursor, "-")
	if !found {
		epoch, number = s.api.journal.Epoch(), cursor
	}
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || seq < 0 {
		return coord.Errorf(coord.Invalid, "the cursor of the event stream is not one: give the id of the last event that was seen, or 0")
	}
	switch {
	case epoch != s.api.journal.Epoch():
		s.resync = "the cursor is of another journal"
	case seq > head:
		s.resync = "the cursor is ahead of the journal"
	default:
		// Sequences have no gaps, so a gap means that events were removed.
		next, err := v.Events(seq, journal.EventFilter{}, 1)
		if err != nil {
			return err
		}
		if len(next) > 0 && next[0].Seq != seq+1 && seq > 0 {
			s.resync = "the events after the cursor are no longer kept"
		}
	}
	s.after = seq
	if s.resync != "" {
		s.after = head
	}
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// admit takes a place among the open streams.
func (s *stream) admit() error {
	a := s.api
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errStopping
	}
	select {
	case a.places <- struct{}{}:
	default:
		return coord.Errorf(coord.Limit, "%d event streams are open, which is all there may be: close some", coord.MaxStreams)
	}
	a.streams.Add(1)
	s.release = func() {
		<-a.places
		a.streams.Done()
	}
	return nil
}

// run sends until the client leaves, the API closes, or the reader takes
// nothing for too long.
func (s *stream) run(ctx context.Context, w http.ResponseWriter) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.api.ending, func() { cancel(errStopping) })()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out := &page{Writer: sse.NewWriter(w), control: http.NewResponseController(w)}
	err := s.follow(ctx, out)
	switch {
	case errors.Is(err, errStopping):
		s.bye(out, "Signalbox is stopping")
	case errors.Is(err, errEnded):
		s.bye(out, err.Error())
	case ctx.Err() == nil:
		s.api.log.Info("an event stream was cut off: its reader took nothing for too long, or the connection broke", "seq", s.sent, "err", err)
	}
}

// bye tells why a stream ends: a client cannot tell an end from a cut
// otherwise.
func (s *stream) bye(out *page, why string) {
	if err := out.write(func() error { return out.Comment(why) }); err != nil {
		s.api.log.Debug("an event stream could not be ended", "err", err)
	}
}

// page writes several frames within one deadline and flushes them.
type page struct {
	*sse.Writer
	control *http.ResponseController
}

func (p *page) write(frames func() error) error {
	if err := p.control.SetWriteDeadline(time.Now().Add(coord.StreamWrite)); err != nil {
		return err
	}
	if err := frames(); err != nil {
		return err
	}
	return p.control.Flush()
}

func (s *stream) follow(ctx context.Context, out *page) error {
	j := s.api.journal
	if err := out.write(func() error { return s.begin(out) }); err != nil {
		return err
	}
	beat := time.NewTicker(coord.StreamBeat)
	defer beat.Stop()
	for {
		events, head, err := s.page(ctx)
		if err != nil {
			return err
		}
		if len(events) > 0 {
			if err := out.write(func() error { return s.send(out, events) }); err != nil {
				return err
			}
			beat.Reset(coord.StreamBeat)
		}
		if s.after < head {
			continue
		}
		select {
		case <-j.Changed(s.after):
		case <-beat.C:
			if err := out.write(func() error { return s.beat(out) }); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// errEnded ends the streams of a credential.
var errEnded = errors.New("the credential of the stream was revoked or has expired")

// begin tells the reader where it stands, so that it can come back even if
// nothing happens before it is cut.
func (s *stream) begin(out *page) error {
	s.sent = s.after
	at := Cursor(s.api.journal.Epoch(), s.after)
	if s.resync == "" {
		return out.Event(at, "", nil)
	}
	doc, err := json.Marshal(Resync{s.api.journal.Epoch(), s.after, s.resync})
	if err != nil {
		return err
	}
	return out.Event(at, "resync", doc)
}

// page reads the next events that are wanted and moves the cursor past all
// that were looked at. It is errEnded when the reader may not have them any
// more: at once after a revocation, which is an event itself and wakes every
// stream, and at most coord.StreamBeat after a session expired. Nobody else
// looks, because who asks is found out only when a request begins.
func (s *stream) page(ctx context.Context) (events []journal.Record, head int64, err error) {
	err = s.api.journal.View(ctx, func(v *journal.View) (err error) {
		ended, err := v.CredentialEnded(s.by, s.api.journal.Now().Wall.Add(-coord.SessionTTL))
		if ended {
			return errEnded
		}
		if err != nil {
			return err
		}
		if events, err = v.Records(s.after, s.filter, coord.EventPage); err != nil {
			return err
		}
		head, err = v.Head()
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if len(events) == coord.EventPage {
		s.after = events[len(events)-1].Seq
	} else {
		s.after = head
	}
	if len(s.kinds) > 0 {
		events = slices.DeleteFunc(events, func(e journal.Record) bool { return !slices.Contains(s.kinds, e.Kind) })
	}
	return events, head, nil
}

func (s *stream) send(out *page, events []journal.Record) error {
	for _, e := range events {
		if err := out.Event(Cursor(s.api.journal.Epoch(), e.Seq), "", e.Doc); err != nil {
			return err
		}
		s.sent = e.Seq
	}
	return nil
}

// beat moves the reader's cursor past what its filter left out, or keeps the
// connection warm.
func (s *stream) beat(out *page) error {
	if s.sent == s.after {
		return out.Comment("")
	}
	s.sent = s.after
	return out.Event(Cursor(s.api.journal.Epoch(), s.after), "", nil)
}
