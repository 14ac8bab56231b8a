package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

// TokenPrefix begins every bearer token, so that people and scanners of
// secrets know one when they see it.
const TokenPrefix = "sbx_"

// NewSecret makes 256 random bits as text.
func NewSecret() string {
	var b [32]byte
	// It never fails: crypto/rand ends the program instead.
	_, _ = rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// HashOf is what is kept of a secret: its SHA-256 in hex. A value of 256 random
// bits needs no salt and no slow hash.
func HashOf(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}
