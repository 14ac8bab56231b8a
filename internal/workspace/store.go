package workspace

import "context"

// Store keeps contents by their SHA-256, privately and unchanged: what comes
// back is hashed again. Contents have at most coord.MaxFile bytes.
type Store interface {
	// Get gives the content with this SHA-256, in hex.
	Get(ctx context.Context, sha256 string) ([]byte, error)
	// Put keeps content and returns its SHA-256, in hex, when that is durable.
	Put(ctx context.Context, content []byte) (string, error)
}
