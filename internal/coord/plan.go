package coord

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Plan is what a job is to do, as drafted. Only a task's agent and
// instruction are required. It is the plan file's and the API's shape.
type Plan struct {
	Title string `json:"title,omitempty" toml:"title" doc:"What the job is for; the first task's instruction when empty"`
	// Deadline bounds the whole run, sleep included.
	Deadline Duration   `json:"deadline,omitempty" toml:"deadline" doc:"How long the job may run, such as 45m; at most 2h"`
	Tasks    []PlanTask `json:"tasks" toml:"tasks"`
	// Limits bound what the whole job may use.
	Limits Limits `json:"limits,omitzero" toml:"limits"`
}

// Limits are checked before each send against what the job's attempts have
// told of their usage so far; zero means no limit.
type Limits struct {
	Tokens int64 `json:"tokens,omitempty" toml:"tokens" minimum:"0" doc:"Tokens, in and out, of all attempts together"`
}

// PlanTask is one task of a plan.
type PlanTask struct {
	// Key names the task in its plan; "task-N" when empty.
	Key        string      `json:"key,omitempty" toml:"key"`
	Title      string      `json:"title,omitempty" toml:"title"`
	Agent      AgentID     `json:"agent" toml:"agent"`
	Operations []Operation `json:"operations,omitempty" toml:"operations" doc:"research (the default), read, write, test"`
	Workspace  string      `json:"workspace,omitempty" toml:"workspace" doc:"Absolute path of the folder that the agent starts in"`
	Writes     WriteMode   `json:"writes,omitempty" toml:"writes" doc:"staged (the default) or each"`
	// Tests are files of tests that the agent may run without asking, at most
	// TestRuns times; it asks for other runs one by one.
	Tests    []string `json:"tests,omitempty" toml:"tests" doc:"Files of tests that the agent may run without asking"`
	TestRuns int      `json:"test_runs,omitempty" toml:"test_runs" minimum:"0" maximum:"100" doc:"How often it may run them; 20 when tests are named"`
	// Base is the change set that the work starts from.
	Base        string   `json:"base,omitempty" toml:"base" maxLength:"100" doc:"A change set (c7) of the same workspace that the work starts from"`
	Instruction string   `json:"instruction" toml:"instruction"`
	Needs       []string `json:"needs,omitempty" toml:"needs" doc:"Keys of the tasks whose results this one gets"`
	// Inputs are results of an earlier job, quoted to the agent as data; only
	// Retry and Continue fill them.
	Inputs []Input `json:"inputs,omitempty" toml:"-"`
}

// WriteMode is how a task's writes come before the operator.
type WriteMode string

// The write modes.
const (
	Staged WriteMode = "staged"
	Each   WriteMode = "each"
)

// Input is a result of an earlier job that a task gets as data.
type Input struct {
	Job   JobID   `json:"job"`
	Key   string  `json:"key"`
	Agent AgentID `json:"agent"`
	Text  string  `json:"text"`
	// SHA256 is that of the whole statement the text was taken from.
	SHA256 string `json:"sha256"`
}

// Duration is a time.Duration written as "45m" in JSON and TOML.
type Duration time.Duration

// MarshalText writes "45m0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("not a duration such as 45m or 1h30m")
	}
	*d = Duration(v)
	return nil
}

// String writes the duration without its zero parts: "45m", "1h30m".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// Completed gives the plan with every default filled in.
func (p Plan) Completed() Plan {
	p.Tasks = slices.Clone(p.Tasks)
	for i := range p.Tasks {
		t := &p.Tasks[i]
		if t.Key == "" {
			t.Key = fmt.Sprintf("task-%d", i+1)
		}
		if t.Title == "" {
			t.Title = headline(t.Instruction)
		}
		if len(t.Operations) == 0 {
			t.Operations = []Operation{Research}
		}
		if t.Writes == "" && slices.Contains(t.Operations, Write) {
			t.Writes = Staged
		}
		if t.TestRuns == 0 && len(t.Tests) > 0 {
			t.TestRuns = DefaultTestRuns
		}
	}
	if p.Title == "" && len(p.Tasks) > 0 {
		p.Title = headline(p.Tasks[0].Instruction)
	}
	if p.Deadline == 0 {
		p.Deadline = Duration(DefaultDeadline)
	}
	return p
}

// headline is the first line of s, cut to 60 characters.
func headline(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(line); len(r) > 60 {
		return strings.TrimSpace(string(r[:59])) + "…"
	}
	return line
}

// Validate gives every fault of a completed plan that can be seen without
// looking at the directory or the disk: bounds, keys, needs and cycles,
// operations, and writers that would meet.
func (p Plan) Validate() []Field {
	var f []Field
	add := func(pointer, format string, args ...any) {
		f = append(f, Field{pointer, fmt.Sprintf(format, args...)})
	}
	if utf8.RuneCountInString(p.Title) > MaxTitle {
		add("/title", "longer than %d characters", MaxTitle)
	}
	if p.Deadline < Duration(time.Second) || p.Deadline > Duration(MaxDeadline) {
		add("/deadline", "must be between 1s and %s", Duration(MaxDeadline))
	}
	if p.Limits.Tokens < 0 {
		add("/limits/tokens", "must not be negative")
	}
	if len(p.Tasks) == 0 {
		add("/tasks", "a plan needs at least one task")
	}
	if len(p.Tasks) > MaxTasks {
		add("/tasks", "%d tasks; at most %d can be reviewed", len(p.Tasks), MaxTasks)
		return f
	}
	first := map[string]int{}
	for i, t := range p.Tasks {
		at := fmt.Sprintf("/tasks/%d", i)
		f = append(f, t.validate(at)...)
		if j, dup := first[t.Key]; dup {
			add(at+"/key", "the key of task %d again; keys are unique", j+1)
		} else {
			first[t.Key] = i
		}
	}
	for i, t := range p.Tasks {
		for n, need := range t.Needs {
			at := fmt.Sprintf("/tasks/%d/needs/%d", i, n)
			switch _, known := first[need]; {
			case !known:
				add(at, "no task of this plan has this key")
			case need == t.Key:
				add(at, "a task cannot need itself")
			case slices.Contains(t.Needs[:n], need):
				add(at, "needed twice")
			}
		}
	}
	for _, cycle := range p.cycles(first) {
		add(fmt.Sprintf("/tasks/%d/needs", first[cycle[0]]), "the needs form a circle: %s", strings.Join(cycle, " needs "))
	}
	return append(f, p.meetingWriters(first)...)
}

func (t PlanTask) validate(at string) []Field {
	var f []Field
	add := func(pointer, format string, args ...any) {
		f = append(f, Field{at + pointer, fmt.Sprintf(format, args...)})
	}
	if !ValidKey(t.Key) {
		add("/key", "1 to 64 of a-z, 0-9, '.', '_', '-', starting with a letter or digit")
	}
	if utf8.RuneCountInString(t.Title) > MaxTitle {
		add("/title", "longer than %d characters", MaxTitle)
	}
	if t.Agent == "" {
		add("/agent", "required: the id of a registered agent")
	} else if !ValidAgentID(string(t.Agent)) {
		add("/agent", "not an agent id: 1 to 64 of a-z, 0-9, '.', '_', '-'")
	}
	switch {
	case strings.TrimSpace(t.Instruction) == "":
		add("/instruction", "required: what the agent is to do")
	case len(t.Instruction) > MaxInstruction:
		add("/instruction", "%d bytes; at most %d", len(t.Instruction), MaxInstruction)
	case !utf8.ValidString(t.Instruction):
		add("/instruction", "not valid UTF-8")
	}
	for i, op := range t.Operations {
		if !slices.Contains(Operations, op) {
			add(fmt.Sprintf("/operations/%d", i), "unknown; one of research, read, write, test")
		} else if slices.Contains(t.Operations[:i], op) {
			add(fmt.Sprintf("/operations/%d", i), "named twice")
		}
	}
	if t.Workspace != "" && (!filepath.IsAbs(t.Workspace) || filepath.Clean(t.Workspace) != t.Workspace) {
		add("/workspace", "must be an absolute path without . or .. and without a trailing slash")
	}
	edits := slices.Contains(t.Operations, Write) || slices.Contains(t.Operations, Test) || slices.Contains(t.Operations, Read)
	if edits && t.Workspace == "" {
		add("/workspace", "required with read, write or test")
	}
	if t.Writes != "" && t.Writes != Staged && t.Writes != Each {
		add("/writes", "staged or each")
	} else if t.Writes != "" && !slices.Contains(t.Operations, Write) {
		add("/writes", "only with the operation write")
	}
	if len(t.Tests) > 0 && !slices.Contains(t.Operations, Test) {
		add("/tests", "only with the operation test")
	}
	if len(t.Tests) > MaxTestFiles {
		add("/tests", "%d files; at most %d", len(t.Tests), MaxTestFiles)
	}
	if t.TestRuns < 0 || t.TestRuns > MaxTestRuns {
		add("/test_runs", "at most %d", MaxTestRuns)
	} else if t.TestRuns > 0 && len(t.Tests) == 0 {
		add("/test_runs", "only with tests, which it counts the runs of")
	}
	if t.Base != "" {
		if _, err := ParseChangeSetRef(t.Base); err != nil {
			add("/base", "not a change set: write its number (c7) or its id (cs_…)")
		} else if !slices.Contains(t.Operations, Write) && !slices.Contains(t.Operations, Read) && !slices.Contains(t.Operations, Test) {
			add("/base", "only with read, write or test")
		} else if t.Writes == Each {
			add("/base", "not with writes each, which change the files themselves: land the change set first")
		}
	}
	if len(t.Needs) > MaxNeeds {
		add("/needs", "%d needs; at most %d", len(t.Needs), MaxNeeds)
	}
	return f
}

// cycles gives each circle of needs once, as the keys along it with the first
// one again at the end.
func (p Plan) cycles(index map[string]int) [][]string {
	var out [][]string
	state := make([]int, len(p.Tasks)) // 0 new, 1 on the path, 2 done
	var path []string
	var visit func(i int)
	visit = func(i int) {
		state[i] = 1
		path = append(path, p.Tasks[i].Key)
		for _, need := range p.Tasks[i].Needs {
			j, ok := index[need]
			switch {
			case !ok || j == i:
			case state[j] == 0:
				visit(j)
			case state[j] == 1:
				at := slices.Index(path, need)
				out = append(out, append(slices.Clone(path[at:]), need))
			}
		}
		path = path[:len(path)-1]
		state[i] = 2
	}
	for i := range p.Tasks {
		if state[i] == 0 {
			visit(i)
		}
	}
	return out
}

// meetingWriters tells of tasks that write in the same workspace without one
// needing the other: their order would be chance.
func (p Plan) meetingWriters(index map[string]int) []Field {
	var f []Field
	for i, a := range p.Tasks {
		for j, b := range p.Tasks[:i] {
			if !slices.Contains(a.Operations, Write) || !slices.Contains(b.Operations, Write) || !overlap(a.Workspace, b.Workspace) {
				continue
			}
			if !p.reaches(index, i, j) && !p.reaches(index, j, i) {
				f = append(f, Field{fmt.Sprintf("/tasks/%d/workspace", i), fmt.Sprintf("written by task %d (%s) too; let one of them need the other", j+1, b.Key)})
			}
		}
	}
	return f
}

// overlap reports whether one folder is the other or lies in it.
func overlap(a, b string) bool {
	within := func(in, out string) bool { return in == out || strings.HasPrefix(in, strings.TrimSuffix(out, "/")+"/") }
	return a != "" && b != "" && (within(a, b) || within(b, a))
}

// reaches reports whether task from needs task to, directly or not.
func (p Plan) reaches(index map[string]int, from, to int) bool {
	seen := make([]bool, len(p.Tasks))
	var visit func(i int) bool
	visit = func(i int) bool {
		if i == to {
			return true
		}
		seen[i] = true
		for _, need := range p.Tasks[i].Needs {
			if j, ok := index[need]; ok && !seen[j] && visit(j) {
				return true
			}
		}
		return false
	}
	return visit(from)
}

// Frozen is a plan made exact: what a person approves and what then runs.
type Frozen struct {
	Plan  Plan         `json:"plan"`
	Tasks []FrozenTask `json:"tasks"`
	// Digest is the SHA-256, in hex, of all of the above.
	Digest string `json:"digest"`
	// Warnings are shown at review and are no part of the digest.
	Warnings []string `json:"warnings,omitempty"`
	At       Moment   `json:"at"`
}

// FrozenTask holds what the key's agent and workspace were at freeze.
type FrozenTask struct {
	Key      string             `json:"key"`
	Agent    AgentID            `json:"agent"`
	Revision int                `json:"revision"`
	Config   AgentConfig        `json:"config"`
	Host     string             `json:"host"`
	Identity Identity           `json:"identity"`
	Space    *WorkspaceIdentity `json:"workspace,omitempty"`
	// Base is the change set that the plan names, as far as the work starts from
	// it.
	Base *FrozenBase `json:"base,omitempty"`
}

// FrozenBase is what a task starts from of a change set, as it was at freeze.
type FrozenBase struct {
	ChangeSet ChangeSetID `json:"change_set"`
	// LeftOut are the paths that the operator had left out, in order. The task
	// does not start from them.
	LeftOut []string `json:"left_out,omitempty"`
	// Digest is the SHA-256, in hex, over the folder, its commit and the files
	// that the task starts from.
	Digest string `json:"digest"`
}

// WorkspaceIdentity tells one folder from another that took its place.
type WorkspaceIdentity struct {
	Path   string `json:"path"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// Head is the git commit checked out, "" outside git.
	Head string `json:"head,omitempty"`
}

// Digestible is the canonical content that the digest of a frozen plan covers:
// nothing in it depends on when it was frozen.
func (f Frozen) Digestible() ([]byte, error) {
	return json.Marshal(struct {
		Plan  Plan         `json:"plan"`
		Tasks []FrozenTask `json:"tasks"`
	}{f.Plan, f.Tasks})
}

// Grant is the operator's approval of one frozen plan.
type Grant struct {
	Digest string `json:"digest"`
	By     Actor  `json:"by"`
	At     Moment `json:"at"`
}
