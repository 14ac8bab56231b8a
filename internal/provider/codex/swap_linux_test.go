package codex_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/filehash/filehashtest"
	"signalbox/internal/provider"
	"signalbox/internal/provider/codex"
)

func TestSwappedProgramIsSeenThoughItsSumWasRemembered(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	// A program whose last byte, which nothing loads, is another.
	program = append(program, '1')
	another := append(program[:len(program)-1:len(program)-1], '2')
	swaps := map[string]func(path string) error{
		"another is renamed over it": func(path string) error { return os.Rename(path+".other", path) },
		"it is overwritten, and its time set back": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("2"), info.Size()-1)
			return errors.Join(err, f.Close(), os.Chtimes(path, info.ModTime(), info.ModTime()))
		},
		"its name is given to another": func(path string) error {
			return errors.Join(os.Remove(path), os.Link(path+".other", path))
		},
		"the link to it leads elsewhere": func(path string) error {
			link := filepath.Join(filepath.Dir(path), "codex")
			return errors.Join(os.Remove(link), os.Symlink(path+".other", link))
		},
	}
	benches := map[string]*scripted{}
	var files []string
	for name := range swaps {
		s := newScripted(t, "echo", testTiming)
		path := filepath.Join(s.dir, "program")
		s.config.Executable = filepath.Join(s.dir, "codex")
		if err := errors.Join(os.WriteFile(path, program, 0o700), os.WriteFile(path+".other", another, 0o700), os.Symlink(path, s.config.Executable)); err != nil {
			t.Fatal(err)
		}
		benches[name], files = s, append(files, path)
	}
	filehashtest.Settle(t, files...)
	for name, swap := range swaps {
		t.Run(name, func(t *testing.T) {
			s := benches[name]
			w := s.work("1", "Work.")
			n := filehashtest.Read(t, func() {
				id, err := codex.Identify(s.config)
				if diff := w.Identity.Diff(id); err != nil || len(diff) > 0 {
					t.Errorf("without a swap there changed %q, %v", diff, err)
				}
			})
			if n > 1<<20 {
				t.Fatalf("nothing was remembered: %d bytes were read", n)
			}
			attempt := s.prepare(t, w)
			attempt.close()
			if err := swap(filepath.Join(s.dir, "program")); err != nil {
				t.Fatal(err)
			}
			if u := s.unsent(w); u.Cause != provider.CauseStale || u.Transient || !strings.Contains(u.Message, "launcher ") {
				t.Errorf("the failure is %+v", u)
			}
		})
	}
}
