// Package workspacetest keeps contents for tests that end with their process.
package workspacetest

import (
	"context"
	"slices"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
)

// Contents is a workspace.Store in memory. The zero value is ready. Kept is by
// SHA-256; a test may damage it while nothing else uses the store.
type Contents struct {
	mu   sync.Mutex
	Kept map[string][]byte
}

// Get gives the content with this SHA-256, or NotFound.
func (c *Contents) Get(_ context.Context, sha256 string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.Kept[sha256]
	if !ok {
		return nil, coord.Errorf(coord.NotFound, "there is no content %s", sha256)
	}
	return b, nil
}

// Put keeps content; nothing fails.
func (c *Contents) Put(_ context.Context, content []byte) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Kept == nil {
		c.Kept = map[string][]byte{}
	}
	sum := workspace.Sum(content)
	c.Kept[sum] = slices.Clone(content)
	return sum, nil
}
