package a2a

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/internal/coord"
)

// peer is a peer of one test, on a real socket: what it answers is the test's,
// byte for byte where it wants.
type peer struct {
	testing.TB
	version string
	origin  string
	ended   chan struct{}
	server  *httptest.Server

	// Set before the first request.
	silent bool   // the card says that it cannot stream
	path   string // of the card

	mu      sync.Mutex
	answers map[string]func(c *call)
	card    []byte // nil is one that fits
	got     []*call
}

// call is one request.
type call struct {
	*peer
	http.ResponseWriter
	name   string // as in on
	n      int    // how many of that name came before
	header http.Header
	params json.RawMessage
	id     json.RawMessage
	task   string // that it is about
	work   bool   // it is a message that begins a task
}

func newPeer(t testing.TB, version string) *peer {
	p := &peer{TB: t, version: version, ended: make(chan struct{}), answers: map[string]func(*call){}, path: "/.well-known/agent-card.json"}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	p.origin = p.server.URL
	t.Cleanup(func() {
		close(p.ended)
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

func (p *peer) config() coord.A2AConfig {
	return coord.A2AConfig{Card: p.origin + p.path, Origin: p.origin, Version: p.version, Private: true}
}

func (p *peer) serve(w http.ResponseWriter, r *http.Request) {
	c := &call{peer: p, ResponseWriter: w, header: r.Header, name: "other " + r.URL.Path}
	if r.URL.Path == p.path && r.Method == http.MethodGet {
		c.name = "card"
	} else if r.Method == http.MethodPost {
		var body struct {
			JSONRPC string
			ID      json.RawMessage
			Method  string
			Params  json.RawMessage
		}
		b, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(b, &body) != nil || body.JSONRPC != "2.0" {
			p.Errorf("a request that cannot be read: %q", b)
			return
		}
		m := methodsOf[p.version]
		c.name = map[string]string{m.send: "send", m.stream: "stream", m.get: "get", m.cancel: "cancel", m.subscribe: "subscribe", m.list: "list"}[body.Method]
		c.id, c.params = body.ID, body.Params
		var about struct {
			ID      string
			Message *struct{ TaskID string }
		}
		if json.Unmarshal(body.Params, &about) != nil {
			p.Errorf("parameters that cannot be read: %s", body.Params)
		}
		c.task = about.ID
		if about.Message != nil {
			c.task, c.work = about.Message.TaskID, about.Message.TaskID == ""
		}
	}
	p.mu.Lock()
	for _, other := range p.got {
		if other.name == c.name && other.task == c.task {
			c.n++
		}
	}
	p.got = append(p.got, c)
	p.mu.Unlock()
	name := c.name
	if strings.HasPrefix(c.task, "signalbox-probe-") {
		name = "probe"
	}
	answer, card := p.answering(name)
	switch {
	case answer != nil:
		answer(c)
	case name == "card" && card != nil:
		_, _ = w.Write(card)
	case name == "card":
		_, _ = w.Write(cardOf(p.version, p.origin, !p.silent))
	case c.id == nil:
		w.WriteHeader(http.StatusNotFound)
	default:
		c.fail(codeNotFound, "no such task")
	}
}

// on gives the answer to what is called: send, stream, get, cancel, subscribe,
// list, card, or probe, which is each request about a task that asks whether the
// peer knows it. What has no answer is answered with "not found". An answer may
// change while the peer is asked.
func (p *peer) on(name string, answer func(c *call)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[name] = answer
}

// shows gives the card, nil is one that fits. It may change while the peer is
// asked.
func (p *peer) shows(card []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.card = card
}

// answering is what answers a request of a name, nil where nothing was given,
// and the card.
func (p *peer) answering(name string) (func(c *call), []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers[name], p.card
}

// count is how many requests of a name came; "work" counts those that begin a
// task.
func (p *peer) count(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, c := range p.got {
		if c.name == name || name == "work" && c.work {
			n++
		}
	}
	return n
}

// calls are all requests up to now.
func (p *peer) calls() []*call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

// last is the newest request of a name.
func (p *peer) last(name string) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range slices.Backward(p.got) {
		if c.name == name {
			return c
		}
	}
	return &call{}
}

// once checks that work was submitted exactly once.
func (p *peer) once() {
	p.Helper()
	if n := p.count("work"); n != 1 {
		p.Errorf("work was submitted %d times", n)
	}
}

// object is a JSON object.
type object = map[string]any

func (p *peer) word(word string) string {
	if p.version == v03 {
		return word
	}
	return "TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(word, "-", "_"))
}

func (p *peer) part(text string) object {
	if p.version == v03 {
		return object{"kind": "text", "text": text}
	}
	return object{"text": text}
}

// tell is a message.
func (p *peer) tell(id, text string) object {
	m := object{"messageId": id, "role": "agent", "parts": []any{p.part(text)}}
	if p.version == v03 {
		m["kind"] = "message"
	}
	return m
}

// status is one; with a text it has a message of the id.
func (p *peer) status(word, id, text string) object {
	s := object{"state": p.word(word)}
	if text != "" {
		s["message"] = p.tell(id, text)
	}
	return s
}

// text is an artifact.
func (p *peer) text(id, text string) object {
	return object{"artifactId": id, "parts": []any{p.part(text)}}
}

// state is the task t1 in a state with artifacts.
func (p *peer) state(status object, artifacts ...object) object {
	t := object{"id": "t1", "contextId": "c1", "status": status}
	if len(artifacts) > 0 {
		t["artifacts"] = artifacts
	}
	if p.version == v03 {
		t["kind"] = "task"
	}
	return t
}

func (p *peer) at(word string, artifacts ...object) object {
	return p.state(p.status(word, "", ""), artifacts...)
}

// wrap is what a send or a stream gives.
func (p *peer) wrap(name string, value object) object {
	if p.version == v10 {
		return object{name: value}
	}
	value = maps.Clone(value)
	value["kind"] = map[string]string{"task": "task", "message": "message", "statusUpdate": "status-update", "artifactUpdate": "artifact-update"}[name]
	return value
}

func (p *peer) moved(word string) object {
	return p.wrap("statusUpdate", object{"taskId": "t1", "contextId": "c1", "status": p.status(word, "", ""), "final": word == "completed"})
}

func (p *peer) piece(id, text string, more bool) object {
	return p.wrap("artifactUpdate", object{"taskId": "t1", "contextId": "c1", "append": more, "artifact": p.text(id, text)})
}

func encoded(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// response is one of JSON-RPC.
func (c *call) response(result any) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, c.id, encoded(result))
}

func (c *call) failure(code int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, c.id, code, text)
}

func (c *call) reply(result any) {
	c.Header().Set("Content-Type", "application/json")
	fmt.Fprint(c, c.response(result))
}

func (c *call) fail(code int, text string) {
	c.Header().Set("Content-Type", "application/json")
	fmt.Fprint(c, c.failure(code, text))
}

// raw writes bytes of a stream, each piece by itself.
func (c *call) raw(pieces ...string) {
	if c.Header().Get("Content-Type") == "" {
		c.Header().Set("Content-Type", "text/event-stream")
	}
	for _, s := range pieces {
		_, _ = io.WriteString(c, s)
		_ = http.NewResponseController(c.ResponseWriter).Flush()
	}
}

// events writes results as events.
func (c *call) events(results ...any) {
	for _, r := range results {
		c.raw("data: " + c.response(r) + "\n\n")
	}
}

// hold keeps the answer open until the caller is gone, or for the test.
func (c *call) hold() {
	for {
		c.raw(":\n")
		select {
		case <-c.ended:
			return
		case <-time.After(5 * time.Millisecond):
			if _, err := io.WriteString(c, ":\n"); err != nil {
				return
			}
		}
	}
}

// mute keeps the answer open and gives nothing.
func (c *call) mute() { <-c.ended }

// abort cuts the connection.
func (c *call) abort() { panic(http.ErrAbortHandler) }

// begin prepares and sends work to the peer.
func (p *peer) begin() *attempt { return p.beginWith(fast) }

func (p *peer) beginWith(timing Timing) *attempt {
	p.Helper()
	return prepare(p, newAdapter(p, timing), p.config(), "the work").send()
}

// both runs a test against a peer of each version.
func both(t *testing.T, run func(t *testing.T, p *peer)) {
	for _, version := range []string{v03, v10} {
		t.Run(version, func(t *testing.T) { run(t, newPeer(t, version)) })
	}
}
