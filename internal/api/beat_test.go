package api_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/api"
	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// line is a connection in a bubble of virtual time: what is written on it, and
// a reader that may take nothing.
type line struct {
	mu       sync.Mutex
	header   http.Header
	text     strings.Builder
	deadline time.Time
	stuck    bool
}

func (l *line) Header() http.Header { return l.header }
func (l *line) WriteHeader(int)     {}
func (l *line) FlushError() error   { return nil }

func (l *line) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = t
	return nil
}

func (l *line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stuck {
		<-time.After(time.Until(l.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	return l.text.Write(p)
}

// take gives what was written since the last time.
func (l *line) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// idle is an API over a journal in memory, with one stream of a credential.
type idle struct {
	journal *journal.Journal
	line    *line
	token   coord.Credential
	log     *syncBuffer
	ended   chan struct{}
	ahead   atomic.Int64 // by how much the clock was set forward, in nanoseconds
}

// now is the clock of the journal.
func (i *idle) now() coord.Moment { return clock.System()().Add(time.Duration(i.ahead.Load())) }

func inBubble(t *testing.T, query string, test func(t *testing.T, i *idle)) {
	inBubbleOf(t, "token", query, test)
}

// inBubbleOf does it for a credential of that kind.
func inBubbleOf(t *testing.T, kind, query string, test func(t *testing.T, i *idle)) {
	synctest.Test(t, func(t *testing.T) {
		memory, err := journal.NewMemory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := &idle{line: &line{header: http.Header{}}, log: &syncBuffer{}, ended: make(chan struct{})}
		log := slog.New(slog.NewTextHandler(i.log, nil))
		i.journal, err = journal.Open(t.Context(), journal.Options{Memory: memory, Clock: i.now, Redact: func(s string) string { return s }, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		i.update(t, func(tx *journal.Tx) (err error) {
			i.token, err = tx.AddCredential(coord.Credential{Name: "reader", Role: coord.RoleRead, Kind: kind, Hash: "h"}, nil)
			return err
		})
		a := api.New(api.Options{Journal: i.journal, Logger: log})
		ctx, leave := context.WithCancelCause(t.Context())
		ctx = api.As(ctx, coord.Actor{Credential: i.token.ID, Role: coord.RoleRead})
		req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/events"+query, http.NoBody)
		go func() {
			defer close(i.ended)
			a.ServeHTTP(i.line, req)
		}()
		synctest.Wait()
		i.line.take()
		test(t, i)
		leave(errors.New("the reader leaves"))
		<-i.ended
		a.Close()
		if err := errors.Join(i.journal.Close(), memory.Close()); err != nil {
			t.Error(err)
		}
	})
}

func (i *idle) update(t *testing.T, fn func(*journal.Tx) error) {
	t.Helper()
	if err := i.journal.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// pass lets time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestAnIdleStreamShowsThatItLives(t *testing.T) {
	inBubble(t, "", func(t *testing.T, i *idle) {
		pass(coord.StreamBeat - time.Second)
		if got := i.line.take(); got != "" {
			t.Errorf("too early: %q", got)
		}
		pass(2 * time.Second)
		if got := i.line.take(); !strings.HasPrefix(got, ":") {
			t.Errorf("after %s: %q", coord.StreamBeat, got)
		}
	})
}

func TestAFilteredStreamMovesTheCursorPastWhatItLeavesOut(t *testing.T) {
	inBubble(t, "?kinds=job.changed", func(t *testing.T, i *idle) {
		i.update(t, func(tx *journal.Tx) error {
			tx.Append(coord.Event{Kind: coord.TaskChanged})
			return nil
		})
		pass(coord.StreamBeat + time.Second)
		if got, want := i.line.take(), "id: "+api.Cursor(i.journal.Epoch(), 2)+"\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		pass(coord.StreamBeat)
		if got := i.line.take(); !strings.HasPrefix(got, ":") {
			t.Errorf("the cursor is told again: %q", got)
		}
	})
}

// over demands that the stream has ended and said why, without its last events.
func (i *idle) over(t *testing.T) {
	t.Helper()
	select {
	case <-i.ended:
	default:
		t.Fatal("the stream goes on")
	}
	if got := i.line.take(); !strings.Contains(got, ": the credential of the stream was revoked or has expired") || strings.Contains(got, "data") {
		t.Errorf("last words: %q", got)
	}
}

func TestTheStreamOfARevokedCredentialEndsAtOnce(t *testing.T) {
	for _, query := range []string{"", "?kinds=job.changed"} {
		inBubble(t, query, func(t *testing.T, i *idle) {
			i.update(t, func(tx *journal.Tx) error { return tx.RevokeCredential(i.token.ID, coord.WorkerActor) })
			synctest.Wait()
			i.over(t)
		})
	}
}

func TestTheStreamOfASessionEndsWithIt(t *testing.T) {
	inBubbleOf(t, "session", "", func(t *testing.T, i *idle) {
		i.ahead.Store(int64(coord.SessionTTL - 3*coord.StreamBeat))
		pass(2 * coord.StreamBeat)
		i.line.take()
		select {
		case <-i.ended:
			t.Fatal("the stream ended before its session")
		default:
		}
		pass(2 * coord.StreamBeat)
		i.over(t)
	})
}

func TestTheStreamOfATokenOutlivesEverySession(t *testing.T) {
	inBubble(t, "", func(t *testing.T, i *idle) {
		i.ahead.Store(int64(2 * coord.SessionTTL))
		pass(2 * coord.StreamBeat)
		select {
		case <-i.ended:
			t.Error("the stream ended")
		default:
		}
	})
}

func TestAReaderThatTakesNothingIsCutOff(t *testing.T) {
	inBubble(t, "", func(t *testing.T, i *idle) {
		i.line.mu.Lock()
		i.line.stuck = true
		i.line.mu.Unlock()
		i.update(t, func(tx *journal.Tx) error {
			tx.Append(coord.Event{Kind: coord.TaskChanged})
			return nil
		})
		<-time.After(coord.StreamWrite + time.Second)
		<-i.ended
		if !strings.Contains(i.log.String(), "cut off") {
			t.Errorf("log: %s", i.log)
		}
	})
}
