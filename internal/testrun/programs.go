package testrun

import (
	"context"

	"signalbox/internal/coord"
)

// Programs gives the runners that are installed here, for a certificate to
// cover.
func (t *Tester) Programs(ctx context.Context) []coord.IdentityFile {
	var out []coord.IdentityFile
	for _, runner := range Runners {
		if path, err := t.program(ctx, runner); err == nil {
			out = append(out, coord.IdentityFile{Role: coord.FileRunner, Path: path})
		}
	}
	return out
}
