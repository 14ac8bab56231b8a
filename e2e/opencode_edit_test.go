package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
)

// editor gives a world in which the real OpenCode is registered from its preset
// for editing, with a home of its own in which OpenCode ran once, and its
// scripted model. The folder of its configuration is there and is not its state:
// OpenCode exits without it, and installs into it what it can.
func editor(t *testing.T, script ...modelserver.Reply) (*world, *modelserver.Server) {
	t.Helper()
	m, url := model(t, modelserver.Options{Script: script})
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".local/share/opencode", ".local/state/opencode", ".cache/opencode", ".config/opencode"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	spec := peers.OpenCode(t, url)
	w := newWorld(t, "HOME="+home)
	code, out, log := w.cli("agent", "add", "opencode", "--preset", "opencode-edit", "--model-url", url, "--env", "MODEL_NAME=mock-model", "--env", w.mark, "--", spec.Executable)
	if code != 0 || !strings.Contains(out, "may write to "+home) {
		t.Fatalf("it exits with %d: %s %s", code, out, log)
	}
	return w, m
}

// unplanned is why a plan cannot be drafted or frozen, nil when it can.
func (w *world) unplanned(p coord.Plan) error {
	j, err := w.client.Draft(w.ctx, p)
	if err == nil {
		_, err = w.client.Freeze(w.ctx, fmt.Sprint(j.Number))
	}
	return err
}

// mcp is a call of a tool of Signalbox under the name that OpenCode gives it.
func mcp(tool string, arguments map[string]any) modelserver.Tool {
	b, _ := json.Marshal(arguments) // maps of strings can be marshalled
	return modelserver.Tool{Name: "signalbox_" + tool, Arguments: string(b)}
}

func TestOpenCodeEditsThroughSignalboxAndTheChangesLandByteForByte(t *testing.T) {
	before := map[string]string{"src/signal.txt": "red\r\n", "kept.txt": "kept\x01"}
	dir := repository(t, before)
	after := "green\r\nand \u00fc\n"
	w, m := editor(t, modelserver.Reply{Match: "Set the signal", Answer: "It is set.", Steps: []modelserver.Step{
		{Calls: []modelserver.Tool{mcp("list", map[string]any{"path": "src"}), mcp("read", map[string]any{"path": "src/signal.txt"})}},
		{Calls: []modelserver.Tool{
			{Name: "write", Arguments: `{"filePath":"` + dir + `/rogue.txt","content":"rogue"}`},
			{Name: "bash", Arguments: `{"command":"echo rogue > ` + dir + `/kept.txt","description":"rogue"}`},
		}},
		{Calls: []modelserver.Tool{mcp("write", map[string]any{"path": "src/signal.txt", "content": after})}},
	}})
	work := plan(edit("set", "opencode", dir, "Set the signal.", coord.Write))

	// Without a certificate it is for research only.
	if err := w.unplanned(work); err == nil || !strings.Contains(err.Error(), "signalbox sandbox certify") {
		t.Errorf("frozen without a certificate: %v", err)
	}

	w.certify()
	var proven coord.Certificate
	for _, s := range must[[]standing](w, "certificates")(w.client.Certificates(w.ctx)) {
		if s.Certificate.Facts.Agent == "opencode" {
			proven = s.Certificate
		}
	}
	verdicts := map[string]coord.ProbeVerdict{}
	for _, p := range proven.Probes {
		verdicts[strings.TrimPrefix(p.Name, "opencode: ")] = p.Verdict
	}
	for name, want := range map[string]coord.ProbeVerdict{
		"native_tools": coord.ProbeDenied, "signalbox_tools": coord.ProbeWorks, "call_write": coord.ProbeDenied, "call_bash": coord.ProbeDenied,
		"write_workspace": coord.ProbeDenied, "write_outside": coord.ProbeDenied, "truncate_outside": coord.ProbeDenied, "ptrace": coord.ProbeDenied,
	} {
		if verdicts[name] != want {
			t.Errorf("%s is %q, want %s", name, verdicts[name], want)
		}
	}

	ref := w.run(work)
	w.settles(ref, coord.JobCompleted)
	if got := files(t, dir); !cmp.Equal(got, before) {
		t.Errorf("the workspace changed before it was approved: %s", cmp.Diff(before, got))
	}
	last := m.Requests()[len(m.Requests())-1]
	if want := []string{"signalbox_list", "signalbox_read", "signalbox_write"}; !cmp.Equal(slices.Sorted(slices.Values(last.Tools)), want) {
		t.Errorf("the model was offered %q", last.Tools)
	}
	if len(last.Outputs) != 5 || !strings.Contains(last.Outputs[1].Text, "red") {
		t.Errorf("the model was answered %+v", last.Outputs)
	}
	d := w.changes(ref)
	if len(d.Files) != 1 || d.ChangeSet.Files[0].Path != "src/signal.txt" {
		t.Fatalf("displayed: %+v", d)
	}
	if c := w.lands(d); c.State != coord.ChangeSetLanded {
		t.Errorf("the change set is %s", c.State)
	}
	want := map[string]string{"src/signal.txt": after, "kept.txt": before["kept.txt"]}
	if got := files(t, dir); !cmp.Equal(got, want) {
		t.Errorf("landed: %s", cmp.Diff(want, got))
	}
}

func TestOpenCodeWithToolsOfItsOwnGetsNoCertificate(t *testing.T) {
	w, _ := editor(t)
	tight := must[coord.Agent](w, "agent")(w.client.Agent(w.ctx, "opencode"))
	loose := tight.Config
	loose.Env = maps.Clone(loose.Env)
	loose.Env["OPENCODE_CONFIG_CONTENT"] = strings.Replace(loose.Env["OPENCODE_CONFIG_CONTENT"], `"tools":{"*":false,"signalbox_*":true},"permission":{"*":"deny","signalbox_*":"allow"}`, `"permission":{"*":"allow"}`, 1)
	w.register("loose", loose)
	held := map[coord.AgentID]bool{}
	for _, s := range must[[]standing](w, "certify")(w.client.Certify(w.ctx)) {
		held[s.Certificate.Facts.Agent] = s.Void == ""
		if s.Certificate.Facts.Agent != "loose" {
			continue
		}
		// That it can use its own tools shows that the probes see it.
		fails := s.Certificate.Fails()
		for _, name := range []string{"loose: native_tools", "loose: call_write", "loose: call_bash"} {
			if !slices.Contains(fails, name) {
				t.Errorf("%s is not among what speaks against it: %v", name, fails)
			}
		}
	}
	if want := map[coord.AgentID]bool{"": true, "opencode": true, "loose": false}; !cmp.Equal(held, want) {
		t.Errorf("certificates hold: %v", held)
	}
	dir := repository(t, map[string]string{"a.txt": "a\n"})
	for agent, refused := range map[string]bool{"opencode": false, "loose": true} {
		if err := w.unplanned(plan(edit("set", agent, dir, "Set it.", coord.Write))); (err != nil) != refused {
			t.Errorf("%s: %v", agent, err)
		}
	}
	// Another revision of the same program is not what was probed.
	tight.Config.Env["OPENCODE_DISABLE_LSP_DOWNLOAD"] = "true"
	must[coord.Agent](w, "revise")(w.client.ReviseAgent(w.ctx, "opencode", tight.Revision, tight.Config))
	if err := w.unplanned(plan(edit("set", "opencode", dir, "Set it.", coord.Write))); err == nil {
		t.Error("the certificate of another configuration was enough")
	}
}
