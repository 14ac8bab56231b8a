package journal

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"signalbox/internal/coord"
)

func testOptions(dir string) Options {
	now := coord.Moment{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), BootID: "boot-1"}
	return Options{Dir: dir, Clock: func() coord.Moment { return now }, Redact: func(s string) string { return s }, Logger: slog.New(slog.DiscardHandler)}
}

// openPrepared makes a journal with one event and opens its database alone, as
// Open does before it migrates.
func openPrepared(t *testing.T, dir string) (*Journal, string) {
	t.Helper()
	j, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Update(t.Context(), func(tx *Tx) error { tx.Append(coord.Event{Kind: coord.JobChanged}); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	o := testOptions(dir)
	bare := &Journal{dir: dir, clock: o.Clock, log: o.Logger}
	if bare.db, err = openDatabase(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bare.db.close() })
	return bare, j.Epoch()
}

func steps(t *testing.T, more ...string) []migration {
	t.Helper()
	all, err := migrations(migrationFiles)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range more {
		all = append(all, migration{version: len(all) + 1, sql: sql})
	}
	return all
}

func TestAPendingMigrationIsAppliedAfterABackupThatStartsANewLineage(t *testing.T) {
	dir := t.TempDir()
	j, epoch := openPrepared(t, dir)
	if err := j.migrateTo(t.Context(), steps(t, `CREATE TABLE extra (id TEXT PRIMARY KEY) STRICT; INSERT INTO extra (id) VALUES ('a')`)); err != nil {
		t.Fatal(err)
	}
	v := View{ctx: t.Context(), q: j.db.writer}
	if n, err := scalar[int](&v, `SELECT COUNT(*) FROM extra`); n != 1 || err != nil {
		t.Errorf("the migration is not applied: %d, %v", n, err)
	}
	backups, _ := filepath.Glob(filepath.Join(dir, "journal-backup-*.db"))
	if len(backups) != 1 || !strings.HasPrefix(filepath.Base(backups[0]), fmt.Sprintf("journal-backup-v%d-20260301T120000", len(steps(t)))) {
		t.Fatalf("backups: %v", backups)
	}
	if info, err := os.Stat(backups[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has mode %v (%v)", info.Mode(), err)
	}
	if err := j.db.close(); err != nil {
		t.Fatal(err)
	}

	// The backup opens as a journal with everything in it, but with an epoch
	// of its own.
	restored := filepath.Join(dir, "restored")
	if err := os.Mkdir(restored, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(backups[0], filepath.Join(restored, databaseName)); err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), testOptions(restored))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Head() != 1 || r.Epoch() == epoch || r.Epoch() == "" {
		t.Errorf("the restored journal has head %d and epoch %q (the first was %q)", r.Head(), r.Epoch(), epoch)
	}
	j.db = &database{} // closed above
}

func TestAMigrationThatFailsIsUndoneAndNoneIsSkipped(t *testing.T) {
	j, _ := openPrepared(t, t.TempDir())
	known := len(steps(t))
	err := j.migrateTo(t.Context(), steps(t,
		`CREATE TABLE good (id TEXT) STRICT`,
		`CREATE TABLE half (id TEXT) STRICT; INSERT INTO nowhere VALUES (1)`,
		`CREATE TABLE never (id TEXT) STRICT`))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("migration %d failed", known+2)) {
		t.Fatalf("error is %v", err)
	}
	v := View{ctx: t.Context(), q: j.db.writer}
	tables, err := scalar[string](&v, `SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema WHERE name IN ('good', 'half', 'never') ORDER BY name)`)
	if tables != "good" || err != nil {
		t.Errorf("tables are %q (%v), want good", tables, err)
	}
	if version, err := j.schemaVersion(t.Context(), known+3); version != known+1 || err != nil {
		t.Errorf("version is %d (%v), want %d", version, err, known+1)
	}
}

func TestNothingIsBackedUpWhenNothingIsPending(t *testing.T) {
	dir := t.TempDir()
	j, _ := openPrepared(t, dir)
	if err := j.migrateTo(t.Context(), steps(t)); err != nil {
		t.Fatal(err)
	}
	if backups, _ := filepath.Glob(filepath.Join(dir, "journal-backup-*")); len(backups) != 0 {
		t.Errorf("backups: %v", backups)
	}
}

func TestMigrationsAreNumberedWithoutGaps(t *testing.T) {
	files := fstest.MapFS{"migrations/0001_a.sql": {}, "migrations/0003_b.sql": {}}
	if _, err := migrations(files); err == nil || !strings.Contains(err.Error(), "0003_b.sql is not migration 2") {
		t.Errorf("error is %v", err)
	}
}
