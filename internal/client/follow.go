package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/sse"
)

// streamLimits bound what is read of an event stream: an event holds at most a
// document of the journal.
var streamLimits = sse.Limits{Line: 4 << 20, Event: 4 << 20, Total: 1 << 50}

// Filter chooses events; a zero member does not restrict.
type Filter struct {
	// Job is a job's number or id, Attempt an attempt's name or id.
	Job, Attempt string
	Kinds        []coord.EventKind
	// After is the cursor to begin after: "0" for the beginning, "" for now.
	After string
}

// errGap ends a stream whose cursor is of no use any more.
var errGap = coord.Errorf(coord.Stale, "events between the last one and now cannot be shown any more; look at the state anew")

// Follow calls each with every event that f chooses, in order, until each gives
// an error, ctx ends, or the events before now cannot be had any more (Stale).
// It follows across cuts and restarts.
func (c *Client) Follow(ctx context.Context, f Filter, each func(coord.Event) error) error {
	cursor := f.After
	for pause := 50 * time.Millisecond; ; {
		before := cursor
		err := c.follow(ctx, f, &cursor, each)
		var stop *stopped
		switch {
		case errors.As(err, &stop):
			return stop.err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && coord.CodeOf(err) != coord.Unavailable:
			return err
		}
		if cursor != before {
			pause = 50 * time.Millisecond
		} else {
			pause = min(2*pause, 2*time.Second)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// stopped carries the error by which the caller ended a stream.
type stopped struct{ err error }

func (s *stopped) Error() string { return "stopped" }

// follow reads one connection until it ends.
func (c *Client) follow(ctx context.Context, f Filter, cursor *string, each func(coord.Event) error) error {
	query := url.Values{}
	if f.Job != "" {
		query.Set("job", f.Job)
	}
	if f.Attempt != "" {
		query.Set("attempt", f.Attempt)
	}
	if len(f.Kinds) > 0 {
		kinds := make([]string, len(f.Kinds))
		for i, k := range f.Kinds {
			kinds[i] = string(k)
		}
		query.Set("kinds", strings.Join(kinds, ","))
	}
	if *cursor != "" {
		query.Set("after", *cursor)
	}
	res, err := c.send(ctx, call{method: http.MethodGet, path: "/api/events", query: query})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	events := sse.NewReader(res.Body, streamLimits)
	for {
		ev, err := events.Next()
		if id := events.LastID(); id != "" {
			*cursor = id
		}
		if err != nil {
			// The end of a connection is no end of the stream.
			return coord.Errorf(coord.Unavailable, "the stream of events was cut")
		}
		if ev.Type == "resync" {
			return errGap
		}
		if len(ev.Data) == 0 {
			continue
		}
		var e coord.Event
		if err := json.Unmarshal(ev.Data, &e); err != nil {
			return coord.Errorf(coord.Internal, "an event cannot be read")
		}
		if err := each(e); err != nil {
			return &stopped{err}
		}
	}
}
