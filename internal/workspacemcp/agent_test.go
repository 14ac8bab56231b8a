package workspacemcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agent is a scripted ACP agent in a process of its own. It starts its tool
// servers as real agents do, and talks to them with the client of the official
// SDK.
type agent struct {
	dir     string
	in      *bufio.Reader
	servers []struct {
		Name, Command string
		Args          []string
		Env           []struct{ Name, Value string }
	}
	prompt json.RawMessage

	mu sync.Mutex
}

// plays are what an agent does with a prompt, by name; tests add theirs.
var plays = map[string]func(*agent){}

const agentSession = "sess-1"

func agentMain(play, dir string) {
	a := &agent{dir: dir, in: bufio.NewReaderSize(os.Stdin, 1<<20)}
	initialize, _ := a.expect("initialize")
	a.reply(initialize, `{"protocolVersion":1,"agentInfo":{"name":"scripted","version":"1"}}`)
	id, params := a.expect("session/new")
	var p struct{ MCPServers json.RawMessage }
	must(json.Unmarshal(params, &p))
	must(json.Unmarshal(p.MCPServers, &a.servers))
	a.note("servers", string(p.MCPServers))
	if play == "refuse" {
		a.raw(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":{"code":-32602,"message":"no tool servers"}}`)
	} else {
		a.reply(id, `{"sessionId":"`+agentSession+`"}`)
		a.prompt, _ = a.expect("session/prompt")
		plays[play](a)
	}
	_, _ = io.Copy(io.Discard, a.in)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// expect reads up to a message with this method, and exits at the end of input.
func (a *agent) expect(method string) (id, params json.RawMessage) {
	for {
		line, err := a.in.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		must(json.Unmarshal(line, &m))
		if m.Method == method {
			return m.ID, m.Params
		}
	}
}

func (a *agent) raw(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = os.Stdout.WriteString(line + "\n")
}

func (a *agent) reply(id json.RawMessage, result string) {
	a.raw(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
}

// end says a word, since an answer without one is no answer, and ends the turn.
func (a *agent) end(reason string) {
	a.raw(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + agentSession + `","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"done"}}}}`)
	a.reply(a.prompt, `{"stopReason":"`+reason+`"}`)
}

// note appends a line to a file that the test reads.
func (a *agent) note(file, line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, err := os.OpenFile(filepath.Join(a.dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	_, err = f.WriteString(line + "\n")
	must(errors.Join(err, f.Close()))
}

// await waits for a file that the test makes.
func (a *agent) await(file string) {
	for range time.Tick(2 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(a.dir, file)); err == nil {
			return
		}
	}
}

// command is the tool server, as session/new told to start it.
func (a *agent) command() *exec.Cmd {
	s := a.servers[0]
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, v := range s.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	cmd.Stderr = os.Stderr
	return cmd
}

func (a *agent) connect(ctx context.Context, cmd *exec.Cmd) *mcp.ClientSession {
	c, err := mcp.NewClient(&mcp.Implementation{Name: "scripted", Version: "1"}, nil).
		Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	must(err)
	return c
}

// call calls a tool and notes what came of it under a name.
func (a *agent) call(ctx context.Context, c *mcp.ClientSession, name, tool string, arguments any) {
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		a.note("results", fmt.Sprintf("%s: error %v", name, err))
		return
	}
	var texts []string
	for _, part := range r.Content {
		text, ok := part.(*mcp.TextContent)
		if !ok {
			a.note("results", fmt.Sprintf("%s: content that is %T", name, part))
			return
		}
		texts = append(texts, text.Text)
	}
	a.note("results", fmt.Sprintf("%s: failed=%v %s", name, r.IsError, strings.Join(texts, "|")))
}

// mcpCall is a call whose result nobody looks at.
var mcpCall = mcp.CallToolParams{Name: "read", Arguments: map[string]any{}}
