package testrun

import (
	"context"
	"path/filepath"

	"signalbox/internal/coord"
)

// Programs gives the runners that are installed here, for a certificate to
// cover.
func (t *Tester) Programs(ctx context.Context) []coord.IdentityFile {
	var out []coord.IdentityFile
	for _, runner := range Runners {
		if program, err := t.Program(ctx, runner); err == nil {
			out = append(out, program)
		}
	}
	return out
}

// Program gives the program of a runner, NotFound where it is not installed.
func (t *Tester) Program(ctx context.Context, runner string) (coord.IdentityFile, error) {
	path, err := t.program(ctx, runner)
	return coord.IdentityFile{Role: coord.FileRunner, Path: path}, err
}

// RunnerOf gives the runner that a file of tests is run by when none is named.
// It is Invalid for a file that none takes.
func RunnerOf(path string) (string, error) {
	takes := takers(filepath.Base(path))
	if len(takes) == 0 {
		return "", coord.Errorf(coord.Invalid, "no runner takes %.200q as a file of tests: bun and node take NAME.test.ts, NAME.spec.js and the like, python test_NAME.py, go NAME_test.go", path)
	}
	return takes[0], nil
}
