package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"signalbox/internal/api"
	"signalbox/internal/client"
	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is the real API over a real journal behind a door that lets everybody
// in, and that a test can close.
type world struct {
	t       *testing.T
	journal *journal.Journal
	server  *httptest.Server
	client  *client.Client
	shut    atomic.Bool  // the worker is away
	asked   atomic.Int64 // requests that reached the door
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	log := slog.New(slog.DiscardHandler)
	var err error
	w.journal, err = journal.Open(t.Context(), journal.Options{Dir: t.TempDir(), Clock: clock.System(), Redact: func(s string) string { return s }, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	served := api.New(api.Options{Journal: w.journal, Logger: log})
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		if w.shut.Load() {
			if err := api.WriteProblem(rw, api.NewProblem(coord.Errorf(coord.Unavailable, "the worker is away"))); err != nil {
				t.Error(err)
			}
			return
		}
		who := coord.Actor{Credential: "crd_test", Role: coord.RoleOperator, Door: "api", Presence: "none"}
		served.ServeHTTP(rw, r.WithContext(api.As(r.Context(), who)))
	}))
	if w.client, err = client.New(client.Options{URL: w.server.URL, Token: "sbx_x"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.client.Close()
		served.Close()
		w.server.Close()
		if err := w.journal.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) append(n int) {
	w.t.Helper()
	err := w.journal.Update(w.t.Context(), func(tx *journal.Tx) error {
		for range n {
			tx.Append(coord.Event{Kind: coord.JobChanged})
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestErrorsComeBackAsTheyWereMeant(t *testing.T) {
	w := newWorld(t)
	_, err := w.client.Job(t.Context(), "99")
	if coord.CodeOf(err) != coord.NotFound || err.Error() != "there is no job 99" {
		t.Errorf("error %v", err)
	}
	_, err = w.client.AddToken(t.Context(), "x", "root")
	var e *coord.Error
	if !errors.As(err, &e) || e.Code != coord.Invalid {
		t.Fatalf("error %v", err)
	}
	if diff := cmp.Diff([]coord.Field{{Pointer: "/role", Message: `expected value to be one of "operator, draft, read"`}}, e.Fields); diff != "" {
		t.Error(diff)
	}
}

func TestAnAnswerIsAwaitedWhileTheWorkerIsAway(t *testing.T) {
	w := newWorld(t)
	w.shut.Store(true)
	done := make(chan error, 1)
	go func() {
		_, err := w.client.AddToken(t.Context(), "once", coord.RoleRead)
		done <- err
	}()
	for w.asked.Load() < 3 { // it asks again
		select {
		case err := <-done:
			t.Fatalf("gave up: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	w.shut.Store(false)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	tokens, err := w.client.Tokens(t.Context())
	if err != nil || len(tokens) != 1 {
		t.Errorf("%d tokens, %v", len(tokens), err)
	}
}

func TestNothingIsSentToAnotherMachine(t *testing.T) {
	for _, url := range []string{"https://127.0.0.1:1", "http://192.0.2.1:80", "http://example.org", "http://user@127.0.0.1:1", "http://127.0.0.1:1/path", "rubbish"} {
		if _, err := client.New(client.Options{URL: url}); coord.CodeOf(err) != coord.Invalid {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestFollowHasNoGapAndNoRepetitionAcrossCuts(t *testing.T) {
	w := newWorld(t)
	w.append(3)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	enough := errors.New("enough")
	var mu sync.Mutex
	var got []int64
	seen := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(got)
	}
	done := make(chan error, 1)
	go func() {
		done <- w.client.Follow(ctx, client.Filter{After: "0"}, func(e coord.Event) error {
			mu.Lock()
			defer mu.Unlock()
			if got = append(got, e.Seq); len(got) == 12 {
				return enough
			}
			return nil
		})
	}()
	for round := range 3 {
		for seen() < 3*(round+1) {
			select {
			case err := <-done:
				t.Fatalf("ended early: %v", err)
			case <-time.After(time.Millisecond):
			}
		}
		w.shut.Store(round == 1) // once, the door stays and the worker is away
		w.server.CloseClientConnections()
		w.append(3)
		w.shut.Store(false)
	}
	if err := <-done; !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFollowTellsWhenItCannotGoOn(t *testing.T) {
	w := newWorld(t)
	err := w.client.Follow(t.Context(), client.Filter{After: "another-1"}, func(coord.Event) error { return nil })
	if coord.CodeOf(err) != coord.Stale {
		t.Errorf("error %v", err)
	}
	err = w.client.Follow(t.Context(), client.Filter{Job: "99"}, func(coord.Event) error { return nil })
	if coord.CodeOf(err) != coord.NotFound {
		t.Errorf("error %v", err)
	}
}
