package modelserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// respond makes a request of the responses API and gives its status and body.
func respond(t *testing.T, ctx context.Context, url, input string, stream bool) (int, string, error) {
	t.Helper()
	body := `{"model":"m","stream":` + map[bool]string{true: "true", false: "false"}[stream] + `,"tools":[{"type":"function","name":"read"}],"input":` + input + `}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/responses", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	a, err := new(http.Client).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	return a.StatusCode, string(b), err
}

const user = `{"type":"message","role":"user","content":"go"}`

func output(id, text string) string {
	b, _ := json.Marshal(map[string]string{"type": "function_call_output", "call_id": id, "output": text})
	return string(b)
}

func TestStepsArePlayedAsTheirCallsAreAnswered(t *testing.T) {
	s, url := start(t, Options{Script: []Reply{{Match: "go", Answer: "All done.", Steps: []Step{
		{Say: "I look.", Calls: []Tool{{"read", `{"path":"a"}`}, {"read", `{"path":"b"}`}}},
		{Calls: []Tool{{"write", `{}`}}},
	}}}})
	for _, c := range []struct {
		input string
		want  []string
	}{
		{`[` + user + `]`, []string{"message I look.", `read {"path":"a"}`, `read {"path":"b"}`}},
		{`[` + user + `,` + output("call_1_1", "A") + `]`, []string{"message I look.", `read {"path":"a"}`, `read {"path":"b"}`}},
		{`[` + user + `,` + output("call_1_1", "A") + `,` + output("call_1_2", "B") + `]`, []string{`write {}`}},
		{`[` + user + `,` + output("call_1_1", "A") + `,` + output("call_1_2", "B") + `,` + output("call_2_1", "C") + `]`, []string{"message All done."}},
		{`[` + user + `,` + output("old", "X") + `,` + user + `]`, []string{"message I look.", `read {"path":"a"}`, `read {"path":"b"}`}},
	} {
		status, body, err := respond(t, t.Context(), url, c.input, false)
		if status != http.StatusOK || err != nil {
			t.Fatalf("%d %s %v", status, body, err)
		}
		var d struct {
			Output []struct {
				Type, Name, Arguments string
				Content               []struct{ Text string }
			}
		}
		if err := json.Unmarshal([]byte(body), &d); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range d.Output {
			if o.Type == "message" {
				got = append(got, "message "+o.Content[0].Text)
				continue
			}
			got = append(got, o.Name+" "+o.Arguments)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("to %s: %s", c.input, diff)
		}
		_, streamed, err := respond(t, t.Context(), url, c.input, true)
		if err != nil || strings.Count(streamed, "event: response.output_item.done") != len(c.want) || !strings.Contains(streamed, "event: response.completed") {
			t.Errorf("the stream is %s, %v", streamed, err)
		}
	}
	last := s.Requests()[7]
	if diff := cmp.Diff([]Output{{"call_1_1", "A"}, {"call_1_2", "B"}, {"call_2_1", "C"}}, last.Outputs); diff != "" {
		t.Error(diff)
	}
}

func TestStepsCanRefuseAndHang(t *testing.T) {
	_, url := start(t, Options{Script: []Reply{
		{Match: "refuse", Steps: []Step{{Status: 503}}},
		{Match: "hang", Steps: []Step{{Hang: true}}},
	}})
	if status, body, err := respond(t, t.Context(), url, `"refuse"`, true); status != 503 || err != nil || !strings.Contains(body, "script") {
		t.Errorf("the answer is %d %s, %v", status, body, err)
	}
	for _, stream := range []bool{true, false} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("over"))
		if _, body, err := respond(t, ctx, url, `"hang"`, stream); err == nil || strings.Contains(body, "completed") {
			t.Errorf("it answered %s, %v", body, err)
		}
		cancel()
	}
}

func TestOfferedToolsAreRecordedWhereverTheyAre(t *testing.T) {
	s, url := start(t, Options{})
	input := `[{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"},{"type":"function","name":"wait"}]},{"type":"function","name":"plain"}]},` + user + `]`
	if status, body, err := respond(t, t.Context(), url, input, true); status != http.StatusOK || err != nil {
		t.Fatalf("%d %s %v", status, body, err)
	}
	if diff := cmp.Diff([]string{"read", "functions.exec", "functions.wait", "plain"}, s.Requests()[0].Tools); diff != "" {
		t.Error(diff)
	}
}
