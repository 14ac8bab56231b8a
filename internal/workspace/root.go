package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/fault"
)

// maxScanned bounds the names that are read of one folder to give the first
// coord.MaxListed in order.
const maxScanned = 1 << 17

// Root is an approved folder. What is read and written through it lies in it,
// under a name that the rules allow, whatever is swapped meanwhile: each folder
// on the way is opened from the one before it and never through a link, and
// what counts is what was opened. os.Root would not do: it follows links that
// stay inside, and a link inside is another name for a file that is denied. A
// Root may be used in parallel.
type Root struct {
	identity coord.WorkspaceIdentity
	mount    uint64
	// mu keeps Close from taking the folder away under a call.
	mu  sync.RWMutex
	dir *os.File
	// at is called at the steps of a landing.
	at func(point string)
	// opening is called before and after a file is opened, for tests.
	opening func(name string)
}

// Open opens the folder that was approved. It is Stale when another folder
// has taken its place, and Invalid when the path is not canonical or leads to
// no folder.
func Open(want coord.WorkspaceIdentity) (*Root, error) {
	canonical, err := filepath.EvalSymlinks(want.Path)
	if err != nil || !filepath.IsAbs(want.Path) || canonical != want.Path {
		return nil, coord.Errorf(coord.Invalid, "the workspace %s is no canonical path of a folder: write it without links and '..'", quote(want.Path))
	}
	fd, err := openAt(unix.AT_FDCWD, want.Path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, coord.Errorf(coord.Invalid, "the workspace %s cannot be opened: check that it is a folder and may be read", quote(want.Path))
	}
	dir := os.NewFile(uintptr(fd), want.Path)
	s, err := statAt(fd, "")
	if err == nil && (s.dev != want.Device || s.ino != want.Inode) {
		err = coord.Errorf(coord.Stale, "another folder is at %s than the one that was approved: look at it and approve it anew", quote(want.Path))
	}
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return &Root{identity: want, mount: s.mount, dir: dir, at: fault.Point, opening: func(string) {}}, nil
}

// Identity is what the folder was opened by.
func (r *Root) Identity() coord.WorkspaceIdentity { return r.identity }

// Close waits for calls under way to leave the folder and lets go of it.
func (r *Root) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dir.Close()
}

// Entry is one name in a folder.
type Entry struct {
	Name string    `json:"name"`
	Kind EntryKind `json:"kind"`
	// Size is that of a file, in bytes.
	Size int64 `json:"size,omitempty"`
	// Refused says why the entry cannot be read.
	Refused string `json:"refused,omitempty"`
}

// EntryKind is what a name stands for.
type EntryKind string

// The kinds of entries.
const (
	EntryFile   EntryKind = "file"
	EntryFolder EntryKind = "folder"
	EntryOther  EntryKind = "other"
)

// Listing is what a folder holds, ordered by name.
type Listing struct {
	// Entries are at most coord.MaxListed.
	Entries []Entry `json:"entries"`
	// More counts the entries beyond that.
	More int `json:"more,omitempty"`
	// Hidden counts names that no path may hold.
	Hidden int `json:"hidden,omitempty"`
}

// File is what a file held when it was read.
type File struct {
	Path    string
	Content []byte
	// SHA256 is that of Content, in hex.
	SHA256 string
	Mode   coord.FileMode
	// Binary tells that the content is no UTF-8 text.
	Binary bool
}

// List gives what the folder at p holds, "." for the workspace itself.
func (r *Root) List(p string) (Listing, error) {
	names, err := split(p)
	if err != nil {
		return Listing{}, err
	}
	dir, err := r.folder(p, names)
	if err != nil {
		return Listing{}, err
	}
	defer dir.Close()
	all, err := dir.Readdirnames(maxScanned)
	if err != nil && !errors.Is(err, io.EOF) {
		return Listing{}, trouble(p, err)
	}
	if len(all) == maxScanned {
		return Listing{}, coord.Errorf(coord.Limit, "%s holds %d names or more, which is too much to list: name a file in it", quote(p), maxScanned)
	}
	slices.Sort(all)
	out := Listing{Entries: []Entry{}}
	for _, name := range all {
		switch {
		case unspeakable(name) != "":
			out.Hidden++
		case len(out.Entries) == coord.MaxListed:
			out.More++
		default:
			if e, ok := r.entry(dir, name); ok {
				out.Entries = append(out.Entries, e)
			}
		}
	}
	return out, nil
}

// entry looks at one name; false means that it is gone.
func (r *Root) entry(dir *os.File, name string) (Entry, bool) {
	s, err := statAt(int(dir.Fd()), name)
	if errors.Is(err, unix.ENOENT) {
		return Entry{}, false
	}
	e := Entry{Name: name, Kind: EntryOther}
	switch {
	case err != nil:
		e.Refused = "it cannot be looked at"
		return e, true
	case s.is(unix.S_IFDIR):
		e.Kind = EntryFolder
		if s.mount != r.mount {
			e.Refused = "another file system is mounted there"
		}
	case s.is(unix.S_IFREG):
		e.Kind, e.Size, e.Refused = EntryFile, s.size, s.refused(r.mount)
		if e.Refused == "" && s.size > coord.MaxFile {
			e.Refused = "it is too large"
		}
	default:
		e.Refused = s.refused(r.mount)
	}
	if d := denied(name); d != nil && !d.readable {
		e.Size, e.Refused = 0, "agents have no access to "+d.why
	}
	return e, true
}

// Read gives the file at p whole. It is NotFound when there is none, Invalid
// when a rule forbids it, and Limit when it is larger than coord.MaxFile.
func (r *Root) Read(p string) (File, error) {
	f, _, err := r.read(p)
	return f, err
}

func (r *Root) read(p string) (File, stat, error) {
	names, err := split(p)
	if err != nil {
		return File{}, stat{}, err
	}
	if len(names) == 0 {
		return File{}, stat{}, refusal(p, "it is a folder, not a regular file")
	}
	dir, err := r.folder(p, names[:len(names)-1])
	if err != nil {
		return File{}, stat{}, err
	}
	defer dir.Close()
	content, s, err := r.readIn(dir, p, names[len(names)-1])
	if err != nil {
		return File{}, stat{}, err
	}
	return File{Path: p, Content: content, SHA256: Sum(content), Mode: s.perm(), Binary: !isText(content)}, s, nil
}

// folder opens the folder that names lead to; the caller closes it.
func (r *Root) folder(p string, names []string) (*os.File, error) {
	r.mu.RLock()
	fd, err := openAt(int(r.dir.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	r.mu.RUnlock()
	if err != nil {
		return nil, trouble(".", err)
	}
	for i, name := range names {
		next, err := r.step(fd, name)
		_ = unix.Close(fd)
		if err != nil {
			if _, typed := errors.AsType[*coord.Error](err); typed {
				return nil, err
			}
			return nil, trouble(path.Join(names[:i+1]...), err)
		}
		fd = next
	}
	return os.NewFile(uintptr(fd), p), nil
}

// step opens the folder name in dir.
func (r *Root) step(dir int, name string) (int, error) {
	fd, err := openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		if s, serr := statAt(dir, name); serr == nil && !s.is(unix.S_IFDIR) {
			return 0, refusal(name, "it is "+s.kind()+", not a folder")
		}
		return 0, err
	}
	s, err := statAt(fd, "")
	if err == nil && s.mount != r.mount {
		err = refusal(name, "another file system is mounted there")
	}
	if err != nil {
		_ = unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

// readIn reads the file name in dir, which is at p.
func (r *Root) readIn(dir *os.File, p, name string) ([]byte, stat, error) {
	fd, s, err := r.openIn(dir, p, name)
	if err != nil {
		return nil, stat{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	content, err := readAll(fd, p, s.size)
	return content, s, err
}

// openIn opens the file name in dir. It is looked at before, because opening a
// device or a pipe can have an effect, and judged by what was opened. That must
// then still have this name, unchanged: a file from outside that was linked here
// when it was opened, and no longer when it was judged, has one name, too.
func (r *Root) openIn(dir *os.File, p, name string) (int, stat, error) {
	s, err := statAt(int(dir.Fd()), name)
	if err != nil {
		return 0, stat{}, trouble(p, err)
	}
	if why := s.refused(r.mount); why != "" {
		return 0, stat{}, refusal(p, why)
	}
	r.opening(name)
	fd, err := openAt(int(dir.Fd()), name, unix.O_RDONLY, 0)
	if err != nil {
		return 0, stat{}, trouble(p, err)
	}
	r.opening(name)
	s, err = statAt(fd, "")
	if err == nil {
		if why := s.refused(r.mount); why != "" {
			err = refusal(p, why)
		}
	}
	if err == nil {
		now, nerr := statAt(int(dir.Fd()), name)
		if nerr != nil || !now.same(s) || now.ctime != s.ctime || now.refused(r.mount) != "" {
			err = refusal(p, "it was replaced while it was opened")
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return 0, stat{}, err
	}
	return fd, s, nil
}

// readAll reads an open file to its end, which may lie beyond size.
func readAll(fd int, p string, size int64) ([]byte, error) {
	if size > coord.MaxFile {
		return nil, tooLarge(p)
	}
	b := make([]byte, 0, min(size, coord.MaxFile)+1)
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, 512)
		}
		var n int
		err := again(func() (err error) {
			n, err = unix.Read(fd, b[len(b):cap(b)])
			return err
		})
		switch {
		case err != nil:
			return nil, trouble(p, err)
		case n == 0:
			return b, nil
		}
		if b = b[:len(b)+n]; len(b) > coord.MaxFile {
			return nil, tooLarge(p)
		}
	}
}

func tooLarge(p string) error {
	return coord.Errorf(coord.Limit, "%s is larger than the %d bytes that a file may have here", quote(p), coord.MaxFile)
}

// Sum gives the SHA-256 of b in hex.
func Sum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// isText reports whether b is UTF-8 without NUL, which no source text holds.
func isText(b []byte) bool { return utf8.Valid(b) && !slices.Contains(b, 0) }
