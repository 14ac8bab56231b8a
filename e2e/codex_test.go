package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"signalbox/e2e/peers"
	"signalbox/internal/approval"
	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
)

// codex gives a world in which Codex is registered, with a home of its own
// whose model is on loopback, and folder is where it works.
func codex(t *testing.T, version string, steps ...modelserver.Step) (w *world, m *modelserver.Server, folder string) {
	t.Helper()
	m, url := model(t, modelserver.Options{Script: []modelserver.Reply{{Match: "signal", Answer: "The signal is red.", Steps: steps}}})
	home := t.TempDir()
	settings := fmt.Sprintf("model = \"gpt-5.5\"\nmodel_provider = \"mock\"\nsandbox_mode = \"danger-full-access\"\n"+
		"[model_providers.mock]\nname = \"mock\"\nbase_url = %q\nwire_api = \"responses\"\nrequires_openai_auth = false\nrequest_max_retries = 0\nstream_max_retries = 0\n", url)
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	w = newWorld(t)
	w.register("codex", coord.AgentConfig{Route: coord.RouteCodex, Executable: peers.Codex(t, version), Env: map[string]string{"CODEX_HOME": home, "HOME": home}})
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "signal.txt"), []byte("the signal is red\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return w, m, folder
}

func reading(folder string) coord.PlanTask {
	t := in(folder, task("look", "codex", "Look at the signal."))
	t.Operations = []coord.Operation{coord.Read}
	return t
}

func TestCodexReadsThroughSignalboxAndAsksTheOperator(t *testing.T) {
	for _, version := range peers.CodexVersions() {
		t.Run(version, func(t *testing.T) {
			w, m, folder := codex(t, version,
				modelserver.Step{Calls: []modelserver.Tool{{Name: "workspace_list", Arguments: `{"path":"."}`}}},
				modelserver.Step{Calls: []modelserver.Tool{{Name: "workspace_read", Arguments: `{"path":"signal.txt"}`}}},
				modelserver.Step{Calls: []modelserver.Tool{{Name: "workspace_read", Arguments: `{"path":"../../etc/passwd"}`}}},
				modelserver.Step{Calls: []modelserver.Tool{{Name: "request_user_input",
					Arguments: `{"questions":[{"id":"q","header":"Light","question":"Is it lit?","options":[{"label":"yes","description":"lit"},{"label":"no","description":"dark"}]}]}`}}})
			ref := w.run(plan(reading(folder)))
			r := w.asked(ref, "look")
			if r.Kind != coord.Question || r.Content.Title != "Is it lit?" {
				t.Errorf("the request is %+v", r)
			}
			must[coord.Request](w, "answer")(w.client.Decide(w.ctx, string(r.ID), approval.Decision{Decision: coord.DecisionAnswer, Answer: "It is lit.", Digest: r.Digest}))
			w.settles(ref, coord.JobCompleted)
			if said := w.said(ref, "look", "codex"); !strings.Contains(said, "The signal is red.") {
				t.Errorf("it said %q", said)
			}
			requests := m.Requests()
			got := requests[len(requests)-1].Outputs
			if len(got) != 4 || !strings.Contains(got[0].Text, "signal.txt") || !strings.Contains(got[1].Text, "the signal is red") || strings.Contains(got[2].Text, "root:") || !strings.Contains(got[3].Text, "It is lit.") {
				t.Errorf("the model was answered %+v", got)
			}
			if a := w.attempt(ref, "look"); a.Usage.Tokens() == 0 {
				t.Error("no usage is recorded")
			}
		})
	}
}

func TestCodexIsAddedFromItsPreset(t *testing.T) {
	w, _, _ := codex(t, "0.171.0")
	known := must[coord.Agent](w, "the agent")(w.client.Agent(w.ctx, "codex")).Config
	code, out, log := w.cli("agent", "add", "second", "--preset", "codex", "--env", "CODEX_HOME="+known.Env["CODEX_HOME"], "--", known.Executable)
	if code != 0 || !strings.Contains(out, "codex-cli 0.171.0") {
		t.Errorf("it exits with %d: %s %s", code, out, log)
	}
	a := must[coord.Agent](w, "the agent")(w.client.Agent(w.ctx, "second"))
	if a.Config.Route != coord.RouteCodex || a.Config.Preset != "codex" || !slices.Contains(a.Inspection.Operations, coord.Read) {
		t.Errorf("the agent is %+v", a)
	}
}

func TestCodexStopsWhenAskedTo(t *testing.T) {
	w, m, folder := codex(t, "0.171.0", modelserver.Step{Hang: true})
	ref := w.run(plan(reading(folder)))
	w.poll("the model to be asked", func() bool { return m.Count() > 0 })
	must[coord.Job](w, "cancel")(w.client.CancelJob(w.ctx, ref))
	w.settles(ref, coord.JobCancelled)
	if a := w.attempt(ref, "look"); a.State != coord.AttemptCancelled || a.Cancel.State != coord.CancelConfirmed {
		t.Errorf("the attempt is %s, its cancellation %+v", a.State, a.Cancel)
	}
}

func TestCodexThatIsKilledLeavesAnUnknownThatNothingIsMadeOf(t *testing.T) {
	w, m, folder := codex(t, "0.171.0", modelserver.Step{Hang: true})
	ref := w.run(plan(reading(folder)))
	w.poll("the model to be asked", func() bool { return m.Count() > 0 })
	for _, pid := range w.left() {
		if name, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); filepath.Base(name) == "codex" {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.settles(ref, coord.JobAttention)
	a := must[coord.Attempt](w, "reconcile")(w.client.Reconcile(w.ctx, string(w.attempt(ref, "look").ID)))
	if a.State != coord.AttemptUnknown || a.Activity != coord.Ended || len(a.Evidence) == 0 {
		t.Errorf("the attempt is %+v", a)
	}
	if n := m.Count(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}
