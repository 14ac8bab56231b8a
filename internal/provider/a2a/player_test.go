package a2a

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
)

// player is a peer that plays a script of the suite over HTTP, one task in all.
// It shares nothing with the code under test but the names of the methods.
type player struct {
	version string
	script  providertest.Script
	server  *httptest.Server
	ended   chan struct{} // with the test
	playing sync.WaitGroup

	mu       sync.Mutex
	changed  chan struct{}
	prompts  []string
	answers  []providertest.Answered
	steps    []providertest.Step
	replaced chan struct{}
	busy     int // requests being answered
	created  bool
	over     bool // the task is
	done     bool // the script is
	crashed  bool
	huge     bool
	word     string
	status   map[string]any
	files    []any
	said     strings.Builder
	asked    string   // the label of the open question
	log      [][]byte // results of the stream, or raw lines
	last     any
	messages int
}

func newPlayer(t *testing.T, version string, s providertest.Script) *player {
	p := &player{version: version, script: s, ended: make(chan struct{}), changed: make(chan struct{}), replaced: make(chan struct{}), steps: s.Steps}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() {
		close(p.ended)
		p.server.CloseClientConnections()
		p.server.Close()
		p.playing.Wait()
	})
	return p
}

func (p *player) card() []byte {
	version := p.version
	if p.script.Setup == providertest.SetupVersion {
		version = map[string]string{v03: v10, v10: v03}[version]
	}
	return cardOf(version, p.server.URL, true)
}

// cardOf is a card with one interface.
func cardOf(version, origin string, streaming bool) []byte {
	card := map[string]any{"name": "player", "version": "1", "capabilities": map[string]any{"streaming": streaming}, "defaultInputModes": []string{"text/plain"}}
	if version == v03 {
		card["protocolVersion"], card["url"], card["preferredTransport"] = "0.3.0", origin+"/rpc", "JSONRPC"
	} else {
		card["supportedInterfaces"] = []any{map[string]any{"url": origin + "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": version}}
	}
	b, err := json.Marshal(card)
	if err != nil {
		panic(err)
	}
	return b
}

func (p *player) work() provider.Work {
	config := coord.A2AConfig{Card: p.server.URL + "/card", Origin: p.server.URL, Version: p.version, Private: true}
	k, err := readCard(p.card())
	if err != nil {
		panic(err)
	}
	id, err := k.identity(config)
	if err != nil {
		panic(err)
	}
	return provider.Work{Attempt: "att_1", Agent: "peer", Config: coord.AgentConfig{Route: coord.RouteA2A, A2A: &config}, Identity: id}
}

func (p *player) Prompts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.prompts)
}

func (p *player) Answers() []providertest.Answered {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.answers)
}

// left waits a moment for the peer to notice that its callers are gone.
func (p *player) left() []string {
	for deadline := time.After(5 * time.Second); ; {
		p.mu.Lock()
		busy := p.busy
		p.mu.Unlock()
		if busy == 0 {
			return nil
		}
		select {
		case <-deadline:
			return []string{fmt.Sprintf("%d requests", busy)}
		case <-time.After(time.Millisecond):
		}
	}
}

// wake has all streams look again; the caller holds the mutex.
func (p *player) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *player) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.busy++
	crashed := p.crashed
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.busy--
		p.mu.Unlock()
	}()
	if crashed {
		panic(http.ErrAbortHandler)
	}
	if r.URL.Path == "/card" {
		switch p.script.Setup {
		case providertest.SetupCrash:
			panic(http.ErrAbortHandler)
		case providertest.SetupSilent:
			select {
			case <-r.Context().Done():
			case <-p.ended:
			}
			return
		case providertest.SetupAuth:
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(p.card())
		return
	}
	var call struct {
		ID     json.RawMessage
		Method string
		Params struct {
			ID      string
			Message struct {
				TaskID, ContextID string
				Parts             []struct{ Text string }
			}
		}
	}
	b, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(b, &call) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	m := methodsOf[p.version]
	switch {
	case call.Method == m.stream:
		p.begin(call.Params.Message.Parts[0].Text)
		p.stream(w, r, call.ID, 0, nil)
	case call.Method == m.subscribe:
		p.mu.Lock()
		from, first := len(p.log), p.whole()
		p.mu.Unlock()
		p.stream(w, r, call.ID, from, first)
	case call.Method == m.send && call.Params.Message.TaskID == "task-1" && call.Params.Message.ContextID == "ctx-1":
		p.answered(call.Params.Message.Parts[0].Text)
		p.reply(w, call.ID, p.wrapped)
	case call.Method == m.get && call.Params.ID == "task-1":
		p.reply(w, call.ID, p.whole)
	case call.Method == m.cancel && call.Params.ID == "task-1":
		if !p.cancel() {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"not cancelable"}}`, call.ID)
			return
		}
		p.reply(w, call.ID, p.whole)
	default:
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"no such task"}}`, call.ID)
	}
}

func (p *player) reply(w http.ResponseWriter, id json.RawMessage, result func() any) {
	p.mu.Lock()
	created, huge := p.created, p.huge
	b, err := json.Marshal(result())
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case err != nil:
		panic(err)
	case huge:
		line := []byte(strings.Repeat(" ", 1<<20))
		for range maxAnswer>>20 + 2 {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	case !created:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"no such task"}}`, id)
	default:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, b)
	}
}

// stream writes the log from an index on, until the task is over and all is
// written.
func (p *player) stream(w http.ResponseWriter, r *http.Request, id json.RawMessage, from int, first any) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	if first != nil {
		b, _ := json.Marshal(p.wrap("task", first))
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, b)
	}
	for {
		p.mu.Lock()
		events, changed, crashed, finished := p.log[from:], p.changed, p.crashed, p.over && p.done
		p.mu.Unlock()
		for _, e := range events {
			line := e
			if e[0] == '{' && json.Valid(e) {
				line = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, e)
			}
			if _, err := fmt.Fprintf(w, "data: %s\n\n", line); err != nil {
				return
			}
		}
		from += len(events)
		_ = flush.Flush()
		switch {
		case crashed:
			panic(http.ErrAbortHandler)
		case finished && len(events) == 0:
			return
		case len(events) > 0:
			continue
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-p.ended:
			return
		}
	}
}

// begin takes the work and plays.
func (p *player) begin(prompt string) {
	p.mu.Lock()
	p.prompts = append(p.prompts, prompt)
	first := len(p.prompts) == 1
	p.mu.Unlock()
	if first {
		p.playing.Go(p.play)
	}
}

func (p *player) play() {
	for {
		p.mu.Lock()
		if len(p.steps) == 0 {
			p.done = true
			p.wake()
			replaced := p.replaced
			p.mu.Unlock()
			select {
			case <-replaced:
				continue
			case <-p.ended:
				return
			}
		}
		s, changed, replaced := p.steps[0], p.changed, p.replaced
		p.done = false
		if s.Do == providertest.Await && p.asked == s.Name {
			p.mu.Unlock()
			select {
			case <-changed:
			case <-replaced:
			case <-p.ended:
				return
			}
			continue
		}
		p.steps = p.steps[1:]
		p.step(s)
		p.wake()
		p.mu.Unlock()
	}
}

// step does one step; the caller holds the mutex.
func (p *player) step(s providertest.Step) {
	switch s.Do {
	case providertest.Noise:
		for range s.Count {
			p.log = append(p.log, []byte("INFO starting up"))
		}
		return
	case providertest.Malformed:
		p.log = append(p.log, []byte(`{"jsonrpc":"2.0","id":`))
		return
	case providertest.Oversize:
		p.huge = true
		p.log = append(p.log, []byte(strings.Repeat("x", coord.MaxFrame+1)))
		return
	case providertest.Foreign:
		p.tell("artifactUpdate", "artifact-update", map[string]any{"taskId": "task-2", "contextId": "ctx-2", "artifact": p.text(s.Text)})
		return
	case providertest.Strange:
		p.tell("strange", "strange", map[string]any{"taskId": "task-1", "text": s.Text})
		return
	case providertest.Crash:
		p.crashed = true
		return
	case providertest.Await:
		return
	case providertest.EndAgain:
		p.tell("statusUpdate", "status-update", p.last)
		return
	}
	if !p.created {
		p.created = true
		p.set("submitted", "", "")
		p.tell("task", "task", p.whole())
	}
	switch s.Do {
	case providertest.Accept:
	case providertest.Say:
		p.say(s.Text)
	case providertest.Flood:
		p.say(s.Text)
		p.say(s.Text)
		last := p.log[len(p.log)-1]
		for range s.Count - 2 {
			p.log = append(p.log, last)
		}
		p.said.WriteString(strings.Repeat(s.Text, s.Count-2))
	case providertest.Act:
		p.become("working", "act-"+s.Name, s.Text)
	case providertest.Attach:
		raw := map[string]any{"raw": s.Content.Bytes, "mediaType": s.Content.Media, "filename": s.Content.Name}
		if p.version == v03 {
			raw = map[string]any{"kind": "file", "file": map[string]any{"bytes": s.Content.Bytes, "mimeType": s.Content.Media, "name": s.Content.Name}}
		}
		a := map[string]any{"artifactId": s.Content.Name, "parts": []any{raw}}
		p.files = append(p.files, a)
		p.tell("artifactUpdate", "artifact-update", map[string]any{"taskId": "task-1", "contextId": "ctx-1", "artifact": a})
	case providertest.Ask:
		p.asked = s.Name
		p.become("input-required", "ask-"+s.Name, s.Text)
	case providertest.Withdraw:
		p.asked = ""
		p.become("working", "", "")
	case providertest.End:
		p.become(map[coord.AttemptState]string{coord.AttemptCompleted: "completed", coord.AttemptFailed: "failed",
			coord.AttemptRejected: "rejected", coord.AttemptCancelled: "canceled"}[s.State], "", "")
		p.over = true
	default:
		panic("this peer cannot play " + string(s.Do))
	}
}

func (p *player) text(text string) map[string]any {
	return map[string]any{"artifactId": "out", "parts": []any{p.part(text)}}
}

func (p *player) part(text string) map[string]any {
	if p.version == v03 {
		return map[string]any{"kind": "text", "text": text}
	}
	return map[string]any{"text": text}
}

func (p *player) say(text string) {
	more := p.said.Len() > 0
	if !p.over {
		p.said.WriteString(text)
	}
	p.tell("artifactUpdate", "artifact-update", map[string]any{"taskId": "task-1", "contextId": "ctx-1", "append": more, "artifact": p.text(text)})
}

// become changes the task's state and tells of it.
func (p *player) become(word, id, text string) {
	if p.over {
		p.tell("statusUpdate", "status-update", p.last) // it stays as it is
		return
	}
	p.set(word, id, text)
	p.last = map[string]any{"taskId": "task-1", "contextId": "ctx-1", "final": word == "completed", "status": p.status}
	p.tell("statusUpdate", "status-update", p.last)
}

func (p *player) set(word, id, text string) {
	p.word = word
	p.messages++
	if p.version == v10 {
		word = "TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(word, "-", "_"))
	}
	p.status = map[string]any{"state": word, "timestamp": fmt.Sprintf("2026-11-30T12:00:00.%03dZ", p.messages)}
	if text != "" {
		m := map[string]any{"messageId": id, "role": "agent", "parts": []any{p.part(text)}, "taskId": "task-1", "contextId": "ctx-1"}
		if p.version == v03 {
			m["kind"] = "message"
		}
		p.status["message"] = m
	}
}

// whole is the task; the caller holds the mutex.
func (p *player) whole() any {
	artifacts := slices.Clone(p.files)
	if p.said.Len() > 0 {
		artifacts = append(artifacts, p.text(p.said.String()))
	}
	t := map[string]any{"id": "task-1", "contextId": "ctx-1", "status": p.status, "artifacts": artifacts}
	if p.version == v03 {
		t["kind"] = "task"
	}
	return t
}

func (p *player) wrapped() any { return p.wrap("task", p.whole()) }

func (p *player) wrap(name string, value any) any {
	if p.version == v03 {
		return value
	}
	return map[string]any{name: value}
}

// tell adds a result to the log.
func (p *player) tell(name, kind string, value any) {
	if m, ok := value.(map[string]any); ok && p.version == v03 {
		m["kind"] = kind
	}
	b, err := json.Marshal(p.wrap(name, value))
	if err != nil {
		panic(err)
	}
	p.log = append(p.log, b)
}

// answered takes a message of the same task.
func (p *player) answered(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text == declined {
		text = ""
	}
	p.answers = append(p.answers, providertest.Answered{Name: p.asked, Text: text})
	p.asked = ""
	p.become("working", "", "")
	p.wake()
}

// cancel is asked to cancel; false when the task is over.
func (p *player) cancel() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	if p.asked != "" {
		p.answers = append(p.answers, providertest.Answered{Name: p.asked})
		p.asked = ""
	}
	if p.script.Cancel == providertest.CancelObey {
		if p.replaced != nil {
			p.steps = p.script.CancelSteps
			if p.steps == nil {
				p.steps = []providertest.Step{{Do: providertest.End, State: coord.AttemptCancelled}}
			}
			close(p.replaced)
			p.replaced = nil
		}
	}
	p.wake()
	return true
}
