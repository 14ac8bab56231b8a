package tincantest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Script is what the stand-in does, as the JSON of script.json.
type Script struct {
	// Old makes it a version that does not know --json.
	Old bool `json:"old,omitempty"`
	// Agents is what the relay lists, instead of one line for DefaultPeer.
	Agents string `json:"agents,omitempty"`
	// Version, List and Ask are what goes wrong with these commands.
	Version Fault `json:"version,omitempty"`
	List    Fault `json:"list,omitempty"`
	Ask     Fault `json:"ask,omitempty"`
	// Delay passes between the request's being taken and the answer of ask.
	Delay time.Duration `json:"delay,omitempty"`
	// Gets are what goes wrong with get, one each time, then nothing.
	Gets []Fault `json:"gets,omitempty"`
	// Statuses are what get tells, one each time, then the last one. Without any
	// the request is claimed, then answered.
	Statuses []string `json:"statuses,omitempty"`
	// Reply is the text of a reply.
	Reply string `json:"reply,omitempty"`
	// Mute makes the reply one without text.
	Mute bool `json:"mute,omitempty"`
	// Attachments come with the reply.
	Attachments []Attachment `json:"attachments,omitempty"`
}

// Attachment is a file that a reply names.
type Attachment struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	MIME string `json:"mime"`
	Size int64  `json:"size"`
}

// DefaultPeer is the peer that the relay lists when a script says nothing else.
const DefaultPeer = "muse"

// Fault is what goes wrong with one call. What ask does wrong it does after the
// relay took the request, but for Unreachable.
type Fault string

// The faults.
const (
	None Fault = ""
	// Unreachable: exit 1, a message, and nothing of the kind at the relay.
	Unreachable Fault = "unreachable"
	// Stranger: the relay knows no such agent, exit 1.
	Stranger Fault = "stranger"
	// Lost: the answer is lost: exit 1, a message and no output.
	Lost Fault = "lost"
	// Silent: exit 0 without output.
	Silent Fault = "silent"
	// Killed: a SIGKILL before any output.
	Killed Fault = "killed"
	// Hang: no end and no output, SIGTERM is ignored, and there is a child in a
	// session of its own that does the same.
	Hang Fault = "hang"
	// HangAfter: as Hang, after the whole answer.
	HangAfter Fault = "hang_after"
	// Flood: output without an end; StderrFlood: a flood of messages beside the
	// answer.
	Flood       Fault = "flood"
	StderrFlood Fault = "stderr_flood"
	// Garbage, Half and Trailing: output that is no answer, the first half of
	// one, and one with more after it.
	Garbage  Fault = "garbage"
	Half     Fault = "half"
	Trailing Fault = "trailing"
	// NoID, OtherID, OtherPeer and OtherAgent: an answer without an id, about
	// another request, to another peer, or of another agent.
	NoID       Fault = "no_id"
	OtherID    Fault = "other_id"
	OtherPeer  Fault = "other_peer"
	OtherAgent Fault = "other_agent"
	// OtherReply: the reply in the answer is another agent's.
	OtherReply Fault = "other_reply"
	// Strange: a status that does not exist. WrongExit: another exit code.
	Strange   Fault = "strange"
	WrongExit Fault = "wrong_exit"
	// Notify: the answer of a version that takes each text as a notice.
	Notify Fault = "notify"
	// AtOnce: the answer has the peer's reply already.
	AtOnce Fault = "at_once"
)

// Words are the scripts that a text can choose when there is no script file, by
// writing [NAME] anywhere in it; of several the first by the alphabet counts. Any
// other text is claimed, then answered.
var Words = map[string]Script{
	"hold":    {Statuses: []string{"queued", "delivered", "claimed"}},
	"queue":   {Statuses: []string{"queued"}},
	"fail":    {Statuses: []string{"claimed", "failed"}},
	"decline": {Statuses: []string{"declined"}},
	"expire":  {Statuses: []string{"queued", "expired"}},
	"abandon": {Statuses: []string{"claimed", "expired"}},
	"requeue": {Statuses: []string{"claimed", "queued", "claimed", "answered"}},
	"lose":    {Ask: Lost},
	"die":     {Ask: Killed},
	"hang":    {Ask: Hang},
	"flaky":   {Gets: []Fault{Lost, Garbage, Killed}},
}

// Write puts a script beside a profile.
func (s Script) Write(dir string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "script.json"), b, 0o600)
}

// scriptFor is the script of the folder, or the one that a text chooses.
func scriptFor(dir, text string) (s Script, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "script.json"))
	if err == nil {
		return s, json.Unmarshal(b, &s)
	}
	for _, name := range slices.Sorted(maps.Keys(Words)) {
		if strings.Contains(text, "["+name+"]") {
			s = Words[name]
			break
		}
	}
	// Not the text: a word in it would choose again for who gets the reply.
	s.Reply = WordReply
	return s, nil
}

// WordReply is the reply when there is no script file.
const WordReply = "done"

// Submission is a line of submissions.jsonl.
type Submission struct {
	ID   string `json:"id"`
	From string `json:"from"`
	To   string `json:"to"`
	Body string `json:"body"`
}

// Call is a line of calls.jsonl.
type Call struct {
	Args []string `json:"args"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	// Stdin is whether there was anything to read.
	Stdin bool `json:"stdin"`
}

// Submissions gives what the relay beside a profile took, Calls what the program
// was called with. What is not there yet is none.
func Submissions(dir string) ([]Submission, error) {
	return lines[Submission](dir, "submissions.jsonl")
}

// Calls gives what the program was called with.
func Calls(dir string) ([]Call, error) { return lines[Call](dir, "calls.jsonl") }

func lines[T any](dir, name string) ([]T, error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if os.IsNotExist(err) {
		return nil, nil
	}
	var out []T
	for line := range strings.Lines(string(b)) {
		whole, ok := strings.CutSuffix(line, "\n")
		if !ok {
			break // one that is being written
		}
		var v T
		if err := json.Unmarshal([]byte(whole), &v); err != nil {
			return out, err
		}
		out = append(out, v)
	}
	return out, err
}

// Sleepers gives the processes that Hang left.
func Sleepers(dir string) ([]int, error) { return lines[int](dir, "sleepers.jsonl") }

// Profile writes the profile file of an agent and gives its path.
func Profile(dir, agent, relay string) (string, error) {
	path := filepath.Join(dir, "client.json")
	b, err := json.MarshalIndent(map[string]any{
		"relay": relay, "agent": agent, "relay_key": Key, "relay_urls": []string{relay}, "relay_info_at": "2026-10-26T08:00:00Z",
	}, "", "  ")
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, b, 0o600)
}

// Key is the secret in profiles that Profile writes: it must turn up nowhere.
const Key = "tkey-3f9a1c77b2d84e5590aa"
