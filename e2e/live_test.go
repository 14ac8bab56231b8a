//go:build live

package e2e

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
)

// TestLiveModelDoesAJob has a real small model on this machine do a job of
// three tasks, over both APIs that its server speaks. What it says is up to the
// model; that every task ends truthfully is not.
func TestLiveModelDoesAJob(t *testing.T) {
	l := peers.NewLlama(t)
	w := newWorld(t, "LIVE_MODEL_KEY=not-needed-on-loopback")
	url := w.llama(l) + "/v1"
	for id, mode := range map[string]string{"chat": "chat-completions", "responses": "responses"} {
		w.register(id, coord.AgentConfig{Route: coord.RouteACP, Executable: binary,
			Args:       []string{"model-agent", "--api", mode, "--base-url", url, "--model", "smollm2", "--timeout", "240"},
			EnvFromEnv: map[string]string{"MODEL_API_KEY": "LIVE_MODEL_KEY"}})
	}
	ref := w.run(plan(
		task("hello", "chat", "Say hello in five words."),
		task("signal", "responses", "What does a red railway signal mean? Answer in one sentence."),
		task("sum", "chat", "Put this into one short sentence.", "signal"),
	))
	w.when("the job to settle", func() bool { return w.job(ref).State != coord.JobRunning })
	for _, a := range must[[]coord.Attempt](w, "attempts")(w.client.Attempts(w.ctx, ref)) {
		var said strings.Builder
		pieces := 0
		if err := w.client.Output(w.ctx, string(a.ID), func(text coord.Text) error {
			pieces++
			said.WriteString(text.Text)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		took := a.Ended.Wall.Sub(a.Receipt.At.Wall).Round(time.Millisecond)
		t.Logf("%s/%d: %s after %v, %d bytes in %d pieces, %q\n%s", a.Key, a.Number, a.State, took, said.Len(), pieces, a.Reason, said.String())
		// An answer that the server cut at its bound is no completed one, where
		// the API lets it be told.
		if a.State != coord.AttemptCompleted && (a.State != coord.AttemptFailed || !strings.Contains(a.Reason, "incomplete_model_response")) {
			t.Errorf("%s is %s: %s", a.Key, a.State, a.Reason)
		}
		if said.Len() == 0 {
			t.Errorf("%s said nothing", a.Key)
		}
	}
}

// llama starts the server and gives its address when it has loaded the model.
func (w *world) llama(l peers.Llama) string {
	w.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(w.ctx), l.Python, l.Script, l.Model)
	cmd.SysProcAttr = bound()
	log, err := os.Create(w.t.TempDir() + "/llama.log")
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = in.Close() // it ends with its input
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		if w.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			w.t.Logf("the log of llama.cpp:\n%s", text)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.t.Fatalf("llama.cpp did not start: %v", err)
	}
	return strings.TrimSpace(address)
}
