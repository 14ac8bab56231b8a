package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"signalbox/internal/coord"
)

// applicationID marks a SQLite file as a journal of Signalbox ("Sgbx").
const applicationID = 0x53676278

// readers is how many views may run at once. Each is short, and two cores
// gain nothing from more.
const readers = 4

// checkpoint is how many pages of the write-ahead log are gathered before a
// commit moves them into the database: 16 MB. Moving costs two syncs, and what
// is written often is then moved once; SQLite's own 1,000 are full after some
// 150 commits. A start after a crash reads the whole log, which takes a few
// milliseconds for as much.
const checkpoint = 4000

// database is the SQLite file: one writing connection and a pool of query-only
// ones. In memory the one connection is both.
type database struct {
	write, read *sql.DB
	writer      *session
	readers     chan *session
	opened      int // how many sessions go round in readers
}

func openDatabase(ctx context.Context, dir string) (_ *database, err error) {
	d := &database{readers: make(chan *session, readers)}
	defer func() {
		if err != nil {
			_ = d.close() // the first error is the one to tell
		}
	}()
	// Syncing data without the file's times is as durable and takes half the
	// time; where the platform has no such call, nothing changes.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return nil, err
	}
	path := filepath.Join(dir, databaseName)
	if err := notForeign(path); err != nil {
		return nil, err
	}
	if err := makePrivate(path); err != nil {
		return nil, dirFailed(dir, err)
	}
	base := fileURL(path) + "?_dqs=0&_defensive=1&_foreign_keys=1&_busy_timeout=5000&_error_rc=1"
	// On macOS only F_FULLFSYNC reaches the disk itself; elsewhere the two
	// pragmas do nothing (https://www.sqlite.org/pragma.html#pragma_fullfsync).
	writeDSN := base + "&_journal_mode=WAL&_synchronous=FULL&_pragma=fullfsync(1)&_pragma=checkpoint_fullfsync(1)" +
		"&_pragma=wal_autocheckpoint(" + strconv.Itoa(checkpoint) + ")"
	readDSN := base + "&_query_only=1"
	if d.write, err = sql.Open("sqlite", writeDSN); err != nil {
		return nil, err
	}
	if d.writer, err = newSession(ctx, d.write); err != nil {
		return nil, openFailed(err)
	}
	if err := d.verify(ctx); err != nil {
		return nil, openFailed(err)
	}
	if d.read, err = sql.Open("sqlite", readDSN); err != nil {
		return nil, err
	}
	for range readers {
		s, err := newSession(ctx, d.read)
		if err != nil {
			return nil, openFailed(err)
		}
		d.readers <- s
		d.opened++
	}
	return d, nil
}

// verify checks that the settings durability rests on are in force.
func (d *database) verify(ctx context.Context) error {
	var mode string
	var synchronous int
	if err := d.writer.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if err := d.writer.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil {
		return err
	}
	const full = 2
	if mode != "wal" || synchronous != full {
		return coord.Errorf(coord.Unavailable, "the file system of the data directory does not support a write-ahead log: put the directory on a local disk")
	}
	return nil
}

// close awaits every reader, then closes all handles. The last one to close
// moves the write-ahead log into the database, so the writer goes last.
func (d *database) close() error {
	var errs []error
	if d.read != nil {
		for range d.opened {
			errs = append(errs, (<-d.readers).close())
		}
		errs = append(errs, d.read.Close())
	}
	if d.writer != nil {
		errs = append(errs, d.writer.close())
	}
	if d.write != nil {
		errs = append(errs, d.write.Close())
	}
	return errors.Join(errs...)
}

// notForeign refuses another program's database before anything of it is
// changed: already the switch to a write-ahead log writes into the file. What
// is no database at all is left to SQLite to tell. The offsets are those of
// https://www.sqlite.org/fileformat.html#the_database_header.
func notForeign(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return dirFailed(filepath.Dir(path), err)
	}
	defer f.Close()
	var header [100]byte
	if n, _ := f.ReadAt(header[:], 0); n < len(header) || !bytes.HasPrefix(header[:], []byte("SQLite format 3\x00")) {
		return nil
	}
	number := func(at int) uint32 { return binary.BigEndian.Uint32(header[at:]) }
	schemaFormat, version, id := number(44), number(60), number(68)
	// All three are 0 while a new journal is only in its log.
	if id == applicationID || id|version|schemaFormat == 0 {
		return nil
	}
	return errForeign
}

// makePrivate makes path as an empty file of mode 0600, or makes an existing
// one private.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// fileURL is path as SQLite's URI, which keeps any character of it literal.
func fileURL(path string) string {
	return (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path)}).String()
}

func randomID() string { return rand.Text() }

func meta(ctx context.Context, s *session, name string) (string, error) {
	v := View{ctx: ctx, q: s}
	return scalar[string](&v, `SELECT value FROM meta WHERE name = $1`, name)
}

func setMeta(ctx context.Context, s *session, name, value string) error {
	_, err := s.ExecContext(ctx, `INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
	return err
}

// openFailed says in words why the database could not be opened.
func openFailed(err error) error {
	if _, typed := errors.AsType[*coord.Error](err); typed {
		return err
	}
	switch sqliteCode(err) {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return &coord.Error{Code: coord.Invalid, Message: "journal.db is damaged or is not a database: move it away and restore the newest journal-backup-*.db of the data directory in its place", Err: err}
	case sqlite3.SQLITE_FULL:
		return &coord.Error{Code: coord.Unavailable, Message: "the disk of the data directory is full: free some space and start again", Err: err}
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return &coord.Error{Code: coord.Unavailable, Message: "journal.db cannot be written: check that the data directory and its files belong to you and that the file system is writable", Err: err}
	case sqlite3.SQLITE_BUSY:
		return &coord.Error{Code: coord.Unavailable, Message: "journal.db is locked by another program: close it and start again", Err: err}
	}
	return err
}

// dirFailed says in words why the data directory cannot be used.
func dirFailed(dir string, err error) error {
	remedy := "check the path and its permissions"
	switch {
	case errors.Is(err, fs.ErrPermission):
		remedy = "it or its files belong to another user: change the owner, or name another directory with --data"
	case errors.Is(err, syscall.EROFS):
		remedy = "the file system is read-only: name another directory with --data"
	case errors.Is(err, syscall.ENOSPC):
		remedy = "the disk is full: free some space"
	case errors.Is(err, syscall.ENOTDIR):
		remedy = "a part of the path is a file: name another directory with --data"
	}
	return &coord.Error{Code: coord.Unavailable, Message: "the data directory " + dir + " cannot be used: " + remedy, Err: err}
}
