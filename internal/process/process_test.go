package process_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"signalbox/internal/coord"
	"signalbox/internal/process"
)

// workerEnv makes the test binary a worker that starts one agent and then
// waits to be killed; see TestOrphansOfAKilledWorkerAreFoundFromTheLedger.
const workerEnv = "PROCESS_TEST_WORKER"

func TestMain(m *testing.M) {
	process.GateMain()
	if mode := os.Getenv(workerEnv); mode != "" {
		worker(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// ledger is a real ledger in miniature: it remembers what is recorded.
type ledger struct {
	mu       sync.Mutex
	recorded map[int]process.Identity
	ended    int
	refuse   error
	started  func(process.Identity)
}

func (l *ledger) Started(_ context.Context, id process.Identity) error {
	if l.started != nil {
		l.started(id)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return l.refuse
	}
	if l.recorded == nil {
		l.recorded = map[int]process.Identity{}
	}
	l.recorded[id.PID] = id
	return nil
}

func (l *ledger) Ended(_ context.Context, id process.Identity) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.recorded, id.PID)
	l.ended++
	return nil
}

func (l *ledger) open() []process.Identity {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.recorded))
}

func executable(t testing.TB) string {
	t.Helper()
	path, err := process.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func shell(dir, script string, args ...string) process.Spec {
	return process.Spec{Path: "/bin/sh", Args: append([]string{"-c", script, "sh"}, args...), Dir: dir,
		Env: process.BaseEnv(os.LookupEnv)}
}

// start starts and sees to it that nothing outlives the test.
func start(t *testing.T, l *ledger, spec process.Spec) *process.Process {
	t.Helper()
	return startBy(t, process.New(executable(t), "host", l), spec)
}

// startBy is start by a starter of the test's.
func startBy(t *testing.T, s interface {
	Start(context.Context, process.Spec) (*process.Process, error)
}, spec process.Spec) *process.Process {
	t.Helper()
	p, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Kill(context.Background()); err != nil {
			t.Errorf("Kill: %v", err)
		}
		p.Close()
	})
	return p
}

func line(t *testing.T, r io.Reader) string {
	t.Helper()
	s, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("read a line: %v", err)
	}
	return strings.TrimSpace(s)
}

// state is the state letter of a process, empty if there is none.
func state(pid int) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	return string(bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])[0])
}

// running says whether a pid is there and no zombie.
func running(pid int) bool { return !strings.Contains("ZX", state(pid)) }

// eventually polls another process's effect.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for !cond() {
		select {
		case <-late:
			t.Fatalf("never came true: %s", what)
		case <-tick.C:
		}
	}
}

func TestStartedProgramHasTheCommittedIdentityAndTheStreams(t *testing.T) {
	l := &ledger{}
	p := start(t, l, shell(t.TempDir(), `echo $$; read x; echo "got $x"; echo "err $x" >&2; exit 7`))
	out := bufio.NewReader(p.Stdout)
	pid, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	id := p.Identity()
	if got := l.open(); len(got) != 1 || !cmp.Equal(got[0], id) {
		t.Errorf("the ledger holds %+v, the process is %+v", got, id)
	}
	if strings.TrimSpace(pid) != strconv.Itoa(id.PID) || id.Group != id.PID {
		t.Errorf("the program says pid %q, the identity is %+v", pid, id)
	}
	if alive, err := process.Alive(id); !alive || err != nil {
		t.Errorf("after exec Alive = %v, %v", alive, err)
	}
	fmt.Fprintln(p.Stdin, "hello")
	if s, err := out.ReadString('\n'); s != "got hello\n" || err != nil {
		t.Errorf("stdout %q, %v", s, err)
	}
	exit, err := p.Wait(t.Context())
	if want := (process.Exit{Code: 7, Ending: process.ByItself}); exit != want || err != nil {
		t.Errorf("exit %+v, %v; want %+v", exit, err, want)
	}
	if alive, err := process.Alive(id); alive || err != nil {
		t.Errorf("after the exit Alive = %v, %v", alive, err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	p.Close()
	if got := p.Stderr(); got != "err hello\n" {
		t.Errorf("stderr %q", got)
	}
	if got := l.open(); len(got) != 0 {
		t.Errorf("after Kill the ledger holds %+v", got)
	}
}

func TestEnvironmentIsExactlyWhatWasGiven(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "leak")
	t.Setenv("SIGNALBOX_TOKEN", "leak")
	spec := process.Spec{Path: "/usr/bin/env", Dir: t.TempDir(), Env: []string{"A=1", "PATH=/bin", "Z=x=y"}}
	p := start(t, &ledger{}, spec)
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(spec.Env), process.MarkerEnv+"="+p.Identity().Marker)
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyTheStandardStreamsAreInherited(t *testing.T) {
	// A descriptor without close-on-exec, as a careless parent might leave.
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := syscall.Dup(int(f.Fd())) // dup clears close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if fd >= 256 {
		t.Fatalf("descriptor %d is beyond what the script looks at", fd)
	}
	// No glob and no substitution, which would open descriptors themselves.
	p := start(t, &ledger{}, shell(t.TempDir(), `i=0; while [ $i -lt 256 ]; do if [ -e /proc/$$/fd/$i ]; then echo $i; fi; i=$((i+1)); done`))
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != "0\n1\n2\n" {
		t.Errorf("the child holds the descriptors\n%s", out)
	}
}

func TestFailedStartsSayWhyAndLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	refused := errors.New("disk full")
	cases := []struct {
		name   string
		spec   process.Spec
		refuse error
		code   coord.Code
		cause  error
	}{
		{name: "absent program", spec: process.Spec{Path: filepath.Join(dir, "absent"), Dir: dir}, code: coord.NotFound, cause: syscall.ENOENT},
		{name: "absent interpreter", spec: process.Spec{Path: write("interp", "#!/no/such\n", 0o755), Dir: dir}, code: coord.NotFound, cause: syscall.ENOENT},
		{name: "not executable", spec: process.Spec{Path: write("plain", "#!/bin/sh\n", 0o644), Dir: dir}, code: coord.Invalid, cause: syscall.EACCES},
		{name: "not a program", spec: process.Spec{Path: write("text", "hello\n", 0o755), Dir: dir}, code: coord.Invalid, cause: syscall.ENOEXEC},
		{name: "huge arguments", spec: process.Spec{Path: "/bin/true", Args: []string{strings.Repeat("x", 120<<10), strings.Repeat("y", 4<<20)}, Dir: dir}, code: coord.Limit, cause: syscall.E2BIG},
		{name: "arguments beyond what a gate takes", spec: process.Spec{Path: "/bin/true", Args: []string{strings.Repeat("x", 7<<20)}, Dir: dir}, code: coord.Limit, cause: syscall.E2BIG},
		{name: "relative program", spec: process.Spec{Path: "sh", Dir: dir}, code: coord.Invalid},
		{name: "absent directory", spec: process.Spec{Path: "/bin/sh", Dir: filepath.Join(dir, "absent")}, code: coord.NotFound},
		{name: "variable twice", spec: process.Spec{Path: "/bin/sh", Dir: dir, Env: []string{"A=1", "A=2"}}, code: coord.Invalid},
		{name: "own token", spec: process.Spec{Path: "/bin/sh", Dir: dir, Env: []string{"SIGNALBOX_TOKEN=x"}}, code: coord.Invalid},
		{name: "ledger refuses", spec: process.Spec{Path: "/bin/sh", Dir: dir}, refuse: refused, code: coord.Internal, cause: refused},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var spawned []int
			l := &ledger{refuse: c.refuse, started: func(id process.Identity) { spawned = append(spawned, id.PID) }}
			s := process.New(executable(t), "host", l)
			for range 5 {
				p, err := s.Start(t.Context(), c.spec)
				if p != nil || coord.CodeOf(err) != c.code || c.cause != nil && !errors.Is(err, c.cause) {
					t.Fatalf("Start = %v, %v", p, err)
				}
			}
			for _, pid := range spawned {
				if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
					t.Errorf("pid %d is left", pid)
				}
			}
			if got := l.open(); len(got) != 0 {
				t.Errorf("the ledger still holds %+v", got)
			}
		})
	}
}

func TestDirectoryThatGoesBeforeTheGateDoesIsToldAndLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l := &ledger{started: func(process.Identity) {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}}
	p, err := process.New(executable(t), "host", l).Start(t.Context(), shell(dir, "true"))
	if p != nil || coord.CodeOf(err) != coord.NotFound || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("Start = %v, %v", p, err)
	}
	if left := l.open(); len(left) > 0 {
		t.Errorf("left are %+v", left)
	}
}

func TestProgramDoesNotRunBeforeTheLedgerHasCommitted(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "ran")
	l := &ledger{started: func(id process.Identity) {
		if alive, err := process.Alive(id); !alive || err != nil {
			t.Errorf("at the commit the gate is alive = %v, %v", alive, err)
		}
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", id.PID))
		if self, _ := os.Executable(); err != nil || exe != self {
			t.Errorf("at the commit the process is %q, %v", exe, err)
		}
		if _, err := os.Stat(flag); err == nil {
			t.Error("the program ran before the commit")
		}
	}}
	p := start(t, l, shell(t.TempDir(), `echo > "$1"`, flag))
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(flag); err != nil {
		t.Errorf("the program never ran: %v", err)
	}
}

func TestStderrIsKeptAsABoundedTail(t *testing.T) {
	p := start(t, &ledger{}, shell(t.TempDir(), `i=0; while [ $i -lt 40000 ]; do echo "line $i" >&2; i=$((i+1)); done; echo last >&2`))
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if got := p.Stderr(); len(got) != coord.MaxStderr || !strings.HasSuffix(got, "line 39999\nlast\n") {
		t.Errorf("%d bytes are kept, the end is %q", len(got), got[max(0, len(got)-30):])
	}
}

func TestKillEndsAWriteToAProcessThatDoesNotRead(t *testing.T) {
	p := start(t, &ledger{}, shell(t.TempDir(), "sleep 1000"))
	wrote := make(chan error)
	go func() {
		_, err := p.Stdin.Write(make([]byte, 1<<20))
		wrote <- err
	}()
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the write ended with %v", err)
	}
}

func TestChildReadsFromABlockingPipe(t *testing.T) {
	// A child that finds its input non-blocking sees EAGAIN as an error.
	p := start(t, &ledger{}, shell(t.TempDir(), `for i in 0 1 2; do while read k v; do case $k in flags:) echo $v;; esac; done < /proc/$$/fdinfo/$i; done`))
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	modes := strings.Fields(string(out))
	if len(modes) != 3 {
		t.Fatalf("flags %q", out)
	}
	for fd, m := range modes {
		flags, err := strconv.ParseInt(m, 8, 64)
		if err != nil || flags&syscall.O_NONBLOCK != 0 {
			t.Errorf("descriptor %d has the flags %q, %v", fd, m, err)
		}
	}
}

func TestStartsAtTheSameTimeDoNotHoldEachOther(t *testing.T) {
	// Each child ends at the end of its input, so a pipe that leaked into a
	// sibling would keep it alive.
	l := &ledger{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			p, err := process.New(executable(t), "host", l).Start(t.Context(), shell(os.TempDir(), "read x"))
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			_ = p.Stdin.Close()
			if exit, err := p.Wait(t.Context()); err != nil || exit != (process.Exit{Code: 1, Ending: process.AfterClose}) {
				t.Errorf("exit %+v, %v", exit, err)
			}
			if err := p.Kill(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := l.open(); len(got) != 0 {
		t.Errorf("the ledger holds %+v", got)
	}
}

func TestStartIsGivenUpWithItsContext(t *testing.T) {
	stop := errors.New("operator stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	var pid int
	l := &ledger{started: func(id process.Identity) { pid = id.PID; cancel(stop) }}
	flag := filepath.Join(t.TempDir(), "ran")
	_, err := process.New(executable(t), "host", l).Start(ctx, shell(t.TempDir(), `echo > "$1"`, flag))
	if !errors.Is(err, stop) {
		t.Errorf("Start = %v", err)
	}
	if running(pid) || len(l.open()) != 0 {
		t.Errorf("pid %d runs, the ledger holds %+v", pid, l.open())
	}
	if _, err := os.Stat(flag); err == nil {
		t.Error("the program ran")
	}
}

func BenchmarkStart(b *testing.B) {
	s := process.New(executable(b), "host", &ledger{})
	for b.Loop() {
		p, err := s.Start(b.Context(), process.Spec{Path: "/bin/true", Dir: "/"})
		if err != nil {
			b.Fatal(err)
		}
		<-p.Done()
		if err := p.Kill(b.Context()); err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}

func BenchmarkAlive(b *testing.B) {
	id, err := process.Self("host")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if alive, err := process.Alive(id); !alive || err != nil {
			b.Fatal(alive, err)
		}
	}
}
