// Package workspace tells the folders that agents work in apart.
//
// It promises to read only what names a folder and the commit checked out in
// it, and never to run git.
package workspace

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"signalbox/internal/coord"
)

// maxGitFile bounds the small files that git keeps its references in.
const maxGitFile = 1 << 20

// Identify gives the identity of the folder at path, which must be absolute,
// canonical (no symbolic link on the way) and a folder; otherwise it is
// Invalid.
func Identify(path string) (coord.WorkspaceIdentity, error) {
	var id coord.WorkspaceIdentity
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return id, coord.Errorf(coord.Invalid, "the workspace does not exist")
	case err != nil:
		return id, &coord.Error{Code: coord.Invalid, Message: "the workspace cannot be read", Err: err}
	case real != path:
		return id, coord.Errorf(coord.Invalid, "the workspace leads through a symbolic link; use %s", real)
	}
	info, err := os.Stat(path)
	if err != nil {
		return id, &coord.Error{Code: coord.Invalid, Message: "the workspace cannot be read", Err: err}
	}
	if !info.IsDir() {
		return id, coord.Errorf(coord.Invalid, "the workspace is not a folder")
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id, coord.Errorf(coord.Unsupported, "this system does not tell one folder from another")
	}
	return coord.WorkspaceIdentity{Path: path, Device: uint64(stat.Dev), Inode: stat.Ino, Head: head(path)}, nil //nolint:gosec,unconvert // Dev is signed on macOS
}

// head is the commit that git has checked out in dir, "" when there is none or
// its files are of a form that is not read here.
func head(dir string) string {
	git := filepath.Join(dir, ".git")
	if link, err := readSmall(git); err == nil { // a worktree or submodule: "gitdir: PATH"
		target, ok := strings.CutPrefix(link, "gitdir: ")
		if !ok {
			return ""
		}
		if git = target; !filepath.IsAbs(git) {
			git = filepath.Join(dir, git)
		}
	}
	text, err := readSmall(filepath.Join(git, "HEAD"))
	if err != nil {
		return ""
	}
	ref, symbolic := strings.CutPrefix(text, "ref: ")
	if !symbolic {
		return hash(text)
	}
	if !filepath.IsLocal(ref) {
		return ""
	}
	common := git
	if text, err := readSmall(filepath.Join(git, "commondir")); err == nil {
		if common = text; !filepath.IsAbs(common) {
			common = filepath.Join(git, common)
		}
	}
	for _, root := range []string{git, common} {
		if text, err := readSmall(filepath.Join(root, ref)); err == nil {
			return hash(text)
		}
	}
	packed, err := readSmall(filepath.Join(common, "packed-refs"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(packed) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == ref {
			return hash(sum)
		}
	}
	return ""
}

// hash gives s when it is an object name of git, "" otherwise.
func hash(s string) string {
	if (len(s) != 40 && len(s) != 64) || strings.Trim(s, "0123456789abcdef") != "" {
		return ""
	}
	return s
}

// readSmall reads a regular file of at most maxGitFile bytes without the space
// around it.
func readSmall(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fs.ErrInvalid
	}
	f, err := os.Open(path) //nolint:gosec // a fixed name within the operator's own folder
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxGitFile))
	return string(bytes.TrimSpace(b)), err
}
