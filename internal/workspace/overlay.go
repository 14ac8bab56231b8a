package workspace

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"signalbox/internal/coord"
)

// Overlay is a change set in the making: what was written over a Root, which
// itself does not change. It remembers each touched path from before the first
// write to after the last, so that the same outcome gives the same changes,
// whatever the way to it. An Overlay may be used in parallel.
type Overlay struct {
	root  *Root
	store Store

	mu    sync.Mutex
	files map[string]*touched
	// seen holds the digests of the workspace's files as they were read
	// through the overlay: what is written over one must be what was read.
	seen map[string]string
}

// touched is one path that was written, deleted, or is a side of a renaming.
type touched struct {
	before, after *version // nil where there is no file
	// origin is the path under which the workspace has the file that this one
	// came from by changes and renamings, "" for a new one.
	origin string
}

// version is one content of a file.
type version struct {
	sha    string
	mode   coord.FileMode
	size   int64
	binary bool
}

// newMode is the mode of a new file: change sets carry no other.
const newMode coord.FileMode = 0o644

// NewOverlay begins with the changes of an earlier change set, or with none.
// Changes that the workspace has by now are dropped; it is Stale when a file
// is neither as it was before them nor as it is after.
func NewOverlay(ctx context.Context, root *Root, store Store, from []coord.FileChange) (*Overlay, error) {
	o := &Overlay{root: root, store: store, files: map[string]*touched{}, seen: map[string]string{}}
	for _, c := range from {
		t := o.touch(c.Path)
		if c.Kind != coord.FileRenamed && c.Before != "" {
			t.before = &version{sha: c.Before, mode: c.BeforeMode}
		}
		if c.After != "" {
			t.after = &version{sha: c.After, mode: c.Mode, size: c.Size, binary: c.Binary}
		}
		switch c.Kind {
		case coord.FileChanged:
			t.origin = c.Path
		case coord.FileRenamed:
			t.origin = c.From
			o.touch(c.From).before = &version{sha: c.Before, mode: c.BeforeMode}
		case coord.FileNew, coord.FileDeleted:
		}
	}
	for _, p := range slices.Sorted(maps.Keys(o.files)) {
		if err := o.rebase(ctx, p); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *Overlay) touch(p string) *touched {
	t, ok := o.files[p]
	if !ok {
		t = &touched{}
		o.files[p] = t
	}
	return t
}

// rebase compares a path of an earlier change set with the workspace.
func (o *Overlay) rebase(ctx context.Context, p string) error {
	now, err := o.base(ctx, p)
	if err != nil {
		return err
	}
	t := o.files[p]
	switch {
	case now.is(t.after):
		delete(o.files, p)
	case !now.is(t.before):
		return coord.Errorf(coord.Stale, "%s was changed in the workspace since the change set that this one builds upon: begin without it", quote(p))
	default:
		t.before = now // with what the change set did not say of it
	}
	return nil
}

// is reports whether both have the same content and permissions.
func (v *version) is(w *version) bool {
	if v == nil || w == nil {
		return v == w
	}
	return v.sha == w.sha && v.mode == w.mode
}

// base gives the version that the workspace has of a path, nil for none. It is
// kept, so that a change of it can be shown later whatever becomes of the
// workspace. It is Stale when another one was read through the overlay.
func (o *Overlay) base(ctx context.Context, p string) (*version, error) {
	f, err := o.root.Read(p)
	gone := coord.CodeOf(err) == coord.NotFound
	if err != nil && !gone {
		return nil, err
	}
	if sha, read := o.seen[p]; read && (gone || sha != f.SHA256) {
		return nil, coord.Errorf(coord.Stale, "%s was changed in the workspace since it was read: read it again", quote(p))
	}
	if gone {
		return nil, nil
	}
	return versionOf(f), o.keep(ctx, f.Content)
}

func versionOf(f File) *version {
	return &version{sha: f.SHA256, mode: f.Mode, size: int64(len(f.Content)), binary: f.Binary}
}

// Read gives the file at p as the changes leave it.
func (o *Overlay) Read(ctx context.Context, p string) (File, error) {
	if _, err := split(p); err != nil {
		return File{}, err
	}
	o.mu.Lock()
	t, ok := o.files[p]
	var after *version
	if ok {
		after = t.after
	}
	o.mu.Unlock()
	switch {
	case !ok:
		f, err := o.root.Read(p)
		if err == nil {
			o.mu.Lock()
			o.seen[p] = f.SHA256
			o.mu.Unlock()
		}
		return f, err
	case after == nil:
		return File{}, coord.Errorf(coord.NotFound, "%s does not exist any more: it was deleted or renamed", quote(p))
	}
	content, err := contentOf(ctx, o.store, after.sha)
	if err != nil {
		return File{}, err
	}
	return File{Path: p, Content: content, SHA256: after.sha, Mode: after.mode, Binary: after.binary}, nil
}

// contentOf gets bytes from the store and does not believe it.
func contentOf(ctx context.Context, store Store, sha string) ([]byte, error) {
	content, err := store.Get(ctx, sha)
	if err != nil {
		return nil, err
	}
	if Sum(content) != sha {
		return nil, coord.Errorf(coord.Stale, "a kept content no longer has its digest: make the change again")
	}
	return content, nil
}

func (o *Overlay) keep(ctx context.Context, content []byte) error {
	sha, err := o.store.Put(ctx, content)
	if err == nil && sha != Sum(content) {
		err = coord.Errorf(coord.Internal, "the store kept other bytes than it was given")
	}
	return err
}

// List gives what the folder at p holds as the changes leave it.
func (o *Overlay) List(p string) (Listing, error) {
	if _, err := split(p); err != nil {
		return Listing{}, err
	}
	out, err := o.root.List(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	entries := map[string]Entry{}
	for _, e := range out.Entries {
		entries[e.Name] = e
	}
	added := false
	for at, t := range o.files {
		rest, below := strings.CutPrefix(at, p+"/")
		if p == "." {
			rest, below = at, true
		}
		if !below {
			continue
		}
		name, _, deeper := strings.Cut(rest, "/")
		switch {
		case t.after == nil && !deeper:
			delete(entries, name)
		case t.after == nil:
		case deeper:
			added = true
			if _, ok := entries[name]; !ok {
				entries[name] = Entry{Name: name, Kind: EntryFolder}
			}
		default:
			added = true
			entries[name] = Entry{Name: name, Kind: EntryFile, Size: t.after.size}
		}
	}
	if err != nil && (coord.CodeOf(err) != coord.NotFound || !added) {
		return Listing{}, err
	}
	out.Entries = slices.AppendSeq([]Entry{}, maps.Values(entries))
	slices.SortFunc(out.Entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	if n := len(out.Entries) - coord.MaxListed; n > 0 {
		out.Entries, out.More = out.Entries[:coord.MaxListed], out.More+n
	}
	return out, nil
}

// Write makes content the whole of the file at p and gives the change that p
// has by now, the zero one when it is as it was. It is Stale when the workspace's file is another than was read
// through this overlay, and Limit beyond coord.MaxFile or coord.MaxChanges.
func (o *Overlay) Write(ctx context.Context, p string, content []byte) (coord.FileChange, error) {
	names, err := splitFile(p)
	if err != nil {
		return coord.FileChange{}, err
	}
	if len(content) > coord.MaxFile {
		return coord.FileChange{}, tooLarge(p)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.free(p, names); err != nil {
		return coord.FileChange{}, err
	}
	t, err := o.take(ctx, p)
	if err != nil {
		return coord.FileChange{}, err
	}
	if err := o.keep(ctx, content); err != nil {
		return coord.FileChange{}, err
	}
	next := version{sha: Sum(content), size: int64(len(content)), binary: !isText(content), mode: newMode}
	switch {
	case t.after != nil:
		next.mode = t.after.mode
	case t.before != nil: // deleted and made anew
		next.mode, t.origin = t.before.mode, o.unclaimed(p)
	default:
		t.origin = ""
	}
	return o.commit(p, t, &next)
}

// Delete removes the file at p and gives the change that p has by now, which
// is none for a file that was new.
func (o *Overlay) Delete(ctx context.Context, p string) (coord.FileChange, error) {
	if _, err := splitFile(p); err != nil {
		return coord.FileChange{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t, err := o.take(ctx, p)
	if err != nil {
		return coord.FileChange{}, err
	}
	if t.after == nil {
		return coord.FileChange{}, coord.Errorf(coord.NotFound, "%s does not exist", quote(p))
	}
	t.origin = ""
	return o.commit(p, t, nil)
}

// Rename gives the file at from the path to, which must be free, and gives the
// change that to has by now.
func (o *Overlay) Rename(ctx context.Context, from, to string) (coord.FileChange, error) {
	if _, err := splitFile(from); err != nil {
		return coord.FileChange{}, err
	}
	names, err := splitFile(to)
	if err != nil {
		return coord.FileChange{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	source, err := o.take(ctx, from)
	if err != nil {
		return coord.FileChange{}, err
	}
	if source.after == nil {
		return coord.FileChange{}, coord.Errorf(coord.NotFound, "%s does not exist", quote(from))
	}
	if err := o.free(to, names); err != nil {
		return coord.FileChange{}, err
	}
	target, err := o.take(ctx, to)
	if err != nil {
		return coord.FileChange{}, err
	}
	if target.after != nil {
		return coord.FileChange{}, coord.Errorf(coord.Conflict, "%s exists: delete it first", quote(to))
	}
	moved := *source.after
	if target.before != nil {
		// Over a deleted file it is a change of that file.
		moved.mode = target.before.mode
	}
	target.origin = source.origin
	earlier, known := o.files[to]
	if _, err := o.commit(to, target, &moved); err != nil {
		return coord.FileChange{}, err
	}
	source.origin = ""
	if _, err := o.commit(from, source, nil); err != nil {
		if delete(o.files, to); known {
			o.files[to] = earlier
		}
		return coord.FileChange{}, err
	}
	return o.change(to, target), nil
}

// take gives what is known of a path for a change of it, without a trace of it
// yet.
func (o *Overlay) take(ctx context.Context, p string) (*touched, error) {
	if t, ok := o.files[p]; ok {
		took := *t
		return &took, nil
	}
	v, err := o.base(ctx, p)
	if v == nil || err != nil {
		return &touched{}, err
	}
	return &touched{before: v, after: v, origin: p}, nil
}

// free reports whether a file may be at p: no folder is there, and no part of
// the path is a file, neither in the workspace, even a deleted one, nor among
// the changes. So the steps of a landing never wait for each other's folders.
func (o *Overlay) free(p string, names []string) error {
	for at, t := range o.files {
		switch {
		case t.after == nil:
		case strings.HasPrefix(at, p+"/"):
			return coord.Errorf(coord.Conflict, "%s is a folder", quote(p))
		case strings.HasPrefix(p, at+"/"):
			return coord.Errorf(coord.Conflict, "%s is a file, so nothing can be below it", quote(at))
		}
	}
	for i := len(names) - 1; i > 0; i-- {
		dir, err := o.root.folder(p, names[:i])
		if coord.CodeOf(err) == coord.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		return dir.Close()
	}
	return nil
}

// commit makes next the content of p and gives its change.
func (o *Overlay) commit(p string, t *touched, next *version) (coord.FileChange, error) {
	t.after = next
	if t.after.is(t.before) {
		delete(o.files, p)
		return coord.FileChange{}, nil
	}
	if _, known := o.files[p]; !known && len(o.files) >= coord.MaxChanges {
		return coord.FileChange{}, coord.Errorf(coord.Limit, "a change set has at most %d files: finish with these and go on in another task", coord.MaxChanges)
	}
	o.files[p] = t
	return o.change(p, t), nil
}

// unclaimed gives origin unless the file that the workspace has there lives on
// at another path: one file is not renamed to two.
func (o *Overlay) unclaimed(origin string) string {
	for at, t := range o.files {
		if at != origin && t.after != nil && t.origin == origin {
			return ""
		}
	}
	return origin
}

// Changes gives what becomes of each file, ordered by path.
func (o *Overlay) Changes() []coord.FileChange {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []coord.FileChange
	for _, p := range slices.Sorted(maps.Keys(o.files)) {
		t := o.files[p]
		if t.after == nil && o.movedTo(p) {
			continue // told with its new name
		}
		out = append(out, o.change(p, t))
	}
	return out
}

// movedTo reports whether the file that the workspace has at p is at another
// path by now.
func (o *Overlay) movedTo(p string) bool {
	for at, t := range o.files {
		if at != p && o.renamed(at, t) && t.origin == p {
			return true
		}
	}
	return false
}

// renamed reports whether the file at p came there from another path.
func (o *Overlay) renamed(p string, t *touched) bool {
	if t.after == nil || t.before != nil || t.origin == "" || t.origin == p {
		return false
	}
	old, ok := o.files[t.origin]
	return ok && old.after == nil && old.before != nil
}

func (o *Overlay) change(p string, t *touched) coord.FileChange {
	c := coord.FileChange{Path: p}
	before := t.before
	switch {
	case t.after == nil:
		c.Kind = coord.FileDeleted
	case o.renamed(p, t):
		c.Kind, c.From, before = coord.FileRenamed, t.origin, o.files[t.origin].before
	case t.before == nil:
		c.Kind = coord.FileNew
	default:
		c.Kind = coord.FileChanged
	}
	if before != nil {
		c.Before, c.BeforeMode, c.Binary = before.sha, before.mode, before.binary
	}
	if t.after != nil {
		c.After, c.Mode, c.Size, c.Binary = t.after.sha, t.after.mode, t.after.size, c.Binary || t.after.binary
	}
	return c
}
