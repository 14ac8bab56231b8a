package workspace_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"signalbox/internal/artifact"
	"signalbox/internal/coord"
	"signalbox/internal/workspace"
)

// roleVar names, in the environment, what a child of the tests does instead of
// running them.
const roleVar = "SIGNALBOX_TEST_WORKSPACE"

// roles are what a child can do; it gets its arguments and exits by the error.
var roles = map[string]func(args []string) error{"land": land}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if err := roles[role](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// shelf is the store of the product, for what outlives its process.
type shelf struct{ *artifact.Store }

func openShelf(dir string) (shelf, error) {
	s, err := artifact.New(dir, func(s string) string { return s })
	return shelf{s}, err
}

func (s shelf) Get(_ context.Context, sha string) ([]byte, error) {
	r, _, err := s.Open(sha)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func (s shelf) Put(ctx context.Context, b []byte) (string, error) {
	ref, err := s.Store.Put(ctx, bytes.NewReader(b), coord.MaxFile)
	return ref.SHA256, err
}

// tree makes a folder of files; a name that ends in / is a folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if !strings.HasSuffix(name, "/") {
			put(t, filepath.Join(dir, name), content)
		} else if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func put(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string) *workspace.Root {
	t.Helper()
	id, _, err := workspace.Identify(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := workspace.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// refused checks that err has a code and names the rule.
func refused(t *testing.T, what string, err error, code coord.Code, rule string) {
	t.Helper()
	if coord.CodeOf(err) != code || !strings.Contains(err.Error(), rule) {
		t.Errorf("%s gave %q %v; want %s with %q", what, coord.CodeOf(err), err, code, rule)
	}
}
