package peers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/e2e/peers"
)

// errSilent is the cause when a peer did not do its part in time. OpenCode
// needs up to 9 s to start on an idle machine, and 30 s on a busy one.
var errSilent = errors.New("the peer did not answer within 180 s")

// wire is the least that speaks with an agent: one frame out, frames in. It
// is not our connection, so that these tests judge the peers alone.
type wire struct {
	t    *testing.T
	dir  string // of the session
	in   io.Writer
	out  *bufio.Scanner
	text strings.Builder
}

type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Update struct {
			Kind    string          `json:"sessionUpdate"`
			Content json.RawMessage `json:"content"`
		} `json:"update"`
		Options []struct {
			OptionID string `json:"optionId"`
			Kind     string `json:"kind"`
		} `json:"options"`
	} `json:"params"`
	Result struct {
		ProtocolVersion int    `json:"protocolVersion"`
		SessionID       string `json:"sessionId"`
		StopReason      string `json:"stopReason"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}

// start runs an agent in a process group of its own and ends the whole group
// with the test.
func start(t *testing.T, spec peers.Spec) *wire {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 180*time.Second, errSilent)
	t.Cleanup(cancel)
	cmd := spec.Command(ctx)
	cmd.Dir = t.TempDir()
	group(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 1<<20)
	return &wire{t: t, dir: cmd.Dir, in: in, out: scanner}
}

// group makes cmd the leader of a process group that dies with its context.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
}

func (w *wire) send(text string) {
	w.t.Helper()
	if _, err := io.WriteString(w.in, text+"\n"); err != nil {
		w.t.Fatalf("write to the agent: %v", err)
	}
}

// next gives the next frame, after it collected the text of a message chunk.
func (w *wire) next() frame {
	w.t.Helper()
	if !w.out.Scan() {
		w.t.Fatalf("the agent ended its output: %v", w.out.Err())
	}
	var f frame
	if err := json.Unmarshal(w.out.Bytes(), &f); err != nil {
		w.t.Fatalf("frame that is not JSON: %v", err)
	}
	if f.Params.Update.Kind == "agent_message_chunk" {
		var content struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(f.Params.Update.Content, &content); err != nil {
			w.t.Fatalf("message chunk without content: %v", err)
		}
		w.text.WriteString(content.Text)
	}
	return f
}

// answer reads until the response to id, which must not be an error.
func (w *wire) answer(id string) frame {
	w.t.Helper()
	for {
		f := w.next()
		if string(f.ID) != id || f.Method != "" {
			continue
		}
		if f.Error != nil {
			w.t.Fatalf("the answer to request %s is an error: %s", id, f.Error)
		}
		return f
	}
}

// open starts a session and gives its id.
func (w *wire) open() string {
	w.t.Helper()
	w.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`)
	if got := w.answer("0").Result.ProtocolVersion; got != 1 {
		w.t.Fatalf("protocol version %d, want 1", got)
	}
	w.send(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":` + encode(w.dir) + `,"mcpServers":[]}}`)
	id := w.answer("1").Result.SessionID
	if id == "" {
		w.t.Fatal("session/new gave no session id")
	}
	return id
}

func (w *wire) prompt(session, text string) {
	w.t.Helper()
	w.send(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":` + encode(session) +
		`,"prompt":[{"type":"text","text":` + encode(text) + `}]}}`)
}

// permission reads until the agent asks for one, checks that it offers both
// answers, and picks the option of the given kind.
func (w *wire) permission(kind string) {
	w.t.Helper()
	for {
		f := w.next()
		if f.Method != "session/request_permission" {
			continue
		}
		for _, option := range f.Params.Options {
			if option.Kind == kind {
				w.send(`{"jsonrpc":"2.0","id":` + string(f.ID) +
					`,"result":{"outcome":{"outcome":"selected","optionId":` + encode(option.OptionID) + `}}}`)
				return
			}
		}
		w.t.Fatalf("no option of kind %s among %v", kind, f.Params.Options)
	}
}

func encode(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestAgentsOpenASession(t *testing.T) {
	for name, spec := range map[string]func(t *testing.T) peers.Spec{
		"OpenCode":          func(t *testing.T) peers.Spec { return peers.OpenCode(t, "http://127.0.0.1:1/v1") },
		"SDK example agent": func(t *testing.T) peers.Spec { return peers.SDKExampleAgent(t) },
		"Go SDK agent":      func(t *testing.T) peers.Spec { return peers.GoSDKAgent(t) },
	} {
		t.Run(name, func(t *testing.T) { start(t, spec(t)).open() })
	}
}

// model is a chat-completions API that asks for one shell command when it is
// offered tools, and otherwise, or when the command ran, says "hello from the
// model".
func model(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Tools    []any `json:"tools"`
			Messages []struct {
				Role string `json:"role"`
			} `json:"messages"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/v1/chat/completions" {
			http.Error(w, "unexpected request", http.StatusBadRequest)
			return
		}
		delta, finish := `{"role":"assistant","content":"hello from the model"}`, "stop"
		if len(body.Tools) > 0 && body.Messages[len(body.Messages)-1].Role != "tool" {
			delta, finish = `{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":`+
				`{"name":"bash","arguments":"{\"command\":\"touch made\",\"description\":\"make a file\"}"}}]}`, "tool_calls"
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, choice := range []string{
			`{"index":0,"delta":` + delta + `,"finish_reason":null}`,
			`{"index":0,"delta":{},"finish_reason":"` + finish + `"}`,
		} {
			_, _ = io.WriteString(w, `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"mock-model","choices":[`+choice+"]}\n\n")
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

func TestOpenCodeRunsACommandOnlyWhenAllowed(t *testing.T) {
	for _, c := range []struct {
		kind, text string
		made       bool
	}{
		{kind: "allow_once", text: "hello from the model", made: true},
		// Rejected, it ends the turn without another word of the model.
		{kind: "reject_once"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			w := start(t, peers.OpenCode(t, model(t)))
			w.prompt(w.open(), "make a file")
			w.permission(c.kind)
			if got := w.answer("2").Result.StopReason; got != "end_turn" {
				t.Errorf("stop reason %q, want end_turn", got)
			}
			if got := w.text.String(); got != c.text {
				t.Errorf("text %q, want %q", got, c.text)
			}
			_, err := os.Stat(filepath.Join(w.dir, "made"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if made := err == nil; made != c.made {
				t.Errorf("the command ran: %v, want %v", made, c.made)
			}
		})
	}
}

func TestExampleAgentAsksAndEndsItsTurn(t *testing.T) {
	w := start(t, peers.SDKExampleAgent(t))
	w.prompt(w.open(), "hello")
	w.permission("reject_once")
	if got := w.answer("2").Result.StopReason; got != "end_turn" {
		t.Errorf("stop reason %q, want end_turn", got)
	}
	if got := w.text.String(); !strings.Contains(got, "skip the configuration update") {
		t.Errorf("the rejection is not in the text: %q", got)
	}
}

func TestGoSDKAgentEchoes(t *testing.T) {
	for name, c := range map[string]struct{ prompt, kind, want string }{
		"without asking":    {"a sentence of several chunks", "", "a sentence of several chunks"},
		"after it may":      {"ask me first", "allow_once", "ask me first"},
		"not when rejected": {"ask me first", "reject_once", "declined"},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, peers.GoSDKAgent(t))
			w.prompt(w.open(), c.prompt)
			if c.kind != "" {
				w.permission(c.kind)
			}
			if got := w.answer("2").Result.StopReason; got != "end_turn" {
				t.Errorf("stop reason %q, want end_turn", got)
			}
			if got := w.text.String(); got != c.want {
				t.Errorf("text %q, want %q", got, c.want)
			}
		})
	}
}

func TestGoSDKAgentConfirmsACancel(t *testing.T) {
	w := start(t, peers.GoSDKAgent(t))
	session := w.open()
	w.prompt(session, "wait for it")
	for w.text.String() != "waiting" {
		w.next()
	}
	w.send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":` + encode(session) + `}}`)
	if got := w.answer("2").Result.StopReason; got != "cancelled" {
		t.Errorf("stop reason %q, want cancelled", got)
	}
}

func TestClientsCompleteATurn(t *testing.T) {
	for name, c := range map[string]struct {
		spec func(t *testing.T) peers.Spec
		want []string
	}{
		"SDK example client": {
			func(t *testing.T) peers.Spec { return peers.SDKExampleClient(t, peers.GoSDKAgent(t)) },
			[]string{"Connected to agent (protocol v1)", "Hello, a", "gent!", "Agent completed with: end_turn"},
		},
		"acpx": {
			func(t *testing.T) peers.Spec {
				return peers.ACPX(t, peers.GoSDKAgent(t), "it's a $HOME 'quoted' prompt")
			},
			[]string{`"text":"it's a $"`, `"text":"ompt"`, `"stopReason":"end_turn"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 180*time.Second, errSilent)
			defer cancel()
			cmd := c.spec(t).Command(ctx)
			cmd.Dir = t.TempDir()
			group(cmd)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v (%v)\n%s", err, context.Cause(ctx), out)
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("%q is not in the output:\n%s", want, out)
				}
			}
		})
	}
}
