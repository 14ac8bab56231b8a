package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/redact"
	"signalbox/internal/redact/redacttest"
)

func plain(s string) string { return s }

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := New(dir, plain)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, text string) Ref {
	t.Helper()
	ref, err := s.Put(t.Context(), strings.NewReader(text), coord.MaxArtifact)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func read(s *Store, sha string) (string, error) {
	r, _, err := s.Open(sha)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(r)
	return string(data), errors.Join(err, r.Close())
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// files lists the regular files below dir, by path.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			list = append(list, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestPutStoresBytesUnderTheirDigest(t *testing.T) {
	for name, text := range map[string]string{
		"text":       "a result\n",
		"empty":      "",
		"binary":     "\xff\x00\x80not text",
		"one buffer": strings.Repeat("x", 32<<10),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			ref := put(t, s, text)
			want := Ref{SHA256: digest(text), Size: int64(len(text))}
			if diff := cmp.Diff(want, ref); diff != "" {
				t.Fatalf("-want +got\n%s", diff)
			}
			got, err := read(s, ref.SHA256)
			if err != nil || got != text {
				t.Errorf("read %d bytes, %v", len(got), err)
			}
			if diff := cmp.Diff([]string{ref.SHA256[:2] + "/" + ref.SHA256[2:]}, files(t, dir)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestStoreIsClosedToOthers(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "artifacts")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	put(t, s, "a result")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(fileMode)
		if d.IsDir() {
			want = dirMode
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPutRedactsAllBytesBeforeTheyAreHashedAndSaysSo(t *testing.T) {
	dir := t.TempDir()
	s, err := New(dir, redact.New().String)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range redacttest.Canaries() {
		for _, given := range []string{c.Context, "\x00\xff\x80" + c.Context + "\xff"} {
			ref, err := s.Put(t.Context(), strings.NewReader(given), coord.MaxArtifact)
			if err != nil {
				t.Fatal(err)
			}
			text, err := read(s, ref.SHA256)
			if err != nil {
				t.Fatal(err)
			}
			if !ref.Redacted || ref.SHA256 != digest(text) || ref.Size != int64(len(text)) {
				t.Errorf("%s: %+v names %q", c.Kind, ref, text)
			}
		}
	}
	for _, path := range files(t, dir) {
		data, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range redacttest.Canaries() {
			if bytes.Contains(data, []byte(c.Secret)) {
				t.Errorf("a %s is on disk", c.Kind)
			}
		}
	}
	if ref := put(t, s, "nothing to hide"); ref.Redacted {
		t.Error("unchanged text is told as redacted")
	}
}

func TestPutRefusesMoreThanTheLimitAndKeepsNothing(t *testing.T) {
	dir := t.TempDir()
	grow, err := New(dir, func(s string) string { return s + "[more]" })
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		store *Store
		size  int64
		limit int64
	}{
		"one byte more":           {open(t, dir), 11, 10},
		"more after redaction":    {grow, 10, 10},
		"above the bound of all":  {open(t, dir), coord.MaxArtifact + 1, 1 << 40},
		"nothing is allowed":      {open(t, dir), 1, 0},
		"a reader without an end": {open(t, dir), 1 << 50, 100},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.store.Put(t.Context(), io.LimitReader(zeros{}, c.size), c.limit)
			if coord.CodeOf(err) != coord.Limit || !strings.Contains(err.Error(), "bytes it may have") {
				t.Errorf("got %v", err)
			}
			if list := files(t, dir); len(list) > 0 {
				t.Errorf("left %v", list)
			}
		})
	}
	if _, err := open(t, dir).Put(t.Context(), io.LimitReader(zeros{}, 10), 10); err != nil {
		t.Errorf("exactly the limit gave %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestPutEndsWithTheCauseOfItsContext(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	stop := errors.New("the operator stopped it")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := s.Put(ctx, strings.NewReader("late"), 100); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if list := files(t, dir); len(list) > 0 {
		t.Errorf("left %v", list)
	}
}

func TestPutGivesTheErrorOfItsReader(t *testing.T) {
	cut := errors.New("cut")
	_, err := open(t, t.TempDir()).Put(t.Context(), io.MultiReader(strings.NewReader("half"), failing{cut}), 100)
	if !errors.Is(err, cut) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestSameBytesAtOnceGiveOneFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			ref, err := s.Put(t.Context(), strings.NewReader("the same"), 100)
			if err != nil || ref.SHA256 != digest("the same") {
				t.Errorf("got %+v, %v", ref, err)
			}
		})
	}
	wg.Wait()
	if list := files(t, dir); len(list) != 1 {
		t.Errorf("there are %v", list)
	}
}

func TestPutRepairsADamagedFileOfTheSameName(t *testing.T) {
	s := open(t, t.TempDir())
	ref := put(t, s, "as it was")
	damage(t, s, ref.SHA256, "as it is!")
	put(t, s, "as it was")
	if got, err := read(s, ref.SHA256); err != nil || got != "as it was" {
		t.Errorf("read %q, %v", got, err)
	}
}

func damage(t *testing.T, s *Store, sha, text string) {
	t.Helper()
	if err := os.WriteFile(s.path(sha), []byte(text), fileMode); err != nil {
		t.Fatal(err)
	}
}

func TestReadingDamagedBytesEndsWithAnErrorThatSaysSo(t *testing.T) {
	for name, text := range map[string]string{
		"changed": "as it iS!", "cut": "as it", "emptied": "", "longer": "as it is!!",
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			ref := put(t, s, "as it is!")
			damage(t, s, ref.SHA256, text)
			_, err := read(s, ref.SHA256)
			if !errors.Is(err, ErrDamaged) || coord.CodeOf(err) != coord.Stale || !strings.Contains(err.Error(), ref.SHA256) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOpenAndRemoveRefuseWhatIsNoDigestOrNotThere(t *testing.T) {
	s := open(t, t.TempDir())
	for sha, want := range map[string]coord.Code{
		"":                            coord.Invalid,
		"../../etc/passwd":            coord.Invalid,
		strings.Repeat("A", 64):       coord.Invalid,
		strings.Repeat("a", 63) + "/": coord.Invalid,
		strings.Repeat("a", 65):       coord.Invalid,
		strings.Repeat("ab", 32):      coord.NotFound,
		"..":                          coord.Invalid,
	} {
		if _, _, err := s.Open(sha); coord.CodeOf(err) != want {
			t.Errorf("Open %q gave %v", sha, err)
		}
		if err := s.Remove(sha); coord.CodeOf(err) != want {
			t.Errorf("Remove %q gave %v", sha, err)
		}
	}
}

func TestOpenFollowsNoLinkOutOfTheStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	planted := s.path(digest("outside"))
	if err := errors.Join(os.Mkdir(filepath.Dir(planted), 0o700), os.Symlink(outside, planted)); err != nil {
		t.Fatal(err)
	}
	if got, err := read(s, digest("outside")); err == nil {
		t.Errorf("read %q", got)
	}
}

func TestRemoveDeletesTheBytes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ref := put(t, s, "gone soon")
	if err := s.Remove(ref.SHA256); err != nil {
		t.Fatal(err)
	}
	if list := files(t, dir); len(list) > 0 {
		t.Errorf("left %v", list)
	}
}

func TestNewSweepsTemporaryFilesAndKeepsArtifacts(t *testing.T) {
	dir := t.TempDir()
	ref := put(t, open(t, dir), "kept")
	if err := os.WriteFile(filepath.Join(dir, tempDir, "put-dead"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if list := files(t, dir); len(list) != 1 {
		t.Errorf("there are %v", list)
	}
	if got, err := read(s, ref.SHA256); err != nil || got != "kept" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestVerifyTellsOrphansMissingDamagedAndStrange(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	good, orphan, bad, resized := put(t, s, "good"), put(t, s, "orphan"), put(t, s, "bad"), put(t, s, "resized")
	damage(t, s, bad.SHA256, "BAD")
	missing := digest("missing")
	// One of the four has a folder.
	strange := good.SHA256[:2] + "/strange"
	for _, path := range []string{"strange", strange} {
		if err := os.WriteFile(filepath.Join(dir, path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Verify(t.Context(), map[string]int64{
		good.SHA256: good.Size, bad.SHA256: bad.Size, resized.SHA256: resized.Size + 1, missing: 7,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Report{
		Count: 4, Bytes: int64(len("good") + len("orphan") + len("bad") + len("resized")),
		Missing: []string{missing},
		Damaged: []string{min(bad.SHA256, resized.SHA256), max(bad.SHA256, resized.SHA256)},
		Orphans: []Ref{orphan},
		Strange: []string{strange, "strange"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestVerifyOfANewStoreFindsNothing(t *testing.T) {
	got, err := open(t, t.TempDir()).Verify(t.Context(), nil)
	if diff := cmp.Diff(Report{}, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
}
