package workspacemcp_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
	"signalbox/internal/provider"
)

// recorded is a model API that remembers what it was sent.
type recorded struct {
	*modelserver.Server
	mu     sync.Mutex
	bodies []string
}

func (r *recorded) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.bodies = append(r.bodies, string(body))
	r.mu.Unlock()
	req.Body = io.NopCloser(bytes.NewReader(body))
	r.Server.ServeHTTP(w, req)
}

// sent reports whether a request held the text.
func (r *recorded) sent(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.bodies, func(b string) bool { return strings.Contains(b, text) })
}

// opencode is OpenCode whose native tools are off, with a permission for ours,
// and a model that calls tool once.
func opencode(t *testing.T, permission, tool string) (*bench, *recorded) {
	t.Helper()
	model := &recorded{Server: modelserver.New(modelserver.Options{Script: []modelserver.Reply{
		{Match: "Write the file", Answer: "It is written.", Tool: &modelserver.Tool{Name: tool, Arguments: `{"path":"a.txt","content":"clear\n"}`}},
	}})}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	spec := peers.OpenCode(t, web.URL+"/v1")
	const name = "OPENCODE_CONFIG_CONTENT"
	var config map[string]any
	if err := json.Unmarshal([]byte(spec.Env[name]), &config); err != nil {
		t.Fatal(err)
	}
	config["tools"] = map[string]bool{"*": false, "signalbox_*": true}
	config["permission"] = map[string]string{"*": "deny", "signalbox_*": permission}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, "")
	b.config = coord.AgentConfig{Route: coord.RouteACP, Executable: spec.Executable, Args: spec.Args, Env: maps.Clone(spec.Env)}
	b.config.Env[name] = string(text)
	if b.dir, err = filepath.EvalSymlinks(b.dir); err != nil {
		t.Fatal(err)
	}
	return b, model
}

func TestOpenCodeWithoutToolsOfItsOwnUsesOurs(t *testing.T) {
	b, model := opencode(t, "allow", "signalbox_write")
	turn := b.run("Write the file, please.")
	call := turn.until(provider.EventCall).Call
	if call.Tool != "write" || string(call.Arguments) != `{"path":"a.txt","content":"clear\n"}` {
		t.Errorf("the call is %s %s", call.Tool, call.Arguments)
	}
	turn.answer(call.Origin.Request, "Staged a.txt as signal 4711.", false, provider.Delivered)
	turn.ends(coord.AttemptCompleted)
	if !model.sent("Staged a.txt as signal 4711.") {
		t.Error("the model never got the result")
	}
	offered := 0
	for _, r := range model.Requests() {
		if !strings.Contains(r.Prompt, "Write the file") || len(r.Tools) == 0 {
			continue
		}
		offered++
		if got := slices.Sorted(slices.Values(r.Tools)); !slices.Equal(got, []string{"signalbox_read", "signalbox_write"}) {
			t.Errorf("the model was offered %v", got)
		}
	}
	if offered != 2 {
		t.Errorf("the model got %d requests with tools, want one for the prompt and one for the result", offered)
	}
}

func TestOpenCodeDoesNothingForANativeToolThatIsOff(t *testing.T) {
	b, model := opencode(t, "allow", "write")
	turn := b.run("Write the file, please.")
	turn.ends(coord.AttemptCompleted)
	if made, err := filepath.Glob(filepath.Join(b.dir, "*")); err != nil || len(made) > 0 {
		t.Errorf("made %v, %v", made, err)
	}
	if model.Count() == 0 {
		t.Error("the model was not asked")
	}
}

func TestAPermissionThatOpenCodeAsksForOurToolGoesToTheOperator(t *testing.T) {
	b, _ := opencode(t, "ask", "signalbox_write")
	turn := b.run("Write the file, please.")
	r := turn.until(provider.EventRequest).Request
	at := slices.IndexFunc(r.Options, func(o coord.Option) bool { return o.Kind == coord.AllowOnce })
	if r.Kind != coord.Permission || at < 0 {
		t.Fatalf("the request is %+v", r)
	}
	if got, err := turn.session.Respond(t.Context(), provider.Answer{Request: r.Origin.Request, Decision: coord.DecisionApproved, Option: r.Options[at].ID}); got != provider.Delivered {
		t.Fatalf("the answer is %q, %v", got, err)
	}
	turn.answer(turn.until(provider.EventCall).Call.Origin.Request, "Denied.", true, provider.Delivered)
	turn.ends(coord.AttemptCompleted)
}
