package journal

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"signalbox/internal/coord"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one step of the schema, from version-1 to version.
type migration struct {
	version int
	sql     string
}

// migrations reads the embedded steps, which are numbered from 1 without gaps.
func migrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	steps := make([]migration, len(names))
	for i, name := range names {
		number, _, _ := strings.Cut(filepath.Base(name), "_")
		if v, err := strconv.Atoi(number); err != nil || v != i+1 {
			return nil, fmt.Errorf("journal: %s is not migration %d", name, i+1)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		steps[i] = migration{version: i + 1, sql: string(text)}
	}
	return steps, nil
}

// migrate brings the schema up to date. Each step is one transaction; before
// the first step on a database that holds anything, a backup is made.
func (j *Journal) migrate(ctx context.Context) error {
	steps, err := migrations(migrationFiles)
	if err != nil {
		return err
	}
	return j.migrateTo(ctx, steps)
}

func (j *Journal) migrateTo(ctx context.Context, steps []migration) error {
	w := j.db.writer
	version, err := j.schemaVersion(ctx, len(steps))
	if err != nil {
		return openFailed(err)
	}
	if version > 0 && version < len(steps) && j.memory == nil {
		if err := j.backup(ctx, version); err != nil {
			return err
		}
	}
	for _, step := range steps[version:] {
		script := fmt.Sprintf("BEGIN IMMEDIATE;\n%s;\nPRAGMA application_id = %d;\nPRAGMA user_version = %d;\nCOMMIT", step.sql, applicationID, step.version)
		// Not through the session: a script is run once and never prepared.
		if _, err := w.conn.ExecContext(ctx, script); err != nil {
			_, _ = w.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // the first error is the one to tell
			if told := openFailed(err); coord.CodeOf(told) != coord.Internal {
				return told
			}
			return fmt.Errorf("journal: migration %d failed and was undone: %w", step.version, err)
		}
	}
	return nil
}

var errForeign = coord.Errorf(coord.Invalid, "%s belongs to another program: name another data directory with --data", databaseName)

// schemaVersion reads the version of the schema, 0 for an empty database, and
// refuses a database that is not ours or newer than known.
func (j *Journal) schemaVersion(ctx context.Context, known int) (int, error) {
	v := View{ctx: ctx, q: j.db.writer}
	tables, err := scalar[int](&v, `SELECT COUNT(*) FROM sqlite_schema`)
	if err != nil {
		return 0, err
	}
	id, err := scalar[int](&v, `PRAGMA application_id`)
	if err != nil {
		return 0, err
	}
	version, err := scalar[int](&v, `PRAGMA user_version`)
	if err != nil {
		return 0, err
	}
	switch {
	case id == 0 && version == 0 && tables == 0:
		return 0, nil
	case id != applicationID:
		return 0, errForeign
	case version > known:
		remedy := "start the newer version of Signalbox"
		if backup := j.newestBackup(known); backup != "" {
			remedy += ", or put its backup " + backup + " in place of " + databaseName
		}
		return 0, coord.Errorf(coord.Unsupported, "the journal has schema version %d and this Signalbox knows versions up to %d: %s", version, known, remedy)
	}
	return version, nil
}

// backup copies the database before it is changed. The copy carries no epoch,
// so that a journal restored from it begins a new lineage by itself.
func (j *Journal) backup(ctx context.Context, version int) error {
	name := fmt.Sprintf("journal-backup-v%d-%s.db", version, j.clock().Wall.UTC().Format("20060102T150405.000Z"))
	path := filepath.Join(j.dir, name)
	err := func() error {
		// SQLite accepts an empty file as the target, and so keeps its mode.
		if err := makePrivate(path); err != nil {
			return err
		}
		if _, err := j.db.writer.ExecContext(ctx, `VACUUM INTO $1`, path); err != nil {
			return err
		}
		copied, err := sql.Open("sqlite", fileURL(path)+"?_journal_mode=DELETE&_synchronous=FULL")
		if err != nil {
			return err
		}
		_, err = copied.ExecContext(ctx, `UPDATE meta SET value = '' WHERE name = 'epoch'`)
		return errors.Join(err, copied.Close())
	}()
	if err != nil {
		_ = os.Remove(path) // half a backup is worse than none
		return &coord.Error{Code: coord.Unavailable, Message: "the journal must be migrated, and the backup before it could not be made: check the space and permissions of the data directory", Err: err}
	}
	j.log.Info("the journal was backed up before its migration", "file", name)
	return nil
}

// newestBackup is the file name of the latest backup with a schema version
// that is known, "" if there is none.
func (j *Journal) newestBackup(known int) string {
	for v := known; v > 0; v-- {
		found, _ := filepath.Glob(filepath.Join(j.dir, fmt.Sprintf("journal-backup-v%d-*.db", v))) // the pattern is well formed
		if len(found) > 0 {
			return filepath.Base(found[len(found)-1]) // Glob sorts, and the names hold the time
		}
	}
	return ""
}
