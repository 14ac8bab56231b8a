package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"signalbox/internal/client"
	"signalbox/internal/coord"
)

// loopback makes requests that no proxy and no redirect leads elsewhere.
var loopback = &http.Client{
	Transport:     &http.Transport{},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       time.Minute,
}

// world is one running signalbox serve, and its operator.
type world struct {
	*client.Client
	cmd *exec.Cmd
	log bytes.Buffer
	// ready is how long the start took, up to the line that tells the address.
	ready        time.Duration
	door, worker int // process ids
	agent        string
}

// start starts serve on a data directory and signs in.
func (b *bench) start(ctx context.Context, dir string) (_ *world, err error) {
	w := &world{agent: b.agent}
	w.cmd = exec.CommandContext(ctx, b.program, "serve", "--listen", "0", "--data", dir, "--json")
	w.cmd.Cancel = func() error { return w.cmd.Process.Signal(syscall.SIGTERM) }
	w.cmd.WaitDelay = time.Minute
	w.cmd.Stderr = &w.log
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "SIGNALBOX_") {
			w.cmd.Env = append(w.cmd.Env, e)
		}
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	w.ready = time.Since(begun)
	if err == nil {
		err = w.pair(ctx, line)
	}
	if err == nil {
		w.door = w.cmd.Process.Pid
		w.worker, err = child(w.door)
	}
	if err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return w, nil
}

// pair redeems the pairing link of serve's first line.
func (w *world) pair(ctx context.Context, line []byte) error {
	var ready struct{ URL, Pair string }
	if err := json.Unmarshal(line, &ready); err != nil {
		return err
	}
	link, err := url.Parse(ready.Pair)
	if err != nil {
		return err
	}
	body := `{"code":"` + link.Fragment + `","kind":"token","name":"bench"}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, ready.URL+"/pair", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := loopback.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var paired struct{ Data struct{ Token string } }
	if err := json.NewDecoder(res.Body).Decode(&paired); err != nil {
		return err
	}
	w.Client, err = client.New(client.Options{URL: ready.URL, Token: paired.Data.Token})
	return err
}

// stop ends serve. What it logged is told when it did not end well.
func (w *world) stop() error {
	if w.Client != nil {
		w.Close()
	}
	_ = w.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("serve ended with %w: %s", err, w.log.Bytes())
	}
	return nil
}

// add registers the agent in a mode.
func (w *world) add(ctx context.Context, b *bench, id string, args ...string) error {
	if _, err := w.AddAgent(ctx, id, coord.AgentConfig{Route: coord.RouteACP, Executable: b.agent, Args: args}); err != nil {
		return err
	}
	_, err := w.InspectAgent(ctx, id)
	return err
}

// frozen makes a job of one task that is ready to be run.
func (w *world) frozen(ctx context.Context, agent string) (ref, digest string, err error) {
	j, err := w.Draft(ctx, coord.Plan{Title: "Measure", Tasks: []coord.PlanTask{{Key: "main", Agent: coord.AgentID(agent), Instruction: "Do nothing."}}})
	if err != nil {
		return "", "", err
	}
	ref = strconv.FormatInt(j.Number, 10)
	if j, err = w.Freeze(ctx, ref); err != nil {
		return "", "", err
	}
	return ref, j.Frozen.Digest, nil
}

// errEnough ends the following of events.
var errEnough = errors.New("enough was seen")

// finished waits until a job has ended, and gives what its agent said.
func (w *world) finished(ctx context.Context, ref, after string) (string, error) {
	err := w.Follow(ctx, client.Filter{Job: ref, Kinds: []coord.EventKind{coord.JobChanged}, After: after}, func(e coord.Event) error {
		var job struct{ State coord.JobState }
		if err := json.Unmarshal(e.Data, &job); err != nil {
			return err
		}
		if job.State == coord.JobCompleted {
			return errEnough
		}
		if job.State != coord.JobRunning {
			return fmt.Errorf("job %s is %s", ref, job.State)
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		return "", err
	}
	a, err := w.Attempt(ctx, ref+"/main")
	if err != nil {
		return "", err
	}
	if a.Statement == nil {
		return "", fmt.Errorf("job %s ended without a statement", ref)
	}
	return a.Statement.Text, nil
}

// piped is a started program with its two ends.
type piped struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	at  time.Time // when it was started
}

func pipe(ctx context.Context, name string, args ...string) (*piped, error) {
	p := &piped{cmd: exec.CommandContext(ctx, name, args...)}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReaderSize(out, 64<<10)
	p.at = time.Now()
	return p, p.cmd.Start()
}

// ask writes a line and reads one.
func (p *piped) ask(line string) ([]byte, error) {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return nil, err
	}
	return p.out.ReadSlice('\n')
}

// end closes the input and awaits the program.
func (p *piped) end() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// The requests that open a session and begin a turn.
const (
	askInitialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientInfo":{"name":"bench","version":"1"}}}`
	askNew        = `{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`
)

func askPrompt(session string) string {
	return `{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":` + strconv.Quote(session) + `,"prompt":[{"type":"text","text":"Go."}]}}`
}
