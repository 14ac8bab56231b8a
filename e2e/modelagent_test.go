package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"signalbox/e2e/peers"
	"signalbox/internal/modelserver"
)

// TestModelAgentServesClientsOfOthers shows that the program itself is such an
// agent; the tests of the model agent look at the frames.
func TestModelAgentServesClientsOfOthers(t *testing.T) {
	t.Parallel()
	const key = "loopback-key-of-the-test"
	for _, mode := range []string{"responses", "chat-completions"} {
		m, url := model(t, modelserver.Options{Token: key, Script: []modelserver.Reply{{Answer: "Line clear."}}})
		agent := peers.Spec{
			Executable: binary, Args: []string{"model-agent", "--api", mode, "--base-url", url, "--model", modelserver.Model},
			Env: map[string]string{"MODEL_API_KEY": key},
		}
		for name, c := range map[string]struct {
			client peers.Spec
			want   []string
		}{
			"acpx":               {peers.ACPX(t, agent, "May the train go?"), []string{"Line clear.", `"stopReason":"end_turn"`}},
			"SDK example client": {peers.SDKExampleClient(t, agent), []string{"Line clear.", "Agent completed with: end_turn"}},
		} {
			t.Run(mode+" "+name, func(t *testing.T) {
				before := m.Count()
				ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Minute, errPatience)
				defer cancel()
				out, err := c.client.Command(ctx).CombinedOutput()
				if err != nil {
					t.Fatalf("%v (%v)\n%s", err, context.Cause(ctx), out)
				}
				for _, want := range c.want {
					if !strings.Contains(string(out), want) {
						t.Errorf("no %q in\n%s", want, out)
					}
				}
				if strings.Contains(string(out), key) {
					t.Error("the credential is in the output")
				}
				if n := m.Count() - before; n != 1 {
					t.Errorf("the model was asked %d times", n)
				}
			})
		}
	}
}
