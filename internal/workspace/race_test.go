package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
	"signalbox/internal/workspace/workspacetest"
)

var errOver = errors.New("the time of the attack is over")

// TestSwappingAttackerGetsNothingOut lets processes' worth of goroutines swap
// what lies in the workspace for links, hard links and pipes, for ten seconds,
// while files are read, listed and landed through it. What lies outside or is
// denied must never come out, and nothing may be written out there.
func TestSwappingAttackerGetsNothingOut(t *testing.T) {
	t.Parallel()
	const secret = "the secret of the operator"
	dir := tree(t, map[string]string{
		"out/file": secret, "out/new": secret, "out/sub/file": secret, "w/.env": secret, "w/.git/file": secret, "w/.git/new": secret,
		"w/d/file": "fine", "w/d/sub/file": "fine", "w/f": "fine", "w/safe": "fine",
	})
	w := filepath.Join(dir, "w")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errOver)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()

	// Each attacker gives a name, in turn, to one of several things.
	attack := func(name string, shapes ...func(at string) error) {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				next := filepath.Join(w, fmt.Sprintf(".next-%s-%d", filepath.Base(name), i))
				if err := shapes[i%len(shapes)](next); err != nil {
					t.Error(err)
					return
				}
				// A rename replaces a file in one step. A folder must go first.
				if err := os.Rename(next, filepath.Join(w, name)); err != nil {
					_ = os.Rename(filepath.Join(w, name), filepath.Join(dir, fmt.Sprintf("gone-%s-%d", filepath.Base(name), i)))
					_ = os.Rename(next, filepath.Join(w, name))
				}
			}
		})
	}
	link := func(target string) func(string) error {
		return func(at string) error { return os.Symlink(target, at) }
	}
	file := func(at string) error { return os.WriteFile(at, []byte("fine"), 0o644) }
	folder := func(at string) error {
		return errors.Join(os.MkdirAll(filepath.Join(at, "sub"), 0o755), file(filepath.Join(at, "file")), file(filepath.Join(at, "sub", "file")))
	}
	attack("f", file, link("../out/file"), file, link(".env"), file,
		func(at string) error { return os.Link(filepath.Join(dir, "out", "file"), at) }, file,
		func(at string) error { return syscall.Mkfifo(at, 0o644) })
	attack("d", folder, link("../out"), folder, link(".git"), folder, link(filepath.Join(dir, "out")))

	r := open(t, w)
	var good, bad atomic.Int64
	count := func(err error) {
		if err == nil {
			good.Add(1)
		} else {
			bad.Add(1)
		}
	}
	for _, p := range []string{"f", "d/file", "d/sub/file"} {
		all.Go(func() {
			for ctx.Err() == nil {
				f, err := r.Read(p)
				count(err)
				if err == nil && string(f.Content) != "fine" && !bytes.HasPrefix(f.Content, []byte("landed")) {
					t.Errorf("reading %s gave %q", p, f.Content)
					return
				}
			}
		})
	}
	all.Go(func() {
		for ctx.Err() == nil {
			l, err := r.List("d")
			count(err)
			for _, e := range l.Entries {
				if e.Name == "new" && e.Size == int64(len(secret)) {
					t.Error("the folder outside was listed")
					return
				}
			}
		}
	})
	store := &workspacetest.Contents{}
	var landed atomic.Int64
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			content := fmt.Appendf(nil, "landed %d", i)
			sha, err := store.Put(ctx, content)
			if err != nil {
				t.Error(err)
				return
			}
			step := coord.LandingStep{Kind: coord.StepCreate, Path: "d/made", After: sha, Mode: 0o644, Temp: fmt.Sprintf(".signalbox-%d", i)}
			switch i % 3 {
			case 1:
				step.Kind, step.Path, step.Before, step.BeforeMode = coord.StepReplace, "d/file", workspace.Sum([]byte("fine")), 0o644
			case 2:
				step.Kind, step.Path, step.Before, step.BeforeMode = coord.StepReplace, "f", workspace.Sum([]byte("fine")), 0o644
			}
			if done := workspace.Apply(ctx, r, store, step); done.State == coord.StepLanded {
				landed.Add(1)
			}
		}
	})
	<-ctx.Done()
	all.Wait()

	t.Logf("%d calls succeeded, %d were refused, %d files landed", good.Load(), bad.Load(), landed.Load())
	if good.Load() < 100 || bad.Load() < 100 || landed.Load() < 3 {
		t.Error("too little happened for this to prove anything")
	}
	for _, name := range []string{"out/file", "out/new", "out/sub/file", "w/.env", "w/.git/file", "w/.git/new"} {
		if got := text(t, filepath.Join(dir, name)); got != secret {
			t.Errorf("%s holds %q", name, got)
		}
	}
	for folder, n := range map[string]int{"out": 3, "w/.git": 2} {
		if in, err := os.ReadDir(filepath.Join(dir, folder)); err != nil || len(in) != n {
			t.Errorf("%s holds %v, %v", folder, in, err)
		}
	}
}
