package testrun

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/sandbox"
)

// Tester plans and runs tests. Its methods may be used at the same time.
type Tester struct {
	box *sandbox.Box
	// programs are configured paths of runners by name; others are looked up.
	programs map[string]string
	lookup   func(string) (string, error)
}

// New makes a tester. programs gives paths of runners by their names; for those
// it does not name, lookup, exec.LookPath outside of tests, finds the program
// bun, node, python3 or go.
func New(box *sandbox.Box, programs map[string]string, lookup func(string) (string, error)) *Tester {
	return &Tester{box: box, programs: programs, lookup: lookup}
}

// Request is a run of tests that somebody wants.
type Request struct {
	// Runner is one of Runners; "" is inferred from the names of the files.
	Runner string
	// Workspace is an absolute path with its links resolved.
	Workspace string
	// Files are relative to it, with slashes; 1 to coord.MaxTestFiles.
	Files []string
	// Changes lie over the workspace.
	Changes []sandbox.Change
	Tier    coord.Tier
}

// The runners.
const (
	Bun    = "bun"
	Node   = "node"
	Python = "python"
	Go     = "go"
)

// Runners lists them.
var Runners = []string{Bun, Node, Python, Go}

// The files that each runner takes as tests, by their own conventions.
var (
	scriptTest = lazily(`(?i)[._](test|spec)\.([cm]?[jt]sx?)$`)
	pythonTest = lazily(`^(test_.*|.*_test)\.py$`)
	goTest     = lazily(`_test\.go$`)
)

// Plan says exactly what a run would be, without running anything of the
// workspace. Invalid tells what is wrong with the request, NotFound which
// runner is missing.
func (t *Tester) Plan(ctx context.Context, r Request) (coord.TestRun, error) {
	p, err := t.plan(ctx, r)
	return p.run, err
}

// planned is a run with what it needs beside what is shown.
type planned struct {
	run coord.TestRun
	// reads are the runner's libraries.
	reads []string
	// pattern selects the tests of the files, in Go.
	pattern string
}

func (t *Tester) plan(ctx context.Context, r Request) (planned, error) {
	runner, err := r.check()
	if err != nil {
		return planned{}, err
	}
	p := planned{run: coord.TestRun{Runner: runner}}
	for _, path := range r.Files {
		sum, err := r.digest(path)
		if err != nil {
			return planned{}, err
		}
		p.run.Files = append(p.run.Files, coord.TestFile{Path: path, SHA256: sum})
	}
	if p.run.Program, err = t.program(ctx, runner); err != nil {
		return planned{}, err
	}
	if p.run.SHA256, _, err = t.box.Hash(p.run.Program); err != nil {
		return planned{}, err
	}
	switch runner {
	case Bun:
		p.run.Args = bunArgs(r.Files)
	case Node:
		p.run.Args, err = t.nodeArgs(ctx, r, p.run.Program)
	case Python:
		p.run.Args = pythonArgs(r.Files)
		p.reads, err = pythonReads(p.run.Program)
	case Go:
		p.run.Args, p.pattern, err = goArgs(r)
	}
	return p, err
}

// check gives the runner of a request that can be planned.
func (r Request) check() (string, error) {
	if !filepath.IsAbs(r.Workspace) {
		return "", coord.Errorf(coord.Invalid, "The workspace of a run of tests is not an absolute path.")
	}
	if len(r.Files) == 0 || len(r.Files) > coord.MaxTestFiles {
		return "", coord.Errorf(coord.Invalid, "A run of tests takes 1 to %d files, named one by one.", coord.MaxTestFiles)
	}
	seen := map[string]bool{}
	runner := r.Runner
	for i, path := range r.Files {
		at := fmt.Sprintf("/files/%d", i)
		fault := func(message string) error {
			return coord.InvalidFields("The files of the tests cannot be run", []coord.Field{{Pointer: at, Message: message}})
		}
		switch {
		case len(path) > coord.MaxPath || !filepath.IsLocal(path) || filepath.Clean(path) != path || strings.ContainsAny(path, "\x00\n\\"):
			return "", fault("is not a clean path relative to the workspace")
		case slices.ContainsFunc(strings.Split(path, "/"), coord.HiddenName):
			return "", fault("has the name of a credential or of metadata")
		case slices.ContainsFunc(strings.Split(path, "/"), func(e string) bool { return strings.HasPrefix(e, "-") }):
			return "", fault("begins with a hyphen, which a runner takes for an option")
		case seen[path]:
			return "", fault("is named twice")
		}
		seen[path] = true
		takes := takers(filepath.Base(path))
		if runner == "" && len(takes) > 0 {
			runner = takes[0]
		}
		if !slices.Contains(takes, runner) {
			return "", fault("is no file of tests for this runner: bun and node take NAME.test.ts, NAME.spec.js and the like, python test_NAME.py, go NAME_test.go")
		}
	}
	return runner, nil
}

// takers are the runners for a file by its name, the preferred one first.
func takers(name string) []string {
	switch {
	case scriptTest().MatchString(name):
		return []string{Bun, Node}
	case pythonTest().MatchString(name):
		return []string{Python}
	case goTest().MatchString(name):
		return []string{Go}
	}
	return nil
}

// digest is the SHA-256 of a file as the run would find it.
func (r Request) digest(path string) (string, error) {
	f, err := r.open(path)
	if err != nil {
		return "", coord.Errorf(coord.NotFound, "The file of tests %.200q is not there, or is no regular file.", path)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, coord.MaxFile+1))
	if err != nil {
		return "", &coord.Error{Code: coord.Unavailable, Message: "A file of tests cannot be read.", Err: err}
	}
	if n > coord.MaxFile {
		return "", coord.Errorf(coord.Limit, "A file of tests has more than %d bytes.", coord.MaxFile)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

var errNoFile = errors.New("no regular file")

// open opens a regular file of the workspace as changed.
func (r Request) open(path string) (*os.File, error) {
	for _, c := range r.Changes {
		if c.Path == path && c.Content == "" {
			return nil, errNoFile
		}
		if c.Path == path {
			return os.Open(c.Content)
		}
	}
	root, err := os.OpenRoot(r.Workspace)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errNoFile, f.Close())
	}
	return f, nil
}

// content is the digest over the changes that a run was made with, "" without.
func (r Request) content() (string, error) {
	if len(r.Changes) == 0 {
		return "", nil
	}
	type entry struct {
		Path, SHA256 string
		Mode         coord.FileMode
	}
	var all []entry
	for _, c := range r.Changes {
		e := entry{Path: c.Path, Mode: c.Mode}
		if c.Content != "" {
			sum, err := r.digest(c.Path)
			if err != nil {
				return "", err
			}
			e.SHA256 = sum
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
	text, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// differs says in words what is not as it was approved, "" when nothing.
func differs(approved, now coord.TestRun) string {
	switch {
	case approved.Runner != now.Runner || approved.Program != now.Program:
		return "the runner is another program"
	case approved.SHA256 != now.SHA256:
		return "the runner's program has other content"
	case !slices.Equal(approved.Args, now.Args):
		return "the arguments are others"
	case len(approved.Files) != len(now.Files):
		return "the files are others"
	}
	for i, f := range now.Files {
		if approved.Files[i].Path != f.Path {
			return "the files are others"
		}
		if approved.Files[i].SHA256 != f.SHA256 {
			return fmt.Sprintf("the file %.200q has other content", f.Path)
		}
	}
	return ""
}
