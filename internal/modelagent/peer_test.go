package modelagent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"signalbox/e2e/peers"
	"signalbox/internal/modelserver"
)

// errPeer is the cause when a client that others wrote does not end.
var errPeer = errors.New("the client did not end within 180 s")

// served starts the scripted model and describes an agent that asks it.
func served(t *testing.T, name api) (peers.Spec, *modelserver.Server) {
	t.Helper()
	// One piece of the server's, since the example client breaks the line
	// between updates.
	model := modelserver.New(modelserver.Options{Token: secret, Script: []modelserver.Reply{{Match: "", Answer: "Go \u2014 clear"}}})
	api := httptest.NewServer(model)
	t.Cleanup(api.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return peers.Spec{
		Executable: self,
		Args:       []string{"--api", string(name), "--base-url", api.URL + "/v1", "--model", modelserver.Model},
		Env:        map[string]string{agentMark: "1", "MODEL_API_KEY": secret, "GORACE": "atexit_sleep_ms=0"},
	}, model
}

func TestACPXIsServed(t *testing.T) {
	for _, name := range []api{apiResponses, apiChat} {
		t.Run(string(name), func(t *testing.T) {
			agent, model := served(t, name)
			ctx, cancel := context.WithTimeoutCause(t.Context(), 180*time.Second, errPeer)
			defer cancel()
			out, err := peers.ACPX(t, agent, "May the train go?").Command(ctx).Output()
			if err != nil {
				t.Fatalf("acpx: %v (%v)\n%s", err, context.Cause(ctx), out)
			}
			text, stop := "", ""
			for line := range strings.Lines(string(out)) {
				var m message
				if err := json.Unmarshal([]byte(line), &m); err != nil {
					continue // acpx prints frames and may print words beside them
				}
				text += m.Params.Update.Content.Text
				var result struct{ StopReason string }
				if json.Unmarshal(m.Result, &result) == nil && result.StopReason != "" {
					stop = result.StopReason
				}
			}
			if text != "Go \u2014 clear" || stop != "end_turn" {
				t.Errorf("text %q, stop reason %q in\n%s", text, stop, out)
			}
			if strings.Contains(string(out), secret) {
				t.Error("the credential is in the output")
			}
			if r := model.Requests(); len(r) != 1 || r[0].Prompt != "May the train go?" || len(r[0].Tools) != 0 {
				t.Errorf("requests %+v", r)
			}
		})
	}
}

func TestExampleClientOfTheSDKIsServed(t *testing.T) {
	agent, model := served(t, apiResponses)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 180*time.Second, errPeer)
	defer cancel()
	out, err := peers.SDKExampleClient(t, agent).Command(ctx).CombinedOutput()
	if err != nil {
		t.Fatalf("the client: %v (%v)\n%s", err, context.Cause(ctx), out)
	}
	for _, want := range []string{"Go \u2014 clear", "Agent completed with: end_turn"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if r := model.Requests(); len(r) != 1 || r[0].Prompt != "Hello, agent!" {
		t.Errorf("requests %+v", r)
	}
}
