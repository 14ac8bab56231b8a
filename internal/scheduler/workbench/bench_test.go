package workbench

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/workspace"
	"signalbox/internal/workspace/workspacetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tester notes what it is to run, and runs nothing.
type tester struct {
	planned []string
	err     error
}

func (t *tester) Plan(_ context.Context, _ coord.WorkspaceIdentity, changes []coord.FileChange, files []string) (coord.TestRun, error) {
	if t.err != nil {
		return coord.TestRun{}, t.err
	}
	t.planned = append(t.planned, strings.Join(files, " "))
	run := coord.TestRun{Runner: "bun", Program: "/opt/bun", SHA256: "p", Args: []string{"test"}}
	for _, f := range files {
		sum := "as it is"
		for _, c := range changes {
			if c.Path == f {
				sum = c.After
			}
		}
		run.Files = append(run.Files, coord.TestFile{Path: f, SHA256: sum})
	}
	return run, nil
}

func (*tester) Run(context.Context, coord.WorkspaceIdentity, []coord.FileChange, coord.TestRun) (coord.TestReport, []byte, error) {
	return coord.TestReport{Outcome: coord.TestsPassed, Passed: 1}, []byte("ok"), nil
}

// bench opens a folder that holds files.
func bench(t *testing.T, files map[string]string, edit func(*Options)) (*Bench, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	space, _, err := workspace.Identify(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Space: space, Operations: []coord.Operation{coord.Read, coord.Write, coord.Test}, Writes: coord.Staged,
		Contents: &workspacetest.Contents{}, Tester: &tester{}}
	if edit != nil {
		edit(&o)
	}
	b, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, dir
}

func (b *Bench) do(t *testing.T, tool, arguments string) Reply {
	t.Helper()
	return b.Call(t.Context(), provider.Call{Tool: tool, Arguments: json.RawMessage(arguments)})
}

func TestOperationsPermitExactlyTheirTools(t *testing.T) {
	for _, c := range []struct {
		operations []coord.Operation
		want       string
	}{
		{nil, ""},
		{[]coord.Operation{coord.Research}, ""},
		{[]coord.Operation{coord.Read}, "list read"},
		{[]coord.Operation{coord.Read, coord.Write}, "list read write"},
		{[]coord.Operation{coord.Read, coord.Test}, "list read run_tests"},
		{[]coord.Operation{coord.Test, coord.Write}, "list read write run_tests"},
	} {
		var names []string
		for _, tool := range Tools(c.operations, coord.Staged) {
			names = append(names, tool.Name)
			if !json.Valid(tool.Schema) {
				t.Errorf("the schema of %s is no JSON: %s", tool.Name, tool.Schema)
			}
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%v permits %q, want %q", c.operations, got, c.want)
		}
	}
	staged, each := Tools([]coord.Operation{coord.Write}, coord.Staged)[2], Tools([]coord.Operation{coord.Write}, coord.Each)[2]
	if !strings.Contains(staged.Description, "change set") || !strings.Contains(each.Description, "may deny it") {
		t.Errorf("the modes are described as %q and %q", staged.Description, each.Description)
	}
}

func TestFaultsOfACallAreToldInWordsAndChangeNothing(t *testing.T) {
	b, dir := bench(t, map[string]string{"a.txt": "a\n", "bin": "a\x00b", ".env": "SECRET=1\n"}, nil)
	for _, c := range []struct{ name, tool, arguments, want string }{
		{"no tool", "exec", `{}`, "no such tool"},
		{"no JSON", "read", `path`, "do not fit"},
		{"another member", "read", `{"path":"a.txt","mode":1}`, "do not fit"},
		{"another type", "read", `{"path":1}`, "do not fit"},
		{"two values", "read", `{"path":"a.txt"}{"path":"a.txt"}`, "do not fit"},
		{"no such file", "read", `{"path":"b.txt"}`, "does not exist"},
		{"out of the folder", "read", `{"path":"../a.txt"}`, ".."},
		{"a secret", "read", `{"path":".env"}`, "no access"},
		{"no text", "read", `{"path":"bin"}`, "UTF-8"},
		{"nothing to write", "write", `{"path":"a.txt"}`, "exactly one"},
		{"content and delete", "write", `{"path":"a.txt","content":"","delete":true}`, "exactly one"},
		{"content and from", "write", `{"path":"b.txt","content":"","from":"a.txt"}`, "exactly one"},
		{"delete and from", "write", `{"path":"b.txt","delete":true,"from":"a.txt"}`, "exactly one"},
		{"delete nothing", "write", `{"path":"b.txt","delete":true}`, "does not exist"},
		{"no tests", "run_tests", `{"files":[]}`, "1 to 16"},
		{"too many tests", "run_tests", `{"files":[` + strings.Repeat(`"a",`, 16) + `"a"]}`, "1 to 16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.do(t, c.tool, c.arguments)
			if !r.Result.Failed || !r.Did.Failed || r.Ask != nil || r.Wrote || !strings.Contains(r.Result.Text, c.want) {
				t.Errorf("it gives %+v", r)
			}
		})
	}
	if n := len(b.Changes()); n != 0 {
		t.Errorf("there are %d changes", n)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(got) != "a\n" {
		t.Errorf("the file is %q (%v)", got, err)
	}
}

func TestStagedWritesAreSeenByReadsAndTestsAndNotByTheFolder(t *testing.T) {
	b, dir := bench(t, map[string]string{"a.txt": "a\n"}, nil)
	if r := b.do(t, "write", `{"path":"a.txt","content":"A\n"}`); !r.Wrote || r.Ask != nil || !strings.Contains(r.Result.Text, "change a.txt") {
		t.Errorf("writing gives %+v", r)
	}
	if r := b.do(t, "read", `{"path":"a.txt"}`); r.Result.Text != "A\n" || r.Did.SHA256 != workspace.Sum([]byte("A\n")) {
		t.Errorf("reading gives %+v", r)
	}
	if r := b.do(t, "run_tests", `{"files":["a.txt"]}`); r.Ask == nil || r.Ask.Test.Files[0].SHA256 != workspace.Sum([]byte("A\n")) {
		t.Errorf("testing gives %+v", r)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(got) != "a\n" {
		t.Errorf("the file is %q (%v)", got, err)
	}
	if r := b.do(t, "write", `{"path":"a.txt","content":"a\n"}`); !r.Wrote || !strings.Contains(r.Result.Text, "as it was") || len(b.Changes()) != 0 {
		t.Errorf("writing it back gives %+v and %+v", r, b.Changes())
	}
}

func TestEachWriteIsPlannedOnWhatIsThereNow(t *testing.T) {
	b, dir := bench(t, map[string]string{"a.txt": "a\n"}, func(o *Options) { o.Writes = coord.Each })
	r := b.do(t, "write", `{"path":"a.txt","content":"A\n"}`)
	if r.Ask == nil || r.Wrote || r.Ask.Kind != coord.WriteFile || r.Ask.Change.Before != workspace.Sum([]byte("a\n")) || r.Granted != "" {
		t.Fatalf("writing gives %+v", r)
	}
	if want := "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+A\n"; r.Ask.Content.Detail != want || r.Ask.Content.Title != "change a.txt, +1 -1" {
		t.Errorf("what is shown: %s", cmp.Diff(want, r.Ask.Content.Detail))
	}
	// It lands, and the next one stands on it.
	first := *r.Ask
	first.ID = "req_1"
	steps := Plan(first)
	if len(steps) != 1 {
		t.Fatalf("the steps are %+v", steps)
	}
	if step := Take(t.Context(), b.o.Space, b.o.Contents, steps[0]); step.State != coord.StepLanded {
		t.Fatalf("the step is %+v", step)
	}
	if r := b.do(t, "write", `{"path":"a.txt","content":"A\n"}`); r.Ask != nil || r.Result.Failed {
		t.Errorf("writing the same again gives %+v", r)
	}
	if r = b.do(t, "write", `{"path":"a.txt","content":"AA\n"}`); r.Ask == nil || r.Ask.Change.Before != workspace.Sum([]byte("A\n")) {
		t.Fatalf("the next write gives %+v", r)
	}
	// Somebody else is first.
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("theirs\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := *r.Ask
	second.ID = "req_2"
	step := Take(t.Context(), b.o.Space, b.o.Contents, Plan(second)[0])
	if on, note := Outcome([]coord.LandingStep{step}); on != coord.EffectFail || !strings.Contains(note, "changed") {
		t.Errorf("it comes to %s, %q", on, note)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(got) != "theirs\n" {
		t.Errorf("the file is %q (%v)", got, err)
	}
}

func TestAPlanGrantsItsTestsAsOftenAsItSays(t *testing.T) {
	b, _ := bench(t, nil, func(o *Options) { o.Tests, o.TestRuns = []string{"a.test.ts", "b.test.ts"}, 2 })
	for i, c := range []struct{ files, want string }{
		{`"c.test.ts"`, ""},
		{`"a.test.ts","c.test.ts"`, ""},
		{`"a.test.ts"`, "run 1 of 2"},
		{`"a.test.ts","b.test.ts"`, "run 2 of 2"},
		{`"a.test.ts"`, ""},
	} {
		r := b.do(t, "run_tests", `{"files":[`+c.files+`]}`)
		if r.Ask == nil || (c.want == "") != (r.Granted == "") || !strings.Contains(r.Granted, c.want) {
			t.Errorf("call %d is granted by %q, want %q: %+v", i+1, r.Granted, c.want, r.Result)
		}
	}
	// What cannot be planned takes nothing of the grant.
	b, _ = bench(t, nil, func(o *Options) {
		o.Tests, o.TestRuns, o.Tester = []string{"a.test.ts"}, 1, &tester{err: coord.Errorf(coord.Stale, "no certificate holds")}
	})
	if r := b.do(t, "run_tests", `{"files":["a.test.ts"]}`); r.Ask != nil || !strings.Contains(r.Result.Text, "no certificate") {
		t.Errorf("without a certificate it gives %+v", r)
	}
	b.o.Tester = &tester{}
	if r := b.do(t, "run_tests", `{"files":["a.test.ts"]}`); r.Granted == "" {
		t.Error("the run that was not made was counted")
	}
}

func TestAnInternalFaultIsNotToldToTheAgent(t *testing.T) {
	b, _ := bench(t, nil, func(o *Options) { o.Tester = &tester{err: os.ErrClosed} })
	if r := b.do(t, "run_tests", `{"files":["a.test.ts"]}`); !r.Result.Failed || !strings.Contains(r.Result.Text, "inside Signalbox") {
		t.Errorf("it gives %+v", r)
	}
}
