package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
)

func put1(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestScanHidesCredentialsMetadataAndSecondNames(t *testing.T) {
	ws, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	put1(t, outside)
	for _, name := range []string{
		"a.go", ".env", "deep/er/.ENV.production", ".git/config", "sub/.git/hooks/x", "worktree/.git", "x/id_rsa", "certs/server.pem",
		"node_modules/p/index.js", "node_modules/p/.npmrc", ".github/workflows/ci.yml", ".gitignore", "environment.ts",
	} {
		put1(t, filepath.Join(ws, name))
	}
	for _, name := range []string{"linked", "node_modules/p/linked", "deep/linked"} {
		if err := os.Link(outside, filepath.Join(ws, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(outside, filepath.Join(ws, "symlink")), os.Symlink("/", filepath.Join(ws, "root"))); err != nil {
		t.Fatal(err)
	}
	masks, err := scan(ws)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range masks {
		if m.Dir {
			m.Path += "/"
		}
		got = append(got, m.Path)
	}
	slices.Sort(got)
	want := []string{".env", ".git/", "certs/server.pem", "deep/er/.ENV.production", "deep/linked", "linked", "node_modules/p/.npmrc", "sub/.git/", "worktree/.git", "x/id_rsa"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestScanRefusesMoreThanCanBeHidden(t *testing.T) {
	ws := t.TempDir()
	put1(t, filepath.Join(ws, "d", "0.key"))
	for i := range coord.MaxHidden {
		put1(t, filepath.Join(ws, "d", fmt.Sprint(i+1, ".key")))
	}
	if _, err := scan(ws); coord.CodeOf(err) != coord.Limit {
		t.Errorf("error %v", err)
	}
	if _, err := scan(filepath.Join(ws, "no")); coord.CodeOf(err) != coord.Unavailable {
		t.Errorf("an absent workspace: %v", err)
	}
}

// large makes a workspace of 70,000 files, half of them packages.
func large(t testing.TB) string {
	t.Helper()
	ws := t.TempDir()
	for _, top := range []string{"src", "node_modules"} {
		for d := range 700 {
			dir := filepath.Join(ws, top, fmt.Sprint("d", d%26), fmt.Sprint("p", d))
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for f := range 50 {
				file, err := os.Create(filepath.Join(dir, fmt.Sprint("file", f, ".ts")))
				if err != nil {
					t.Fatal(err)
				}
				_ = file.Close()
			}
		}
	}
	return ws
}

func BenchmarkScanOf70000Files(b *testing.B) {
	ws := large(b)
	for b.Loop() {
		if _, err := scan(ws); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/scan")
}
