package modelserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// chatting asks for the next completion of a chat and gives the calls in it, as
// name(arguments) with their ids, or its text.
func chatting(t *testing.T, url, tools string, after ...string) (said string, ids []string) {
	t.Helper()
	messages := append([]string{`{"role":"user","content":"go"}`}, after...)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(`{"model":"m","tools":%s,"messages":[%s]}`, tools, strings.Join(messages, ","))))
	if err != nil {
		t.Fatal(err)
	}
	a, err := new(http.Client).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Choices []struct {
			Message struct {
				Content   string
				ToolCalls []struct {
					ID       string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
	}
	if err := json.Unmarshal(b, &doc); err != nil || len(doc.Choices) != 1 {
		t.Fatalf("status %d: %s", a.StatusCode, b)
	}
	m := doc.Choices[0].Message
	if len(m.ToolCalls) == 0 {
		return m.Content, nil
	}
	var calls []string
	for _, c := range m.ToolCalls {
		calls, ids = append(calls, c.Function.Name+c.Function.Arguments), append(ids, c.ID)
	}
	return strings.Join(calls, " "), ids
}

func TestChatPlaysStepsAsTheirCallsAreAnswered(t *testing.T) {
	m, url := start(t, Options{Script: []Reply{{Match: "go", Answer: "done", Steps: []Step{
		{Calls: []Tool{{Name: "read", Arguments: `{"a":1}`}, {Name: "rogue", Arguments: `{}`}}},
		{Calls: []Tool{{Name: "write", Arguments: `{}`}}},
	}}}})
	const tools = `[{"type":"function","function":{"name":"read"}}]`
	var after []string
	for _, want := range []string{`read{"a":1} rogue{}`, `write{}`, "done"} {
		said, ids := chatting(t, url, tools, after...)
		if said != want {
			t.Errorf("it says %q, want %q", said, want)
		}
		for _, id := range ids {
			after = append(after, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"did %d"}`, id, len(after)))
		}
	}
	requests := m.Requests()
	var texts []string
	for _, o := range requests[len(requests)-1].Outputs {
		texts = append(texts, o.Text)
	}
	if diff := cmp.Diff([]string{"did 0", "did 1", "did 2"}, texts); diff != "" {
		t.Error(diff)
	}
	// A request on the side, without tools, plays no step.
	if said, _ := chatting(t, url, "[]"); said != "done" {
		t.Errorf("without tools it says %q", said)
	}
}
