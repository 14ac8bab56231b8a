package stdio

import (
	"errors"
	"io/fs"
	"path/filepath"

	"signalbox/internal/coord"
	"signalbox/internal/filehash"
)

// HashFile gives what a file is now, for the comparison with what was approved.
// The file is read where it changed since it was last asked for (see package
// filehash). The role names it in errors.
func HashFile(role, path string) (coord.IdentityFile, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return coord.IdentityFile{}, coord.Errorf(coord.NotFound, "The agent's %s does not exist or cannot be reached; check its configuration.", role)
	}
	state, sum, err := filehash.Of(real)
	switch {
	case err == nil:
		return coord.IdentityFile{Role: role, Path: real, SHA256: sum, Size: int64(state.Size)}, nil
	case errors.Is(err, filehash.ErrIrregular):
		return coord.IdentityFile{}, coord.Errorf(coord.Invalid, "The agent's %s is not a regular file.", role)
	case errors.Is(err, filehash.ErrChanged):
		return coord.IdentityFile{}, coord.Errorf(coord.Unavailable, "The agent's %s was changed while it was read; try again when its installation has ended.", role)
	case errors.Is(err, fs.ErrNotExist):
		return coord.IdentityFile{}, coord.Errorf(coord.NotFound, "The agent's %s does not exist any more; check its configuration.", role)
	case errors.Is(err, fs.ErrPermission):
		return coord.IdentityFile{}, coord.Errorf(coord.Forbidden, "The agent's %s cannot be read, so its identity cannot be told; check the file's mode.", role)
	}
	return coord.IdentityFile{}, coord.Errorf(coord.Unavailable, "The agent's %s cannot be read to its end.", role)
}
