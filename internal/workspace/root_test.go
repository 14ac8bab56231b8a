package workspace_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
)

func TestAnotherFolderInPlaceOfTheApprovedOneIsStale(t *testing.T) {
	dir := tree(t, map[string]string{"w/": ""})
	path := filepath.Join(dir, "w")
	id, _, err := workspace.Identify(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	_, err = workspace.Open(id)
	refused(t, "a folder that is gone", err, coord.Invalid, "canonical")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = workspace.Open(id)
	refused(t, "another folder", err, coord.Stale, "approve it anew")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("old", path); err != nil {
		t.Fatal(err)
	}
	_, err = workspace.Open(id)
	refused(t, "a link to the folder", err, coord.Invalid, "canonical")
	_, err = workspace.Open(coord.WorkspaceIdentity{Path: "w", Device: id.Device, Inode: id.Inode})
	refused(t, "a relative path", err, coord.Invalid, "canonical")
}

func TestFileIsReadWithItsDigest(t *testing.T) {
	dir := tree(t, map[string]string{"a/text": "grün\n", "nul": "a\x00b", "latin": "gr\xfcn", "empty": "", "largest": strings.Repeat("x", coord.MaxFile)})
	if err := os.Chmod(filepath.Join(dir, "a/text"), 0o751); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	f, err := r.Read("a/text")
	if err != nil || string(f.Content) != "grün\n" || f.SHA256 != workspace.Sum([]byte("grün\n")) || f.Mode != 0o751 || f.Binary {
		t.Errorf("read %+v, %v", f, err)
	}
	for name, binary := range map[string]bool{"nul": true, "latin": true, "empty": false, "largest": false} {
		if f, err := r.Read(name); err != nil || f.Binary != binary {
			t.Errorf("%s: binary is %t, %v", name, f.Binary, err)
		}
	}
}

func TestWhatIsNoSingleRegularFileIsRefused(t *testing.T) {
	dir := tree(t, map[string]string{
		"secret": "secret", "out/secret": "secret", "w/a/file": "a", "w/.env": "secret", "w/large": strings.Repeat("x", coord.MaxFile+1),
	})
	w := filepath.Join(dir, "w")
	for name, target := range map[string]string{
		"w/out": "../secret", "w/absolute": "/etc/passwd", "w/inner": "a/file", "w/alias": ".env", "w/folder": "../out", "w/self": ".", "w/loop": "loop", "w/proc": "/proc/self/root",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"w/hard", "w/a/hard"} {
		if err := os.Link(filepath.Join(dir, "secret"), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(w, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	// A short name: the path of a socket has about 100 bytes.
	t.Chdir(w)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := open(t, w)
	for p, tc := range map[string]struct {
		code coord.Code
		rule string
	}{
		"out": {coord.Invalid, "a symbolic link"}, "absolute": {coord.Invalid, "a symbolic link"}, "inner": {coord.Invalid, "a symbolic link"},
		"alias": {coord.Invalid, "a symbolic link"}, "loop": {coord.Invalid, "a symbolic link"}, "folder/secret": {coord.Invalid, "a symbolic link"},
		"self/a/file": {coord.Invalid, "a symbolic link"}, "proc/etc/passwd": {coord.Invalid, "a symbolic link"},
		"hard": {coord.Invalid, "second name"}, "a/hard": {coord.Invalid, "second name"},
		"fifo": {coord.Invalid, "a pipe"}, "socket": {coord.Invalid, "a socket"}, "a": {coord.Invalid, "a folder"}, ".": {coord.Invalid, "a folder"},
		"large": {coord.Limit, "larger than"}, "none": {coord.NotFound, "does not exist"}, "a/file/below": {coord.Invalid, "not a folder"},
	} {
		_, err := r.Read(p)
		refused(t, "reading "+p, err, tc.code, tc.rule)
		if p == "none" {
			continue
		}
		_, err = overlay(t, r).Write(t.Context(), p, []byte("mine"))
		refused(t, "writing "+p, err, tc.code, "")
	}
	for _, p := range []string{"folder", "self", "proc", "fifo"} {
		_, err := r.List(p)
		refused(t, "listing "+p, err, coord.Invalid, "not a folder")
	}
}

func TestListingTellsWhatCannotBeRead(t *testing.T) {
	dir := tree(t, map[string]string{"w/b.txt": "four", "w/a/x": "x", "w/.env": "secret", "w/.git/config": "c", "w/two\nlines": "", "w/large": strings.Repeat("x", coord.MaxFile+1)})
	w := filepath.Join(dir, "w")
	if err := os.Symlink("b.txt", filepath.Join(w, "link")); err != nil {
		t.Fatal(err)
	}
	got, err := open(t, w).List(".")
	if err != nil {
		t.Fatal(err)
	}
	want := workspace.Listing{Hidden: 1, Entries: []workspace.Entry{
		{Name: ".env", Kind: workspace.EntryFile, Refused: "agents have no access to credentials"},
		{Name: ".git", Kind: workspace.EntryFolder, Refused: "agents have no access to version control's own data, which can make git run programs"},
		{Name: "a", Kind: workspace.EntryFolder},
		{Name: "b.txt", Kind: workspace.EntryFile, Size: 4},
		{Name: "large", Kind: workspace.EntryFile, Size: coord.MaxFile + 1, Refused: "it is too large"},
		{Name: "link", Kind: workspace.EntryOther, Refused: "it is a symbolic link, not a regular file"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listing (-want +got):\n%s", diff)
	}
}

func TestListingIsBoundedAndOrdered(t *testing.T) {
	dir := tree(t, nil)
	for i := range coord.MaxListed + 5 {
		put(t, filepath.Join(dir, fmt.Sprintf("f%05d", i)), "")
	}
	l, err := open(t, dir).List(".")
	if err != nil || len(l.Entries) != coord.MaxListed || l.More != 5 || l.Entries[7].Name != "f00007" {
		t.Errorf("%d entries, %d more, %v", len(l.Entries), l.More, err)
	}
}

func TestCallsMayRunInParallel(t *testing.T) {
	r := open(t, tree(t, map[string]string{"a/b/c": "c"}))
	o := overlay(t, r)
	var calls sync.WaitGroup
	for i := range 16 {
		calls.Go(func() {
			for range 50 {
				p := fmt.Sprintf("new/%d", i)
				if _, err := o.Write(t.Context(), p, []byte(p)); err != nil {
					t.Error(err)
				}
				if f, err := o.Read(t.Context(), p); err != nil || string(f.Content) != p {
					t.Errorf("read %q, %v", f.Content, err)
				}
				if _, err := o.Read(t.Context(), "a/b/c"); err != nil {
					t.Error(err)
				}
				if _, err := o.List("new"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	calls.Wait()
	if n := len(o.Changes()); n != 16 {
		t.Errorf("%d changes", n)
	}
}

func TestClosedRootGivesErrors(t *testing.T) {
	r := open(t, tree(t, map[string]string{"a": "a"}))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read("a"); err == nil {
		t.Error("a closed root was read")
	}
}

// A file from outside is linked into the workspace for the moment in which it
// is opened: it then has one name again when it is judged.
func TestAFileThatHadASecondNameOnlyWhileItWasOpenedIsRefused(t *testing.T) {
	dir := tree(t, map[string]string{"secret": "secret", "w/f": "fine"})
	f, secret, aside := filepath.Join(dir, "w", "f"), filepath.Join(dir, "secret"), filepath.Join(dir, "w", "aside")
	r := open(t, filepath.Join(dir, "w"))
	swaps := 0
	r.Opening(func(string) {
		var err error
		if swaps++; swaps == 1 {
			err = errors.Join(os.Rename(f, aside), os.Link(secret, f))
		} else {
			err = os.Rename(aside, f)
		}
		if err != nil {
			t.Error(err)
		}
	})
	got, err := r.Read("f")
	if swaps != 2 {
		t.Fatalf("there were %d swaps", swaps)
	}
	refused(t, "a file that was swapped, which gave "+string(got.Content), err, coord.Invalid, "replaced")
}
