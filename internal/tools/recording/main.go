// Command recording runs the program on a terminal, as a person would, and
// writes what was on the screen as an animated SVG for README.
//
// Nothing of it is staged but the answers: each line is what the program wrote
// and comes when it came. Only the names of temporary folders are replaced.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/creack/pty"
)

const (
	columns = 80
	// typing is how long a person takes for one key, thinking for an answer.
	typing, thinking = 45 * time.Millisecond, 1600 * time.Millisecond
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/tools/recording FILE.svg")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string) (err error) {
	dir, err := os.MkdirTemp("", "recording-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program := filepath.Join(dir, "signalbox")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/signalbox").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	env := []string{"HOME=" + dir, "PATH=" + dir, "TERM=xterm-256color", "SIGNALBOX_DATA=" + filepath.Join(dir, "data")}
	stop, err := serve(ctx, program, dir, env)
	if err != nil {
		return err
	}
	defer stop()
	r := &recorder{replace: strings.NewReplacer(dir, "/home/you/bin")}
	for _, step := range []struct {
		args    []string
		answers []answer
	}{
		{[]string{"run", "--agent", "checker", "Is the line clear?"}, []answer{{"run it? [y/N] ", "y"}, {"allow it once? [y/N] ", "y"}}},
		{[]string{"job", "result", "1"}, nil},
	} {
		if err := r.command(ctx, program, dir, env, step.args, step.answers); err != nil {
			return err
		}
	}
	return os.WriteFile(file, []byte(r.svg()), 0o644) //nolint:gosec // a picture for everybody
}

// serve starts Signalbox, logs in and registers an agent. The function ends it.
func serve(ctx context.Context, program, dir string, env []string) (func(), error) {
	cmd := exec.CommandContext(ctx, program, "serve", "--listen", "0", "--json")
	cmd.Env, cmd.Dir = env, dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // how it ended is of no interest
	}
	var ready struct{ Pair string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	for _, args := range [][]string{{"login", "--file", ready.Pair}, {"agent", "add", "checker", "--", program, "demo-agent"}} {
		if err != nil {
			break
		}
		c := exec.CommandContext(ctx, program, args...)
		c.Env, c.Dir = env, dir
		err = c.Run()
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// answer is what is typed when a question is on the screen.
type answer struct{ question, keys string }

// frame is a piece of text and when it came.
type frame struct {
	at   time.Duration
	text string
}

// recorder keeps frames on one clock.
type recorder struct {
	replace *strings.Replacer
	now     time.Duration
	frames  []frame
}

func (r *recorder) add(after time.Duration, text string) {
	r.now += after
	r.frames = append(r.frames, frame{r.now, r.replace.Replace(text)})
}

// command records one command line with its answers.
func (r *recorder) command(ctx context.Context, program, dir string, env, args []string, answers []answer) error {
	words := []string{"signalbox"}
	for _, a := range args {
		if strings.Contains(a, " ") {
			a = `"` + a + `"`
		}
		words = append(words, a)
	}
	r.add(thinking, "\x1b[1m$\x1b[m ")
	for _, key := range strings.Join(words, " ") {
		r.add(typing, string(key))
	}
	r.add(thinking/2, "\n")
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Dir = env, dir
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: columns})
	if err != nil {
		return err
	}
	defer tty.Close()
	var seen strings.Builder
	b := make([]byte, 64<<10)
	last := time.Now()
	for {
		n, err := tty.Read(b)
		if n > 0 {
			text := strings.ReplaceAll(string(b[:n]), "\r\n", "\n")
			seen.WriteString(text)
			r.add(time.Since(last), text)
		}
		if err != nil {
			break // this is how a terminal ends
		}
		if len(answers) > 0 && strings.HasSuffix(seen.String(), answers[0].question) {
			r.now += thinking
			if _, err := tty.WriteString(answers[0].keys + "\n"); err != nil {
				return err
			}
			answers = answers[1:]
		}
		last = time.Now()
	}
	return cmd.Wait()
}
