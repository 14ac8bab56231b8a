package artifact

import (
	"bytes"
	"context"
	"io"

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

// Path is the file that holds the content with this SHA-256, for a sandbox that
// shows it under another name. It must not be changed.
func (c *Contents) Path(sha256 string) string { return c.store.path(sha256) }
