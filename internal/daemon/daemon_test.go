package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signalbox/internal/api"
	"signalbox/internal/approval"
	"signalbox/internal/artifact"
	"signalbox/internal/coord"
	"signalbox/internal/credential/binding"
	"signalbox/internal/daemon"
	"signalbox/internal/directory"
	"signalbox/internal/planning"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
	"signalbox/internal/scheduler"
)

// This test program is the worker, and the front door that is killed, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case "worker":
			for _, e := range os.Environ() {
				if strings.HasPrefix(e, "SIGNALBOX_") {
					fmt.Fprintln(os.Stderr, "inherited", e)
				}
			}
			os.Exit(exit(daemon.Worker(context.Background(), daemon.WorkerOptions{Dir: os.Args[2], Version: "test", Build: build, Stderr: os.Stderr})))
		case "serve":
			os.Exit(exit(daemon.Serve(context.Background(), options(os.Args[2], os.Stderr, func(p daemon.Place, l daemon.Link) {
				fmt.Println(l.URL)
			}))))
		}
	}
	goleak.VerifyTestMain(m)
}

func exit(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func build(_ context.Context, g daemon.Ground) (daemon.Parts, error) {
	adapters := map[coord.Route]provider.Adapter{coord.RouteACP: providertest.NewFake(coord.RouteACP, work)}
	store, err := artifact.New(filepath.Join(g.Dir, "artifacts"), g.Redactor.String)
	if err != nil {
		return daemon.Parts{}, err
	}
	loop := scheduler.New(scheduler.Options{
		Journal: g.Journal, Adapters: adapters, Store: store, Quota: artifact.NewQuota(artifact.DefaultLimits(), 0, nil), Redactor: g.Redactor, Host: g.Host,
		Scratch: g.Dir, Logger: g.Logger,
	})
	agents := directory.New(g.Journal, directory.Adapters(adapters), directory.Options{Host: g.Host, Scratch: g.Dir, Logger: g.Logger})
	return daemon.Parts{
		Close: func() {},
		Stages: api.Stages{
			Credentials: binding.New(nil, binding.Options{}),
			Directory:   agents, Scheduler: loop, Bytes: store,
			Planning: planning.New(g.Journal, agents, planning.Options{}), Approval: approval.New(g.Journal, nil, loop.AdmitFirst),
		},
		Loop: loop,
	}, nil
}

// forLong is in the instruction of work that does not end by itself.
const forLong = "for long"

// work is done for a moment or for long; the agent says when it has begun.
func work(w provider.Work) providertest.Script {
	span := time.Second
	if strings.Contains(w.Prompt, forLong) {
		span = time.Hour
	}
	return providertest.Script{Steps: []providertest.Step{
		{Do: providertest.Say, Text: "begun"},
		{Do: providertest.Say, Text: " and done", After: span},
		{Do: providertest.End, State: coord.AttemptCompleted},
	}}
}

func options(dir string, stderr io.Writer, ready func(daemon.Place, daemon.Link)) daemon.ServeOptions {
	return daemon.ServeOptions{
		Dir: dir, Listen: "0", Worker: []string{"worker", dir}, Version: "test",
		Logger: slog.New(slog.NewTextHandler(stderr, nil)), Stderr: stderr, Ready: ready,
	}
}

// transport is the clients' side of these tests.
var transport = &http.Transport{}

// served is a running front door in this process, with its worker in another.
type served struct {
	t     testing.TB
	dir   string
	place daemon.Place
	link  string
	token string
	end   context.CancelCauseFunc
	done  chan error
	log   *log
}

// log collects what processes write to their stderr.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func serve(t testing.TB) *served {
	t.Helper()
	s := &served{t: t, dir: t.TempDir(), done: make(chan error, 1), log: &log{}}
	s.start()
	s.token = s.pairToken()
	return s
}

// start opens the front door on s.dir and waits until it is ready.
func (s *served) start() {
	t := s.t
	t.Helper()
	ctx, end := context.WithCancelCause(context.Background())
	s.end = end
	ready := make(chan struct{})
	go func() {
		s.done <- daemon.Serve(ctx, options(s.dir, s.log, func(p daemon.Place, l daemon.Link) {
			s.place, s.link = p, l.URL
			close(ready)
		}))
	}()
	select {
	case <-ready:
	case err := <-s.done:
		t.Fatalf("serve ended: %v\n%s", err, s.log)
	case <-time.After(20 * time.Second):
		t.Fatalf("serve is not ready\n%s", s.log)
	}
	t.Cleanup(func() {
		end(errors.New("the test is over"))
		if err := <-s.done; err != nil {
			t.Errorf("serve ended with: %v\n%s", err, s.log)
		}

		transport.CloseIdleConnections()
		if t.Failed() {
			t.Logf("log:\n%s", s.log)
		}
	})
}

// wait gives the error with which serve ended.
func (s *served) wait() error {
	s.t.Helper()
	select {
	case err := <-s.done:
		s.done <- err
		return err
	case <-time.After(60 * time.Second):
		s.t.Fatalf("serve did not end\n%s", s.log)
	}
	return nil
}

func (s *served) code() string { _, code, _ := strings.Cut(s.link, "#"); return code }

func (s *served) pairToken() string {
	s.t.Helper()
	res := s.do(http.MethodPost, "/pair", `{"code":"`+s.code()+`","kind":"token","name":"test"}`, nil)
	var out api.Data[daemon.Paired]
	decode(s.t, res, http.StatusOK, &out)
	return out.Data.Token
}

// do makes a request; headers are name, value pairs.
func (s *served) do(method, path, body string, headers map[string]string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.place.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	for name, value := range headers {
		if name == "Host" {
			req.Host = value
		} else if value == "" {
			req.Header.Del(name)
		} else {
			req.Header.Set(name, value)
		}
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v\n%s", method, path, err, s.log)
	}
	return res
}

func decode(t testing.TB, res *http.Response, status int, into any) {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != status {
		t.Fatalf("status %d, want %d: %s", res.StatusCode, status, body)
	}
	if into != nil {
		if err := json.Unmarshal(body, into); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
	}
}

func (s *served) status() api.Status {
	s.t.Helper()
	var out api.Data[api.Status]
	decode(s.t, s.do(http.MethodGet, "/api/status", "", nil), http.StatusOK, &out)
	return out.Data
}

func TestStatusComesThroughTheDoorWithAToken(t *testing.T) {
	s := serve(t)
	got := s.status()
	if got.Version != "test" || got.Generation != 1 || got.Head < 1 {
		t.Errorf("status %+v", got)
	}
}

func TestEventsComeThroughTheDoor(t *testing.T) {
	s := serve(t)
	res := s.do(http.MethodGet, "/api/events?after=0", "", nil)
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			if !strings.Contains(lines.Text(), `"worker.started"`) {
				t.Errorf("first event: %s", lines.Text())
			}
			return
		}
	}
	t.Fatalf("no event: %v", lines.Err())
}
