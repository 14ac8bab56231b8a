package script

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write goldens and README's transcripts anew")

// program is the path of the real binary.
var program string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "scripted-agent" {
		scriptedAgent(os.Args[2])
		return
	}
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "signalbox-script-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "signalbox")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", program, "signalbox/cmd/signalbox")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the program does not build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// base is the environment of a script: nothing of the person who runs the test.
func base(home string) []string {
	return []string{
		"HOME=" + home, "PATH=" + filepath.Dir(program) + string(os.PathListSeparator) + os.Getenv("PATH"),
		"TERM=xterm-256color", "LANG=C.UTF-8", "TMPDIR=" + os.TempDir(),
		// Without a bus there is no keyring, so no test touches one.
		"DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent",
	}
}

func TestScripts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			work, err := filepath.EvalSymlinks(e.WorkDir)
			if err != nil {
				return err
			}
			e.Vars = append(base(work), "WORK="+work, "SIGNALBOX_DATA="+filepath.Join(work, "data"), "AGENT="+self)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "serve": serveCommand, "onedocument": oneDocument, "ndjson": ndjson, "plain": plain, "until": until, "var": variable,
		},
	})
}

// exits runs signalbox and checks its exit code: exits CODE ARG...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec("signalbox", args[1:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("signalbox %s ended with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// serveCommand starts signalbox serve in the script's data directory and sets
// PAIR and URL; it is ended with the script. The flag -login makes the script
// its operator, through a token file.
func serveCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: serve [-login]")
	}
	var env []string
	for _, name := range []string{"HOME", "PATH", "SIGNALBOX_DATA", "TMPDIR"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	// What a script's configuration file names as a secret.
	if value := ts.Getenv("SCOUT_TOKEN"); value != "" {
		env = append(env, "SCOUT_TOKEN="+value)
	}
	d, err := start(env, ts.MkAbs("."))
	ts.Check(err)
	ts.Defer(d.stop)
	ts.Setenv("PAIR", d.ready.Pair)
	ts.Setenv("URL", d.ready.URL)
	if len(args) > 0 && args[0] == "-login" {
		ts.Check(ts.Exec("signalbox", "login", "--file", d.ready.Pair))
	}
}

// served is a running signalbox serve.
type served struct {
	cmd   *exec.Cmd
	ready struct{ URL, Pair, Data string }
}

func start(env []string, dir string) (*served, error) {
	d := &served{cmd: exec.CommandContext(context.Background(), program, "serve", "--listen", "0", "--json")}
	d.cmd.Env, d.cmd.Dir = env, dir
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.CreateTemp(dir, "serve-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.cmd.Stderr = log
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &d.ready)
	}
	if err != nil {
		d.stop()
		said, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("serve did not get ready: %w\n%s", err, said)
	}
	return d, nil
}

// stop ends serve as Ctrl-C does, and after 40 seconds, which is longer than a
// drain, by force.
func (d *served) stop() {
	_ = d.cmd.Process.Signal(os.Interrupt)
	force := time.AfterFunc(40*time.Second, func() { _ = d.cmd.Process.Kill() })
	defer force.Stop()
	_ = d.cmd.Wait()
}

// oneDocument checks that the last command wrote one JSON document and nothing
// else.
func oneDocument(ts *testscript.TestScript, _ bool, _ []string) {
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	var v any
	ts.Check(d.Decode(&v))
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		ts.Fatalf("there is more than one document")
	}
}

// ndjson checks that the last command wrote JSON objects, one a line.
func ndjson(ts *testscript.TestScript, _ bool, _ []string) {
	n := 0
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			ts.Fatalf("line %d is no JSON object: %v", n+1, err)
		}
		n++
	}
	if n == 0 {
		ts.Fatalf("there is no line")
	}
}

// plain checks that neither stream of the last command holds a control
// character but line breaks and tabs, or one that reorders text.
func plain(ts *testscript.TestScript, _ bool, _ []string) {
	for _, stream := range []string{"stdout", "stderr"} {
		for _, r := range ts.ReadFile(stream) {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u202e' {
				ts.Fatalf("%s holds the character %U", stream, r)
			}
		}
	}
}

// until runs signalbox until its output holds a text, for at most 20 seconds:
// until TEXT ARG...
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until TEXT ARG...")
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		err := ts.Exec("signalbox", args[1:]...)
		if err == nil && strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("signalbox %s never said %q", strings.Join(args[1:], " "), args[0])
		}
	}
}

// variable sets a variable to a member of the last command's document:
// var NAME MEMBER[.MEMBER...], or to its whole output with -.
func variable(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: var NAME PATH")
	}
	if args[1] == "-" {
		ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
		return
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &v))
	for name := range strings.SplitSeq(args[1], ".") {
		m, ok := v.(map[string]any)
		if !ok {
			ts.Fatalf("there is no %s", args[1])
		}
		v = m[name]
	}
	text, ok := v.(string)
	if !ok {
		ts.Fatalf("%s is no text", args[1])
	}
	ts.Setenv(args[0], text)
}
