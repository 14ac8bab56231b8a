package tincantest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// sleeper is the command of the child that Hang leaves.
const sleeper = "tincantest-sleeper"

// outlive bounds how long a process that nobody ends stays.
const outlive = 5 * time.Minute

// stand is one run of the program.
type stand struct {
	dir    string
	config struct {
		Agent, Relay string
	}
	script Script
	out    bytes.Buffer
	code   int
}

// Main is the program with its arguments. It gives the exit code.
func Main(args []string) int {
	if len(args) > 1 && args[1] == sleeper {
		sleep()
	}
	s := &stand{dir: filepath.Dir(os.Getenv("TINCAN_CONFIG"))}
	if err := s.run(args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tincan:", err)
		return 1
	}
	_, _ = os.Stdout.Write(s.out.Bytes())
	return s.code
}

func (s *stand) run(args []string) error {
	data, err := os.ReadFile(os.Getenv("TINCAN_CONFIG"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &s.config); err != nil {
		return err
	}
	if s.config.Relay == "" {
		return errors.New("no relay configured: run tincan join")
	}
	if err := s.note(args); err != nil {
		return err
	}
	flags, words, err := split(args[1:])
	if err != nil {
		return err
	}
	text := ""
	if args[0] == "ask" && len(words) > 1 {
		text = strings.Join(words[1:], " ")
	}
	if s.script, err = scriptFor(s.dir, text); err != nil {
		return err
	}
	if s.script.Old && slices.Contains(flags, "--json") {
		return errors.New("unknown flag: --json")
	}
	switch {
	case args[0] == "version":
		s.out.WriteString("0.0.42-stand-in\n")
		return s.fail(s.script.Version)
	case slices.Contains(flags, "--help"):
		s.out.WriteString("Usage:\n  tincan ask <agent> <message...> [flags]\n\nFlags:\n      --wait duration   how long to wait\n")
		if !s.script.Old {
			s.out.WriteString("      --json            print the outcome as JSON\n")
		}
		return nil
	case args[0] == "agents":
		list := s.script.Agents
		if list == "" {
			list = "# relay version 0.0.42\n" + fmt.Sprintf("%-14s %-8s wake=%s %s\n", DefaultPeer, "online", "poll", "last seen 3s ago")
		}
		s.out.WriteString(list)
		return s.fail(s.script.List)
	case args[0] == "ask" && len(words) > 1:
		return s.ask(flags, words[0], text)
	case args[0] == "get" && len(words) == 1:
		return s.get(flags, words[0])
	}
	return errors.New("wrong number of arguments")
}

// split takes flags apart from words as the real program does: behind -- there
// are words alone, before it whatever begins with - is a flag, wherever it is.
func split(args []string) (flags, words []string, err error) {
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "--":
			return flags, append(words, args[i+1:]...), nil
		case arg == "--wait":
			if i++; i >= len(args) {
				return nil, nil, errors.New("flag needs an argument: --wait")
			}
			if _, err := time.ParseDuration(args[i]); err != nil {
				return nil, nil, errors.New("invalid argument for --wait")
			}
			flags = append(flags, arg+"="+args[i])
		case arg == "--json" || arg == "--help":
			flags = append(flags, arg)
		case strings.HasPrefix(arg, "-") && arg != "-":
			return nil, nil, errors.New("unknown flag: " + arg)
		default:
			words = append(words, arg)
		}
	}
	return flags, words, nil
}

// request is what the relay has of one.
type request struct {
	Submission

	Script Script `json:"script"`
}

func (s *stand) ask(flags []string, peer, text string) error {
	if err := s.script.Ask.before(); err != nil {
		return err
	}
	earlier, err := Submissions(s.dir)
	if err != nil {
		return err
	}
	r := request{Submission{fmt.Sprintf("req_%04d_%d", len(earlier)+1, os.Getpid()), s.config.Agent, peer, text}, s.script}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "requests"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(s.path(r.ID), b, 0o600); err != nil {
		return err
	}
	if err := s.add("submissions.jsonl", r.Submission); err != nil {
		return err
	}
	<-time.After(s.script.Delay)
	if !slices.Contains(flags, "--wait=0s") {
		return errors.New("this stand-in waits for nothing")
	}
	status := "queued"
	if s.script.Ask == AtOnce {
		status = "answered"
	}
	s.tell(flags, r, status, s.script.Ask)
	return s.fail(s.script.Ask)
}

func (s *stand) path(id string) string {
	return filepath.Join(s.dir, "requests", filepath.Base(id)+".json")
}

func (s *stand) get(flags []string, id string) error {
	b, err := os.ReadFile(s.path(id))
	if err != nil {
		return errors.New("relay: 404: no such request")
	}
	var r request
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	if r.From != s.config.Agent {
		return errors.New("relay: 404: no such request") // another identity's
	}
	turn, err := s.turn(id)
	if err != nil {
		return err
	}
	fault := None
	if turn < len(r.Script.Gets) {
		fault = r.Script.Gets[turn]
	}
	statuses := r.Script.Statuses
	if len(statuses) == 0 {
		statuses = []string{"claimed", "answered"}
	}
	turn -= min(turn, len(r.Script.Gets)) // what went wrong told nothing
	s.tell(flags, r, statuses[min(turn, len(statuses)-1)], fault)
	return s.fail(fault)
}

// turn counts the looks at a request, this one left out.
func (s *stand) turn(id string) (int, error) {
	name := "gets-" + filepath.Base(id)
	if err := s.add(name, true); err != nil {
		return 0, err
	}
	all, err := lines[bool](s.dir, name)
	return len(all) - 1, err
}

func (s *stand) add(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(b, '\n')); err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (s *stand) note(args []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "SIGNALBOX_") })
	return s.add("calls.jsonl", Call{args, env, dir, len(in) > 0})
}

// tell prints what the relay has of a request, in the dialect that was asked for.
func (s *stand) tell(flags []string, r request, status string, fault Fault) {
	reply := r.Script.Reply
	if reply == "" && !r.Script.Mute {
		reply = "done: " + r.Body
	}
	from, to, id, replier := r.From, r.To, r.ID, r.To
	switch fault {
	case NoID:
		id = ""
	case OtherID:
		id = "req_of_somebody_else"
	case OtherPeer:
		to, replier = "somebody-else", "somebody-else"
	case OtherAgent:
		from = "somebody-else"
	case OtherReply:
		replier = "somebody-else"
	case Strange:
		status = "pondering"
	default:
	}
	replied := slices.Contains([]string{"answered", "failed", "declined"}, status)
	over := replied || status == "cancelled" || status == "expired"
	if slices.Contains(flags, "--json") {
		s.tellJSON(r, id, from, to, replier, status, reply, replied, over, fault)
		return
	}
	switch {
	case fault == Notify:
		fmt.Fprintf(&s.out, "Sent to %s (request %s).\n", to, id)
	case replied:
		fmt.Fprintf(&s.out, "%s replied (%s):\n%s\n", replier, status, reply)
	case over:
		fmt.Fprintf(&s.out, "Request %s to %s ended: %s\n", id, to, status)
	default:
		fmt.Fprintf(&s.out, "No reply yet from %s. Request id %s (status %s). Check later with get_reply or `tincan get %s`.\n", to, id, status, id)
	}
	if fault == WrongExit {
		s.code = 1
	}
}

func (s *stand) tellJSON(r request, id, from, to, replier, status, reply string, replied, over bool, fault Fault) {
	req := map[string]any{"id": id, "from": from, "to": to, "trace_id": "t-" + r.ID, "hop": 1, "chain": []string{r.From}, "kind": "ask", "body": r.Body, "created_at": "2026-10-26T08:00:00Z"}
	result := map[string]any{"request": req, "status": status}
	if replied {
		result["reply"] = map[string]any{"request_id": id, "from": replier, "status": status, "body": reply, "attachments": r.Script.Attachments, "created_at": "2026-10-26T08:01:00Z"}
	}
	outcome := "pending"
	s.code = 2
	switch {
	case status == "answered":
		outcome, s.code = "answered", 0
	case over:
		outcome, s.code = "failed", 1
	}
	answer := map[string]any{"outcome": outcome, "result": result}
	switch fault {
	case Notify:
		answer, s.code = map[string]any{"outcome": "sent", "request": req}, 0
	case WrongExit:
		s.code = (s.code + 1) % 3
	default:
	}
	b, _ := json.MarshalIndent(answer, "", "  ") // strings, numbers and lists
	s.out.Write(append(b, '\n'))
}

// before is what goes wrong before the relay does anything.
func (f Fault) before() error {
	if f == Unreachable {
		return errors.New("dial tcp: connection refused")
	}
	if f == Stranger {
		return errors.New("this node is not a joined agent")
	}
	return nil
}

// fail does what goes wrong after the relay did its part.
func (s *stand) fail(f Fault) error {
	switch f {
	case Unreachable, Stranger:
		return f.before()
	case Lost:
		return errors.New("the relay did not answer: connection reset by peer")
	case Silent:
		s.out.Reset()
		s.code = 0
	case Killed:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		<-time.After(outlive)
	case Hang:
		s.hang()
	case HangAfter:
		_, _ = os.Stdout.Write(s.out.Bytes())
		s.hang()
	case Flood:
		for range outlive / time.Millisecond {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 64<<10)); err != nil {
				os.Exit(1)
			}
		}
	case StderrFlood:
		for range 1000 {
			_, _ = os.Stderr.WriteString(strings.Repeat("a message of no use ", 100) + "\n")
		}
	case Garbage:
		s.out.Reset()
		s.out.WriteString("{\"outcome\":\"answered\",\"result\":[\nPending?\n")
	case Half:
		s.out.Truncate(s.out.Len() / 2)
	case Trailing:
		s.out.WriteString("{}\n")
	default:
	}
	return nil
}

// hang stays without a word, with a child in a session of its own.
func (s *stand) hang() {
	if exe, err := os.Executable(); err == nil {
		c := exec.CommandContext(context.Background(), exe, sleeper) // it outlives us
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if c.Start() == nil {
			_ = s.add("sleepers.jsonl", c.Process.Pid)
		}
	}
	sleep()
}

// sleep stays until it is killed.
func sleep() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	<-time.After(outlive)
	os.Exit(1)
}
