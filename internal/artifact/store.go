package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/fault"
)

// ErrDamaged marks the error of bytes that no longer match their digest.
var ErrDamaged = errors.New("artifact damaged")

const (
	dirMode  = 0o700
	fileMode = 0o600
	// tempDir holds what is being written. It lies beside the fan-out so that
	// a link between the two never crosses a file system.
	tempDir = "tmp"
)

// Ref names stored bytes.
type Ref struct {
	// SHA256 is the digest of the stored bytes, in lower-case hex.
	SHA256 string `json:"sha256"`
	// Size is their number.
	Size int64 `json:"size"`
	// Redacted says that secrets were replaced, so that the stored bytes
	// differ from those that were handed in.
	Redacted bool `json:"redacted,omitempty"`
}

// Store is a directory of artifacts. It is safe for concurrent use.
type Store struct {
	dir    string
	redact func(string) string
	// naming is held while bytes get their name or lose it as leftovers, so
	// that RemoveLeftover cannot come between a Put's look at a name and its
	// return.
	naming sync.Mutex
}

// New opens the store in dir, makes it when it is missing, and removes the
// temporary files that a dead owner left. All bytes go through redact before
// they are hashed. The caller holds the owner lock.
func New(dir string, redact func(string) string) (*Store, error) {
	s := &Store{dir: dir, redact: redact}
	for _, d := range []string{dir, s.temp()} {
		if err := makeDir(d); err != nil {
			return nil, err
		}
	}
	if err := s.sweep(); err != nil {
		return nil, err
	}
	// Also for the folders in it that an earlier owner made and may not have
	// flushed.
	if err := syncDir(dir); err != nil {
		return nil, diskError("flushing the artifact directory", err)
	}
	return s, nil
}

func makeDir(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return diskError("making the artifact directory", err)
	}
	// A directory that was there may be open to others, and the umask may have
	// taken more than others' rights.
	if err := os.Chmod(dir, dirMode); err != nil {
		return diskError("closing the artifact directory to others", err)
	}
	return nil
}

// sweep removes temporary files. A link that was made from one of them keeps
// the bytes, so nothing that Put returned is touched.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.temp())
	if err != nil {
		return diskError("listing temporary artifacts", err)
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(s.temp(), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return diskError("removing a temporary artifact", err)
		}
	}
	return nil
}

func (s *Store) temp() string { return filepath.Join(s.dir, tempDir) }

func (s *Store) path(sha string) string { return filepath.Join(s.dir, sha[:2], sha[2:]) }

// Put stores what r gives and returns its name once it is durable. All bytes
// are redacted first, those of a picture or a database as well: a secret in
// them is worse than a file that may not open any more, which Redacted tells.
// What is compressed or encoded otherwise is not looked into. More than limit
// bytes, before or after redaction, are refused with coord.Limit and
// nothing is kept; a full disk is coord.Unavailable. Storing the same bytes
// again gives the same name.
func (s *Store) Put(ctx context.Context, r io.Reader, limit int64) (Ref, error) {
	limit = min(limit, coord.MaxArtifact)
	data, err := io.ReadAll(io.LimitReader(contextReader{ctx, r}, limit+1))
	if err != nil {
		return Ref{}, fmt.Errorf("reading an artifact: %w", err)
	}
	if int64(len(data)) > limit {
		return Ref{}, tooLarge(limit)
	}
	var ref Ref
	text := string(data)
	if safe := s.redact(text); safe != text {
		data, ref.Redacted = []byte(safe), true
	}
	if ref.Size = int64(len(data)); ref.Size > limit {
		return Ref{}, tooLarge(limit)
	}
	sum := sha256.Sum256(data)
	ref.SHA256 = hex.EncodeToString(sum[:])
	if err := s.write(ctx, ref.SHA256, data); err != nil {
		return Ref{}, err
	}
	return ref, nil
}

func tooLarge(limit int64) error {
	return coord.Errorf(coord.Limit, "the artifact is larger than the %d bytes it may have: split it or keep less of it", limit)
}

// write makes data durable under its name: a temporary file is filled and
// flushed, linked to the name, and the directory of the name is flushed.
func (s *Store) write(ctx context.Context, sha string, data []byte) error {
	f, err := os.CreateTemp(s.temp(), "put-*") // made with mode 0600
	if err != nil {
		return diskError("making a temporary artifact", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // a leftover is swept at the next start
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return diskError("writing an artifact", err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	fault.Point("artifact.place.before")
	if err := s.place(f.Name(), sha); err != nil {
		return err
	}
	fault.Point("artifact.place.after")
	if err := syncDir(filepath.Dir(s.path(sha))); err != nil {
		return diskError("flushing an artifact's directory", err)
	}
	return nil
}

// place gives the temporary file its name. A link never replaces what is there.
// When the name is taken the bytes are the same unless the disk damaged them,
// and only damaged bytes are replaced.
func (s *Store) place(temp, sha string) error {
	s.naming.Lock()
	defer s.naming.Unlock()
	if err := s.folder(filepath.Dir(s.path(sha))); err != nil {
		return err
	}
	err := os.Link(temp, s.path(sha))
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return diskError("naming an artifact", err)
	}
	switch intact, err := s.check(sha); {
	case err != nil:
		return err
	case intact:
		// Stored again is stored now, for RemoveLeftover.
		now := time.Now()
		if err := os.Chtimes(s.path(sha), now, now); err != nil {
			return diskError("dating an artifact", err)
		}
		return nil
	}
	if err := os.Rename(temp, s.path(sha)); err != nil {
		return diskError("replacing a damaged artifact", err)
	}
	return nil
}

// folder makes one of the 256 folders when it is first needed, and durable
// before anything is in it: to make them all would be most of the first start.
func (s *Store) folder(dir string) error {
	err := os.Mkdir(dir, dirMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = syncDir(s.dir)
	}
	if err != nil {
		return diskError("making a directory of artifacts", err)
	}
	return nil
}

// Open gives a reader of the bytes named sha, and their number. The reader
// hashes what it gives; where the end is reached and the hash is another one,
// it gives an error that matches ErrDamaged instead of io.EOF, so bytes may be
// trusted only after io.EOF. An unknown digest is coord.NotFound.
func (s *Store) Open(sha string) (io.ReadCloser, int64, error) {
	f, size, err := s.open(sha)
	if err != nil {
		return nil, 0, err
	}
	return &verifier{file: f, hash: sha256.New(), sha: sha}, size, nil
}

func (s *Store) open(sha string) (*os.File, int64, error) {
	if !isDigest(sha) {
		return nil, 0, coord.Errorf(coord.Invalid, "an artifact is named by 64 lower-case hex digits")
	}
	// O_NOFOLLOW: a link planted in the store must not lead out of it.
	f, err := os.OpenFile(s.path(sha), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, coord.Errorf(coord.NotFound, "there is no artifact %s", sha)
	}
	if err != nil {
		return nil, 0, diskError("opening an artifact", err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, diskError("opening an artifact", err)
	}
	return f, info.Size(), nil
}

// check reads the bytes named sha and reports whether they match.
func (s *Store) check(sha string) (bool, error) {
	f, _, err := s.open(sha)
	if err != nil {
		return false, err
	}
	v := &verifier{file: f, hash: sha256.New(), sha: sha}
	_, err = io.Copy(io.Discard, v)
	_ = v.Close()
	if errors.Is(err, ErrDamaged) {
		return false, nil
	}
	return err == nil, err
}

// Remove deletes the bytes named sha and returns when that is durable. An
// unknown digest is coord.NotFound. The caller makes sure that no row names
// the digest and that no Put of the same bytes waits for its row.
func (s *Store) Remove(sha string) error {
	if !isDigest(sha) {
		return coord.Errorf(coord.Invalid, "an artifact is named by 64 lower-case hex digits")
	}
	err := os.Remove(s.path(sha))
	if errors.Is(err, fs.ErrNotExist) {
		return coord.Errorf(coord.NotFound, "there is no artifact %s", sha)
	}
	if err == nil {
		err = syncDir(filepath.Dir(s.path(sha)))
	}
	if err != nil {
		return diskError("removing an artifact", err)
	}
	return nil
}

// RemoveLeftover deletes the bytes named sha unless they were stored, or stored
// again, at or after before, and reports whether it did. A Put that has not
// got its row yet keeps its bytes as long as before lies further back than any
// Put waits for its row. Bytes that are gone are no error.
func (s *Store) RemoveLeftover(sha string, before time.Time) (bool, error) {
	if !isDigest(sha) {
		return false, coord.Errorf(coord.Invalid, "an artifact is named by 64 lower-case hex digits")
	}
	s.naming.Lock()
	defer s.naming.Unlock()
	info, err := os.Lstat(s.path(sha))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, diskError("looking at an artifact", err)
	case !info.ModTime().Before(before):
		return false, nil
	}
	return true, s.Remove(sha)
}

// verifier hashes a file while it is read.
type verifier struct {
	file *os.File
	hash hash.Hash
	sha  string
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.file.Read(p)
	v.hash.Write(p[:n])
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		if got := hex.EncodeToString(v.hash.Sum(nil)); got != v.sha {
			return n, damaged(v.sha)
		}
	default:
		err = diskError("reading an artifact", err)
	}
	return n, err
}

func (v *verifier) Close() error { return v.file.Close() }

func damaged(sha string) error {
	return &coord.Error{
		Code:    coord.Stale,
		Message: fmt.Sprintf("the stored bytes of artifact %s no longer match their digest: restore them from a backup or an export", sha),
		Err:     ErrDamaged,
	}
}

// contextReader ends a read between two chunks once its context is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

func isDigest(sha string) bool {
	return len(sha) == 2*sha256.Size && len(bytes.Trim([]byte(sha), "0123456789abcdef")) == 0
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	return err
}

// diskError types a failure of the file system. A disk or an allowance that is
// full is no fault of Signalbox and passes, so it is coord.Unavailable; the
// rest stays internal.
func diskError(doing string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &coord.Error{
			Code:    coord.Unavailable,
			Message: "the disk that holds the artifacts is full: free some space and try again",
			Err:     err,
		}
	}
	return fmt.Errorf("%s: %w", doing, err)
}
