package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
)

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
		for b.Loop() {
			if _, err := r.List("d3/e37/f371"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read one file", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.Read("d3/e37/f371/file25.go"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("list every folder", func(b *testing.B) {
		for b.Loop() {
			if n := walk(b, r, "."); n != 70_000 {
				b.Fatalf("%d files", n)
			}
		}
	})
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
	b.SetBytes(coord.MaxFile)
	for b.Loop() {
		if _, err := r.Read("f"); err != nil {
			b.Fatal(err)
		}
	}
}
