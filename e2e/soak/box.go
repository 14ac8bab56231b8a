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
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"signalbox/e2e/rogue"
	"signalbox/internal/api"
	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/daemon"
)

// look is how often other processes are looked at.
const look = 50 * time.Millisecond

// box is one Signalbox with its agents and its operator.
type box struct {
	seed             uint64
	home, data, temp string
	mark             string // in the environment of every agent
	log              *os.File
	serve            *exec.Cmd
	exited           chan struct{}
	url, token       string
	client           *client.Client
	director         *rogue.Director
	stage            *httptest.Server
	began            time.Time

	mu     sync.Mutex
	faults []string
	counts map[string]int
	asked  map[string]int // prompts by the task's mark
}

func (s *box) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

func (s *box) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// open starts Signalbox on a data directory of its own.
func open(ctx context.Context, binary string, seed uint64) (*box, error) {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "signalbox-soak-")
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	if err != nil {
		return nil, err
	}
	s := &box{seed: seed, home: home, data: filepath.Join(home, "data"), temp: filepath.Join(home, "temp"), mark: "SOAK=" + filepath.Base(home),
		exited: make(chan struct{}), director: rogue.New(), counts: map[string]int{}, asked: map[string]int{}, began: time.Now()}
	if err := os.Mkdir(s.temp, 0o700); err != nil {
		return nil, err
	}
	s.director.Turn = s.turn
	s.stage = httptest.NewServer(s.director)
	if s.log, err = os.Create(filepath.Join(home, "serve.log")); err != nil {
		return nil, err
	}
	// It is ended in order by stopAll and close, not by the context.
	s.serve = exec.CommandContext(context.WithoutCancel(ctx), binary, "serve", "--listen", "0", "--data", s.data, "--json")
	s.serve.Env = append(os.Environ(), "TMPDIR="+s.temp)
	s.serve.Stderr = s.log
	s.serve.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := s.serve.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.serve.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var ready struct{ URL, Pair string }
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	go func() {
		_, _ = io.Copy(io.Discard, out) // whatever comes, Wait is to come after it
		_ = s.serve.Wait()              // ProcessState tells
		close(s.exited)
	}()
	if err == nil {
		s.url = ready.URL
		err = s.pair(ctx, ready.Pair)
	}
	if err != nil {
		s.close(true)
		return nil, fmt.Errorf("serve is not ready, see %s: %w", s.log.Name(), err)
	}
	return s, nil
}

func (s *box) pair(ctx context.Context, link string) error {
	u, err := url.Parse(link)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/pair", strings.NewReader(`{"code":"`+u.Fragment+`","kind":"token","name":"soak"}`))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var out api.Data[daemon.Paired]
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		return err
	}
	s.token = out.Data.Token
	s.client, err = client.New(client.Options{URL: s.url, Token: s.token})
	return err
}

// agents is how many there are; one works at one task at a time.
const agents = 8

func agentName(i int) string { return fmt.Sprintf("agent-%d", i) }

// cast registers the agents.
func (s *box) cast(ctx context.Context) error {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return err
	}
	name, value, _ := strings.Cut(s.mark, "=")
	for i := range agents {
		id := agentName(i)
		cfg := coord.AgentConfig{Route: coord.RouteACP, Executable: self, Args: []string{rogue.Word, id, s.stage.URL}, Env: map[string]string{name: value}}
		if _, err := s.client.AddAgent(ctx, id, cfg); err != nil {
			return err
		}
		a, err := s.client.InspectAgent(ctx, id)
		if err != nil {
			return err
		}
		if a.Inspection == nil || a.Inspection.Problem != "" {
			return fmt.Errorf("%s cannot be used: %+v", id, a.Inspection)
		}
	}
	return nil
}

// end ends the worker with a signal and waits until the next one answers.
func (s *box) end(ctx context.Context, sig syscall.Signal) error {
	before, err := s.client.Status(ctx)
	if err != nil {
		return err
	}
	if err := syscall.Kill(before.PID, sig); err != nil {
		return err
	}
	return s.until(ctx, func() (bool, error) {
		now, err := s.client.Status(ctx)
		return err == nil && now.Generation > before.Generation, nil
	})
}

// until polls other processes.
func (s *box) until(ctx context.Context, ok func() (bool, error)) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		done, err := ok()
		if done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return fmt.Errorf("serve ended, see %s", s.log.Name())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// left gives what is there while something runs: the processes of agents, by the
// mark in their environment, and what lies in the folders for their work.
func (s *box) left() ([]string, error) {
	names, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		block, err := os.ReadFile(name)
		if err == nil && bytes.Contains(append([]byte{0}, block...), append([]byte{0}, s.mark...)) {
			out = append(out, filepath.Dir(name))
		}
	}
	for _, dir := range []string{filepath.Join(s.data, "scratch"), s.temp} {
		inside, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range inside {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, nil
}

// stopAll ends serve in order, and looks at what it leaves behind.
func (s *box) stopAll(ctx context.Context) {
	_ = s.serve.Process.Signal(syscall.SIGTERM) // if it ended already, that is seen below
	select {
	case <-s.exited:
	case <-ctx.Done():
		s.fault("serve did not end on SIGTERM")
		return
	}
	if code := s.serve.ProcessState.ExitCode(); code != 0 {
		s.fault("serve ended with %d", code)
	}
	s.files()
}

// close ends what a failed run left, and removes its files.
func (s *box) close(keep bool) {
	if s.serve.Process != nil {
		_ = s.serve.Process.Kill() // most often it ended long ago
		<-s.exited
	}
	if s.client != nil {
		s.client.Close()
	}
	s.stage.CloseClientConnections()
	s.stage.Close()
	err := s.log.Close()
	if keep || len(s.faults) > 0 {
		fmt.Println("the data and the log are in", s.home)
	} else {
		err = errors.Join(err, os.RemoveAll(s.home))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
}
