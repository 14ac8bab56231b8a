package journal_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/journal/journaltest"
)

// childVariable makes the test binary run one of children instead of tests.
const childVariable = "SIGNALBOX_JOURNAL_CHILD"

// child is the test binary as another process.
func child(t testing.TB, name string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(append(os.Environ(), childVariable+"="+name), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

// childWriter writes pairs of events from eight goroutines until it is killed,
// and prints the second sequence of each pair once Update has returned.
func childWriter() {
	j, err := journal.Open(context.Background(), options(os.Getenv("JOURNAL_DIR"), journaltest.At(journaltest.Start)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				var seq int64
				err := j.Update(context.Background(), func(tx *journal.Tx) error {
					e := coord.Event{Kind: coord.JobChanged, Data: json.RawMessage(fmt.Sprintf(`"%d/%d"`, w, i))}
					tx.Append(e)
					seq = tx.Append(e)
					return nil
				})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				// One write a line, so that a line is whole or absent.
				_, _ = os.Stdout.WriteString(strconv.FormatInt(seq, 10) + "\n")
			}
		})
	}
	wg.Wait()
}

func TestAcknowledgedCommitsSurviveSIGKILLAndHalfOnesDoNotExist(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for round := range 5 {
		cmd := child(t, "writer", "JOURNAL_DIR="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acknowledged := map[int64]bool{}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			seq, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			acknowledged[seq] = true
			if len(acknowledged) == 100+37*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		err = cmd.Wait()
		status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("the writer ended with %v, want SIGKILL", err)
		}
		checkPairs(t, dir, acknowledged)
	}
}

// checkPairs checks that dir's journal holds whole pairs without gaps, among
// them every acknowledged one.
func checkPairs(t *testing.T, dir string, acknowledged map[int64]bool) {
	t.Helper()
	j := openAt(t, dir)
	err := j.View(t.Context(), func(v *journal.View) error {
		events, err := v.Events(0, journal.EventFilter{}, 1<<20)
		if len(events)%2 != 0 {
			t.Errorf("%d events: half an operation survived", len(events))
		}
		for i, e := range events {
			if e.Seq != int64(i+1) {
				t.Fatalf("event %d has sequence %d", i+1, e.Seq)
			}
			if i%2 == 1 && string(e.Data) != string(events[i-1].Data) {
				t.Fatalf("events %d and %d are not one operation's", e.Seq-1, e.Seq)
			}
		}
		for seq := range acknowledged {
			if seq > int64(len(events)) {
				t.Errorf("acknowledged event %d is gone", seq)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
