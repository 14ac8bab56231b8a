package script

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/e2e/peers"
	"signalbox/internal/modelserver"
)

// call is a step of the model that calls a tool of Signalbox.
func call(tool string, arguments map[string]any) modelserver.Step {
	b, _ := json.Marshal(arguments) // such maps can be marshalled
	return modelserver.Step{Calls: []modelserver.Tool{{Name: "workspace_" + tool, Arguments: string(b)}}}
}

// codex gives the arguments that add Codex, with a home in dir and a model that
// answers from a script.
func codex(t *testing.T, dir, program string, script ...modelserver.Reply) []string {
	t.Helper()
	s := httptest.NewServer(modelserver.New(modelserver.Options{Script: script}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	home := filepath.Join(dir, ".codex")
	config := fmt.Sprintf("model = \"mock-model\"\nmodel_provider = \"mock\"\n[model_providers.mock]\nname = \"mock\"\nbase_url = %q\nwire_api = \"responses\"\n"+
		"requires_openai_auth = false\nrequest_max_retries = 0\nstream_max_retries = 0\nsupports_websockets = false\n", s.URL+"/v1")
	if err := os.MkdirAll(home, 0o755); err == nil {
		err = os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600)
		if err != nil {
			t.Fatal(err)
		}
	}
	return []string{"agent", "add", "codex", "--preset", "codex", "--", program}
}

// repository makes a git repository below dir.
func repository(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	place := filepath.Join(dir, "project")
	for name, content := range files {
		path := filepath.Join(place, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "first"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = place
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return place
}

const (
	sumBroken = "export const sum = (a: number[]) => a.reduce((x, y) => x - y, 0);\n"
	sumMended = "export const sum = (a: number[]) => a.reduce((x, y) => x + y, 0);\n"
	sumTest   = "import { expect, test } from \"bun:test\";\nimport { sum } from \"./sum\";\n\ntest(\"adds\", () => expect(sum([1, 2])).toBe(3));\n"
)

// mending is a model that mends the sum, and mentions it when it is asked once
// more.
var mending = []modelserver.Reply{
	{Match: "Mention it", Answer: "Mentioned.", Steps: []modelserver.Step{call("read", map[string]any{"path": "NEWS"}), call("write", map[string]any{"path": "NEWS", "content": "The sum adds.\n"})}},
	{Match: "sum", Answer: "It adds now.", Steps: []modelserver.Step{
		call("run_tests", map[string]any{"files": []string{"sum.test.ts"}}),
		call("write", map[string]any{"path": "sum.ts", "content": sumMended}),
		call("write", map[string]any{"path": "NEWS", "content": "Mended.\n"}),
		call("run_tests", map[string]any{"files": []string{"sum.test.ts"}}),
	}},
}

// project is a house with a project whose sum is wrong, and the arguments that
// add Codex to it.
func project(t *testing.T) (h *house, place string, add []string) {
	t.Helper()
	// Its path is shown, so it is a short one.
	dir, err := os.MkdirTemp("", "edit-") //nolint:usetesting // see above
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	env := append(base(dir), "SIGNALBOX_DATA="+filepath.Join(dir, "data"), "PATH="+strings.Join([]string{filepath.Dir(peers.Bun(t)), filepath.Dir(program), os.Getenv("PATH")}, string(os.PathListSeparator)))
	h = openHouse(t, dir, env)
	add = codex(t, dir, peers.Codex(t, "0.171.0"), mending...)
	return h, repository(t, dir, map[string]string{"sum.ts": sumBroken, "sum.test.ts": sumTest}), add
}

// editing is such a house with Codex in it.
func editing(t *testing.T) (h *house, place string) {
	t.Helper()
	h, place, add := project(t)
	h.do(0, add...)
	return h, place
}

func TestEditsAreReviewedOnATerminal(t *testing.T) {
	h, place := editing(t)
	h.dir = place
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(place, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}

	// Nothing is proven yet, and the remedy is named.
	w := h.terminal("run", "--agent", "codex", "--in", ".", "--write", "Mend the sum")
	w.see("signalbox sandbox certify")
	w.ends(2)
	w = h.terminal("sandbox", "show")
	w.see("nothing is proven now: signalbox sandbox certify")
	w.ends(0)
	w = h.terminal("sandbox", "certify")
	w.see("agent codex, revision 1: holds until ")
	w.ends(0)
	w.fits()
	// The verdict fits on a screen, and whoever wants all attempts gets them.
	if n := strings.Count(w.text(), "\n"); n > 24 || strings.Contains(w.text(), "write_outside") {
		t.Errorf("the verdict has %d lines:\n%s", n, w.text())
	}
	w = h.terminal("sandbox", "show", "--verbose")
	w.see("codex: native_tools")
	w.ends(0)
	w.fits()
	for _, want := range []string{"tier ", "write_outside", "tcp_connect", "denied"} {
		if !strings.Contains(w.text(), want) {
			t.Errorf("the table does not show %q:\n%s", want, w.text())
		}
	}
	w = h.terminal("sandbox", "show")
	w.ends(0)
	w.fits()
	if n := strings.Count(w.text(), "holds"); n != 2 {
		t.Errorf("%d certificates hold:\n%s", n, w.text())
	}

	// Through y, with the runs of tests told as they end.
	w = h.terminal("run", "--agent", "codex", "--in", ".", "--write", "--test", "sum.test.ts", "Mend the sum")
	w.see("run it? [y/N] ")
	for _, want := range []string{"read+write+test", "writes are held back for your review", "may run sum.test.ts up to 20 times"} {
		if !strings.Contains(w.text(), want) {
			t.Errorf("the plan does not show %q:\n%s", want, w.text())
		}
	}
	w.enter("y\n")
	w.ends(0)
	w.fits()
	inOrder(t, w.text(), "▶ running  task\n", "✖ failed  run the tests in sum.test.ts: 0 passed, 1 failed", "✔ passed  run the tests in sum.test.ts: 1 passed, 0 failed",
		"It adds now.\n", "2 files changed and held back: signalbox review c1\n", "✔ completed  task\n")
	if n := strings.Count(w.text(), "▶ running  task"); n != 1 {
		t.Errorf("that the task runs is said %d times:\n%s", n, w.text())
	}
	if got := read("sum.ts"); got != sumBroken {
		t.Errorf("the file changed before it was reviewed: %q", got)
	}
	w = h.terminal("review", "--list")
	w.see("NEWS sum.ts")
	w.ends(0)
	w = h.terminal("job", "result", "1")
	w.ends(0)
	inOrder(t, w.text(), "request r1 approved", "✖ failed", "request r2 approved", "✔ passed")

	// Skip, comment, and file by file.
	w = h.terminal("review", "c1")
	w.see("let c1 land?")
	inOrder(t, w.text(), "digest ", "NEWS  +1 -0", "+Mended.", "sum.ts  +1 -1", "-"+strings.TrimSpace(sumBroken), "+"+strings.TrimSpace(sumMended))
	w.enter("s\n")
	w.see("c1 waits")
	w.ends(0)
	w = h.terminal("review")
	w.see("let c1 land?")
	w.enter("c\n")
	w.see("comment: ")
	w.enter("no news\n")
	w.see("noted")
	w.enter("f\n")
	w.see("let NEWS land? [y/N] ")
	w.enter("n\n")
	w.see("let sum.ts land? [y/N] ")
	w.enter("y\n")
	w.ends(0)
	w.fits()
	inOrder(t, w.text(), "c1 is landed\n", "○ left out  NEWS\n", "✔ landed  sum.ts\n")
	if got := read("sum.ts") + read("NEWS"); got != sumMended {
		t.Errorf("what landed is %q", got)
	}

	// Once more, on top of what was approved.
	w = h.terminal("again", "1", "-m", "Mention it in NEWS")
	w.see("run it? [y/N] ")
	inOrder(t, w.text(), "on top of the changes c1", "Mend the sum", "Mention it in NEWS")
	w.enter("y\n")
	w.ends(0)
	w = h.terminal("review", "c2")
	w.see("let c2 land?")
	if strings.Contains(w.text(), "Mended.") {
		t.Errorf("what was left out is in the next change set:\n%s", w.text())
	}
	w.enter("y\n")
	w.see("✔ landed  NEWS")
	w.ends(0)
	if got := read("NEWS"); got != "The sum adds.\n" {
		t.Errorf("what landed is %q", got)
	}

	// What is thrown away leaves the files alone.
	w = h.terminal("again", "c2", "-m", "Mention it in NEWS")
	w.see("run it? [y/N] ")
	w.enter("n\n")
	w.see("stays a draft")
	w.ends(13)
	put := filepath.Join(place, "sum.ts")
	if err := os.WriteFile(put, []byte(sumBroken), 0o600); err != nil {
		t.Fatal(err)
	}
	w = h.terminal("run", "--agent", "codex", "--in", ".", "--write", "--test", "sum.test.ts", "Mend the sum again")
	w.see("run it? [y/N] ")
	w.enter("y\n")
	w.ends(0)
	w = h.terminal("review")
	w.see("let c3 land?")
	w.enter("n\n")
	w.see("c3 is discarded")
	w.ends(0)
	w = h.terminal("review")
	w.see("no changes wait for a review")
	w.ends(0)
	if got := read("sum.ts"); got != sumBroken {
		t.Errorf("the file is %q", got)
	}
}

// inOrder checks that a text holds others one after the other.
func inOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("%q does not follow in\n%s", part, text)
		}
		rest = after
	}
}

func TestEditsAreScriptedOffATerminal(t *testing.T) {
	h, place := editing(t)
	h.dir = place
	var made []struct {
		Void        string
		Certificate struct {
			Probes []struct{ Name, Verdict string }
		}
	}
	h.document(0, &made, "sandbox", "certify", "--json")
	if len(made) != 2 || made[0].Void != "" || len(made[0].Certificate.Probes) < 50 {
		t.Errorf("certified %+v", made)
	}
	made = nil
	h.document(0, &made, "sandbox", "show", "--json")
	if len(made) != 2 {
		t.Errorf("%d certificates are shown", len(made))
	}

	var job struct {
		Number int
		Frozen struct{ Digest string }
	}
	h.document(13, &job, "run", "--agent", "codex", "--in", ".", "--write", "--test", "sum.test.ts", "--json", "Mend the sum")
	var result struct{ State string }
	h.document(0, &result, "job", "run", "1", "--approved", job.Frozen.Digest, "--wait", "--json")
	if result.State != "completed" {
		t.Errorf("the job is %s", result.State)
	}
	if got := h.do(0, "__complete", "review", ""); !strings.HasPrefix(got, "c1\tcodex: NEWS sum.ts\n") {
		t.Errorf("review completes %q", got)
	}
	if got := h.do(0, "__complete", "again", ""); !strings.Contains(got, "\n1\tcompleted: Mend the sum\n") {
		t.Errorf("again completes %q", got)
	}
	if got := h.do(0, "review"); !strings.HasPrefix(got, "c1\topen\tcodex\ttask\t") || !strings.HasSuffix(got, "\tNEWS sum.ts\n") {
		t.Errorf("review lists %q", got)
	}
	var sets []struct {
		Number        int
		State, Digest string
	}
	h.document(0, &sets, "review", "--json")
	h.document(0, &sets, "review", "--list", "--json")
	var display struct {
		ChangeSet struct{ Digest, State string } `json:"change_set"`
		Files     []struct{ Text string }
	}
	h.document(0, &display, "review", "c1", "--json")
	if len(sets) != 1 || len(display.Files) != 2 || display.ChangeSet.Digest != sets[0].Digest {
		t.Fatalf("review shows %+v of %+v", display, sets)
	}
	digest := display.ChangeSet.Digest
	if got := h.do(0, "review", "c1"); !strings.Contains(got, digest) || !strings.Contains(got, "+Mended.") {
		t.Errorf("review shows %s", got)
	}
	h.do(2, "review", "c1", "--approve")
	h.do(2, "review", "c1", "--approve", "--discard", "--digest", digest)
	h.do(5, "review", "c1", "--approve", "--digest", strings.Repeat("0", 64))
	h.do(2, "review", "c1", "--approve", "--digest", digest, "--only", "nowhere")
	h.do(4, "review", "c9")
	h.do(2, "review", "1")
	var landed struct {
		State    string
		Verdicts map[string]string
	}
	h.document(0, &landed, "review", "c1", "--approve", "--digest", digest, "--only", "sum.ts", "-m", "no news", "--json")
	if landed.State != "landed" || landed.Verdicts["NEWS"] != "left_out" {
		t.Errorf("it is %+v", landed)
	}
	h.do(5, "review", "c1", "--discard", "--digest", digest)

	h.document(13, &job, "again", "1", "-m", "Mention it in NEWS", "--json")
	if job.Number != 2 {
		t.Errorf("again drafted job %d", job.Number)
	}
	h.do(0, "job", "run", "2", "--approved", job.Frozen.Digest, "--wait")
	if err := os.WriteFile(filepath.Join(place, "NEWS"), []byte("somebody's\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.document(0, &display, "review", "c2", "--json")
	h.document(10, &landed, "review", "c2", "--approve", "--digest", display.ChangeSet.Digest, "--json")
	if landed.State != "stale" {
		t.Errorf("over somebody's file it is %+v", landed)
	}
}

// document runs a command off a terminal and reads the one document that it
// writes.
func (h *house) document(code int, into any, args ...string) {
	h.t.Helper()
	out := h.do(code, args...)
	d := json.NewDecoder(strings.NewReader(out))
	if err := d.Decode(into); err != nil || d.More() {
		h.t.Fatalf("signalbox %s writes %s (%v)", strings.Join(args, " "), out, err)
	}
}
