package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/e2e/peers"
	"signalbox/internal/approval"
	"signalbox/internal/certification"
	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
)

// codexHome makes a CODEX_HOME whose model is the scripted one at url.
func codexHome(t *testing.T, url string) string {
	t.Helper()
	home := t.TempDir()
	config := fmt.Sprintf(`
model = "mock-model"
model_provider = "mock"
[model_providers.mock]
name = "mock"
base_url = %q
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
`, url)
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

// codex registers Codex of a version with a scripted model, and certifies it.
func (w *world) codex(version string, script ...modelserver.Reply) *modelserver.Server {
	w.t.Helper()
	m, url := model(w.t, modelserver.Options{Script: script})
	home := codexHome(w.t, url)
	w.register("codex", coord.AgentConfig{Route: coord.RouteCodex, Executable: peers.Codex(w.t, version), Env: map[string]string{"CODEX_HOME": home, "HOME": home}})
	w.certify()
	return m
}

type standing = certification.Standing

// certify makes certificates, which must hold.
func (w *world) certify() {
	w.t.Helper()
	for _, s := range must[[]standing](w, "certify")(w.client.Certify(w.ctx)) {
		if s.Void != "" {
			w.t.Fatalf("the certificate for %+v does not hold: %s", s.Certificate.Facts.Files, s.Void)
		}
	}
}

// repository makes a git repository with files, committed.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, files)
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "first"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// files gives the content of every file of a folder outside of .git.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if e != nil && e.Name() == ".git" {
				return filepath.SkipDir
			}
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		out[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// calls is a step of the model that calls a tool of Signalbox.
func calls(tool string, arguments map[string]any) modelserver.Tool {
	b, _ := json.Marshal(arguments) // maps of strings can be marshalled
	return modelserver.Tool{Name: "workspace_" + tool, Arguments: string(b)}
}

func write(path, content string) modelserver.Step {
	return modelserver.Step{Calls: []modelserver.Tool{calls("write", map[string]any{"path": path, "content": content})}}
}

func read(path string) modelserver.Step {
	return modelserver.Step{Calls: []modelserver.Tool{calls("read", map[string]any{"path": path})}}
}

func runTests(files ...string) modelserver.Step {
	return modelserver.Step{Calls: []modelserver.Tool{calls("run_tests", map[string]any{"files": files})}}
}

func edit(key, agent, dir, instruction string, ops ...coord.Operation) coord.PlanTask {
	t := task(key, agent, instruction)
	t.Operations, t.Workspace = append([]coord.Operation{coord.Read}, ops...), dir
	return t
}

// changes gives the one change set of a job.
func (w *world) changes(ref string) approval.Display {
	w.t.Helper()
	id := w.job(ref).ID
	all, _, err := w.client.ChangeSets(w.ctx, 0, coord.MaxPage)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range all {
		if c.Job == id {
			return w.display(c)
		}
	}
	w.t.Fatalf("job %s has no change set\n%s", ref, w.log())
	return approval.Display{}
}

// display gives a change set as it is reviewed.
func (w *world) display(c coord.ChangeSet) approval.Display {
	w.t.Helper()
	return must[approval.Display](w, "display")(w.client.Display(w.ctx, string(c.ID)))
}

// lands approves a change set and waits for what becomes of it.
func (w *world) lands(d approval.Display, only ...string) coord.ChangeSet {
	w.t.Helper()
	id := string(d.ChangeSet.ID)
	c := must[coord.ChangeSet](w, "review")(w.client.Review(w.ctx, id, approval.Review{Decision: coord.ChangeSetApprove, Digest: d.ChangeSet.Digest, Only: only}))
	w.when("the change set to land", func() bool {
		c = must[coord.ChangeSet](w, "change set")(w.client.ChangeSet(w.ctx, id))
		return coord.ChangeSets.Final(c.State)
	})
	return c
}

const mathTest = `import { test, expect } from "bun:test";
import { add } from "./math";
test("adds", () => expect(add(2, 3)).toBe(5));
`

func TestCodexEditsAndTestsAndTheChangesLandByteForByte(t *testing.T) {
	for _, version := range peers.CodexVersions() {
		t.Run(version, func(t *testing.T) {
			bun := peers.Bun(t)
			w := newWorld(t, "PATH="+filepath.Dir(bun)+string(os.PathListSeparator)+os.Getenv("PATH"))
			before := map[string]string{"src/math.ts": "export const add = (a, b) => a - b;\n", "src/math.test.ts": mathTest, "old.txt": "gone soon\n", "name.txt": "kept\r\nexactly\x01"}
			dir := repository(t, before)
			fixed := "export const add = (a: number, b: number) => a + b;\n"
			m := w.codex(version, modelserver.Reply{Match: "Mend the sum", Answer: "It adds now.", Steps: []modelserver.Step{
				{Calls: []modelserver.Tool{calls("list", map[string]any{"path": "src"}), calls("read", map[string]any{"path": "src/math.ts"})}},
				runTests("src/math.test.ts"),
				write("src/math.ts", fixed),
				{Calls: []modelserver.Tool{calls("write", map[string]any{"path": "old.txt", "delete": true})}},
				{Calls: []modelserver.Tool{calls("write", map[string]any{"path": "new name.txt", "from": "name.txt"})}},
				runTests("src/math.test.ts"),
				{Calls: []modelserver.Tool{{Name: "exec_command", Arguments: `{"cmd":"touch rogue"}`}}},
			}})
			one := edit("fix", "codex", dir, "Mend the sum.", coord.Write, coord.Test)
			one.Tests = []string{"src/math.test.ts"}
			ref := w.run(plan(one))
			w.settles(ref, coord.JobCompleted)

			if got := files(t, dir); !cmp.Equal(got, before) {
				t.Errorf("the workspace changed before it was approved: %s", cmp.Diff(before, got))
			}
			last := m.Requests()[len(m.Requests())-1]
			// The question to the operator is the one tool that is Codex's own.
			if want := []string{"request_user_input", "workspace_list", "workspace_read", "workspace_run_tests", "workspace_write"}; !cmp.Equal(slices.Sorted(slices.Values(last.Tools)), want) {
				t.Errorf("the model was offered %q", last.Tools)
			}
			runs := w.testRuns(ref)
			if len(runs) != 2 || runs[0].Outcome != coord.TestsFailed || runs[1].Outcome != coord.TestsPassed || runs[0].Content == runs[1].Content {
				t.Errorf("the runs of tests: %+v", runs)
			}
			d := w.changes(ref)
			if len(d.Files) != 3 || !strings.Contains(d.Files[len(d.Files)-1].Text, "+"+strings.TrimSpace(fixed)) {
				t.Errorf("displayed: %+v", d)
			}
			c := w.lands(d)
			if c.State != coord.ChangeSetLanded {
				t.Fatalf("the change set is %s: %+v", c.State, c.Steps)
			}
			want := map[string]string{"src/math.ts": fixed, "src/math.test.ts": mathTest, "new name.txt": before["name.txt"]}
			if got := files(t, dir); !cmp.Equal(got, want) {
				t.Errorf("what landed: %s", cmp.Diff(want, got))
			}
		})
	}
}

// testRuns gives the reports of a job's runs of tests, in order.
func (w *world) testRuns(ref string) []coord.TestReport {
	w.t.Helper()
	requests := must[[]coord.Request](w, "requests")(w.client.JobRequests(w.ctx, ref))
	var out []coord.TestReport
	for _, r := range requests {
		if r.Kind == coord.RunTests && r.Done != nil && r.Done.Report != nil {
			out = append(out, *r.Done.Report)
		}
	}
	return out
}
