package stdio

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"

	"signalbox/internal/coord"
)

// HashFile reads a file to its end, at each call: what is compared with an
// approval must not come from a cache. The role names it in errors.
func HashFile(role, path string) (coord.IdentityFile, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return coord.IdentityFile{}, coord.Errorf(coord.NotFound, "The agent's %s does not exist or cannot be reached; check its configuration.", role)
	}
	f, err := os.Open(real)
	if err != nil {
		return coord.IdentityFile{}, coord.Errorf(coord.Forbidden, "The agent's %s cannot be read, so its identity cannot be told; check the file's mode.", role)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return coord.IdentityFile{}, coord.Errorf(coord.Invalid, "The agent's %s is not a regular file.", role)
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return coord.IdentityFile{}, coord.Errorf(coord.Unavailable, "The agent's %s cannot be read to its end.", role)
	}
	return coord.IdentityFile{Role: role, Path: real, SHA256: hex.EncodeToString(h.Sum(nil)), Size: n}, nil
}
