//go:build fault

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/e2e/peers"
	"signalbox/internal/approval"
	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
)

// codexVersion is the one that is killed: the newest.
const codexVersion = "0.171.0"

// What the worker of a copied world finds in its environment, and gives to its
// agent: no two of them share a home or a mark.
const (
	homeVar = "E2E_CODEX_HOME"
	markVar = "E2E_WORLD"
)

// before is a workspace before an edit.
var before = map[string]string{
	"src/math.ts": "export const add = (a, b) => a - b;\n", "src/math.test.ts": mathTest,
	"src/slow.test.ts": slowTest, "old.txt": "gone soon\n", "name.txt": "kept\r\nexactly\x01", "bystander.txt": "nobody's business\n",
}

const mended = "export const add = (a: number, b: number) => a + b;\n"

const slowTest = `import { test } from "bun:test";
test("waits", async () => { await new Promise((go) => setTimeout(go, 4500)); });
`

// denied is the file whose making is denied.
const denied = "denied.txt"

// theirs is what somebody else writes.
const theirs = "somebody else was here\n"

// edited is a task that Codex edits and tests in.
type edited struct {
	writes coord.WriteMode
	tests  []string
	calls  []modelserver.Tool
}

var (
	staged = edited{writes: coord.Staged, tests: []string{"src/math.test.ts"}, calls: []modelserver.Tool{
		calls("list", map[string]any{"path": "src"}),
		calls("read", map[string]any{"path": "src/math.ts"}),
		calls("write", map[string]any{"path": "src/math.ts", "content": mended}),
		calls("write", map[string]any{"path": "docs/guide.txt", "content": "Add with add.\n"}),
		calls("write", map[string]any{"path": "old.txt", "delete": true}),
		calls("write", map[string]any{"path": "new name.txt", "from": "name.txt"}),
		calls("run_tests", map[string]any{"files": []string{"src/math.test.ts"}}),
	}}
	each = edited{writes: coord.Each, calls: []modelserver.Tool{
		calls("write", map[string]any{"path": "src/math.ts", "content": mended}),
		calls("write", map[string]any{"path": denied, "content": "no\n"}),
		calls("write", map[string]any{"path": "new name.txt", "from": "name.txt"}),
		calls("run_tests", map[string]any{"files": []string{"src/math.test.ts"}}),
	}}
)

// slow runs tests that take longer than it takes to kill the worker.
var slow = edited{writes: coord.Staged, tests: []string{"src/slow.test.ts"}, calls: []modelserver.Tool{
	calls("write", map[string]any{"path": "src/math.ts", "content": mended}),
	calls("run_tests", map[string]any{"files": []string{"src/slow.test.ts"}}),
}}

// script is what the model does.
func (e edited) script() modelserver.Reply {
	r := modelserver.Reply{Match: "Mend the sum", Answer: "It adds now."}
	for _, c := range e.calls {
		r.Steps = append(r.Steps, modelserver.Step{Calls: []modelserver.Tool{c}})
	}
	return r
}

func (e edited) task(dir string) coord.PlanTask {
	t := edit("fix", "codex", dir, "Mend the sum.", coord.Write, coord.Test)
	t.Writes, t.Tests = e.writes, e.tests
	return t
}

// victims are the files of the workspace that an approval changes.
func (s scenario) victims() []string {
	switch {
	case s.landing:
		return []string{"src/math.ts", "docs/guide.txt", "old.txt", "name.txt"}
	case s.edit != nil && s.edit.writes == coord.Each:
		return []string{"src/math.ts", "name.txt"}
	}
	return nil
}

// mould is a data directory from which worlds are copied, so that certificates
// are made once.
type mould struct {
	dir   string
	token string
}

// cast makes the mould of worlds in which Codex is certified.
func cast(t, outer *testing.T) {
	w := workshop(t, mould{}, edited{})
	w.serve()
	w.login()
	cfg := coord.AgentConfig{Route: coord.RouteCodex, Executable: peers.Codex(t, codexVersion),
		EnvFromEnv: map[string]string{"CODEX_HOME": homeVar, "HOME": homeVar, markVar: markVar}}
	must[coord.Agent](w.world, "add codex")(w.client.AddAgent(w.ctx, "codex", cfg))
	must[coord.Agent](w.world, "inspect codex")(w.client.InspectAgent(w.ctx, "codex"))
	w.certify()
	certified = w.mould(outer)
}

// mould ends a world and keeps its data directory for as long as the outer test
// lasts.
func (w *shop) mould(outer *testing.T) mould {
	w.t.Helper()
	w.end()
	w.door = nil
	m := mould{filepath.Join(outer.TempDir(), "data"), w.token}
	if err := os.CopyFS(m.dir, os.DirFS(w.dir)); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// done is a mould of worlds in which a change set waits, and its workspace. One
// world at a time may use it, since a workspace is known by its path and inode.
type done struct {
	mould
	ref, space string
}

var (
	certified mould
	reviewed  = make(chan done, 3)
)

// record has Codex write, for the landings that follow. Its files stay as long
// as those of the outer test.
func record(t, outer *testing.T) {
	w := workshop(t, certified, staged)
	space := repository(outer, before)
	w.serve()
	w.login()
	ref := w.run(plan(staged.task(space)))
	w.settles(ref, coord.JobCompleted)
	reviewed <- done{w.mould(outer), ref, space}
}

// furnish opens the world of an edit, or of the landing that follows it.
func (r *swept) furnish(t *testing.T, env []string) {
	t.Helper()
	if !r.landing {
		r.shop = workshop(t, certified, *r.edit, env...)
		r.space = repository(t, before)
	} else {
		closed := workshop(t, mould{}, *r.edit, env...)
		d := <-reviewed
		t.Cleanup(func() { reviewed <- d })
		closed.fill(d.mould)
		r.shop, r.space, r.ref = closed, d.space, d.ref
	}
	r.world = r.shop.world
	if r.landing {
		r.reset()
	}
	r.serve()
	r.login()
}

// reset makes the workspace as it was before, the same folder by its inode.
func (r *swept) reset() {
	r.t.Helper()
	names, err := os.ReadDir(r.space)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range names {
		if e.Name() == ".git" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(r.space, e.Name())); err != nil {
			r.t.Fatal(err)
		}
	}
	put(r.t, r.space, before)
}

// land approves the change set, as an operator who is there, until it is over.
func (r *swept) land() {
	r.t.Helper()
	r.poll("the change set landed", func() bool {
		sets, _, err := r.client.ChangeSets(r.ctx, 0, coord.MaxPage)
		if r.away("change sets", err) {
			return false
		}
		c := sets[0]
		if c.State == coord.ChangeSetOpen {
			_, err := r.client.Review(r.ctx, string(c.ID), approval.Review{Decision: coord.ChangeSetApprove, Digest: c.Digest})
			// A conflict tells that it was approved before a death.
			return coord.CodeOf(err) != coord.Conflict && r.away("review", err)
		}
		return coord.ChangeSets.Final(c.State)
	})
}

// shop is a world with a model of its own for Codex, not yet started.
type shop struct {
	*world
	model *modelserver.Server
}

func workshop(t *testing.T, from mould, e edited, env ...string) *shop {
	t.Helper()
	w := &shop{world: closedWorld(t)}
	m, url := model(t, modelserver.Options{Script: []modelserver.Reply{e.script()}})
	w.model = m
	path := filepath.Dir(peers.Bun(t)) + string(os.PathListSeparator) + os.Getenv("PATH")
	w.env = append(append(w.env, "PATH="+path, homeVar+"="+codexHome(t, url), w.mark), env...)
	if from.dir != "" {
		w.fill(from)
	}
	return w
}

// fill gives a world the data directory of a mould.
func (w *shop) fill(from mould) {
	w.t.Helper()
	w.token = from.token
	if err := os.CopyFS(w.dir, os.DirFS(from.dir)); err != nil {
		w.t.Fatal(err)
	}
}

// turns counts the prompts that the model of Codex got.
func (w *shop) turns() int {
	n := 0
	for _, q := range w.model.Requests() {
		if strings.Contains(q.Prompt, "Mend the sum") && len(q.Outputs) == 0 {
			n++
		}
	}
	return n
}

// outputs are the answers that the model got to its calls, by the call's id.
func (w *shop) outputs() map[string]string {
	out := map[string]string{}
	for _, q := range w.model.Requests() {
		for _, o := range q.Outputs {
			out[o.Call] = o.Text
		}
	}
	return out
}

// confined gives the processes of tests that run in the sandbox.
func (w *shop) confined() []int {
	w.t.Helper()
	pids, err := carrying("TMPDIR=" + filepath.Join(w.dir, "confinement") + "/")
	if err != nil {
		w.t.Fatal(err)
	}
	return pids
}

// answers are the outputs in the order of the calls.
func (w *shop) answers() []string {
	var out []string
	for _, q := range w.model.Requests() {
		for i, o := range q.Outputs {
			if i >= len(out) {
				out = append(out, o.Text)
			}
		}
	}
	return out
}
