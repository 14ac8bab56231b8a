package artifact

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// crashDir names, in the environment, the store that a child fills until it is
// killed.
const crashDir = "SIGNALBOX_TEST_ARTIFACTS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := fill(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// fill stores artifacts of many sizes and prints each Ref when Put has returned.
func fill(dir string) error {
	s, err := New(dir, plain)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		text := fmt.Sprint(i) + strings.Repeat("x", i*7919%100_000)
		ref, err := s.Put(context.Background(), strings.NewReader(text), 1<<20)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(ref); err != nil {
			return err
		}
	}
}

func TestWhatPutReturnedOutlivesAKillAndTheRestIsSwept(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	known := map[string]int64{}
	for round := range 5 {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), crashDir+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			var ref Ref
			if err := json.Unmarshal(lines.Bytes(), &ref); err != nil {
				break // the line was cut by the kill
			}
			known[ref.SHA256] = ref.Size
			if n == 10+round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("the child was to be killed and ended with %v", err)
		}
	}
	s := open(t, dir)
	rep, err := s.Verify(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	// One Put a round may have been done and not yet told: an orphan, intact.
	if len(rep.Missing)+len(rep.Damaged)+len(rep.Strange) > 0 || len(rep.Orphans) > 5 {
		t.Errorf("after the kills: %+v", rep)
	}
	if left, err := os.ReadDir(s.temp()); err != nil || len(left) > 0 {
		t.Errorf("%d temporary files are left, %v", len(left), err)
	}
}
