package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/workspace"
)

func TestStatusIsWhatGitSays(t *testing.T) {
	for name, setup := range map[string][][]string{
		"version 2":   {{"update-index", "--index-version", "2"}},
		"version 3":   {{"update-index", "--index-version", "3"}, {"add", "-N", "intended"}},
		"version 4":   {{"update-index", "--index-version", "4"}},
		"no checksum": {{"config", "index.skipHash", "true"}, {"update-index", "--index-version", "2"}, {"update-index", "--force-remove", "other"}},
	} {
		for _, format := range []string{"sha1", "sha256"} {
			if name == "no checksum" && format == "sha256" {
				continue // then the size of names cannot be told; see below
			}
			t.Run(name+" "+format, func(t *testing.T) {
				dir := tree(t, map[string]string{
					"clean": "c", "edited": "e", "mode": "m", "gone": "g", "sub/deep/clean": "c", "sub/deep/edited": "e", "other": "o", "same-size": "aaa",
					"intended": "i", strings.Repeat("long", 50): "l", "touched": "t",
				})
				git(t, dir, "init", "-q", "--object-format="+format)
				git(t, dir, "add", "--", ".", ":!intended")
				git(t, dir, "commit", "-q", "-m", "one")
				for _, args := range setup {
					git(t, dir, args...)
				}
				put(t, filepath.Join(dir, "edited"), "edited")
				put(t, filepath.Join(dir, "sub/deep/edited"), "edited")
				put(t, filepath.Join(dir, "same-size"), "bbb")
				put(t, filepath.Join(dir, "touched"), "t")
				put(t, filepath.Join(dir, "untracked"), "u")
				if err := os.Chmod(filepath.Join(dir, "mode"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(filepath.Join(dir, "gone")); err != nil {
					t.Fatal(err)
				}
				want := map[string]workspace.GitFile{
					"clean": workspace.GitClean, "edited": workspace.GitModified, "mode": workspace.GitModified, "gone": workspace.GitMissing, "touched": workspace.GitClean,
					"sub/deep/clean": workspace.GitClean, "sub/deep/edited": workspace.GitModified, "same-size": workspace.GitModified, "untracked": workspace.GitUntracked,
					"none": workspace.GitUntracked, strings.Repeat("long", 50): workspace.GitClean,
				}
				status := func(at, prefix string) {
					t.Helper()
					var paths []string
					wanted := map[string]workspace.GitFile{}
					for p, state := range want {
						if rest, ok := strings.CutPrefix(p, prefix); ok {
							paths = append(paths, rest)
							wanted[rest] = state
						}
					}
					got := workspace.Status(open(t, filepath.Join(dir, at)), paths)
					if diff := cmp.Diff(wanted, got.Files); diff != "" || got.Unknown != "" || got.Head != git(t, dir, "rev-parse", "HEAD") {
						t.Errorf("at %q: head %s, %q (-want +got):\n%s", at, got.Head, got.Unknown, diff)
					}
				}
				status("", "")
				status("sub/deep", "sub/deep/")
				// A second opinion: what git itself calls changed.
				for p := range strings.FieldsSeq(git(t, dir, "diff", "--name-only")) {
					if state := want[p]; state != workspace.GitModified && state != workspace.GitMissing && p != "intended" {
						t.Errorf("git says that %s differs, we say %s", p, state)
					}
				}
			})
		}
	}
}

func TestStatusInALinkedWorktree(t *testing.T) {
	repo := repository(t)
	side, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	side = filepath.Join(side, "side")
	git(t, repo, "worktree", "add", "-q", "-b", "side", side)
	put(t, filepath.Join(side, "f"), "f")
	git(t, side, "add", "f")
	got := workspace.Status(open(t, side), []string{"f", "g"})
	want := map[string]workspace.GitFile{"f": workspace.GitClean, "g": workspace.GitUntracked}
	if diff := cmp.Diff(want, got.Files); diff != "" {
		t.Errorf("%q (-want +got):\n%s", got.Unknown, diff)
	}
}

func TestFilteredFileThatGitCallsCleanIsClean(t *testing.T) {
	repo := repository(t)
	put(t, filepath.Join(repo, ".gitattributes"), "*.txt text eol=crlf\n")
	put(t, filepath.Join(repo, "f.txt"), "one\r\ntwo\r\n")
	git(t, repo, "add", ".")
	// The index must be younger than the file, or git does not trust it either.
	index := filepath.Join(repo, ".git", "index")
	info, err := os.Stat(filepath.Join(repo, "f.txt"))
	if err != nil {
		t.Fatal(err)
	}
	later := info.ModTime().Add(1e9)
	if err := os.Chtimes(index, later, later); err != nil {
		t.Fatal(err)
	}
	if got := workspace.Status(open(t, repo), []string{"f.txt"}); got.Files["f.txt"] != workspace.GitClean {
		t.Errorf("status %+v", got)
	}
}

func TestConflictsAndWhatTheIndexDoesNotListAreTold(t *testing.T) {
	repo := repository(t)
	put(t, filepath.Join(repo, "f"), "base")
	git(t, repo, "add", ".")
	git(t, repo, "commit", "-q", "-m", "two")
	blob := git(t, repo, "rev-parse", "HEAD:f")
	cmd := "100644 " + blob + " "
	in := filepath.Join(t.TempDir(), "in")
	put(t, in, "0 "+strings.Repeat("0", 40)+"\tf\n"+cmd+"1\tf\n"+cmd+"2\tf\n160000 "+blob+" 0\tmodule\n")
	script := "git update-index --index-info < " + in
	git(t, repo, "-c", "alias.x=!"+script, "x")
	got := workspace.Status(open(t, repo), []string{"f", "module/file"})
	want := map[string]workspace.GitFile{"f": workspace.GitConflicted, "module/file": workspace.GitUnknown}
	if diff := cmp.Diff(want, got.Files); diff != "" {
		t.Errorf("%q (-want +got):\n%s", got.Unknown, diff)
	}
	split := repository(t)
	put(t, filepath.Join(split, "f"), "f")
	git(t, split, "add", ".")
	git(t, split, "update-index", "--split-index")
	if got := workspace.Status(open(t, split), []string{"f"}); got.Files["f"] != workspace.GitUnknown {
		t.Errorf("split index: %+v", got)
	}
}

func TestStatusSaysWhyItIsNotKnown(t *testing.T) {
	plain := tree(t, map[string]string{"f": "f"})
	damaged := repository(t)
	for name, tc := range map[string]struct{ index, why string }{
		"cut":          {"DIRC\x00\x00\x00\x02\x00\x00\x00\x09", "damaged"},
		"another kind": {"DIRC\x00\x00\x00\x05\x00\x00\x00\x00" + strings.Repeat("\x00", 20), "damaged"},
		"too few":      {"DIRC\x00\x00\x00\x02\xff\xff\xff\xff" + strings.Repeat("\x00", 20), "damaged"},
		"wrong sum":    {"DIRC\x00\x00\x00\x02\x00\x00\x00\x00" + strings.Repeat("x", 20), "damaged"},
	} {
		put(t, filepath.Join(damaged, ".git", "index"), tc.index)
		if got := workspace.Status(open(t, damaged), []string{"f"}); !strings.Contains(got.Unknown, tc.why) || got.Files != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := workspace.Status(open(t, plain), []string{"f"}); got.Unknown != "the workspace is not in git" {
		t.Errorf("outside git: %+v", got)
	}
}

// FuzzIndex holds the reader to its bounds, whatever the index holds.
func FuzzIndex(f *testing.F) {
	entry := strings.Repeat("\x00", 40+20) + "\x00\x01f\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	for _, version := range []string{"\x02", "\x03", "\x04"} {
		f.Add("DIRC\x00\x00\x00" + version + "\x00\x00\x00\x01" + entry + strings.Repeat("\x00", 20))
	}
	f.Fuzz(func(t *testing.T, index string) {
		dir := tree(t, map[string]string{".git/index": index, "f": "f"})
		got := workspace.Status(open(t, dir), []string{"f"})
		if (got.Unknown == "") != (len(got.Files) == 1) {
			t.Errorf("%+v", got)
		}
	})
}
