package journal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/journal/journaltest"
)

func wantOpenError(t *testing.T, dir string, code coord.Code, parts ...string) {
	t.Helper()
	j, err := journal.Open(t.Context(), options(dir, journaltest.At(journaltest.Start)))
	if err == nil {
		j.Close()
	}
	if coord.CodeOf(err) != code {
		t.Fatalf("error is %v with code %q, want %q", err, coord.CodeOf(err), code)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func TestOpenMakesEverythingPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	j := openAt(t, dir)
	if err := j.Update(t.Context(), func(tx *journal.Tx) error {
		tx.Append(coord.Event{Kind: coord.WorkerStarted})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v), want 0600", e.Name(), info.Mode(), err)
		}
	}
	for _, name := range []string{"journal.db", "journal.db-wal", "owner.lock", "reserve"} {
		if !names[name] {
			t.Errorf("%s is missing", name)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v (%v), want 0700", info.Mode(), err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "journal.db-wal")); err == nil {
		t.Error("the write-ahead log is left behind by Close")
	}
}

func TestOpenAcceptsAPathThatLooksLikeAURL(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a?mode=memory&b#c %41")
	j := openAt(t, dir)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "journal.db")); err != nil || info.Size() == 0 {
		t.Errorf("journal.db is not in its directory: %v", err)
	}
}

func TestOpenRefusesWhatItCannotUse(t *testing.T) {
	t.Run("a directory that is a file", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		wantOpenError(t, dir, coord.Unavailable, dir, "--data")
	})
	t.Run("a directory that is somebody else's", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		wantOpenError(t, dir, coord.Unavailable, dir, "chmod 700")
	})
	t.Run("a database of another program", func(t *testing.T) {
		dir := t.TempDir()
		edit(t, filepath.Join(dir, "journal.db"), `CREATE TABLE t (a)`)
		wantOpenError(t, dir, coord.Invalid, "another program")
	})
	t.Run("a file that is no database", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "journal.db"), []byte(strings.Repeat("not a database", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		wantOpenError(t, dir, coord.Invalid, "damaged", "journal-backup-*.db")
	})
	t.Run("a database with a damaged middle", func(t *testing.T) {
		dir := t.TempDir()
		j := openAt(t, dir)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, "journal.db"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(strings.Repeat("x", 64<<10)), 200); err != nil {
			t.Fatal(err)
		}
		f.Close()
		wantOpenError(t, dir, coord.Invalid, "damaged")
	})
	t.Run("a newer schema without a backup", func(t *testing.T) {
		dir := newer(t)
		wantOpenError(t, dir, coord.Unsupported, "version 99", "versions up to ", "newer version of Signalbox")
	})
	t.Run("a newer schema with a backup", func(t *testing.T) {
		dir := newer(t)
		for _, name := range []string{"journal-backup-v1-20260101T000000.000Z.db", "journal-backup-v1-20260201T000000.000Z.db", "journal-backup-v98-20260301T000000.000Z.db"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		wantOpenError(t, dir, coord.Unsupported, "journal-backup-v1-20260201T000000.000Z.db")
	})
	t.Run("options that are not complete", func(t *testing.T) {
		o := options("", nil)
		o.Redact = nil
		_, err := journal.Open(t.Context(), o)
		for _, name := range []string{"Clock", "Redact", "Dir"} {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v does not name %s", err, name)
			}
		}
	})
}

func newer(t *testing.T) string {
	dir := t.TempDir()
	if err := openAt(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(dir, "journal.db"), `PRAGMA user_version = 99`)
	return dir
}

// Root may do everything, so the child is an ordinary user in any case.
func TestOpenSaysWhoMayNotUseTheDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := openAt(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		for _, name := range []string{"owner.lock", "journal.db"} {
			if err := os.Chmod(filepath.Join(dir, name), 0o400); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, err := child(t, "denied", "JOURNAL_DIR="+dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"unavailable", dir, "belong to another user"} {
		if !strings.Contains(string(out), part) {
			t.Errorf("error %q does not say %q", out, part)
		}
	}
}

func childDenied() {
	if os.Getuid() == 0 {
		if err := becomeNobody(); err != nil {
			fmt.Println(err)
			return
		}
	}
	_, err := journal.Open(context.Background(), options(os.Getenv("JOURNAL_DIR"), journaltest.At(journaltest.Start)))
	fmt.Println(coord.CodeOf(err), err)
}
