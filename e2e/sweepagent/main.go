// Command sweepagent is the agent of the crash sweep: a raw ACP agent of one
// session and one turn that keeps its own account of what it was sent.
//
//	sweepagent MODE LOG
//
// It appends a line to LOG, and flushes it to the disk, for each prompt as soon
// as it has read it, for each answer to a permission, and for each stop. What
// it then does is the mode's:
//
//	all     thinks, writes, acts, tells usage, sends a file, asks for a
//	        permission, takes another request back, ends, and goes on writing
//	echo    writes and ends
//	ask     asks for a permission and ends
//	crash   writes and exits
//	hold    writes and waits to be stopped
//	orphan  writes, leaves a child in a session of its own, and ends neither at
//	        the end of its input nor at SIGTERM
package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"signalbox/e2e/acpframe"
)

// outlive bounds how long a process that nobody ends stays.
const outlive = 10 * time.Minute

type object = map[string]any

// agent reads and writes in one goroutine, so what it does has one order.
type agent struct {
	in   *acpframe.Reader
	out  *json.Encoder
	log  *os.File
	turn json.RawMessage // the id of the prompt
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "child" {
		ignore()
		<-time.After(outlive)
		return
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sweepagent:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: sweepagent MODE LOG")
	}
	log, err := os.OpenFile(args[1], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	a := &agent{in: acpframe.New(os.Stdin), out: json.NewEncoder(os.Stdout), log: log}
	for {
		f, err := a.in.Next()
		if errors.Is(err, io.EOF) {
			return nil // which asks for an exit
		}
		if err != nil {
			return err
		}
		switch f.Method {
		case "initialize":
			a.reply(f.ID, object{"protocolVersion": 1, "agentCapabilities": object{}, "agentInfo": object{"name": "sweep", "version": "1"}, "authMethods": []any{}})
		case "session/new":
			a.reply(f.ID, object{"sessionId": "session"})
		case "session/prompt":
			a.turn = f.ID
			if err := a.note("prompt"); err != nil {
				return err
			}
			if err := a.act(args[0]); err != nil {
				return err
			}
		}
	}
}

// note writes a line that a crash of the machine would not lose.
func (a *agent) note(line string) error {
	if _, err := a.log.WriteString(line + "\n"); err != nil {
		return err
	}
	return a.log.Sync()
}

func (a *agent) act(mode string) error {
	a.say("I begin. ")
	switch mode {
	case "all":
		if err := a.everything(); err != nil {
			return nil //nolint:nilerr // it was stopped, or its input ended
		}
	case "ask":
		if err := a.ask("decide", false); err != nil {
			return nil //nolint:nilerr // as above
		}
	case "crash":
		os.Exit(7)
	case "hold":
		for {
			f, err := a.in.Next()
			if err != nil {
				return nil //nolint:nilerr // as above
			}
			if f.Method == "session/cancel" {
				return a.stopped()
			}
		}
	case "orphan":
		return a.orphan()
	}
	a.say("I am done.")
	a.reply(a.turn, object{"stopReason": "end_turn", "usage": object{"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}})
	if mode == "all" {
		a.say("I go on after my end.")
	}
	return nil
}

func (a *agent) everything() error {
	a.update(object{"sessionUpdate": "agent_thought_chunk", "content": object{"type": "text", "text": "I think. "}})
	a.update(object{"sessionUpdate": "tool_call", "toolCallId": "call", "title": "look", "kind": "read", "status": "pending"})
	a.update(object{"sessionUpdate": "usage_update", "used": 5, "size": 100})
	a.update(object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "resource", "resource": object{
		"uri": "file:///tmp/notes.bin", "mimeType": "application/octet-stream", "blob": base64.StdEncoding.EncodeToString([]byte("\x00notes"))}}})
	if err := a.ask("decide", false); err != nil {
		return err
	}
	a.say("I write on. ")
	return a.ask("leave", true)
}

// ask requests a permission and waits for the answer; with back it takes the
// request back at once. An error means that the turn is over.
func (a *agent) ask(title string, back bool) error {
	id := "ask-" + title
	a.write(object{"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": object{
		"sessionId": "session", "toolCall": object{"toolCallId": title, "title": title, "kind": "execute", "rawInput": object{"command": title}},
		"options": []object{{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}}}})
	if back {
		a.write(object{"jsonrpc": "2.0", "method": "$/cancel_request", "params": object{"requestId": id}})
	}
	for {
		f, err := a.in.Next()
		switch {
		case err != nil:
			return err
		case f.Method == "session/cancel":
			return a.stopped()
		case f.Method == "" && string(f.ID) == `"`+id+`"`:
			if option := f.Result.Outcome.OptionID; option != "" {
				return a.note("answer " + title + " " + option)
			}
			return nil
		}
	}
}

// stopped confirms a stop. Its error ends the turn.
func (a *agent) stopped() error {
	if err := a.note("stop"); err != nil {
		return err
	}
	a.reply(a.turn, object{"stopReason": "cancelled"})
	return fmt.Errorf("it was stopped")
}

// orphan is hard to end.
func (a *agent) orphan() error {
	ignore()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := &exec.Cmd{Path: self, Args: []string{self, "child"}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := child.Start(); err != nil {
		return err
	}
	a.say("I stay.")
	<-time.After(outlive)
	return nil
}

func ignore() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE) }

func (a *agent) say(text string) {
	a.update(object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text}})
}

func (a *agent) update(u object) {
	a.write(object{"jsonrpc": "2.0", "method": "session/update", "params": object{"sessionId": "session", "update": u}})
}

func (a *agent) reply(id json.RawMessage, result any) {
	a.write(object{"jsonrpc": "2.0", "id": id, "result": result})
}

// write sends one frame. Whether somebody reads it is nothing to this agent.
func (a *agent) write(v any) { _ = a.out.Encode(v) }
