// Package journaltest is the contract of a journal as tests. Every engine that
// stands behind journal.Journal passes Run; it uses the exported surface only.
package journaltest

import (
	"strings"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
)

// Secret is what Redact takes for a secret.
const Secret = "s3cret"

// Redact is the redactor that an Engine opens its journals with.
func Redact(s string) string { return strings.ReplaceAll(s, Secret, "[redacted]") }

// Engine is an implementation under test.
type Engine struct {
	// Open opens the journal that dir names, empty the first time, with Redact.
	// Opening the same dir again after Close gives the same journal.
	Open func(t testing.TB, dir string, clock coord.Clock) (*journal.Journal, error)
	// Usurp makes the database of dir believe that a newer owner has come,
	// while the journal is open: what a lock that did not hold would lead to.
	Usurp func(t testing.TB, dir string)
}

// open opens dir or ends the test, and closes the journal with the test.
func (e Engine) open(t testing.TB, dir string, clock coord.Clock) *journal.Journal {
	t.Helper()
	j, err := e.Open(t, dir, clock)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return j
}

// Start is the first moment of every test clock.
var Start = coord.Moment{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), BootID: "boot-1", Boot: time.Hour, Awake: time.Hour}

// At is a clock that stands still at m.
func At(m coord.Moment) coord.Clock { return func() coord.Moment { return m } }

// Run runs the whole contract against e.
func Run(t *testing.T, e Engine) {
	for _, part := range []struct {
		name string
		test func(*testing.T, Engine)
	}{
		{"events get consecutive sequences in the order of their commits", testOrder},
		{"events are read in pages and by filter", testPages},
		{"the events of a job are found wherever they are, whatever was undone", testJobs},
		{"a commit is not visible before it is complete", testVisible},
		{"Changed closes exactly when the head has passed", testChanged},
		{"a failed operation leaves nothing and no gap", testRollback},
		{"a panic undoes its operation only", testPanic},
		{"failing and succeeding operations at once do not touch each other", testIsolation},
		{"an operation reads what it has written", testOwnWrites},
		{"an ended context writes nothing", testContext},
		{"a first answer is given again for the same content", testAnswer},
		{"a first answer is not kept when its operation fails", testAnswerFailed},
		{"leases are limited, kept by their holder and freed together", testLeases},
		{"no string is stored unredacted", testRedaction},
		{"reopening keeps everything and starts a new generation", testReopen},
		{"time does not go back behind the last event", testFloor},
		{"a journal has one owner", testOwner},
		{"an owner that was replaced cannot write", testFence},
		{"a closed journal refuses, after views have ended", testClose},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.test(t, e)
		})
	}
}

// add appends one event per datum in one operation and gives the last
// sequence.
func add(t testing.TB, j *journal.Journal, events ...coord.Event) int64 {
	t.Helper()
	var seq int64
	err := j.Update(t.Context(), func(tx *journal.Tx) error {
		for _, e := range events {
			seq = tx.Append(e)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	return seq
}

// read gives all events.
func read(t testing.TB, j *journal.Journal) []coord.Event {
	t.Helper()
	var out []coord.Event
	err := j.View(t.Context(), func(v *journal.View) (err error) {
		out, err = v.Events(0, journal.EventFilter{}, 1<<20)
		return err
	})
	if err != nil {
		t.Fatalf("view: %v", err)
	}
	return out
}

// seqs are the sequences of events.
func seqs(events []coord.Event) []int64 {
	out := make([]int64, len(events))
	for i, e := range events {
		out[i] = e.Seq
	}
	return out
}

// wantCode checks the code of err, and that its text names each of parts.
func wantCode(t testing.TB, err error, code coord.Code, parts ...string) {
	t.Helper()
	if coord.CodeOf(err) != code {
		t.Fatalf("error %v has code %q, want %q", err, coord.CodeOf(err), code)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not name %q", err, p)
		}
	}
}
