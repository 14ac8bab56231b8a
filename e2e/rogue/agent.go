package rogue

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"signalbox/e2e/acpframe"
	"signalbox/internal/coord"
)

// Word is the first argument that makes a program the agent:
//
//	PROGRAM rogue-agent ID DIRECTOR
const Word = "rogue-agent"

type object = map[string]any

// agent is one ACP agent of one session and one turn.
type agent struct {
	id, director string
	setup        string

	mu  sync.Mutex
	out *bufio.Writer

	stop    chan struct{} // closed by session/cancel
	once    sync.Once
	answers chan string
}

// Main is the agent; args are those after Word.
func Main(args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: "+Word+" ID DIRECTOR")
		return 2
	}
	a := &agent{id: args[0], director: args[1], out: bufio.NewWriterSize(os.Stdout, 64<<10), stop: make(chan struct{}),
		answers: make(chan string, coord.MaxPendingRequests)}
	a.setup = a.ask("/start/", "")
	a.begin()
	for in := acpframe.New(os.Stdin); ; {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			return 0
		}
		if err != nil {
			return 1
		}
		switch f.Method {
		case "initialize":
			a.initialize(f.ID)
		case "session/new":
			a.open(f.ID)
		case "session/prompt":
			part := a.ask("/prompt/", f.Params.Prompt[0].Text)
			if part == "unread" {
				a.play(f.ID, part) // and reads no more
				<-time.After(outlive)
			}
			go a.play(f.ID, part)
		case "session/cancel":
			a.once.Do(func() { close(a.stop) })
		case "":
			select {
			case a.answers <- f.Result.Outcome.OptionID:
			default: // an answer that nobody waits for
			}
		}
	}
}

// ask asks the director. Without one there is nothing to play.
func (a *agent) ask(path, body string) string {
	req, err := http.NewRequest(http.MethodPost, a.director+path+a.id, strings.NewReader(body)) //nolint:noctx // it ends with the process
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the director is gone:", err)
		os.Exit(1)
	}
	defer res.Body.Close()
	part, err := io.ReadAll(res.Body)
	if err != nil {
		os.Exit(1)
	}
	return string(part)
}

// session is the name of the agent's one session.
func (a *agent) session() string { return "session-of-" + a.id }

// frame sends one message. Whether somebody reads it is nothing to this agent.
func (a *agent) frame(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	a.raw(append(line, '\n'))
}

func (a *agent) raw(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.out.Write(b)
	_ = a.out.Flush()
}

func (a *agent) reply(id any, result any) {
	a.frame(object{"jsonrpc": "2.0", "id": id, "result": result})
}

func (a *agent) end(id any, stopReason any) { a.reply(id, object{"stopReason": stopReason}) }

func (a *agent) say(text string) { a.sayIn(a.session(), text) }

func (a *agent) sayIn(session, text string) {
	a.frame(object{"jsonrpc": "2.0", "method": "session/update", "params": object{"sessionId": session, "update": object{
		"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text}}}})
}

// permission asks for one under an id of its own.
func (a *agent) permission(id, session string) {
	a.frame(object{"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": object{
		"sessionId": session, "toolCall": object{"toolCallId": "call-" + id, "title": "May I " + id + "?", "kind": "execute", "rawInput": object{"command": "true"}},
		"options": []object{{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}},
	}})
}
