package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"signalbox/internal/process"
)

// fileLedger writes each identity to a file, durably, as a worker's journal
// does. In a worker that is to die before the commit it blocks instead.
type fileLedger struct {
	path  string
	block bool
}

func (l fileLedger) Started(_ context.Context, id process.Identity) error {
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	f, err := os.Create(l.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if l.block {
		fmt.Println("committing")
		hang()
	}
	return nil
}

func (fileLedger) Ended(context.Context, process.Identity) error { return nil }

// worker is what the test binary does as a worker: it starts one agent from
// the directory it is given, passes its output on and waits for the end of
// its own input.
func worker(mode string) {
	dir := os.Getenv("PROCESS_TEST_DIR")
	l := fileLedger{path: filepath.Join(dir, "ledger"), block: mode == "commit"}
	exe, err := process.Executable()
	if err != nil {
		panic(err)
	}
	spec := shell(dir, os.Getenv("PROCESS_TEST_SCRIPT"), dir)
	p, err := process.New(exe, "host", l).Start(context.Background(), spec)
	if err != nil {
		panic(err)
	}
	var b [4096]byte
	for {
		n, err := p.Stdout.Read(b[:])
		_, _ = os.Stdout.Write(b[:n]) // who reads it may be gone
		if err != nil {
			hang()
		}
	}
}

// hang waits to be killed. An empty select would end as a deadlock where cgo is
// off.
func hang() { <-time.After(time.Hour) }
