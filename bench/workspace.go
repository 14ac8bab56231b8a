package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
)

const (
	workspaceRuns  = 500
	workspaceFiles = 50
)

// measureWorkspace takes the time of what agents do most in a workspace: list a
// folder, and read a file of the largest size. The yardsticks do the same
// without a rule.
func measureWorkspace(_ context.Context, b *bench) (_ []figure, err error) {
	dir, err := filepath.EvalSymlinks(b.dir)
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, "files")
	if err := os.MkdirAll(filepath.Join(dir, "src"), 0o700); err != nil {
		return nil, err
	}
	for i := range workspaceFiles {
		if err := os.WriteFile(filepath.Join(dir, "src", fmt.Sprintf("file%d.go", i)), []byte("package x\n"), 0o600); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "large.txt"), bytes.Repeat([]byte("a line of text\n"), coord.MaxFile/15), 0o600); err != nil {
		return nil, err
	}
	id, _, err := workspace.Identify(dir)
	if err != nil {
		return nil, err
	}
	root, err := workspace.Open(id)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	var took [4][]time.Duration
	for range workspaceRuns {
		for i, do := range []func() error{
			func() error { _, err := root.List("src"); return err },
			func() error { return look(filepath.Join(dir, "src")) },
			func() error { _, err := root.Read("large.txt"); return err },
			func() error { _, err := os.ReadFile(filepath.Join(dir, "large.txt")); return err },
		} {
			began := time.Now()
			if err := do(); err != nil {
				return nil, err
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	us := func(i int) float64 { return float64(median(took[i]).Nanoseconds()) / 1e3 }
	return []figure{
		told("list of a folder with 50 files", us(0), "us", fmt.Sprintf("looking at each file, without a rule: %.0f us", us(1))),
		told("read of 128 KiB", us(2), "us", fmt.Sprintf("os.ReadFile: %.0f us", us(3))),
	}, nil
}

// look lists a folder and looks at each file.
func look(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		_, failed := e.Info()
		err = errors.Join(err, failed)
	}
	return err
}
