package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider/stdio"
)

const (
	// probeTimeout bounds one turn against the loopback model, which takes 0.2 s
	// on an idle machine.
	probeTimeout = 30 * time.Second
	probeTool    = toolPrefix + "probe"
	// inputTool is the one tool of Codex's own that is left: a question to the
	// operator.
	inputTool = "request_user_input"
	// probeProvider is the name of the loopback model in Codex's settings.
	probeProvider = "signalbox_probe"
)

// probeAnswer is the least that Codex takes for a model's answer.
const probeAnswer = `data: {"type":"response.created","response":{"id":"r"}}

data: {"type":"response.output_item.done","item":{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"seen"}]}}

data: {"type":"response.completed","response":{"id":"r","usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}

`

// offered are the names of the tools in a request to a model. Codex also puts
// tools into the input, for models that take them there.
func offered(body []byte) ([]string, error) {
	var r struct {
		Tools []struct {
			Name string `json:"name"`
			Type string `json:"type"`
		} `json:"tools"`
		Input []struct {
			Type string `json:"type"`
		} `json:"input"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	var out []string
	for _, t := range r.Tools {
		if t.Name == "" {
			t.Name = t.Type
		}
		out = append(out, stdio.Cut(t.Name, maxName))
	}
	for _, i := range r.Input {
		if i.Type == "additional_tools" {
			out = append(out, i.Type)
		}
	}
	slices.Sort(out)
	return out, nil
}

// loopback answers one request to a model on loopback, and gives what tools the
// model was offered.
func loopback(ctx context.Context) (url string, tools <-chan []string, closed func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, nil, err
	}
	seen := make(chan []string, 1)
	server := &http.Server{ReadHeaderTimeout: probeTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, coord.MaxFrame))
		names, bad := offered(body)
		if err != nil || bad != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		select {
		case seen <- names:
		default:
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, probeAnswer) // who has gone needs no answer
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // ends with Close
	}()
	return "http://" + l.Addr().String() + "/v1", seen, func() { _ = server.Close(); <-done }, nil
}

// surface measures which tools a model gets: a thread that is not kept makes one
// turn against a model on loopback, under the very settings of an attempt and
// with the metadata of the model that would be used. No account is asked.
func (a *Adapter) surface(ctx context.Context, l launched, want effective, model string) coord.Capability {
	c := coord.Capability{Name: coord.CapabilityTools, Evidence: coord.Measured}
	url, tools, closed, err := loopback(ctx)
	if err != nil {
		c.Detail = "no model on loopback could be made for the probe"
		return c
	}
	defer closed()
	slow := errors.New("nothing came in time")
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, slow)
	defer cancel()
	params := threadOf(l, []dynamicTool{{Type: "function", Name: probeTool, Description: "probe", Schema: json.RawMessage(`{"type":"object"}`)}}, true, want)
	params.Model, params.Provider = model, probeProvider
	params.Config["model_providers"] = map[string]any{probeProvider: map[string]any{
		"name": probeProvider, "base_url": url, "wire_api": "responses", "requires_openai_auth": false,
		"request_max_retries": 0, "stream_max_retries": 0, "supports_websockets": false,
	}}
	var r threadResult
	var t turnResult
	err = l.conn.Call(ctx, methodThread, params, &r)
	if err == nil {
		want.Model, want.Provider = model, probeProvider
		err = r.check(want, true)
	}
	if err == nil {
		err = l.conn.Call(ctx, methodTurn, turnParams{Thread: r.Thread.ID, Message: "probe", Input: []textInput{{"text", "probe"}}}, &t)
	}
	if err != nil {
		c.Detail = stdio.Reason("the probe's thread could not be made: " + unsent(ctx, methodThread, err).Message)
		return c
	}
	select {
	case got := <-tools:
		c.Has = slices.Equal(got, []string{inputTool, probeTool})
		c.Detail = stdio.Reason("a model on loopback was offered " + strings.Join(got, ", "))
	case <-l.conn.Dead():
		c.Detail = "Codex ended during the probe"
	case <-ctx.Done():
		c.Detail = fmt.Sprintf("the probe's model got no request within %s", probeTimeout)
	}
	return c
}
