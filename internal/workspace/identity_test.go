package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
)

// git runs the real git without any configuration of this machine.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func identify(t *testing.T, dir string) (coord.WorkspaceIdentity, []string) {
	t.Helper()
	w, notes, err := workspace.Identify(dir)
	if err != nil {
		t.Fatal(err)
	}
	return w, notes
}

// repository makes one with a first commit.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "one")
	return dir
}

func TestFolderThatTakesAnothersPlaceHasAnotherIdentity(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	first, notes := identify(t, path)
	if first.Path != path || first.Inode == 0 || first.Head != "" || len(notes) != 1 {
		t.Errorf("identified %+v, %v", first, notes)
	}
	if again, _ := identify(t, path); again != first {
		t.Errorf("looking again gave %+v", again)
	}
	if err := os.Rename(path, filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if other, _ := identify(t, path); other == first {
		t.Error("another folder in its place looks the same")
	}
	if _, _, err := workspace.Identify(filepath.Join(dir, "none")); coord.CodeOf(err) != coord.Invalid {
		t.Errorf("a missing folder gave %v", err)
	}
}

func TestHeadIsWhatGitSays(t *testing.T) {
	repo := repository(t)
	tree := filepath.Join(t.TempDir(), "tree")
	git(t, repo, "worktree", "add", "-q", "-b", "side", tree)
	git(t, tree, "commit", "-q", "--allow-empty", "-m", "two")
	sub := filepath.Join(repo, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	check := func(name, dir string) {
		t.Helper()
		w, _ := identify(t, dir)
		if want := git(t, dir, "rev-parse", "HEAD"); w.Head != want {
			t.Errorf("%s: head %q, git says %q", name, w.Head, want)
		}
	}
	check("a branch", repo)
	check("a folder within", sub)
	check("a linked worktree", tree)
	git(t, repo, "pack-refs", "--all")
	check("packed references", repo)
	check("a linked worktree with packed references", tree)
	git(t, repo, "checkout", "-q", "--detach")
	check("a detached head", repo)
}

func TestRepositoryWithoutACommitHasNoHead(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	if w, notes := identify(t, dir); w.Head != "" || len(notes) != 0 {
		t.Errorf("head %q, notes %v", w.Head, notes)
	}
}

func TestWorkInProgressIsNoted(t *testing.T) {
	for file, want := range map[string]string{
		"MERGE_HEAD": "a merge is under way in the workspace", "rebase-merge": "a rebase is under way in the workspace",
		"index.lock": "git's index is locked: another program works in the workspace, or one died there",
	} {
		repo := repository(t)
		if err := os.WriteFile(filepath.Join(repo, ".git", file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, notes := identify(t, repo); !slices.Equal(notes, []string{want}) {
			t.Errorf("%s: notes %q", file, notes)
		}
	}
}

func TestHostileGitFilesAreNotBelieved(t *testing.T) {
	for name, head := range map[string]string{
		"a reference that leads out": "ref: refs/../../../../etc/passwd\n",
		"no reference":               "ref: /etc/passwd\n",
		"no commit":                  "; rm -rf /\n",
		"empty":                      "",
		"endless":                    strings.Repeat("a", 1<<20),
	} {
		repo := t.TempDir()
		if err := os.MkdirAll(filepath.Join(repo, ".git"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repo, ".git", "HEAD"), []byte(head), 0o600); err != nil {
			t.Fatal(err)
		}
		if w, _ := identify(t, repo); w.Head != "" {
			t.Errorf("%s: head %q", name, w.Head)
		}
	}
}

func TestPipeInPlaceOfAGitFileIsNotOpened(t *testing.T) {
	repo := repository(t)
	head := filepath.Join(repo, ".git", "HEAD")
	if err := os.Remove(head); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(head, 0o600); err != nil {
		t.Fatal(err)
	}
	// Opening the pipe would wait for a writer that never comes.
	if w, _ := identify(t, repo); w.Head != "" {
		t.Errorf("head %q", w.Head)
	}
}
