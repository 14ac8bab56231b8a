package process_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

func TestNobodyElseGivesTheOrdersOfAWaitingGate(t *testing.T) {
	l := &ledger{}
	s, gate := spare(t, l)
	marker := filepath.Join(t.TempDir(), "forged")
	orders := fmt.Sprintf(`{"path":%q,"argv":[%[1]q,%q,%q],"env":[],"dir":%q,"writes":null}`,
		base64.StdEncoding.EncodeToString([]byte("/bin/sh")), base64.StdEncoding.EncodeToString([]byte("-c")),
		base64.StdEncoding.EncodeToString([]byte("touch "+marker)), base64.StdEncoding.EncodeToString([]byte("/")))
	open := 0
	for fd := range 16 {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", gate.PID, fd), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		open++
		if fd > 2 {
			_, _ = f.WriteString(orders + "\n") // whatever takes it
		}
		_ = f.Close()
	}
	if os.Getuid() != 0 && open > 0 {
		t.Errorf("%d descriptors of the gate are open to others", open)
	}
	p := startBy(t, s, shell("/", "read x; echo $$"))
	if p.Identity() != gate {
		t.Errorf("started is %+v, and not the gate %+v", p.Identity(), gate)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the gate took orders from somebody else")
	}
}

func TestAWaitingGateThatSomebodyStoppedIsEndedAndReplaced(t *testing.T) {
	l := &ledger{}
	s, gate := spare(t, l)
	if err := syscall.Kill(gate.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the gate is stopped", func() bool { return state(gate.PID) == "T" })
	p := startBy(t, s, shell("/", "read x"))
	if p.Identity() == gate || running(gate.PID) || slices.Contains(l.open(), gate) {
		t.Errorf("started is %+v, recorded %+v; %+v was stopped and is %q", p.Identity(), l.open(), gate, state(gate.PID))
	}
}
