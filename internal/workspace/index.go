package workspace

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git names its objects by it; nothing here trusts it
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"signalbox/internal/coord"
)

// maxIndex bounds what is read of git's index: half a million files.
const maxIndex = 64 << 20

// GitStatus is how files stand to git's index, as far as reading tells. What
// is staged and not committed looks clean, because only the index is read.
type GitStatus struct {
	// Head is the commit checked out, "" for none.
	Head string `json:"head,omitempty"`
	// Unknown says why nothing can be told of the files, "" if it can.
	Unknown string `json:"unknown,omitempty"`
	// Files holds each path that was asked for, unless Unknown is set.
	Files map[string]GitFile `json:"files,omitempty"`
}

// GitFile is how one file stands to git's index.
type GitFile string

// The stands.
const (
	GitClean      GitFile = "clean"
	GitModified   GitFile = "modified"
	GitMissing    GitFile = "missing"
	GitUntracked  GitFile = "untracked"
	GitConflicted GitFile = "conflicted"
	GitUnknown    GitFile = "unknown"
)

// Status tells of the given paths of the workspace whether they differ from
// git's index. It does not run git.
func Status(r *Root, paths []string) GitStatus {
	dir, top, ok := gitDir(r.identity.Path)
	if !ok {
		return GitStatus{Unknown: "the workspace is not in git"}
	}
	out := GitStatus{Head: head(dir)}
	prefix, err := filepath.Rel(top, r.identity.Path)
	if err != nil {
		out.Unknown = "the place of the workspace in the repository cannot be told"
		return out
	}
	want := map[string]*indexEntry{}
	for _, p := range paths {
		want[path.Join(filepath.ToSlash(prefix), p)] = nil
	}
	x, err := readIndex(filepath.Join(dir, "index"), want)
	if err != nil {
		out.Unknown = "git's index cannot be read: " + err.Error()
		return out
	}
	out.Files = map[string]GitFile{}
	for _, p := range paths {
		out.Files[p] = x.file(r, p, path.Join(filepath.ToSlash(prefix), p))
	}
	return out
}

// index is what was read of git's index: the wanted entries.
type index struct {
	hash    func() hash.Hash
	written time.Time
	entries map[string]*indexEntry
	// closed are folders and submodules whose files the index does not list,
	// and split tells that another file lists more.
	closed []string
	split  bool
}

// indexEntry is one file of the index.
type indexEntry struct {
	mode, size uint32
	sec, nsec  uint32 // of the last modification
	object     []byte
	conflicted bool
}

// The types of entries, as in the mode that git records.
const (
	gitTypeMask = 0o170000
	gitFile     = 0o100000
	gitFolder   = 0o040000 // of a sparse index
	gitModule   = 0o160000
)

// file compares one path, which the index knows by the name full.
func (x *index) file(r *Root, p, full string) GitFile {
	e := x.entries[full]
	if e == nil {
		for _, dir := range x.closed {
			if strings.HasPrefix(full, dir) {
				return GitUnknown
			}
		}
		if x.split {
			return GitUnknown
		}
		return GitUntracked
	}
	if e.conflicted {
		return GitConflicted
	}
	if e.mode&gitTypeMask != gitFile {
		return GitUnknown
	}
	f, s, err := r.read(p)
	switch {
	case coord.CodeOf(err) == coord.NotFound:
		return GitMissing
	case err != nil:
		return GitUnknown
	}
	h := x.hash()
	fmt.Fprintf(h, "blob %d\x00", len(f.Content))
	h.Write(f.Content)
	switch {
	case (e.mode&0o100 != 0) != (f.Mode&0o100 != 0):
		return GitModified
	case bytes.Equal(h.Sum(nil), e.object):
		return GitClean
	}
	// Line ends and filters can make a clean file differ. Then git goes by what
	// it noted when it wrote the file, as long as that is older than the index.
	mtime := time.Unix(s.mtime.Unix())
	if uint32(s.size) == e.size && uint32(mtime.Unix()) == e.sec && uint32(mtime.Nanosecond()) == e.nsec && mtime.Before(x.written) {
		return GitClean
	}
	return GitModified
}

// readIndex reads the entries named in want from an index of version 2 to 4.
// https://git-scm.com/docs/index-format
func readIndex(file string, want map[string]*indexEntry) (*index, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe in its place must not hold us
	if errors.Is(err, os.ErrNotExist) {
		return &index{hash: sha1.New, entries: want}, nil // nothing was added yet
	}
	if err != nil {
		return nil, errors.New("it cannot be opened")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if info.Size() > maxIndex {
		return nil, fmt.Errorf("it is larger than %d bytes", maxIndex)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxIndex+1))
	if err != nil || len(b) > maxIndex {
		return nil, errors.New("it changes while it is read")
	}
	x := &index{written: info.ModTime(), entries: want}
	return x, x.parse(b)
}

var errIndex = errors.New("it is damaged, or of a kind that is not known")

func (x *index) parse(b []byte) error {
	if len(b) < 12+sha1.Size || string(b[:4]) != "DIRC" {
		return errIndex
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return errIndex
	}
	size, err := x.checksum(b)
	if err != nil {
		return err
	}
	b = b[:len(b)-size]
	at, name := 12, []byte(nil)
	for range count {
		// Ten numbers of four bytes, the object's name and the flags.
		fixed := at + 40 + size + 2
		if fixed > len(b) {
			return errIndex
		}
		e := b[at:fixed]
		flags := binary.BigEndian.Uint16(e[40+size:])
		if flags&0x4000 != 0 { // two more bytes of flags
			fixed += 2
		}
		if fixed > len(b) {
			return errIndex
		}
		next, full, ok := entryName(b, at, fixed, name, version)
		if !ok {
			return errIndex
		}
		x.take(string(full), e, flags, size)
		at, name = next, full
	}
	for at+8 <= len(b) {
		x.split = x.split || string(b[at:at+4]) == "link"
		at += 8 + int(binary.BigEndian.Uint32(b[at+4:]))
	}
	return nil
}

// checksum finds out by which function the repository names its objects: the
// one that the index ends with the sum of. It gives the size of a name.
func (x *index) checksum(b []byte) (int, error) {
	for _, h := range []func() hash.Hash{sha1.New, sha256.New} {
		size := h().Size()
		if len(b) < 12+size {
			continue
		}
		sum := h()
		sum.Write(b[:len(b)-size])
		if bytes.Equal(sum.Sum(nil), b[len(b)-size:]) {
			x.hash = h
			return size, nil
		}
	}
	// git may be told to leave the sum out (index.skipHash).
	if len(bytes.Trim(b[len(b)-sha1.Size:], "\x00")) == 0 {
		x.hash = sha1.New
		return sha1.Size, nil
	}
	return 0, errIndex
}

// entryName gives the name of the entry that begins at start and whose name
// begins at from, and where the next entry begins. Version 4 writes what
// differs from the name before.
func entryName(b []byte, start, from int, before []byte, version uint32) (next int, name []byte, ok bool) {
	keep := 0
	if version == 4 {
		strip, n := 0, from
		for {
			if n >= len(b) || strip > coord.MaxPath {
				return 0, nil, false
			}
			strip = strip<<7 | int(b[n]&0x7f)
			n++
			if b[n-1]&0x80 == 0 {
				break
			}
			strip++
		}
		if strip > len(before) {
			return 0, nil, false
		}
		from, keep = n, len(before)-strip
	}
	end := bytes.IndexByte(b[from:], 0)
	if end < 0 || keep+end > coord.MaxPath {
		return 0, nil, false
	}
	name = append(append(make([]byte, 0, keep+end), before[:keep]...), b[from:from+end]...)
	next = from + end + 1
	if version < 4 { // padded with one to eight NUL
		next = start + (from+end-start)/8*8 + 8
	}
	return next, name, next <= len(b)
}

// take keeps an entry that is wanted or that hides others.
func (x *index) take(name string, e []byte, flags uint16, size int) {
	number := func(i int) uint32 { return binary.BigEndian.Uint32(e[4*i:]) }
	mode := number(6)
	switch mode & gitTypeMask {
	case gitFolder:
		x.closed = append(x.closed, strings.TrimSuffix(name, "/")+"/")
	case gitModule:
		x.closed = append(x.closed, name+"/")
	}
	if known, wanted := x.entries[name]; wanted && (known == nil || !known.conflicted) {
		x.entries[name] = &indexEntry{
			sec: number(2), nsec: number(3), mode: mode, size: number(9),
			object: bytes.Clone(e[40 : 40+size]), conflicted: flags&0x3000 != 0,
		}
	}
}
