package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"signalbox/e2e/acpframe"
	"signalbox/internal/redact/redacttest"
)

// The words that make this test program the scripted agent, or the process that
// it leaves behind.
const (
	agentWord = "scripted-agent"
	childWord = "scripted-child"
)

// outlive bounds how long a process that nobody ends stays.
const outlive = 10 * time.Minute

// leakEnv is the variable by which the agent gets a secret of the worker's.
const leakEnv = "LEAK_VALUE"

// script is the scripted agent: an ACP agent of one session and one turn.
//
//	scripted-agent MODE ID CONTROL [stubborn]
//
// It tells the stage at CONTROL of each prompt. A stubborn one leaves a child
// in a session of its own at its first prompt, and ends neither at the end of
// its input nor at SIGTERM.
type script struct {
	mode, id, control string
	stubborn          bool

	mu     sync.Mutex
	out    *json.Encoder
	stop   chan struct{}
	once   sync.Once
	answer chan string
}

type object = map[string]any

func agentMain(args []string) int {
	if len(args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: "+agentWord+" MODE ID CONTROL [stubborn]")
		return 2
	}
	s := &script{mode: args[0], id: args[1], control: args[2], stubborn: len(args) > 3,
		out: json.NewEncoder(os.Stdout), stop: make(chan struct{}), answer: make(chan string, 1)}
	in := acpframe.New(os.Stdin)
	prompted := false
	for {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 1
		}
		switch f.Method {
		case "initialize":
			s.reply(f.ID, s.hello())
		case "session/new":
			s.reply(f.ID, object{"sessionId": "session-of-" + s.id})
		case "session/prompt":
			prompted = true
			go s.turn(f.ID, f.Params.Prompt[0].Text)
		case "session/cancel":
			s.once.Do(func() { close(s.stop) })
		case "":
			s.answer <- f.Result.Outcome.OptionID
		}
	}
	if prompted && s.stubborn {
		<-time.After(outlive)
	}
	return 0
}

// childMain is a process that ends only when it is killed.
func childMain() int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	<-time.After(outlive)
	return 0
}

func (s *script) hello() object {
	version := "1"
	if s.mode == "leak" {
		version = secrets()[0]
	}
	return object{"protocolVersion": 1, "agentCapabilities": object{}, "agentInfo": object{"name": "scripted", "version": version}, "authMethods": []any{}}
}

func (s *script) turn(id json.RawMessage, prompt string) {
	if s.stubborn {
		s.dig()
	}
	res, err := http.DefaultTransport.RoundTrip(s.request(http.MethodPost, "/prompt/", prompt))
	if err != nil {
		fmt.Fprintln(os.Stderr, "the stage is gone:", err)
		os.Exit(1)
	}
	_ = res.Body.Close()
	switch s.mode {
	case "echo":
		s.say(prompt)
	case "hold", "stream", "deaf":
		if s.hold() {
			s.reply(id, object{"stopReason": "cancelled"})
			return
		}
		s.say("done")
	case "ask":
		if s.ask(object{"toolCallId": "call-1", "title": "May I?", "kind": "execute", "rawInput": object{"command": "true"}}) {
			s.reply(id, object{"stopReason": "cancelled"})
			return
		}
	case "leak":
		if s.leak() {
			s.reply(id, object{"stopReason": "cancelled"})
			return
		}
	case "leak-error":
		all := strings.Join(secrets(), "\n")
		s.say("I say something first.")
		s.write(object{"jsonrpc": "2.0", "id": id, "error": object{"code": -32603, "message": all, "data": object{"detail": all}}})
		return
	case "leak-stop":
		s.say("I say something first.")
		s.reply(id, object{"stopReason": strings.Join(secrets(), " ")})
		return
	}
	s.reply(id, object{"stopReason": "end_turn", "usage": object{"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}})
	if s.mode == "leak" {
		s.say(strings.Join(secrets(), "\n")) // after the end
	}
}

// dig makes the agent hard to end.
func (s *script) dig() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGPIPE)
	self, err := os.Executable()
	if err != nil {
		os.Exit(1)
	}
	child := &exec.Cmd{Path: self, Args: []string{self, childWord}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "the child cannot be started:", err)
		os.Exit(1)
	}
}

// hold says that it works, waits until the stage opens this agent's gate, and
// reports whether it was stopped before.
func (s *script) hold() (stopped bool) {
	open := make(chan struct{})
	go func() {
		defer close(open)
		if res, err := http.DefaultTransport.RoundTrip(s.request(http.MethodGet, "/gate/", "")); err == nil {
			_ = res.Body.Close()
		}
	}()
	s.say("working ")
	stop := s.stop
	if s.mode == "deaf" {
		stop = nil
	}
	for {
		var tick <-chan time.Time
		if s.mode == "stream" {
			tick = time.After(10 * time.Millisecond)
		}
		select {
		case <-open:
			return false
		case <-stop:
			return true
		case <-tick:
			s.say("tick ")
		}
	}
}

// ask requests a permission, says what became of it, and reports whether it was
// stopped before.
func (s *script) ask(call object) (stopped bool) {
	s.say("asking ")
	s.write(object{"jsonrpc": "2.0", "id": "ask-1", "method": "session/request_permission", "params": object{
		"sessionId": "session-of-" + s.id, "toolCall": call, "options": []object{
			{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"},
		}}})
	select {
	case <-s.stop:
		return true
	case option := <-s.answer:
		s.say("answered " + option)
		return false
	}
}

// leak tells every secret it knows in every way that the protocol has.
func (s *script) leak() (stopped bool) {
	all := secrets()
	text := strings.Join(all, "\n")
	fmt.Fprintln(os.Stderr, text)
	for i := 0; i < len(text); i += 7 {
		s.say(text[i:min(i+7, len(text))])
		s.update(object{"sessionUpdate": "agent_thought_chunk", "content": object{"type": "text", "text": text[i:min(i+7, len(text))]}})
	}
	for i, secret := range all {
		name := fmt.Sprintf("call-%d", i)
		s.update(object{"sessionUpdate": "tool_call", "toolCallId": name, "title": secret, "kind": "execute", "status": "pending", "rawInput": object{"command": secret}})
		s.update(object{"sessionUpdate": "tool_call_update", "toolCallId": name, "status": "completed",
			"content": []object{{"type": "content", "content": object{"type": "text", "text": secret}}}})
		s.content(object{"type": "resource", "resource": object{"uri": "file:///tmp/notes.txt", "mimeType": "text/plain", "text": secret}})
		s.content(object{"type": "resource", "resource": object{"uri": "file:///tmp/blob.bin", "blob": base64.StdEncoding.EncodeToString([]byte("\x00\x01" + secret + "\xff"))}})
		s.content(object{"type": "resource_link", "name": secret, "uri": "https://files.example/" + secret})
	}
	s.update(object{"sessionUpdate": "plan", "entries": []object{{"content": text, "status": "pending", "priority": "low"}}})
	var inputs []object
	for _, secret := range all {
		inputs = append(inputs, object{"command": secret, "env": object{"value": secret}})
	}
	return s.ask(object{"toolCallId": "asked", "title": all[len(all)-1], "kind": "execute", "rawInput": object{"all": inputs},
		"content": []object{{"type": "content", "content": object{"type": "text", "text": text}}}})
}

// secrets are all that the agent can tell: one of each kind, and what the
// worker gave it.
func secrets() []string {
	var all []string
	for _, c := range redacttest.Canaries() {
		all = append(all, c.Context)
	}
	if v := os.Getenv(leakEnv); v != "" {
		all = append(all, "I was given "+v+" to use", "in base64 "+base64.StdEncoding.EncodeToString([]byte("user:"+v))+" it is")
	}
	return all
}

func (s *script) request(method, path, body string) *http.Request {
	req, err := http.NewRequest(method, s.control+path+s.id, strings.NewReader(body))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return req
}

func (s *script) say(text string) { s.content(object{"type": "text", "text": text}) }

func (s *script) content(block object) {
	s.update(object{"sessionUpdate": "agent_message_chunk", "content": block})
}

func (s *script) update(u object) {
	s.write(object{"jsonrpc": "2.0", "method": "session/update", "params": object{"sessionId": "session-of-" + s.id, "update": u}})
}

func (s *script) reply(id json.RawMessage, result any) {
	s.write(object{"jsonrpc": "2.0", "id": id, "result": result})
}

// write sends one frame. Whether somebody reads it is nothing to this agent.
func (s *script) write(v any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(v)
}

// stage is what the scripted agents of a test have in common: it counts their
// prompts and holds their gates.
type stage struct {
	url string

	mu      sync.Mutex
	prompts map[string][]string
	gates   map[string]chan struct{}
}

// ServeHTTP takes a prompt, or answers when a gate is open.
func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch kind {
	case "prompt":
		text, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.prompts[id] = append(s.prompts[id], string(text))
		s.mu.Unlock()
	case "gate":
		select {
		case <-s.gate(id):
		case <-r.Context().Done():
		}
	}
}

func (s *stage) gate(id string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[id] == nil {
		s.gates[id] = make(chan struct{})
	}
	return s.gates[id]
}

// open lets an agent that holds go on, once.
func (s *stage) open(id string) { close(s.gate(id)) }

// prompted gives the prompts that an agent got.
func (s *stage) prompted(id string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.prompts[id]...)
}
