package arch

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The sizes that the design aims at are 500 and 2500 lines. The bounds leave
// room to finish a thought, not to grow a second thing.
const (
	maxFile, aimFile       = 600, 500
	maxPackage, aimPackage = 3000, 2500
)

// skippedDirs hold what is fetched or built.
var skippedDirs = []string{".git", ".cache", "bin", "coverage", "node_modules", "dist"}

// walk calls visit with each file of the checkout that is or may be
// committed. Names are relative and use slashes.
func walk(t *testing.T, visit func(name string, content []byte)) {
	t.Helper()
	root := checkout(t)
	files := 0
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(skippedDirs, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		files++
		visit(name, content)
		return nil
	})
	if err != nil {
		t.Fatalf("read the checkout: %v", err)
	}
	if files < 20 {
		t.Fatalf("only %d files in the checkout; this test would check nothing", files)
	}
}

// checkout is the directory of go.mod.
func checkout(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatalf("go env GOMOD: %v", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}

// code counts the lines that are neither blank nor all comment: comments are
// wanted, and must not be saved to stay below a bound.
func code(content []byte) int {
	n := 0
	for line := range bytes.Lines(content) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			n++
		}
	}
	return n
}

func TestFilesAndPackagesStaySmall(t *testing.T) {
	packages := map[string]int{}
	walk(t, func(name string, content []byte) {
		if !strings.HasSuffix(name, ".go") || strings.Contains("/"+name, "/testdata/") {
			return
		}
		lines := bytes.Count(content, []byte("\n"))
		switch {
		case lines > maxFile:
			t.Errorf("%s has %d lines, the bound is %d: split it by the things it is about", name, lines, maxFile)
		case lines > aimFile:
			t.Logf("%s has %d lines, the aim is %d", name, lines, aimFile)
		}
		if !strings.HasSuffix(name, "_test.go") {
			packages[path.Dir(name)] += code(content)
		}
	})
	for dir, lines := range packages {
		switch {
		case lines > maxPackage:
			t.Errorf("package %s has %d lines of code, the bound is %d: it is more than one thing", dir, lines, maxPackage)
		case lines > aimPackage:
			t.Logf("package %s has %d lines of code, the aim is %d", dir, lines, aimPackage)
		}
	}
}

func TestNoFileNamesARegistryOrThisMachine(t *testing.T) {
	names := map[string]string{}
	// Written in halves, so that this file does not name them.
	for _, host := range []string{
		"registry.npm" + "js", "registry.yarn" + "pkg", "proxy.go" + "lang.org", "sum.go" + "lang.org",
		"pypi" + ".org", "crates" + ".io", "repo1.ma" + "ven", "deb.deb" + "ian", "." + "library/",
	} {
		names[host] = "everyone has a registry of their own; name the package, not where it comes from"
	}
	for _, dir := range []string{checkout(t), home(t)} {
		// A short path such as "/src" is a common word, not a trace.
		if len(dir) >= len("/root") {
			names[dir+"/"] = "it exists on this machine only; use a relative path, or an invented one in a test"
		}
	}
	walk(t, func(name string, content []byte) {
		for text, why := range names {
			if before, _, found := bytes.Cut(content, []byte(text)); found {
				t.Errorf("%s:%d names %q: %s", name, 1+bytes.Count(before, []byte("\n")), text, why)
			}
		}
	})
}

func home(t *testing.T) string {
	t.Helper()
	dir, err := os.UserHomeDir()
	if err != nil {
		t.Fatalf("find the home directory: %v", err)
	}
	return dir
}
