package process_test

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/process"
)

func TestAProgramFromAWaitingGateGetsExactlyWhatItWasGiven(t *testing.T) {
	s, _ := spare(t, &ledger{})
	dir := filepath.Join(t.TempDir(), "not \xff utf-8")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	env := []string{"A=1", "BYTES=\xfe\x80 =\n", "GOGC=100", "PATH=/bin:/usr/bin"}
	p := startBy(t, s, process.Spec{Path: "/bin/sh", Dir: dir, Env: env,
		Args: []string{"-c", `printf '%s\0' "$PWD" "$0" "$@"; cat /proc/$$/environ; cat`, "zero", "\xff", "", "a b"}})
	if _, err := io.WriteString(p.Stdin, "in"); err != nil {
		t.Fatal(err)
	}
	_ = p.Stdin.Close()
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	env = append(env, process.MarkerEnv+"="+p.Identity().Marker)
	want := strings.Join(slices.Concat([]string{dir, "zero", "\xff", "", "a b"}, env, []string{"in"}), "\x00")
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Error(diff)
	}
}
