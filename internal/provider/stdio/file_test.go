package stdio_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/filehash/filehashtest"
	"signalbox/internal/provider/stdio"
)

func TestHashFileTellsWhatALinkLeadsToNow(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"one", "two"} {
		if err := os.WriteFile(in(name), []byte(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	filehashtest.Settle(t, in("one"), in("two"))
	for _, name := range []string{"one", "one", "two", "two", "one"} {
		_ = os.Remove(in("link"))
		if err := os.Symlink(name, in("link")); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(name))
		want := coord.IdentityFile{Role: "script", Path: in(name), SHA256: hex.EncodeToString(sum[:]), Size: 3}
		if got, err := stdio.HashFile("script", in("link")); got != want || err != nil {
			t.Errorf("a link to %s is told as %+v, %v", name, got, err)
		}
	}
}

func TestHashFileSaysWhyThereIsNoHash(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(syscall.Mkfifo(in("pipe"), 0o600), os.Symlink("none", in("dangling"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]coord.Code{"none": coord.NotFound, "dangling": coord.NotFound, ".": coord.Invalid, "pipe": coord.Invalid} {
		if got, err := stdio.HashFile("launcher", in(name)); coord.CodeOf(err) != want || got != (coord.IdentityFile{}) {
			t.Errorf("%s is told as %+v, %v", name, got, err)
		}
	}
}
