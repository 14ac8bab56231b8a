package rogue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"signalbox/internal/coord"
)

// outlive bounds how long a process that nobody ends stays.
const outlive = 10 * time.Minute

// Child is the first argument that makes a program the process that a part
// leaves behind. It ends only when it is killed.
const Child = "rogue-child"

// ChildMain is that process.
func ChildMain() int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	<-time.After(outlive)
	return 0
}

// begin plays what comes before the first word of the protocol.
func (a *agent) begin() {
	switch a.setup {
	case "exit":
		fmt.Fprintln(os.Stderr, "I cannot start today")
		os.Exit(9)
	case "noise":
		a.noise()
	case "frame":
		a.raw(bytes.Repeat([]byte("x"), coord.MaxFrame+1))
	case "stderr":
		line := []byte(strings.Repeat("log ", 255) + "end\n")
		for range 4 << 10 { // 4 MiB
			_, _ = os.Stderr.Write(line)
		}
	}
}

// initialize answers the first request.
func (a *agent) initialize(id json.RawMessage) {
	hello := func(version any) object {
		return object{"protocolVersion": version, "agentCapabilities": object{}, "agentInfo": object{"name": "rogue", "version": "1"}, "authMethods": []any{}}
	}
	switch a.setup {
	case "silent":
	case "version-0":
		a.reply(id, hello(0))
	case "version-2":
		a.reply(id, hello(2))
	case "version-text":
		a.reply(id, hello("1"))
	case "list":
		a.reply(id, []any{1})
	case "id":
		a.reply(string(id), hello(1)) // a text, not the number that was asked under
		a.reply(4711, hello(1))
		os.Exit(0)
	default:
		a.reply(id, hello(1))
	}
}

// open answers session/new.
func (a *agent) open(id json.RawMessage) {
	switch a.setup {
	case "no-session":
		a.reply(id, object{})
	case "no-login":
		a.frame(object{"jsonrpc": "2.0", "id": id, "error": object{"code": -32000, "message": "Authentication required"}})
	case "exit-late":
		os.Exit(9)
	case "silent-session":
	default:
		a.reply(id, object{"sessionId": a.session()})
	}
}

func (a *agent) noise() {
	a.raw([]byte(strings.Repeat("this is no protocol\n", 10*coord.MaxNoiseLines)))
}

// play plays the turn of the request id. A part may have a number after a
// colon.
func (a *agent) play(id json.RawMessage, part string) {
	part, number, _ := strings.Cut(part, ":")
	n, _ := strconv.Atoi(number) // 0 without one
	switch part {
	case "", "echo":
		a.say("done")
		a.end(id, "end_turn")
	case "exit":
		a.say("I begin and ")
		os.Exit(3)
	case "exit-mute":
		os.Exit(3)
	case "killed":
		a.say("I begin and ")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "silent":
	case "close":
		a.say("I begin and ")
		_ = os.Stdout.Close()
	case "noise":
		a.say("I begin and ")
		a.noise()
	case "frame":
		a.say("I begin and ")
		a.raw(bytes.Repeat([]byte("x"), coord.MaxFrame+1))
	case "flood":
		text := strings.Repeat("All work and no play. ", 186)
		for sent := 0; sent < 2*coord.MaxAnswerText; sent += len(text) {
			a.say(text)
		}
		a.end(id, "end_turn")
	case "asks":
		for i := range 3 * coord.MaxPendingRequests {
			a.permission("q"+strconv.Itoa(i), a.session())
		}
	case "unread":
		for i := range 20_000 {
			a.frame(object{"jsonrpc": "2.0", "id": i, "method": "fs/read_text_file", "params": object{"path": strings.Repeat("p", 200)}})
		}
	case "same-ask":
		a.permission("q", a.session())
		a.permission("q", a.session())
		<-a.answers
		a.say("answered")
		a.end(id, "end_turn")
	default:
		a.lie(id, part, n)
	}
}

// lie plays what is not true, or else what is used by long runs.
func (a *agent) lie(id json.RawMessage, part string, n int) {
	switch part {
	case "empty":
		a.end(id, "end_turn")
	case "blank":
		a.say(" \n\t")
		a.end(id, "end_turn")
	case "foreign":
		a.sayIn("somebody-else", "text of somebody else")
		a.permission("foreign", "somebody-else")
		a.end(id, "end_turn")
	case "twice":
		a.say("once")
		a.end(id, "end_turn")
		a.end(id, "refusal")
		a.say(" and more")
	case "invented":
		a.say("It is done, believe me.")
		a.end(id, "success")
	case "number":
		a.say("It is done, believe me.")
		a.end(id, 7)
	case "no-result":
		a.say("It is done, believe me.")
		a.reply(id, nil)
	case "unasked":
		a.say("I stop.")
		a.end(id, "cancelled")
	case "ids":
		a.end(string(id), "refusal")
		a.end(4711, "refusal")
		a.end(nil, "refusal")
		a.end(-1, "refusal")
		a.say("done")
		a.end(id, "end_turn")
	default:
		a.work(id, part, n)
	}
}

// work plays an honest part that takes time; n counts its steps of 10 ms.
func (a *agent) work(id json.RawMessage, part string, n int) {
	switch part {
	case "ask":
		a.permission("q", a.session())
		select {
		case <-a.stop:
			a.end(id, "cancelled")
			return
		case option := <-a.answers:
			a.say("answered " + option)
		}
	case "child":
		self, err := os.Executable()
		if err == nil {
			child := &exec.Cmd{Path: self, Args: []string{self, Child}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
			err = child.Start()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "the child cannot be started:", err)
			os.Exit(1)
		}
		fallthrough
	default: // stream
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := range n {
			select {
			case <-a.stop:
				a.end(id, "cancelled")
				return
			case <-tick.C:
				a.say("step " + strconv.Itoa(i) + " of a work that takes a while. ")
			}
		}
		a.say("done")
	}
	a.end(id, "end_turn")
}
