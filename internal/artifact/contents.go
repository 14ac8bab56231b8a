package artifact

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"signalbox/internal/coord"
)

// Contents keeps files of the operator's own workspaces exactly: they are to
// go back there byte for byte, so nothing in them is redacted. They are shown
// to the operator and never exported.
type Contents struct{ store *Store }

// NewContents opens the contents in dir, as New does.
func NewContents(dir string) (*Contents, error) {
	store, err := New(dir, func(s string) string { return s })
	return &Contents{store}, err
}

// Put keeps content, of at most coord.MaxFile bytes, and gives its SHA-256 in
// hex once it is durable.
func (c *Contents) Put(ctx context.Context, content []byte) (string, error) {
	ref, err := c.store.Put(ctx, bytes.NewReader(content), coord.MaxFile)
	return ref.SHA256, err
}

// Get gives the content with this SHA-256; its bytes are hashed again. It is
// NotFound when there is none.
func (c *Contents) Get(_ context.Context, sha256 string) ([]byte, error) {
	r, _, err := c.store.Open(sha256)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// Sweep removes the contents that keep does not name and that were last stored
// before a moment: those of change sets that are no longer kept, and those that
// an agent wrote and wrote anew. It gives how many were removed.
func (c *Contents) Sweep(ctx context.Context, keep map[string]bool, before time.Time) (int, error) {
	fans, err := os.ReadDir(c.store.dir)
	if err != nil {
		return 0, diskError("listing the contents", err)
	}
	removed := 0
	for _, fan := range fans {
		if fan.Name() == tempDir || !fan.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(c.store.dir, fan.Name()))
		if err != nil {
			return removed, diskError("listing the contents", err)
		}
		for _, f := range files {
			if ctx.Err() != nil {
				return removed, context.Cause(ctx)
			}
			sha := fan.Name() + f.Name()
			if !isDigest(sha) || keep[sha] {
				continue
			}
			gone, err := c.store.RemoveLeftover(sha, before)
			if err != nil {
				return removed, err
			}
			if gone {
				removed++
			}
		}
	}
	return removed, nil
}

// Path is the file that holds the content with this SHA-256, for a sandbox that
// shows it under another name. It must not be changed.
func (c *Contents) Path(sha256 string) string { return c.store.path(sha256) }
