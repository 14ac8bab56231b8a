package planning_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/coord"
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

// frozenIn freezes a plan that writes in dir.
func (w *world) frozenIn(t *testing.T, dir string) *coord.Frozen {
	t.Helper()
	p := plan(task("a"))
	p.Tasks[0].Workspace, p.Tasks[0].Operations = dir, []coord.Operation{coord.Write}
	j, err := w.Freeze(t.Context(), number(w.draft(t, p)), operator)
	if err != nil {
		t.Fatal(err)
	}
	return j.Frozen
}

func TestWorkspaceHeadIsWhatGitSays(t *testing.T) {
	w := newWorld(t)
	repo := realDir(t)
	git(t, repo, "init", "-q", "-b", "main")
	if got := w.frozenIn(t, repo).Tasks[0].Space.Head; got != "" {
		t.Errorf("before the first commit the head is %q", got)
	}
	git(t, repo, "commit", "-q", "--allow-empty", "-m", "one")
	tree := filepath.Join(realDir(t), "tree")
	git(t, repo, "worktree", "add", "-q", "-b", "side", tree)
	git(t, tree, "commit", "-q", "--allow-empty", "-m", "two")
	sub := filepath.Join(repo, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	check := func(name, dir string) {
		t.Helper()
		if got, want := w.frozenIn(t, dir).Tasks[0].Space.Head, git(t, dir, "rev-parse", "HEAD"); got != want {
			t.Errorf("%s: head %q, git says %q", name, got, want)
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

func TestWorkInProgressIsAWarning(t *testing.T) {
	w := newWorld(t)
	repo := realDir(t)
	git(t, repo, "init", "-q", "-b", "main")
	git(t, repo, "commit", "-q", "--allow-empty", "-m", "one")
	if err := os.WriteFile(filepath.Join(repo, ".git", "MERGE_HEAD"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.frozenIn(t, repo).Warnings; !slices.Contains(got, "task a: a merge is under way in the workspace") {
		t.Errorf("warnings %v", got)
	}
}

func TestHostileGitFilesAreNotBelieved(t *testing.T) {
	w := newWorld(t)
	for name, head := range map[string]string{
		"a reference that leads out": "ref: refs/../../../../etc/passwd\n",
		"no reference":               "ref: /etc/passwd\n",
		"no commit":                  "; rm -rf /\n",
		"empty":                      "",
		"endless":                    strings.Repeat("a", 1<<20),
	} {
		repo := realDir(t)
		if err := os.MkdirAll(filepath.Join(repo, ".git"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repo, ".git", "HEAD"), []byte(head), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := w.frozenIn(t, repo).Tasks[0].Space.Head; got != "" {
			t.Errorf("%s: head %q", name, got)
		}
	}
}
