package process_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/process"
)

// family starts every kind of descendant that real agents leave behind. Each
// prints its pid: a plain child, a daemon in a session of its own, a daemon
// that also has an empty environment, one that ignores SIGTERM, one that is
// stopped, and a server with an empty environment in the agent's own session.
const family = `
sleep 1000 & echo $!
(setsid sh -c 'echo $$; exec sleep 1001 >/dev/null 2>&1' &)
(env -i setsid sh -c 'echo $$; exec /bin/sleep 1002 >/dev/null 2>&1' &)
sh -c 'trap "" TERM; echo $$; while :; do sleep 1; done' &
sh -c 'echo $$; kill -STOP $$' &
(env -i sh -c 'echo $$; exec /bin/sleep 1003' &)
`

const members = 6

// leftovers are the kinds that can still be found when their agent is gone:
// proven by marker, by stderr, or by sharing a session with one that is.
const leftovers = `
sleep 1000 & echo $!
(setsid sh -c 'echo $$; exec sleep 1001 >/dev/null 2>&1' &)
(env -i setsid sh -c 'echo $$; exec /bin/sleep 1002 >/dev/null' &)
(env -i sh -c 'echo $$; exec /bin/sleep 1003 >/dev/null 2>&1' &)
read x`

func pids(t *testing.T, r io.Reader, n int) []int {
	t.Helper()
	in := bufio.NewScanner(r)
	var got []int
	for len(got) < n && in.Scan() {
		pid, err := strconv.Atoi(in.Text())
		if err != nil {
			t.Fatalf("not a pid: %q", in.Text())
		}
		got = append(got, pid)
		// Whatever the code under test does, the machine is left clean.
		t.Cleanup(func() {
			if running(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
	if len(got) < n {
		t.Fatalf("only the pids %v came, %v", got, in.Err())
	}
	return got
}

func assertGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if running(pid) {
			cmd, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
			t.Errorf("pid %d (%q) is left", pid, cmd)
		}
	}
}

func TestKillLeavesNoDescendant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script string }{
		{"agent lives", family + `read x; sleep 1000`},
		{"agent ignores SIGTERM", `trap "" TERM;` + family + `while :; do sleep 1; done`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &ledger{}
			p := start(t, l, shell(t.TempDir(), c.script))
			all := append(pids(t, p.Stdout, members), p.Identity().PID)
			begin := time.Now()
			if err := p.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("killed in %v", time.Since(begin))
			assertGone(t, all)
			select {
			case <-p.Done():
			default:
				t.Error("Kill returned before the agent was reaped")
			}
			if l.ended != 1 {
				t.Errorf("the ledger was told of %d ends", l.ended)
			}
			exit, err := p.Wait(t.Context())
			if err != nil || exit.Ending != process.AfterKill || exit.Signal == "" {
				t.Errorf("exit %+v, %v", exit, err)
			}
		})
	}
}

func TestKillAfterTheAgentExitedEndsWhatItLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		members      int
	}{
		{"servers and daemons", leftovers, 4},
		// Only the look at the table before the agent is reaped finds it.
		{"a server without any mark", `(env -i sh -c 'echo $$; exec /bin/sleep 1003 >/dev/null 2>&1' &) ; read x`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, &ledger{}, shell(t.TempDir(), c.script))
			all := pids(t, p.Stdout, c.members)
			if err := p.Stdin.Close(); err != nil {
				t.Fatal(err)
			}
			if exit, err := p.Wait(t.Context()); err != nil || exit.Ending != process.AfterClose {
				t.Fatalf("exit %+v, %v", exit, err)
			}
			for _, pid := range all {
				if !running(pid) {
					t.Fatalf("pid %d ended by itself, the test shows nothing", pid)
				}
			}
			if err := p.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			assertGone(t, all)
		})
	}
}

func TestKillEndsATreeThatKeepsForking(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "hydra")
	// Each generation ignores SIGTERM, starts the next in a new session with
	// an empty environment, and ends: one that is born between the look at the
	// table and the killing would be out of reach. A chain that renews itself
	// faster than the table is read can outrun it; this one gives it a moment.
	text := "#!/bin/sh\ntrap '' TERM\necho $$ >> " + dir + "/log\nsleep 0.05\nenv -i setsid " + script + " </dev/null >/dev/null 2>&1 &\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		b, _ := os.ReadFile(filepath.Join(dir, "log"))
		return strings.Count(string(b), "\n")
	}
	p := start(t, &ledger{}, shell(dir, script+` & trap "" TERM; while :; do sleep 1; done`))
	eventually(t, "five generations", func() bool { return count() >= 5 })
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A generation lives for milliseconds, so one that escaped shows as growth.
	n := count()
	<-time.After(300 * time.Millisecond)
	if more := count() - n; more > 0 {
		t.Errorf("%d more generations came after Kill", more)
		_ = os.Remove(script) // ends the chain
	}
}

func TestAnotherProcessWithTheSamePidIsLeftAlone(t *testing.T) {
	bystander := exec.Command("/bin/sh", "-c", "sleep 1000 & echo $!; read x")
	bystander.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	bystander.Stdin, _ = openPipe(t)
	out, err := bystander.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	child := pids(t, out, 1)[0]
	defer func() {
		_ = syscall.Kill(-bystander.Process.Pid, syscall.SIGKILL)
		_ = bystander.Wait()
	}()
	p := start(t, &ledger{}, shell(t.TempDir(), "read x"))
	id := p.Identity()

	its := startTime(t, bystander.Process.Pid)
	for name, change := range map[string]func(*process.Identity){
		"started one tick later":   func(id *process.Identity) { id.StartTime = its - 1 },
		"started one tick earlier": func(id *process.Identity) { id.StartTime = its + 1 },
		"start time never read":    func(id *process.Identity) { id.StartTime = 0 },
		"earlier boot": func(id *process.Identity) {
			id.StartTime, id.BootID = its, "00000000-0000-0000-0000-000000000000"
		},
	} {
		w := id
		w.PID, w.Group, w.Marker, w.Stderr = bystander.Process.Pid, bystander.Process.Pid, "nobody", 0
		change(&w)
		t.Run(name, func(t *testing.T) {
			if alive, err := process.Alive(w); alive || err != nil {
				t.Errorf("Alive = %v, %v", alive, err)
			}
			if err := process.KillTree(t.Context(), w); err != nil {
				t.Error(err)
			}
			for _, pid := range []int{bystander.Process.Pid, child, id.PID} {
				if !running(pid) {
					t.Errorf("pid %d was killed", pid)
				}
			}
		})
	}
}

// startTime reads field 22 of /proc/PID/stat by other means than the package.
func startTime(t *testing.T, pid int) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	n, err := strconv.ParseUint(strings.Fields(rest)[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func openPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// startWorker runs the test binary as a worker in a process of its own.
func startWorker(t *testing.T, mode, script string) (*exec.Cmd, io.Reader, string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(executable(t))
	cmd.Env = append(process.BaseEnv(os.LookupEnv), workerEnv+"="+mode, "PROCESS_TEST_DIR="+dir, "PROCESS_TEST_SCRIPT="+script)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, out, filepath.Join(dir, "ledger")
}

func recorded(t *testing.T, path string) process.Identity {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var id process.Identity
	if err := json.Unmarshal(b, &id); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestWorkerKilledBeforeTheCommitLeavesNothing(t *testing.T) {
	t.Parallel()
	cmd, out, path := startWorker(t, "commit", `echo ran > "$1/ran"; sleep 1000`)
	if got := line(t, out); got != "committing" {
		t.Fatalf("the worker said %q", got)
	}
	id := recorded(t, path)
	if alive, err := process.Alive(id); !alive || err != nil {
		t.Fatalf("the gate is alive = %v, %v", alive, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the gate ends by itself", func() bool { return !running(id.PID) })
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), "ran")); err == nil {
		t.Error("the program ran")
	}
}

func TestOrphansOfAKilledWorkerAreFoundFromTheLedger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		members      int
		exits        bool
	}{
		{"agent outlives its worker", family + `trap "" TERM HUP; while :; do sleep 1; done`, members, false},
		{"agent exits on end of input", leftovers, 4, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, out, path := startWorker(t, "run", c.script)
			all := pids(t, out, c.members)
			id := recorded(t, path)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if c.exits {
				eventually(t, "the agent exits", func() bool { return !running(id.PID) })
			} else if !running(id.PID) {
				t.Fatal("the agent died with its worker, the test shows nothing")
			}
			l := &ledger{recorded: map[int]process.Identity{id.PID: id}}
			other := id
			other.Host = "elsewhere"
			s := process.New(executable(t), "host", l)
			if err := s.Sweep(t.Context(), []process.Identity{other}); err != nil || len(l.open()) != 1 {
				t.Errorf("an identity of another host was swept: %v", err)
			}
			if err := s.Sweep(t.Context(), []process.Identity{id}); err != nil {
				t.Fatal(err)
			}
			assertGone(t, append(all, id.PID))
			if len(l.open()) != 0 {
				t.Error("the ledger still holds the process")
			}
			if err := s.Sweep(t.Context(), []process.Identity{id}); err != nil {
				t.Errorf("a second sweep: %v", err)
			}
		})
	}
}

func TestAStoppedAgentGetsToTidyUp(t *testing.T) {
	t.Parallel()
	flag := filepath.Join(t.TempDir(), "tidied")
	p := start(t, &ledger{}, shell(t.TempDir(), `trap 'echo > "$1"; exit 3' TERM; kill -STOP $$; sleep 1000`, flag))
	eventually(t, "the agent is stopped", func() bool { return state(p.Identity().PID) == "T" })
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit != (process.Exit{Code: 3, Ending: process.AfterKill}) {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if _, err := os.Stat(flag); err != nil {
		t.Error(err)
	}
}

func TestKillKeepsToItsContext(t *testing.T) {
	t.Parallel()
	p := start(t, &ledger{}, shell(t.TempDir(), `trap "" TERM; echo; while :; do sleep 1; done`))
	line(t, p.Stdout)
	stop := coord.Errorf(coord.Unavailable, "enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, stop)
	defer cancel()
	if err := p.Kill(ctx); !errors.Is(err, stop) {
		t.Fatalf("Kill = %v", err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Fatalf("the second Kill: %v", err)
	}
}
