package modelserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"signalbox/internal/coord"
	"signalbox/internal/sse"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client makes each request on its own connection, so that none is left over.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func start(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	s := New(o)
	l := httptest.NewServer(s)
	t.Cleanup(l.Close)
	return s, l.URL
}

func post(t *testing.T, url, token, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func documentOf(t *testing.T, resp *http.Response) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// at walks a document: names of members and indexes of lists. Where there is
// nothing it gives nil.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			object, _ := v.(map[string]any)
			v = object[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	return v
}

// chunks reads a stream to its end: the JSON events, and whether [DONE] was
// the last one.
func chunks(t *testing.T, resp *http.Response) (events []map[string]any, done bool) {
	t.Helper()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("Content-Type %q", got)
	}
	r := sse.NewReader(resp.Body, sse.Limits{Line: 1 << 20, Event: 1 << 20, Total: 1 << 24})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return events, done
		}
		if err != nil || done {
			t.Fatalf("error %v, after [DONE]: %v", err, done)
		}
		if done = string(e.Data) == "[DONE]"; done {
			continue
		}
		var doc map[string]any
		if err := json.Unmarshal(e.Data, &doc); err != nil {
			t.Fatal(err)
		}
		if kind, ok := doc["type"]; ok && kind != e.Type {
			t.Errorf("event %q holds type %q", e.Type, kind)
		}
		events = append(events, doc)
	}
}

const script = "look at the signals"

func scripted() Options {
	return Options{Script: []Reply{
		{Match: script, Answer: "The signals are clear \u2014 all of them."},
		{Match: "edit", Answer: "The file is changed.", Tool: &Tool{Name: "write", Arguments: `{"path":"a"}`}},
		{Match: "only the tool", Tool: &Tool{Name: "write", Arguments: `{}`}},
	}}
}

func TestAnswersAreTheSameInAllFourForms(t *testing.T) {
	s, url := start(t, scripted())
	const want = "The signals are clear \u2014 all of them."

	chatBody := `{"model":"m","messages":[{"role":"system","content":"be good"},{"role":"user","content":[{"type":"text","text":"Please ` + script + `"}]}]`
	doc := documentOf(t, post(t, url+"/v1/chat/completions", "", chatBody+`}`))
	if got := at(t, doc, "choices", 0, "message", "content"); got != want || at(t, doc, "choices", 0, "finish_reason") != "stop" {
		t.Errorf("chat: %v", doc)
	}

	events, done := chunks(t, post(t, url+"/v1/chat/completions", "", chatBody+`,"stream":true,"stream_options":{"include_usage":true}}`))
	text, finish := "", any(nil)
	for _, e := range events[:len(events)-1] {
		if piece, ok := at(t, e, "choices", 0, "delta", "content").(string); ok {
			text += piece
		}
		if finish != nil {
			t.Error("a chunk follows the finish")
		}
		finish = at(t, e, "choices", 0, "finish_reason")
	}
	last := events[len(events)-1]
	if text != want || finish != "stop" || !done || !cmp.Equal(at(t, last, "choices"), []any{}) || at(t, last, "usage", "total_tokens") == 0.0 {
		t.Errorf("chat stream: %q, %v, done %v, usage %v", text, finish, done, last)
	}
	if len(events) < 5 {
		t.Errorf("the answer came in %d chunks", len(events))
	}

	doc = documentOf(t, post(t, url+"/v1/responses", "", `{"model":"m","input":"`+script+`"}`))
	if got := at(t, doc, "output", 0, "content", 0, "text"); got != want || doc["status"] != "completed" {
		t.Errorf("responses: %v", doc)
	}

	events, done = chunks(t, post(t, url+"/v1/responses", "", `{"model":"m","stream":true,"store":false,"input":[{"role":"user","content":[{"type":"input_text","text":"`+script+`"}]}]}`))
	text = ""
	for i, e := range events {
		if e["sequence_number"] != float64(i) {
			t.Errorf("event %d has number %v", i, e["sequence_number"])
		}
		if e["type"] == "response.output_text.delta" {
			text += fmt.Sprint(e["delta"])
		}
	}
	last = events[len(events)-1]
	if text != want || done || last["type"] != "response.completed" || at(t, last, "response", "output", 0, "content", 0, "text") != want {
		t.Errorf("responses stream: %q, done %v, last %v", text, done, last)
	}

	if s.Count() != 4 || len(s.Requests()) != 4 {
		t.Errorf("%d answers counted, %d kept", s.Count(), len(s.Requests()))
	}
	if diff := cmp.Diff(Request{Path: "/v1/chat/completions", Model: "m", Prompt: "Please " + script}, s.Requests()[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestToolIsCalledOnceAfterEachMessageOfTheUser(t *testing.T) {
	s, url := start(t, scripted())
	const tools = `,"tools":[{"type":"function","function":{"name":"read"}},{"type":"function","function":{"name":"write"}}]`
	user := `{"role":"user","content":"edit it"}`
	call := `{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"write","arguments":"{}"}}]}`
	result := `{"role":"tool","tool_call_id":"c","content":"ok"}`
	for _, tt := range []struct {
		name, messages, tools string
		calls                 bool
	}{
		{"first", user, tools, true},
		{"after its result", user + "," + call + "," + result, tools, false},
		{"after the next message", user + "," + call + "," + result + `,{"role":"assistant","content":"done"},` + user, tools, true},
		{"without tools, as for a title", user, "", false},
		{"with other tools", user, `,"tools":[{"type":"function","function":{"name":"read"}}]`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := `{"model":"m","messages":[` + tt.messages + `]` + tt.tools
			choice := at(t, documentOf(t, post(t, url+"/v1/chat/completions", "", body+`}`)), "choices", 0)
			if tt.calls {
				function := at(t, choice, "message", "tool_calls", 0, "function")
				if diff := cmp.Diff(map[string]any{"name": "write", "arguments": `{"path":"a"}`}, function); diff != "" || at(t, choice, "finish_reason") != "tool_calls" {
					t.Errorf("%v\n%s", choice, diff)
				}
			} else if at(t, choice, "message", "content") != "The file is changed." {
				t.Errorf("%v", choice)
			}

			events, done := chunks(t, post(t, url+"/v1/chat/completions", "", body+`,"stream":true}`))
			var calls int
			for _, e := range events {
				if list, ok := at(t, e, "choices", 0, "delta", "tool_calls").([]any); ok {
					calls += len(list)
				}
			}
			finish := at(t, events[len(events)-1], "choices", 0, "finish_reason")
			if want := map[bool]string{true: "tool_calls", false: "stop"}[tt.calls]; finish != want || !done || (calls == 1) != tt.calls {
				t.Errorf("stream: %d calls, finish %v, done %v", calls, finish, done)
			}
		})
	}
	if got := s.Requests()[0].Tools; !cmp.Equal(got, []string{"read", "write"}) {
		t.Errorf("tools kept: %v", got)
	}
}

func TestUnforeseenPromptIsQuoted(t *testing.T) {
	_, url := start(t, Options{})
	for prompt, want := range map[string]string{
		"one two three":            "The prompt has 13 characters and begins: one two three",
		"1 2 3 4 5 6 7 8 9 \u00e9": "The prompt has 19 characters and begins: 1 2 3 4 5 6 7 8 ...",
		"":                         "The prompt has 0 characters and begins: ",
	} {
		doc := documentOf(t, post(t, url+"/v1/responses", "", `{"input":"`+prompt+`"}`))
		if got := at(t, doc, "output", 0, "content", 0, "text"); !strings.HasSuffix(fmt.Sprint(got), want) {
			t.Errorf("%q: %v", prompt, got)
		}
	}
}

func TestTokenIsRequiredEverywhere(t *testing.T) {
	s, url := start(t, Options{Token: "right"})
	for _, path := range []string{"/v1/responses", "/v1/chat/completions", "/v1/models", "/"} {
		for _, token := range []string{"", "wrong", "right2"} {
			if resp := post(t, url+path, token, `{}`); resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with %q: %d", path, token, resp.StatusCode)
			}
		}
	}
	if s.Count() != 0 {
		t.Errorf("%d answers without a token", s.Count())
	}
	if resp := post(t, url+"/v1/responses", "right", `{"input":"x"}`); resp.StatusCode != http.StatusOK {
		t.Errorf("with the token: %d", resp.StatusCode)
	}
}

func TestFaultyRequestsAreRefusedAndNotCounted(t *testing.T) {
	s, url := start(t, Options{})
	for _, tt := range []struct {
		path, body string
		status     int
	}{
		{"/v1/responses", `{`, 400},
		{"/v1/responses", `{}`, 400},
		{"/v1/responses", `{"input":7}`, 400},
		{"/v1/responses", `{"input":[{"role":"user","content":7}]}`, 400},
		{"/v1/chat/completions", `{"messages":[]}`, 400},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"` + strings.Repeat("x", coord.MaxBody) + `"}]}`, 413},
		{"/v1/completions", `{}`, 404},
		{"/v1/models", `{}`, 404},
	} {
		resp := post(t, url+tt.path, "", tt.body)
		if resp.StatusCode != tt.status || at(t, documentOf(t, resp), "error", "message") == "" {
			t.Errorf("%s %.40s: %d, want %d", tt.path, tt.body, resp.StatusCode, tt.status)
		}
	}
	if s.Count() != 0 {
		t.Errorf("%d counted", s.Count())
	}
}

func TestModelsAreListed(t *testing.T) {
	_, url := start(t, Options{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := at(t, documentOf(t, resp), "data", 0, "id"); got != Model {
		t.Errorf("got %v", got)
	}
}

func TestDelayIsEndedByTheClient(t *testing.T) {
	returned := make(chan struct{})
	s := New(Options{Delay: time.Hour})
	l := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(returned)
		s.ServeHTTP(w, r)
	}))
	defer l.Close()
	resp := post(t, l.URL+"/v1/responses", "", `{"input":"x","stream":true}`)
	r := sse.NewReader(resp.Body, sse.Limits{Line: 1 << 20, Event: 1 << 20, Total: 1 << 20})
	if e, err := r.Next(); err != nil || e.Type != "response.created" {
		t.Fatalf("got %q, %v: the stream must begin before the delay", e.Type, err)
	}
	resp.Body.Close()
	select {
	case <-returned:
	case <-time.After(20 * time.Second):
		t.Error("the handler outlives its client")
	}
}
