package journal_test

import (
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/journal/journaltest"
)

func TestMain(m *testing.M) {
	if run := children[os.Getenv(childVariable)]; run != nil {
		run()
		return
	}
	goleak.VerifyTestMain(m)
}

func options(dir string, clock coord.Clock) journal.Options {
	return journal.Options{Dir: dir, Clock: clock, Redact: journaltest.Redact, Logger: slog.New(slog.DiscardHandler)}
}

func openAt(t testing.TB, dir string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), options(dir, journaltest.At(journaltest.Start)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return j
}

// edit changes a closed or open database behind the journal's back.
func edit(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

const usurp = `UPDATE meta SET value = '1000000' WHERE name = 'generation'`

func TestContractInFiles(t *testing.T) {
	journaltest.Run(t, journaltest.Engine{
		Open: func(t testing.TB, dir string, clock coord.Clock) (*journal.Journal, error) {
			return journal.Open(t.Context(), options(dir, clock))
		},
		Usurp: func(t testing.TB, dir string) { edit(t, filepath.Join(dir, "journal.db"), usurp) },
	})
}

func TestContractInMemory(t *testing.T) {
	var mu sync.Mutex
	memories := map[string]*journal.Memory{}
	memory := func(t testing.TB, dir string) *journal.Memory {
		mu.Lock()
		defer mu.Unlock()
		m := memories[dir]
		if m == nil {
			var err error
			if m, err = journal.NewMemory(t.Context()); err != nil {
				t.Fatal(err)
			}
			memories[dir] = m
			t.Cleanup(func() { m.Close() })
		}
		return m
	}
	journaltest.Run(t, journaltest.Engine{
		Open: func(t testing.TB, dir string, clock coord.Clock) (*journal.Journal, error) {
			o := options("", clock)
			o.Memory = memory(t, dir)
			return journal.Open(t.Context(), o)
		},
		Usurp: func(t testing.TB, dir string) { memory(t, dir).Exec(t, usurp) },
	})
}
