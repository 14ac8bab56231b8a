// Package workspace is the folder that agents work in: which one it is, what
// they may see of it, and how what they wrote gets there.
//
// It promises that whatever is read or written through it lies in the approved
// folder, under a name that the rules allow, also while somebody swaps what is
// there; that what is written goes to a change set and leaves the folder as it
// is; and that landing an approved change overwrites nothing that somebody else
// wrote, and can be told truly after a crash. It never runs git: a repository's
// own configuration can make it start programs.
package workspace

import (
	"bufio"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"signalbox/internal/coord"
)

const (
	// maxGitFile bounds what is read of HEAD, a reference or a .git file: each
	// is one line.
	maxGitFile = 4 << 10
	// maxPackedRefs bounds the search for a branch among packed references;
	// beyond it the commit counts as not known.
	maxPackedRefs = 16 << 20
)

// Identify gives what tells the folder at path from another that takes its
// place, and notes for a person who lets an agent work there. It is Invalid
// when the folder cannot be looked at.
func Identify(path string) (coord.WorkspaceIdentity, []string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return coord.WorkspaceIdentity{}, nil, coord.Errorf(coord.Invalid, "the workspace %s cannot be looked at: check that it is still there", path)
	}
	w := coord.WorkspaceIdentity{Path: path}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		w.Device, w.Inode = uint64(sys.Dev), sys.Ino //nolint:unconvert // Dev is an int32 on macOS; the bits are what counts
	}
	dir, _, ok := gitDir(path)
	if !ok {
		return w, []string{"the workspace is not in git, so changes cannot be compared with a commit"}, nil
	}
	w.Head = head(dir)
	return w, gitNotes(dir), nil
}

// gitDir finds the git directory of the repository that path lies in, and the
// folder at the top of what is checked out.
func gitDir(path string) (dir, top string, ok bool) {
	for {
		dot := filepath.Join(path, ".git")
		if info, err := os.Stat(dot); err == nil {
			if info.IsDir() {
				return dot, path, true
			}
			// A linked worktree or a submodule: the file says where it is.
			line, err := firstLine(dot)
			dir, ok := strings.CutPrefix(line, "gitdir: ")
			if err != nil || !ok {
				return "", "", false
			}
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(path, dir)
			}
			return dir, path, true
		}
		up := filepath.Dir(path)
		if up == path {
			return "", "", false
		}
		path = up
	}
}

// head gives the commit that is checked out, "" when there is none yet or it
// cannot be told from files.
func head(dir string) string {
	line, err := firstLine(filepath.Join(dir, "HEAD"))
	if err != nil {
		return ""
	}
	ref, symbolic := strings.CutPrefix(line, "ref: ")
	if !symbolic {
		return commit(line)
	}
	if !strings.HasPrefix(ref, "refs/") || !filepath.IsLocal(ref) {
		return ""
	}
	// Worktrees share the branches of the repository they belong to.
	dirs := []string{dir}
	if common, err := firstLine(filepath.Join(dir, "commondir")); err == nil {
		if !filepath.IsAbs(common) {
			common = filepath.Join(dir, common)
		}
		dirs = append(dirs, common)
	}
	for _, d := range dirs {
		if line, err := firstLine(filepath.Join(d, ref)); err == nil {
			return commit(line)
		}
	}
	return packed(filepath.Join(dirs[len(dirs)-1], "packed-refs"), ref)
}

// packed looks a reference up among the packed ones.
func packed(file, ref string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxPackedRefs))
	for lines.Scan() {
		if id, name, ok := strings.Cut(lines.Text(), " "); ok && name == ref {
			return commit(id)
		}
	}
	return ""
}

// commit gives s when it is a commit's name: SHA-1 or SHA-256 in hex.
func commit(s string) string {
	if _, err := hex.DecodeString(s); err != nil || len(s) != 40 && len(s) != 64 {
		return ""
	}
	return s
}

// gitNotes tells of work in progress in the repository.
func gitNotes(dir string) []string {
	var out []string
	for _, w := range []struct{ file, word string }{
		{"MERGE_HEAD", "merge"}, {"rebase-merge", "rebase"}, {"rebase-apply", "rebase"}, {"CHERRY_PICK_HEAD", "cherry-pick"}, {"BISECT_LOG", "bisect"},
	} {
		if _, err := os.Lstat(filepath.Join(dir, w.file)); err == nil {
			out = append(out, "a "+w.word+" is under way in the workspace")
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "index.lock")); err == nil {
		out = append(out, "git's index is locked: another program works in the workspace, or one died there")
	}
	return out
}

// firstLine reads the first line of a small file. Only a regular file is
// opened: a pipe that an agent left in its place would never end.
func firstLine(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxGitFile))
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line), err
}
