//go:build fault

package journal_test

import (
	"bufio"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

func TestDeathAroundACommit(t *testing.T) {
	for _, point := range []string{"journal.commit.before", "journal.commit.after"} {
		t.Run(point, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			cmd := child(t, "writer", "JOURNAL_DIR="+dir, "SIGNALBOX_FAULT="+point+":20")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			acknowledged := map[int64]bool{}
			for lines := bufio.NewScanner(out); lines.Scan(); {
				seq, err := strconv.ParseInt(lines.Text(), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				acknowledged[seq] = true
			}
			err = cmd.Wait()
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("the writer ended with %v, want SIGKILL", err)
			}
			if len(acknowledged) == 0 {
				t.Fatal("the writer died before it wrote anything")
			}
			checkPairs(t, dir, acknowledged)
			// Before COMMIT the last batch is gone, after it the batch is there
			// though nobody was told.
			last := openAt(t, dir).Head()
			if told := acknowledged[last]; told != (point == "journal.commit.before") {
				t.Errorf("the last event %d was acknowledged: %v", last, told)
			}
		})
	}
}
