package tincan

import "signalbox/internal/coord"

// Identify is identify.
func Identify(executable, path string) (coord.Identity, error) {
	id, _, err := identify(executable, path)
	return id, err
}
