package planning_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/planning"
)

const (
	planJSON = `{"title": "Fix the parser", "deadline": "45m", "limits": {"tokens": 1000},
 "tasks": [
  {"key": "survey", "agent": "reviewer", "operations": ["research"], "instruction": "Look"},
  {"key": "fix", "agent": "codex", "operations": ["read", "write", "test"], "workspace": "/abs/repo", "writes": "each",
   "tests": ["src/parser.test.ts"], "instruction": "Fix", "needs": ["survey"]}]}`
	planTOML = `title = "Fix the parser"
deadline = "45m"
limits = {tokens = 1000}

[[tasks]]
key = "survey"
agent = "reviewer"
operations = ["research"]
instruction = "Look"

[[tasks]]
key = "fix"
agent = "codex"
operations = ["read", "write", "test"]
workspace = "/abs/repo"
writes = "each"
tests = ["src/parser.test.ts"]
instruction = "Fix"
needs = ["survey"]
`
)

func TestBothFormatsGiveTheSamePlan(t *testing.T) {
	want := coord.Plan{Title: "Fix the parser", Deadline: coord.Duration(45 * time.Minute), Limits: coord.Limits{Tokens: 1000}, Tasks: []coord.PlanTask{
		{Key: "survey", Agent: "reviewer", Operations: []coord.Operation{coord.Research}, Instruction: "Look"},
		{Key: "fix", Agent: "codex", Operations: []coord.Operation{coord.Read, coord.Write, coord.Test}, Workspace: "/abs/repo", Writes: coord.Each,
			Tests: []string{"src/parser.test.ts"}, Instruction: "Fix", Needs: []string{"survey"}},
	}}
	for _, c := range []struct{ name, data string }{
		{"plan.json", planJSON}, {"plan.toml", planTOML}, {"", planJSON}, {"-", planTOML}, {"PLAN.JSON", "\ufeff" + planJSON},
	} {
		got, err := planning.ParseFile(c.name, []byte(c.data))
		if err != nil {
			t.Errorf("%q: %v", c.name, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestFaultyPlanFileSaysWhere(t *testing.T) {
	const tail = `"tasks": [{"agent": "codex", "instruction": "x"}]`
	cases := []struct {
		name, file, data string
		code             coord.Code
		// want are the pointers, or else text within the message.
		want []string
		text string
	}{
		{"unknown members", "p.json", `{"titel": "x", "tasks": [{"agnt": 1}]}`, coord.Invalid, []string{"/titel", "/tasks/0/agnt"}, ""},
		{"members in another case", "p.json", `{"Title": "x", ` + tail + `}`, coord.Invalid, []string{"/Title"}, ""},
		{"a repeated member", "p.json", `{"title": "x", "title": "y", ` + tail + `}`, coord.Invalid, []string{"/title"}, ""},
		{"a repeated member of a task", "p.json", `{"tasks": [{"agent": "a", "agent": "b"}]}`, coord.Invalid, []string{"/tasks/0/agent"}, ""},
		{"wrong types", "p.json", `{"title": 1, "deadline": 45, "limits": [], "tasks": {"a": 1}}`, coord.Invalid, []string{"/title", "/deadline", "/limits", "/tasks"}, ""},
		{"wrong types in a task", "p.json", `{"tasks": [{"agent": null, "operations": "read", "needs": [1], "instruction": true}, "x"]}`, coord.Invalid,
			[]string{"/tasks/0/agent", "/tasks/0/operations", "/tasks/0/needs/0", "/tasks/0/instruction", "/tasks/1"}, ""},
		{"a bad duration", "p.json", `{"deadline": "soon", ` + tail + `}`, coord.Invalid, []string{"/deadline"}, ""},
		{"a broken number", "p.json", `{"limits": {"tokens": 1.5}, ` + tail + `}`, coord.Invalid, []string{"/limits/tokens"}, ""},
		{"inputs", "p.json", `{"tasks": [{"agent": "codex", "instruction": "x", "inputs": []}]}`, coord.Invalid, []string{"/tasks/0/inputs"}, ""},
		{"data after the end", "p.json", "{" + tail + "}\n{}", coord.Invalid, nil, "line 2"},
		{"cut off", "p.json", `{"title": "x",` + "\n" + ` "tasks": [`, coord.Invalid, nil, "not JSON at line 2"},
		{"no JSON", "p.json", "{\n  title\n}", coord.Invalid, nil, "line 2, column 3"},
		{"a list", "p.json", `[]`, coord.Invalid, []string{""}, ""},
		{"too deep", "p.json", `{"x": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, coord.Invalid, nil, "deeper"},
		{"broken UTF-8", "p.json", "{\n\"title\": \"\xff\"}", coord.Invalid, nil, "UTF-8 at line 2, column 11"},
		{"too long", "p.json", strings.Repeat(" ", coord.MaxBody+1), coord.Limit, nil, "at most"},
		{"nothing", "p.json", "", coord.Invalid, nil, "line 1"},
		{"unknown keys in TOML", "p.toml", "titel = \"x\"\n[[tasks]]\nagnt = \"y\"\n", coord.Invalid, []string{"/titel", "/tasks/agnt"}, "line 3, column 1"},
		{"inputs in TOML", "p.toml", "[[tasks]]\nagent = \"a\"\n[[tasks.inputs]]\ntext = \"x\"\n", coord.Invalid, nil, "line 3"},
		{"a repeated key in TOML", "p.toml", "title = \"x\"\ntitle = \"y\"\n", coord.Invalid, nil, "line 2"},
		{"a wrong type in TOML", "p.toml", "title = \"x\"\ntasks = 1\n", coord.Invalid, nil, "line 2"},
		{"a bad duration in TOML", "p.toml", "title = \"x\"\ndeadline = \"soon\"\n", coord.Invalid, nil, "line 2"},
		{"no TOML", "p.toml", "title = \"x\"\n===\n", coord.Invalid, nil, "line 2"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := planning.ParseFile(c.file, []byte(c.data))
			if coord.CodeOf(err) != c.code {
				t.Fatalf("got %+v, %v", got, err)
			}
			var pointers []string
			if e, ok := errors.AsType[*coord.Error](err); ok {
				for _, f := range e.Fields {
					pointers = append(pointers, f.Pointer)
				}
			}
			if c.want != nil {
				if diff := cmp.Diff(c.want, pointers); diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			}
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("%q does not say %q", err, c.text)
			}
		})
	}
}

func TestErrorOfAPlanFileDoesNotRepeatItsContent(t *testing.T) {
	const secret = "hunter2hunter2hunter2"
	for _, data := range []string{
		`{"deadline": "` + secret + `"}`, `{"limits": {"tokens": "` + secret + `"}}`, "deadline = \"" + secret + "\"\n", "title = " + secret + "\n", `{"title": ` + secret + `}`,
	} {
		if _, err := planning.ParseFile("", []byte(data)); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v", err)
		}
	}
}

// FuzzParseFile: whatever is read, the parser ends, and what it accepts as JSON
// is exactly what the document says.
func FuzzParseFile(f *testing.F) {
	for _, s := range []string{planJSON, planTOML, "", "{", "{}", `{"tasks":[{"agent":"a","instruction":"\ud800"}]}`, "[[tasks]]\nagent = 1", `{"a":{"b":[{"c":1}]}}`, "\ufeff{}", "a.b.c = 1979-05-27T07:32:00Z"} {
		f.Add("plan.json", []byte(s))
		f.Add("plan.toml", []byte(s))
		f.Add("", []byte(s))
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		got, err := planning.ParseFile(name, data)
		if err != nil {
			if c := coord.CodeOf(err); c != coord.Invalid && c != coord.Limit {
				t.Fatalf("code %s: %v", c, err)
			}
			return
		}
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := planning.ParseFile("again.json", b)
		if err != nil && !strings.Contains(string(b), `"tasks":null`) {
			t.Fatalf("what was accepted is not accepted again: %v\n%s", err, b)
		}
		if err == nil {
			if diff := cmp.Diff(normal(got), normal(again)); diff != "" {
				t.Fatalf("(-first +again):\n%s", diff)
			}
		}
	})
}

// normal makes empty and absent lists the same.
func normal(p coord.Plan) coord.Plan {
	for i := range p.Tasks {
		t := &p.Tasks[i]
		for _, list := range []*[]string{&t.Tests, &t.Needs} {
			if len(*list) == 0 {
				*list = nil
			}
		}
		if len(t.Operations) == 0 {
			t.Operations = nil
		}
	}
	if len(p.Tasks) == 0 {
		p.Tasks = nil
	}
	return p
}
