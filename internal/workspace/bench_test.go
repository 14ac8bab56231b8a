package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
)

// measure runs f as often as the benchmark wants and reports the time of the
// processor as well, which a busy machine does not stretch.
func measure(b *testing.B, f func() error) {
	b.Helper()
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	for b.Loop() {
		if err := f(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op")
}

// large makes a tree of 70,000 files in 1,400 folders, three deep.
func large(b *testing.B) *workspace.Root {
	b.Helper()
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1400 {
		sub := filepath.Join(dir, fmt.Sprintf("d%d/e%d/f%d", i/100, i/10, i))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range 50 {
			if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%02d.go", j)), []byte("package x\n"), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	id, _, err := workspace.Identify(dir)
	if err != nil {
		b.Fatal(err)
	}
	r, err := workspace.Open(id)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close() })
	return r
}

func BenchmarkLargeTree(b *testing.B) {
	r := large(b)
	b.Run("list one folder of 50", func(b *testing.B) {
		measure(b, func() error { return second(r.List("d3/e37/f371")) })
	})
	b.Run("yardstick: look at one folder of 50", func(b *testing.B) {
		measure(b, func() error { return look(filepath.Join(r.Identity().Path, "d3/e37/f371")) })
	})
	b.Run("read one file", func(b *testing.B) {
		measure(b, func() error { return second(r.Read("d3/e37/f371/file25.go")) })
	})
	b.Run("yardstick: os.ReadFile", func(b *testing.B) {
		measure(b, func() error { return second(os.ReadFile(filepath.Join(r.Identity().Path, "d3/e37/f371/file25.go"))) })
	})
	b.Run("judge one name", func(b *testing.B) {
		measure(b, func() error { workspace.Denied("file25.go"); return nil })
	})
	b.Run("list every folder", func(b *testing.B) {
		measure(b, func() error {
			if n := walk(b, r, "."); n != 70_000 {
				return fmt.Errorf("%d files", n)
			}
			return nil
		})
	})
}

// look lists a folder and looks at each file, without any rule.
func look(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if _, ierr := e.Info(); ierr != nil {
			err = ierr
		}
	}
	return err
}

func walk(b *testing.B, r *workspace.Root, p string) int {
	l, err := r.List(p)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for _, e := range l.Entries {
		if e.Kind == workspace.EntryFolder {
			n += walk(b, r, filepath.Join(p, e.Name))
		} else {
			n++
		}
	}
	return n
}

func BenchmarkReadLargestFile(b *testing.B) {
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, coord.MaxFile), 0o644); err != nil {
		b.Fatal(err)
	}
	id, _, err := workspace.Identify(dir)
	if err != nil {
		b.Fatal(err)
	}
	r, err := workspace.Open(id)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	measure(b, func() error { return second(r.Read("f")) })
}
