package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"signalbox/internal/api"
	"signalbox/internal/approval"
	"signalbox/internal/artifact"
	"signalbox/internal/certification"
	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/credential/binding"
	"signalbox/internal/directory"
	"signalbox/internal/journal"
	"signalbox/internal/planning"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
	"signalbox/internal/redact"
	"signalbox/internal/sandbox"
	"signalbox/internal/scheduler"
	"signalbox/internal/synthesis"
	"signalbox/internal/testrun"
)

// helper builds the sandbox. The test itself could, but with the race detector
// in it each of a hundred probes would take seconds.
var helper string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "api-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	helper = filepath.Join(dir, "helper")
	build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-o", helper, "../sandbox/stagetest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the helper: %v\n%s", err, out)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// world is an API over a real journal and the real stages; only the agents
// are in memory.
type world struct {
	t        *testing.T
	journal  *journal.Journal
	fake     *providertest.Fake
	store    *artifact.Store
	contents *artifact.Contents
	planning *planning.Planner
	api      *api.API
	url      string
	client   *http.Client
	log      *syncBuffer
	stops    chan bool
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// change lets a test put something else in place of a stage.
type change func(*api.Stages)

func newWorld(t *testing.T, script func(provider.Work) providertest.Script, changes ...change) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, log: &syncBuffer{}, stops: make(chan bool, 1), client: &http.Client{Transport: &http.Transport{}}}
	r := redact.New()
	log := slog.New(slog.NewTextHandler(w.log, nil))
	var err error
	w.journal, err = journal.Open(t.Context(), journal.Options{Dir: dir, Clock: clock.System(), Redact: r.String, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	if w.store, err = artifact.New(filepath.Join(dir, "artifacts"), r.String); err != nil {
		t.Fatal(err)
	}
	if w.contents, err = artifact.NewContents(filepath.Join(dir, "contents")); err != nil {
		t.Fatal(err)
	}
	if script == nil {
		script = providertest.Always(providertest.Answers("done"))
	}
	w.fake = providertest.NewFake(coord.RouteACP, script)
	adapters := map[coord.Route]provider.Adapter{coord.RouteACP: w.fake}
	d := directory.New(w.journal, adapters, directory.Options{Host: "here", Scratch: t.TempDir(), Logger: log})
	loop := scheduler.New(scheduler.Options{
		Journal: w.journal, Adapters: adapters, Store: w.store, Quota: artifact.NewQuota(artifact.DefaultLimits(), 0, nil),
		Redactor: r, Host: "here", Scratch: t.TempDir(), Logger: log, Contents: w.contents,
	})
	w.planning = planning.New(w.journal, d, planning.Options{DataDir: dir})
	box, err := sandbox.New(helper, filepath.Join(dir, "confinement"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	proof := certification.New(certification.Options{
		Journal: w.journal, Box: box, Agents: d, Adapters: adapters, Runners: testrun.New(box, nil, exec.LookPath), Scratch: t.TempDir(), Logger: log,
	})
	secrets := binding.New(map[string]binding.Source{
		"scout": {Env: "SCOUT_TOKEN", Origin: "https://scout.example"},
		"unset": {Env: "UNSET", Origin: "https://unset.example:8443"},
	}, binding.Options{Lookup: func(name string) (string, bool) { return map[string]string{"SCOUT_TOKEN": scoutToken}[name], true }})
	stages := api.Stages{
		Directory: d, Presets: known{}, Planning: w.planning, Approval: approval.New(w.journal, w.contents, loop.AdmitFirst),
		Scheduler: loop, Synthesis: synthesis.New(w.journal, w.store), Doctor: synthesis.NewDoctor(w.journal, w.store, secrets), Bytes: w.store,
		Certification: proof,
		Credentials:   secrets,
	}
	for _, c := range changes {
		c(&stages)
	}
	w.api = api.New(api.Options{
		Journal: w.journal, Stages: stages, Logger: log, Host: "here", Version: "test",
		Stop: func(drain bool, _ coord.Actor) { w.stops <- drain },
	})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.api.ServeHTTP(rw, r.WithContext(api.As(r.Context(), as(coord.Role(r.Header.Get(roleHeader))))))
	}))
	w.url = server.URL
	ctx, stop := context.WithCancelCause(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- loop.Run(ctx) }()
	t.Cleanup(func() {
		w.api.Close()
		w.client.CloseIdleConnections()
		server.Close()
		stop(errors.New("the test is over"))
		if err := <-ran; err != nil {
			t.Errorf("the scheduler: %v", err)
		}
		if err := w.journal.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", w.log)
		}
	})
	return w
}

// scoutToken is the value of a credential, which no answer may hold.
const scoutToken = "scout-value-1234567890"

// known are the presets of these tests.
type known struct{}

func (known) Presets() []directory.Preset { return []directory.Preset{{Name: "one", Title: "One"}} }

func (known) Import(doc []byte) ([]directory.Preset, error) {
	if !bytes.Contains(doc, []byte(`"agents"`)) {
		return nil, coord.Errorf(coord.Invalid, "this is no registry file")
	}
	return []directory.Preset{{Name: "imported", Title: "Imported"}}, nil
}

// roleHeader says with which role a test asks, where the worker would look for
// a credential.
const roleHeader = "Test-Role"

// as is who asks in a test.
func as(role coord.Role) coord.Actor {
	return coord.Actor{Credential: coord.CredentialID("crd_" + string(role)), Name: string(role), Role: role, Door: "api", Presence: "none"}
}

var operator = as(coord.RoleOperator)

// reply is an answer as it came.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

// ask makes a request; headers are name, value pairs.
func (w *world) ask(who coord.Actor, method, path, body string, headers ...string) reply {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set(roleHeader, string(who.Role))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.declared(method, path, res.StatusCode)
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") && nulls.Match(got) {
		w.t.Errorf("%s %s answers with a null, which no schema allows: %s", method, path, got)
	}
	return reply{w.t, res.StatusCode, res.Header, string(got)}
}

// nulls finds a null among the members of an answer.
var nulls = regexp.MustCompile(`(^|[^\\])":null|[\[,]null[\],]`)

// declared demands that the document declares a status of the operation that
// was asked for.
func (w *world) declared(method, path string, status int) {
	w.t.Helper()
	name, _, _ := strings.Cut(path, "?")
	parts := strings.Split(name, "/")
	for at, item := range contract().Paths {
		op, found := item[strings.ToLower(method)]
		fits := slices.EqualFunc(parts, strings.Split(at, "/"), func(part, form string) bool {
			return part == form || strings.HasPrefix(form, "{") && !slices.Contains([]string{"import", "validate"}, part)
		})
		if !found || !fits {
			continue
		}
		if _, ok := op.Responses[strconv.Itoa(status)]; !ok {
			w.t.Errorf("%s %s gave %d, and %s declares %v: see the table of refusals in contract.go", method, path, status, op.ID, slices.Sorted(maps.Keys(op.Responses)))
		}
	}
}

// want checks the status.
func (r reply) want(status int) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	return r
}

// data gives the data of an answer.
func data[T any](r reply) T {
	r.t.Helper()
	var out api.Data[T]
	if err := json.Unmarshal([]byte(r.body), &out); err != nil {
		r.t.Fatalf("%v: %s", err, r.body)
	}
	return out.Data
}

// problem gives a problem and checks that it is one.
func (r reply) problem(code coord.Code) api.Problem {
	r.t.Helper()
	var p api.Problem
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		r.t.Fatalf("%v: %s", err, r.body)
	}
	if p.Code != code || p.Status != r.status || r.header.Get("Content-Type") != "application/problem+json" {
		r.t.Fatalf("status %d, %s, code %s, want %s: %s", r.status, r.header.Get("Content-Type"), p.Code, code, r.body)
	}
	return p
}

// addAgent registers an agent of the fake's.
func (w *world) addAgent(id string) {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	w.ask(operator, http.MethodPost, "/api/agents", `{"id":"`+id+`","route":"acp","executable":"`+self+`"}`).want(http.StatusCreated)
}

// await polls a document until ok says that it is as it should be.
func await[T any](w *world, path string, ok func(T) bool) T {
	w.t.Helper()
	for {
		head := w.journal.Head()
		got := data[T](w.ask(operator, http.MethodGet, path, "").want(http.StatusOK))
		if ok(got) {
			return got
		}
		select {
		case <-w.journal.Changed(head):
		case <-w.t.Context().Done():
			w.t.Fatalf("%s never became as it should: %+v", path, got)
		}
	}
}
