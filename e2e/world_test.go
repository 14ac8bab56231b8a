package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/e2e/peers"
	"signalbox/internal/api"
	"signalbox/internal/approval"
	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/daemon"
	"signalbox/internal/modelserver"
)

// patience bounds one test. The longest takes 40 s on an idle machine.
const patience = 5 * time.Minute

// look is how often other processes are looked at.
const look = 20 * time.Millisecond

var (
	errPatience = errors.New("the test did not get what it waited for within its time")
	errSeen     = errors.New("seen")
)

// web makes requests that follow no redirect and no proxy.
var web = &http.Transport{}

// world is one Signalbox with a data directory of its own, and its operator.
type world struct {
	t   *testing.T
	ctx context.Context
	dir string
	// mark is in the environment of every agent of this world.
	mark  string
	env   []string
	stage *stage
	// user runs it, nil for who runs the test.
	user *syscall.Credential

	door   *door
	token  string
	client *client.Client
}

// newWorld starts Signalbox beside that of other tests. env is added to the
// environment of serve.
func newWorld(t *testing.T, env ...string) *world {
	t.Helper()
	t.Parallel()
	return openWorld(t, env...)
}

// openWorld starts Signalbox. env is added to the environment of serve.
func openWorld(t *testing.T, env ...string) *world {
	t.Helper()
	w := emptyWorld(t, env...)
	w.serve()
	w.login()
	return w
}

// emptyWorld is one in which nothing was started yet.
func emptyWorld(t *testing.T, env ...string) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	limit := time.Now().Add(patience)
	if end, ok := t.Deadline(); ok {
		// Time to tell what went wrong.
		if end = end.Add(-20 * time.Second); end.Before(limit) {
			limit = end
		}
	}
	ctx, cancel := context.WithDeadlineCause(t.Context(), limit, errPatience)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, dir: filepath.Join(dir, "data"), mark: "E2E_WORLD=" + filepath.Base(filepath.Dir(dir)) + filepath.Base(dir),
		stage: &stage{prompts: map[string][]string{}, gates: map[string]chan struct{}{}}}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "SIGNALBOX_") {
			w.env = append(w.env, e)
		}
	}
	w.env = append(w.env, env...)
	w.stage.url = listen(t, w.stage)
	t.Cleanup(w.end)
	return w
}

// listen serves a handler on loopback until the test ends.
func listen(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// model starts a scripted model.
func model(t *testing.T, o modelserver.Options) (*modelserver.Server, string) {
	t.Helper()
	m := modelserver.New(o)
	return m, listen(t, m) + "/v1"
}

// pair redeems the pairing link.
func (w *world) pair(link string) {
	w.t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		w.t.Fatal(err)
	}
	status, body := w.do(http.MethodPost, "/pair", `{"code":"`+u.Fragment+`","kind":"token","name":"e2e"}`)
	var out api.Data[daemon.Paired]
	if err := json.Unmarshal(body, &out); err != nil || status != http.StatusOK || out.Data.Token == "" {
		w.t.Fatalf("pairing gives %d (%v)", status, err)
	}
	w.token = out.Data.Token
}

// login makes a client for the present front door.
func (w *world) login() {
	w.t.Helper()
	c, err := client.New(client.Options{URL: w.door.url, Token: w.token})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	w.client = c
}

// end stops what runs, and fails the test when an agent is left.
func (w *world) end() {
	if w.door == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(w.ctx), 90*time.Second, errPatience)
	defer cancel()
	w.ctx = ctx
	if w.t.Failed() {
		w.t.Logf("the log of serve:\n%s", w.log())
	}
	_ = w.door.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-w.door.exited:
	case <-ctx.Done():
		_ = w.door.cmd.Process.Kill()
		w.t.Errorf("serve did not end on SIGTERM\n%s", w.log())
	}
	w.gone()
}

func (w *world) log() string {
	b, err := os.ReadFile(w.door.stderr)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// do makes a request as the operator; headers are name, value pairs.
func (w *world) do(method, path, body string, headers ...string) (int, []byte) {
	w.t.Helper()
	status, answer, err := w.try(method, path, body, headers...)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, answer
}

func (w *world) try(method, path, body string, headers ...string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(w.ctx, method, w.door.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := web.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// cli runs a command of the program as the operator.
func (w *world) cli(args ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.ctx, binary, args...)
	cmd.Env = append(append([]string(nil), w.env...), "SIGNALBOX_DATA="+w.dir, "SIGNALBOX_TOKEN="+w.token)
	cmd.WaitDelay = 5 * time.Second
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("signalbox %v: %v (%v)", args, err, context.Cause(w.ctx))
	}
	return cmd.ProcessState.ExitCode(), out.String(), log.String()
}

// must is the value of a call that may not fail.
func must[T any](w *world, what string) func(T, error) T {
	return func(v T, err error) T {
		w.t.Helper()
		if err != nil {
			w.t.Fatalf("%s: %v\n%s", what, err, w.log())
		}
		return v
	}
}

// add registers an agent and checks that it can be used. Settings that look
// like secrets are none, and go through the environment of serve, which must
// have them before it starts: see opencode.
func (w *world) add(id string, spec peers.Spec) {
	w.t.Helper()
	cfg := coord.AgentConfig{Route: coord.RouteACP, Executable: spec.Executable, Args: spec.Args, Env: map[string]string{}}
	maps.Copy(cfg.Env, spec.Env)
	w.register(id, cfg)
}

func (w *world) register(id string, cfg coord.AgentConfig) {
	w.t.Helper()
	if cfg.Env == nil {
		cfg.Env = map[string]string{}
	}
	name, value, _ := strings.Cut(w.mark, "=")
	cfg.Env[name] = value
	w.reach(id, cfg)
}

// scripted registers a scripted agent; its id on the stage is its id here.
func (w *world) scripted(id, mode string, more ...string) {
	w.t.Helper()
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.register(id, coord.AgentConfig{Route: coord.RouteACP, Executable: self, Args: append([]string{agentWord, mode, id, w.stage.url}, more...)})
}

// run drafts, freezes and approves a plan, and gives the job's number as a
// reference.
func (w *world) run(plan coord.Plan) string {
	w.t.Helper()
	j := must[coord.Job](w, "draft")(w.client.Draft(w.ctx, plan))
	ref := fmt.Sprint(j.Number)
	if j.State != coord.JobDraft {
		w.t.Fatalf("job %s is %s after it was drafted", ref, j.State)
	}
	j = must[coord.Job](w, "freeze")(w.client.Freeze(w.ctx, ref))
	if j.Frozen == nil || len(j.Frozen.Tasks) != len(plan.Tasks) {
		w.t.Fatalf("job %s is not frozen: %+v", ref, j.Frozen)
	}
	j = must[coord.Job](w, "run")(w.client.Run(w.ctx, ref, j.Frozen.Digest))
	if j.Grant == nil || j.Grant.Digest != j.Frozen.Digest || j.Grant.By.Role != coord.RoleOperator {
		w.t.Fatalf("job %s has the grant %+v", ref, j.Grant)
	}
	return ref
}

// task is one task of a plan.
func task(key, agent, instruction string, needs ...string) coord.PlanTask {
	return coord.PlanTask{Key: key, Agent: coord.AgentID(agent), Instruction: instruction, Needs: needs}
}

func plan(tasks ...coord.PlanTask) coord.Plan {
	return coord.Plan{Title: "acceptance", Deadline: coord.Duration(20 * time.Minute), Tasks: tasks}
}

// when waits, by the events, until ok.
func (w *world) when(what string, ok func() bool) {
	w.t.Helper()
	cursor := must[string](w, "the present cursor")(w.client.Now(w.ctx))
	if ok() {
		return
	}
	err := w.client.Follow(w.ctx, client.Filter{After: cursor}, func(coord.Event) error {
		if ok() {
			return errSeen
		}
		return nil
	})
	if !errors.Is(err, errSeen) {
		w.t.Fatalf("waiting for %s: %v\n%s", what, err, w.log())
	}
}

// poll waits for other processes.
func (w *world) poll(what string, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			w.t.Fatalf("waiting until %s: %v\n%s", what, context.Cause(w.ctx), w.log())
		}
	}
}

// left gives the processes of this world's agents.
func (w *world) left() []int {
	w.t.Helper()
	pids, err := carrying("SIGNALBOX_PROCESS=", w.mark)
	if err != nil {
		w.t.Fatal(err)
	}
	return pids
}

// gone waits until no agent of this world is left.
func (w *world) gone() {
	w.t.Helper()
	w.poll("no process of an agent is left", func() bool { return len(w.left()) == 0 })
}

func (w *world) job(ref string) coord.Job {
	w.t.Helper()
	return must[coord.Job](w, "job")(w.client.Job(w.ctx, ref))
}

func (w *world) task(ref, key string) coord.Task {
	w.t.Helper()
	for _, t := range must[[]coord.Task](w, "tasks")(w.client.Tasks(w.ctx, ref)) {
		if t.Key == key {
			return t
		}
	}
	w.t.Fatalf("job %s has no task %s", ref, key)
	return coord.Task{}
}

// expect checks the states of tasks, as key:state words.
func (w *world) expect(ref, want string) {
	w.t.Helper()
	var got []string
	for _, t := range must[[]coord.Task](w, "tasks")(w.client.Tasks(w.ctx, ref)) {
		got = append(got, t.Key+":"+string(t.State))
	}
	if have := strings.Join(got, " "); have != want {
		w.t.Errorf("job %s has the tasks %s, want %s", ref, have, want)
	}
}

func (w *world) attempt(ref, key string) coord.Attempt {
	w.t.Helper()
	return must[coord.Attempt](w, "attempt")(w.client.Attempt(w.ctx, ref+"/"+key))
}

// reaches waits until a task is in a state.
func (w *world) reaches(ref, key string, state coord.TaskState) {
	w.t.Helper()
	w.when(fmt.Sprintf("task %s/%s to be %s", ref, key, state), func() bool { return w.task(ref, key).State == state })
}

// settles waits until nothing of a job can move, and checks what it came to.
func (w *world) settles(ref string, state coord.JobState) {
	w.t.Helper()
	w.when("job "+ref+" to settle", func() bool { return w.job(ref).State != coord.JobRunning })
	if got := w.job(ref).State; got != state {
		result := must[coord.Result](w, "result")(w.client.Result(w.ctx, ref))
		w.t.Fatalf("job %s is %s, want %s: %+v\n%s", ref, got, state, result.Tasks, w.log())
	}
}

// asked waits for the open request of a task.
func (w *world) asked(ref, key string) coord.Request {
	w.t.Helper()
	var found coord.Request
	w.when("a request of "+ref+"/"+key, func() bool {
		open := must[api.Inbox](w, "inbox")(w.client.Inbox(w.ctx)).Requests
		id := w.job(ref).ID
		for _, r := range open {
			if r.Job == id && r.Key == key {
				found = r
				return true
			}
		}
		return false
	})
	if found.Digest != found.ComputeDigest() {
		w.t.Errorf("request r%d has the digest %s over other content", found.Number, found.Digest)
	}
	return found
}

// decide decides a request as it was shown.
func (w *world) decide(r coord.Request, on coord.DecisionEvent, option string) {
	w.t.Helper()
	must[coord.Request](w, "decide")(w.client.Decide(w.ctx, string(r.ID), approval.Decision{Decision: on, Option: option, Digest: r.Digest}))
}
