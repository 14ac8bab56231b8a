package stdio_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

func text(channel, s string) provider.Event {
	return provider.Event{Kind: provider.EventText, Text: &coord.Text{Channel: channel, Text: s}}
}

func requested(id string) *provider.Request {
	return &provider.Request{Origin: coord.RequestOrigin{Request: id}}
}

var ended = provider.Event{Kind: provider.EventEnd, End: &provider.End{}}

// told takes events up to the end of the queue and puts each in a word.
func told(t *testing.T, q *stdio.Queue) string {
	t.Helper()
	var words []string
	for {
		e, err := q.Take(t.Context())
		if errors.Is(err, io.EOF) {
			return strings.Join(words, " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case provider.EventText:
			words = append(words, e.Text.Channel+"="+e.Text.Text)
		case provider.EventRequest:
			words = append(words, "?"+e.Request.Origin.Request)
		case provider.EventWithdrawn:
			words = append(words, "-"+e.Withdrawn)
		case provider.EventLate:
			words = append(words, "late")
		default:
			words = append(words, string(e.Kind))
		}
	}
}

func TestQueueGivesWhatWasPutInOrder(t *testing.T) {
	soon := func(id string) stdio.Hold {
		return stdio.Hold{Due: time.Now().Add(time.Second), About: "tool-" + id, Request: requested(id)}
	}
	for name, c := range map[string]struct {
		put  func(*stdio.Queue)
		want string
	}{
		"text of one channel is one event": {func(q *stdio.Queue) {
			q.Put(text("m", "a"), 1)
			q.Put(text("m", "b"), 1)
			q.Put(text("t", "c"), 1)
			q.Put(text("m", "d"), 1)
		}, "m=ab t=c m=d end"},
		"nothing follows the end but what is late": {func(q *stdio.Queue) {
			q.Finish(ended)
			q.Put(text("m", "a"), 1)
			q.Finish(ended)
			q.PutLate("x")
		}, "end late"},
		"the end brings what is held back": {func(q *stdio.Queue) {
			q.HoldBack(soon("1"))
			q.HoldBack(soon("2"))
		}, "?1 ?2 end"},
		"a flush brings it as withdrawn": {func(q *stdio.Queue) {
			q.HoldBack(soon("1"))
			q.Flush(true)
			q.Put(text("m", "a"), 1)
		}, "?1 -1 m=a end"},
		"what is released is the caller's": {func(q *stdio.Queue) {
			q.HoldBack(soon("1"))
			q.HoldBack(soon("2"))
			for _, h := range q.Release("tool-2") {
				q.Put(provider.Event{Kind: provider.EventRequest, Request: h.Request}, h.Size)
			}
			if again := q.Release("tool-2"); again != nil {
				panic("it was released twice")
			}
		}, "?2 ?1 end"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := stdio.NewQueue()
				c.put(q)
				q.Finish(ended)
				q.End()
				if got := told(t, q); got != c.want {
					t.Errorf("it gives %q; want %q", got, c.want)
				}
			})
		})
	}
}

func TestWhatIsHeldBackComesWhenItIsDueAfterWhatWasBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, begun := stdio.NewQueue(), time.Now()
		q.Put(text("m", "a"), 1)
		q.HoldBack(stdio.Hold{Due: begun.Add(time.Second), Request: requested("1")})
		q.Put(text("t", "b"), 1)
		time.AfterFunc(2*time.Second, func() { q.Put(text("m", "c"), 1) })
		time.AfterFunc(3*time.Second, func() { q.Finish(ended); q.End() })
		if got := told(t, q); got != "m=a t=b ?1 m=c end" {
			t.Errorf("it gives %q", got)
		}
	})
}

// fill puts n events from a goroutine of its own and closes the channel then.
func fill(q *stdio.Queue, n, size int) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			q.Put(provider.Event{Kind: provider.EventActivity}, size)
		}
	}()
	return done
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestFullQueueStopsWhoPuts(t *testing.T) {
	for name, c := range map[string]struct {
		events, size int
		release      func(*stdio.Queue)
	}{
		"by events, until one is taken":              {257, 0, func(q *stdio.Queue) { _, _ = q.Take(context.Background()) }},
		"by bytes, until some are taken":             {3, 512 << 10, func(q *stdio.Queue) { _, _ = q.Take(context.Background()) }},
		"until the work is being written":            {300, 0, func(q *stdio.Queue) { q.SetSending(true) }},
		"until nobody is to wait any more":           {1000, 0, func(q *stdio.Queue) { q.Unblock() }},
		"but takes one that is alone, however large": {2, 8 << 20, func(q *stdio.Queue) { _, _ = q.Take(context.Background()) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := stdio.NewQueue()
				done := fill(q, c.events, c.size)
				synctest.Wait()
				if isClosed(done) {
					t.Fatal("all of it fitted")
				}
				c.release(q)
				synctest.Wait()
				if !isClosed(done) {
					t.Error("it still waits")
					q.Unblock()
				}
			})
		})
	}
}

func TestLateEventsAreBounded(t *testing.T) {
	q := stdio.NewQueue()
	q.Finish(ended)
	for i := range 1000 {
		q.PutLate(fmt.Sprint(i))
	}
	q.End()
	if got := strings.Count(told(t, q), "late"); got != 64 {
		t.Errorf("%d are kept", got)
	}
}

func TestTakeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		q := stdio.NewQueue()
		q.HoldBack(stdio.Hold{Due: time.Now().Add(time.Minute), Request: requested("1")})
		if _, err := q.Take(ctx); !errors.Is(err, why) {
			t.Errorf("it gives %v", err)
		}
	})
}
