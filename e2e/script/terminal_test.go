package script

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
)

// terminal is a program on a pseudo-terminal of 80 columns and 40 lines, as a
// person has it before them.
type terminal struct {
	t   *testing.T
	cmd *exec.Cmd
	tty *os.File

	mu    sync.Mutex
	shown bytes.Buffer
	wake  chan struct{}
	// closed is closed when the program has ended and all that it wrote is
	// shown; code is its exit code, 128 and the signal if one ended it.
	closed chan struct{}
	code   int
}

// lead starts a program on its terminal as a shell does, tells how it ended, and
// stays. When the leader of a session ends, Linux throws away what was written to
// its terminal and not passed on yet: the last words of a program that is the
// leader itself are lost now and then.
const lead = `trap : INT
"$@"
printf '\000%d\000' $?
while read x || [ $? -gt 128 ]; do :; done`

var ended = regexp.MustCompile("\x00([0-9]+)\x00")

// onTerminal starts the program, as this user unless another is given.
func onTerminal(t *testing.T, user *syscall.Credential, env []string, dir string, args ...string) *terminal {
	t.Helper()
	w := &terminal{t: t, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), "/bin/sh", append([]string{"-c", lead, "sh", program}, args...)...), wake: make(chan struct{}, 1), closed: make(chan struct{})}
	w.cmd.Env, w.cmd.Dir = env, dir
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	tty, err := pty.StartWithSize(w.cmd, &pty.Winsize{Rows: 40, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	w.tty = tty
	go func() {
		defer close(w.closed)
		b := make([]byte, 4096)
		for {
			n, err := tty.Read(b)
			w.mu.Lock()
			w.shown.Write(b[:n])
			end := ended.FindSubmatchIndex(w.shown.Bytes())
			if end != nil {
				w.code, err = strconv.Atoi(string(w.shown.Bytes()[end[2]:end[3]]))
				w.shown.Truncate(end[0])
			}
			w.mu.Unlock()
			if end != nil && err == nil {
				return
			}
			select {
			case w.wake <- struct{}{}:
			default:
			}
			if err != nil {
				return // the test has closed the terminal
			}
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)
		_ = tty.Close()
		<-w.closed
		_ = w.cmd.Wait() // it was killed
	})
	return w
}

var (
	colours = regexp.MustCompile("\x1b\\[[0-9;]*m")
	escape  = regexp.MustCompile("\x1b")
)

// text is what is on the screen, without colours.
func (w *terminal) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.ReplaceAll(colours.ReplaceAllString(w.shown.String(), ""), "\r\n", "\n")
}

// see waits until the screen holds a text.
func (w *terminal) see(text string) {
	w.t.Helper()
	deadline := time.After(30 * time.Second)
	for !strings.Contains(w.text(), text) {
		select {
		case <-w.wake:
		case <-deadline:
			w.t.Fatalf("never saw %q, but\n%s", text, w.text())
		case <-w.closed:
			if !strings.Contains(w.text(), text) {
				w.t.Fatalf("it ended with %d and without %q:\n%s", w.code, text, w.text())
			}
			return
		}
	}
}

// enter types keys.
func (w *terminal) enter(keys string) {
	w.t.Helper()
	if _, err := io.WriteString(w.tty, keys); err != nil {
		w.t.Fatal(err)
	}
}

// yes answers every question with y until the program ends.
func (w *terminal) yes() {
	w.t.Helper()
	answered := 0
	deadline := time.After(30 * time.Second)
	for {
		if strings.HasSuffix(w.text(), "[y/N] ") && strings.Count(w.text(), "[y/N] ") > answered {
			answered++
			w.enter("y\n")
		}
		select {
		case <-w.wake:
		case <-w.closed:
			return
		case <-deadline:
			w.t.Fatalf("it does not end:\n%s", w.text())
		}
	}
}

// ends waits for the program and checks its exit code.
func (w *terminal) ends(code int) {
	w.t.Helper()
	<-w.closed
	if w.code != code {
		w.t.Errorf("it ended with %d, want %d:\n%s", w.code, code, w.text())
	}
	if left := escape.FindString(colours.ReplaceAllString(w.shown.String(), "")); left != "" {
		w.t.Errorf("there are escape sequences other than colours:\n%q", w.shown.String())
	}
}

// fits checks that no line is wider than the terminal, digests to copy apart.
func (w *terminal) fits() {
	w.t.Helper()
	for line := range strings.Lines(w.text()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 && !strings.HasPrefix(line, "digest ") {
			w.t.Errorf("a line has %d columns: %s", n, line)
		}
	}
}

// house is a running Signalbox with this test as its operator.
type house struct {
	t   *testing.T
	env []string
	dir string
	*served
}

func newHouse(t *testing.T) *house {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return openHouse(t, dir, append(base(dir), "SIGNALBOX_DATA="+filepath.Join(dir, "data")))
}

// openHouse starts Signalbox in dir, with an environment.
func openHouse(t *testing.T, dir string, env []string) *house {
	t.Helper()
	h := &house{t: t, dir: dir, env: env}
	var err error
	if h.served, err = start(h.env, dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.stop)
	h.do(0, "login", "--file", h.ready.Pair)
	return h
}

// do runs a command off a terminal and gives its data.
func (h *house) do(code int, args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), program, args...)
	cmd.Env, cmd.Dir = h.env, h.dir
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		h.t.Fatal(err)
	}
	if got != code {
		h.t.Fatalf("signalbox %s ended with %d, want %d: %s", strings.Join(args, " "), got, code, said.String())
	}
	return string(out)
}

// agent registers a scripted agent under its mode's name.
func (h *house) agent(mode string) {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	h.do(0, "agent", "add", mode, "--", self, "scripted-agent", mode)
}

func (h *house) terminal(args ...string) *terminal {
	h.t.Helper()
	return onTerminal(h.t, nil, h.env, h.dir, args...)
}

func TestRunOnATerminalShowsThePlanRunsOnYesAndAsksInline(t *testing.T) {
	h := newHouse(t)
	h.agent("ask")
	w := h.terminal("run", "--agent", "ask", "Run the tests and say how it went")
	w.see("run it? [y/N] ")
	plan := w.text()
	for _, want := range []string{"Job 1", "Run the tests and say how it went", "task  ask  research", "sha256 ", "not confined", "digest "} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan does not show %q:\n%s", want, plan)
		}
	}
	w.fits()
	if n := strings.Count(plan, "\n"); n > 40 {
		t.Errorf("the plan takes %d lines, more than a screen", n)
	}
	w.enter("y\n")
	w.see("allow it once? [y/N] ")
	if !strings.Contains(w.text(), "make test") {
		t.Errorf("the request does not show the command:\n%s", w.text())
	}
	w.enter("y\n")
	w.see("I was allowed.")
	w.ends(0)
	if got := h.do(0, "request", "show", "r1"); !strings.Contains(got, "(cli, terminal)") && !strings.Contains(got, "terminal") {
		t.Errorf("the decision does not say that it was made at a terminal:\n%s", got)
	}
}

func TestRunOnATerminalLeavesADraftOnAnythingButYes(t *testing.T) {
	h := newHouse(t)
	h.agent("done")
	for _, keys := range []string{"n\n", "\n", "yess\n", "\x04"} {
		w := h.terminal("run", "--agent", "done", "Do it")
		w.see("run it? [y/N] ")
		w.enter(keys)
		w.see("stays a draft")
		w.ends(13)
	}
	if got := strings.Count(h.do(0, "job", "list"), "\tdraft\t"); got != 4 {
		t.Errorf("there are %d drafts, want 4", got)
	}
	for _, args := range [][]string{{"job", "list"}, {"inbox"}, {"status"}, {"agent", "list"}, {"--help"}, {"job", "--help"}} {
		w := h.terminal(args...)
		w.ends(0)
		w.fits()
	}
}

func TestARefusalOnATerminalIsADenial(t *testing.T) {
	h := newHouse(t)
	h.agent("ask")
	w := h.terminal("run", "--agent", "ask", "Do it")
	w.see("run it? [y/N] ")
	w.enter("yes\n")
	w.see("allow it once? [y/N] ")
	w.enter("n\n")
	w.see("I was not allowed.")
	w.ends(0)
	if got := h.do(0, "request", "list", "--all"); !strings.HasPrefix(got, "r1\tdenied\t") {
		t.Errorf("the requests are\n%s", got)
	}
}

func TestCtrlCEndsTheCommandAndNotTheJob(t *testing.T) {
	h := newHouse(t)
	h.agent("hang")
	h.agent("ask")
	w := h.terminal("run", "--agent", "hang", "Take your time")
	w.see("run it? [y/N] ")
	w.enter("\x03")
	w.ends(130)

	w = h.terminal("job", "run", "1", "--wait")
	w.see("run it? [y/N] ")
	w.enter("y\n")
	w.see("This takes a while.")
	w.enter("\x03")
	w.see("job 1 runs on")
	w.ends(130)

	// Also where it waits for an answer.
	w = h.terminal("run", "--agent", "ask", "Ask me")
	w.see("run it? [y/N] ")
	w.enter("y\n")
	w.see("allow it once? [y/N] ")
	w.enter("\x03")
	w.ends(130)
	if got := h.do(0, "job", "list"); strings.Count(got, "\trunning\t") != 2 {
		t.Errorf("the jobs are\n%s", got)
	}
	h.do(0, "job", "cancel", "1")
	h.do(11, "job", "wait", "1")
}

func TestEscapeSequencesOfAnAgentNeverReachTheTerminal(t *testing.T) {
	h := newHouse(t)
	h.agent("escape")
	w := h.terminal("run", "--agent", "escape", "Be nasty")
	w.see("run it? [y/N] ")
	w.enter("y\n")
	w.see("allow it once? [y/N] ")
	w.enter("n\n")
	w.ends(0)
	for _, args := range [][]string{{"job", "result", "1"}, {"request", "show", "r1"}, {"attempt", "output", "1/task"}, {"job", "list"}} {
		h.terminal(args...).ends(0)
	}
}

func TestTheDemoReadsWellAndEndsWithinAMinute(t *testing.T) {
	dir := t.TempDir()
	began := time.Now()
	w := onTerminal(t, nil, base(dir), dir, "demo")
	w.see("Look further")
	w.ends(0)
	w.fits()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	for _, want := range []string{"A plan", "asks: Read the signal log", "r1 is approved", "agent reader said", "agent checker said"} {
		if !strings.Contains(w.text(), want) {
			t.Errorf("the demo does not show %q", want)
		}
	}
	if n := strings.Count(w.text(), "\n"); n > 120 {
		t.Errorf("the demo takes %d lines", n)
	}
}

func TestADemoThatIsKeptServesTheCommandLine(t *testing.T) {
	dir := t.TempDir()
	w := onTerminal(t, nil, base(dir), dir, "demo", "--keep")
	w.see("Say something")
	_, rest, found := strings.Cut(w.text(), "export SIGNALBOX_DATA=")
	if !found {
		t.Fatalf("it does not say where it is:\n%s", w.text())
	}
	data, _, _ := strings.Cut(rest, "\n")
	h := &house{t: t, env: append(base(dir), "SIGNALBOX_DATA="+data), dir: dir}
	if got := h.do(0, "job", "list"); !strings.HasPrefix(got, "1\tcompleted\t") {
		t.Errorf("the jobs are\n%s", got)
	}
	h.do(0, "attempt", "show", "1/signals")
	h.do(0, "job", "export", "1")
	h.do(0, "verify", "signalbox-job-1.zip")
	again := onTerminal(t, nil, h.env, dir, "run", "--agent", "reader", "Say something")
	again.see("run it? [y/N] ")
	again.enter("y\n")
	again.see("scripted stand-in")
	again.ends(0)
	if err := syscall.Kill(-w.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	w.ends(0)
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the demo's directory is still there: %v", err)
	}
}
