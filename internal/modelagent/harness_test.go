package modelagent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// agentMark in the environment turns the test binary into the agent.
const agentMark = "SIGNALBOX_TEST_MODEL_AGENT"

// quickExit keeps the race detector, if it is built in, from holding each
// process for a second at its end.
const quickExit = "GORACE=atexit_sleep_ms=0"

const secret = "sk-canary-5f1d9c2b7a"

// patience is how long a test waits for another process before it fails.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(agentMark) != "" {
		os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
	}
	goleak.VerifyTestMain(m)
}

// process is a running agent.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // closed at the end of stdout
	stderr bytes.Buffer
	exited chan struct{}   // after Wait
	seen   strings.Builder // all of stdout; read after exit
}

// start runs the agent with args. It is ended with the test, and its whole
// output is searched for the secret.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(self, args...), lines: make(chan string, 1<<16), exited: make(chan struct{})}
	p.cmd.Env = append([]string{agentMark + "=1", quickExit}, env...)
	p.cmd.Stderr = &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		r := bufio.NewReader(stdout)
		for {
			line, err := r.ReadString('\n')
			p.seen.WriteString(line)
			if err != nil {
				if line != "" {
					p.lines <- "UNTERMINATED " + line
				}
				break
			}
			p.lines <- line
		}
		close(p.lines)
		_ = p.cmd.Wait() // ProcessState tells how it ended
	}()
	t.Cleanup(func() {
		p.stdin.Close()
		select {
		case <-p.exited:
		case <-time.After(patience):
			_ = p.cmd.Process.Kill()
			<-p.exited
			t.Error("the agent did not end after its stdin was closed")
		}
		for name, text := range map[string]string{"stdout": p.seen.String(), "stderr": p.stderr.String()} {
			if strings.Contains(text, secret) {
				t.Errorf("the credential is on %s", name)
			}
		}
	})
	return p
}

// against starts the agent with a credential against the API at url.
func against(t *testing.T, name api, url string, args ...string) *process {
	t.Helper()
	return start(t, []string{"MODEL_API_KEY=" + secret},
		append([]string{"--api", string(name), "--base-url", url + "/v1/", "--model", "test-model"}, args...)...)
}

func (p *process) send(frames ...string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, strings.Join(frames, "\n")+"\n"); err != nil {
		p.t.Fatalf("write to the agent: %v", err)
	}
}

// message is what the agent sends.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  struct {
		SessionID string `json:"sessionId"`
		Update    struct {
			SessionUpdate string `json:"sessionUpdate"`
			Content       struct{ Type, Text string }
		}
	}
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int
		Message string
		Data    struct{ Kind string }
	}
}

// line gives the next line of the agent as it is, "" at the end of stdout.
func (p *process) line() string {
	p.t.Helper()
	select {
	case line := <-p.lines:
		return line
	case <-time.After(patience):
		p.t.Fatal("the agent says nothing")
		return ""
	}
}

// next gives the next message.
func (p *process) next() message {
	p.t.Helper()
	line := p.line()
	var m message
	if err := json.Unmarshal([]byte(line), &m); err != nil || m.JSONRPC != "2.0" {
		p.t.Fatalf("not a JSON-RPC 2.0 message: %.200q (%v)", line, err)
	}
	return m
}

// session does initialize and session/new and gives the session's id.
func (p *process) session() string {
	p.t.Helper()
	p.send(initialize, newSession)
	if m := p.next(); m.Error != nil {
		p.t.Fatalf("initialize: %s", m.Error.Message)
	}
	m := p.next()
	var result struct {
		SessionID string `json:"sessionId"`
	}
	if err := json.Unmarshal(m.Result, &result); err != nil || result.SessionID == "" {
		p.t.Fatalf("session/new: %s (%v)", m.Result, err)
	}
	return result.SessionID
}

const (
	initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`
	newSession = `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/nowhere","mcpServers":[]}}`
)

// promptFrame asks with one text block.
func promptFrame(session, text string) string {
	return blocksFrame(session, fmt.Sprintf(`[{"type":"text","text":%s}]`, quote(text)))
}

func blocksFrame(session, blocks string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":%s}}`, session, blocks)
}

func cancelFrame(session string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, session)
}

func quote(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// outcome is how a prompt ended.
type outcome struct {
	Text string
	Stop string // stop reason
	Kind string // of the error
}

// finish reads to the answer of the prompt.
func (p *process) finish() outcome {
	p.t.Helper()
	var o outcome
	for {
		m := p.next()
		if m.Method == "session/update" {
			u := m.Params.Update
			if u.SessionUpdate != "agent_message_chunk" || u.Content.Type != "text" {
				p.t.Fatalf("unexpected update %+v", u)
			}
			if n := len([]rune(u.Content.Text)); n == 0 || n > 2048 {
				p.t.Errorf("an update has %d characters", n)
			}
			o.Text += u.Content.Text
			continue
		}
		if string(m.ID) != "2" {
			p.t.Fatalf("unexpected message with id %s", m.ID)
		}
		if m.Error != nil {
			if m.Error.Message != m.Error.Data.Kind || m.Error.Code != -32000 {
				p.t.Errorf("error %+v: want code -32000 and the kind as message", *m.Error)
			}
			o.Kind = m.Error.Data.Kind
			return o
		}
		var result struct{ StopReason string }
		if err := json.Unmarshal(m.Result, &result); err != nil {
			p.t.Fatal(err)
		}
		o.Stop = result.StopReason
		return o
	}
}

// ask runs one prompt to its end.
func (p *process) ask(text string) outcome {
	p.t.Helper()
	p.send(promptFrame(p.session(), text))
	return p.finish()
}

// wantError reads a protocol error.
func (p *process) wantError(id string, code int, kind string) {
	p.t.Helper()
	m := p.next()
	if m.Error == nil {
		p.t.Fatalf("got result %s, want error %s", m.Result, kind)
	}
	if string(m.ID) != id || m.Error.Code != code || m.Error.Message != kind || m.Error.Data.Kind != kind {
		p.t.Errorf("id %s error %+v, want id %s code %d kind %s", m.ID, *m.Error, id, code, kind)
	}
}

// exit waits for the end and gives the exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatal("the agent does not end")
		return -1
	}
}

// endpointServer is a loopback API that counts its requests.
type endpointServer struct {
	*httptest.Server
	mu       sync.Mutex
	requests []received
}

type received struct {
	Path   string
	Header http.Header
	Body   map[string]any
}

// serveAPI answers each request with handler, after its body was read.
func serveAPI(t *testing.T, handler http.HandlerFunc) *endpointServer {
	t.Helper()
	s := &endpointServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("request body: %v", err)
		}
		s.mu.Lock()
		s.requests = append(s.requests, received{r.URL.Path, r.Header.Clone(), body})
		s.mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	return s
}

func (s *endpointServer) got() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.requests...)
}

// stream answers with an event stream and then closes.
func stream(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, body)
	}
}

// streamAndHold answers with an event stream and keeps it open until the
// client goes away.
func streamAndHold(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		stream(body)(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func document(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// Pieces of streams.
func textDelta(s string) string {
	return fmt.Sprintf("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":%s}\n\n", quote(s))
}

func chatDelta(s string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%s},\"finish_reason\":null}]}\n\n", quote(s))
}

const (
	completed = `data: {"type":"response.completed","response":{"status":"completed","output":[{"type":"message"}]}}` + "\n\n"
	chatStop  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	chatDone  = "data: [DONE]\n\n"
)

// peakMemory is the largest resident size of an ended process, in bytes.
func peakMemory(state *os.ProcessState) int64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		panic(errors.New("no resource usage"))
	}
	if runtime.GOOS == "darwin" { // bytes there, KiB on Linux
		return usage.Maxrss
	}
	return usage.Maxrss << 10
}

// await waits for another process to do something.
func await(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("no %s", what)
	}
}

// listen accepts connections and says nothing on them.
func listen(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var held []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			held = append(held, c)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range held {
			c.Close()
		}
	})
	return l.Addr().String()
}

// unread is an agent in mid-prompt whose stdout is full.
type unread struct {
	t      *testing.T
	stdin  io.WriteCloser
	stdout *bufio.Reader
	id     string // of the session
	waited chan error
}

func startUnread(t *testing.T, url string, args ...string) *unread {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"--base-url", url, "--model", "m", "--max-response-bytes", fmt.Sprint(maxBytes), "--max-output-bytes", fmt.Sprint(maxBytes)}, args...)...)
	cmd.Env = []string{agentMark + "=1", quickExit, "MODEL_API_KEY=" + secret}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	u := &unread{t: t, stdout: bufio.NewReaderSize(r, 4096), waited: make(chan error, 1)}
	if u.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		u.waited <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		r.Close()
	})
	u.send(initialize, newSession)
	line := u.readTo(`"sessionId"`)
	var m struct{ Result struct{ SessionID string } }
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatal(err)
	}
	u.id = m.Result.SessionID
	u.send(promptFrame(u.id, "go"))
	// FIONREAD, the bytes waiting in a pipe, which x/sys names on neither system.
	fionread := uint(0x541b)
	if runtime.GOOS == "darwin" {
		fionread = 0x4004667f
	}
	// Full means: much is in the pipe and it grows no more.
	raw, err := r.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	limit := time.Now().Add(patience)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for last, same := -1, 0; same < 20; {
		if time.Now().After(limit) {
			t.Fatal("stdout does not fill up")
		}
		var held int
		if err := raw.Control(func(fd uintptr) { held, err = unix.IoctlGetInt(int(fd), fionread) }); err != nil {
			t.Fatal(err)
		}
		if same++; held != last || held == 0 {
			last, same = held, 0
		}
		<-poll.C
	}
	return u
}

func (u *unread) send(frames ...string) {
	u.t.Helper()
	if _, err := io.WriteString(u.stdin, strings.Join(frames, "\n")+"\n"); err != nil {
		u.t.Fatal(err)
	}
}

// readTo reads to the first line that holds part and gives it.
func (u *unread) readTo(part string) string {
	u.t.Helper()
	for {
		line, err := u.stdout.ReadString('\n')
		if err != nil {
			u.t.Fatalf("stdout ends before %s: %v", part, err)
		}
		if strings.Contains(line, part) {
			return line
		}
	}
}

func (u *unread) wait() error {
	u.t.Helper()
	select {
	case err := <-u.waited:
		return err
	case <-time.After(patience):
		u.t.Fatal("the agent does not end while its stdout is full")
		return nil
	}
}
