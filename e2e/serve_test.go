package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// door is a running signalbox serve.
type door struct {
	cmd    *exec.Cmd
	url    string
	stdout bytes.Buffer // whole once exited is closed
	stderr string       // a file
	exited chan struct{}
	err    error // of the exit
}

// serve starts a front door and waits until it is ready.
func (w *world) serve() {
	w.t.Helper()
	d, pair, err := w.launch("0")
	if d != nil {
		w.door = d
	}
	if err != nil {
		w.t.Fatalf("%v\n%s", err, w.log())
	}
	if w.token == "" {
		w.pair(pair)
	}
}

// launch starts a front door that listens at a port, and gives its pairing link
// when it is ready. The door is nil when it could not be started at all.
func (w *world) launch(port string) (*door, string, error) {
	d := &door{exited: make(chan struct{}), stderr: filepath.Join(w.t.TempDir(), "serve.log")}
	log, err := os.Create(d.stderr)
	if err != nil {
		return nil, "", err
	}
	defer log.Close()
	// It outlives the context of the test, which ends before the clean-up.
	d.cmd = exec.CommandContext(context.WithoutCancel(w.ctx), binary, "serve", "--listen", port, "--data", w.dir, "--json")
	d.cmd.Env, d.cmd.Stderr = w.env, log
	d.cmd.SysProcAttr = bound()
	d.cmd.SysProcAttr.Credential = w.user
	first := &firstLine{to: &d.stdout, line: make(chan []byte, 1)}
	d.cmd.Stdout = first
	if err := d.cmd.Start(); err != nil {
		return nil, "", err
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.exited)
	}()
	select {
	case line := <-first.line:
		var ready struct{ URL, Pair, Data string }
		if err := json.Unmarshal(line, &ready); err != nil || ready.Data != w.dir {
			return d, "", fmt.Errorf("the first line of serve is %q (%w)", line, err)
		}
		d.url = ready.URL
		return d, ready.Pair, nil
	case <-d.exited:
		return d, "", fmt.Errorf("serve ended: %w", d.err)
	case <-w.ctx.Done():
		return d, "", fmt.Errorf("serve is not ready: %w", context.Cause(w.ctx))
	}
}

// firstLine passes everything on and gives the first line to whoever waits.
type firstLine struct {
	to   *bytes.Buffer
	line chan []byte
	told bool
}

func (f *firstLine) Write(b []byte) (int, error) {
	f.to.Write(b)
	if line, _, whole := bytes.Cut(f.to.Bytes(), []byte("\n")); whole && !f.told {
		f.told = true
		f.line <- bytes.Clone(line)
	}
	return len(b), nil
}

// own gives a folder to the user of this world, and lets them enter it.
func (w *world) own(dir string) {
	w.t.Helper()
	if w.user == nil {
		return
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(w.user.Uid), int(w.user.Gid)))
	})
	// The folder above is that of the test alone.
	if err = errors.Join(err, os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		w.t.Fatal(err)
	}
}
