package a2a

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/jsonwalk"
)

// FuzzAnswer reads anything as an answer, whole and as a stream, in both
// versions. It holds the reading of the envelope to encoding/json: a result is
// given of a response with our id alone. What is understood goes into a view,
// whose answer must be the same however the artifacts came.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":"id","result":{"kind":"task","id":"t","contextId":"c","status":{"state":"working"},"artifacts":[{"artifactId":"a","parts":[{"kind":"text","text":"x"}]}]}}`,
		`{"jsonrpc":"2.0","id":"id","result":{"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"raw":"AQ=="},{"data":null},{"url":"u"}]}]}}}`,
		`{"jsonrpc":"2.0","id":"id","result":{"artifactUpdate":{"taskId":"t","append":true,"artifact":{"artifactId":"a","parts":[{"text":"y"}]}}}}`,
		`{"jsonrpc":"2.0","id":"id","result":{"message":{"messageId":"m","parts":[{"text":"z"}]}}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x","data":{}}}`,
		`{"jsonrpc":"2.0","id":7,"result":{}}`, `{"jsonrpc":"2.0","id":"id","id":"id","result":1}`, "\xef\xbb\xbf{}", `[]`, ``, `{"jsonrpc":"2.0","id":"id","result":{}}{}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if text := strings.TrimSpace(body); json.Valid([]byte(text)) {
			if n, most := countMembers([]byte(text)), strings.Count(text, ",")+strings.Count(text, "{")+strings.Count(text, "["); n > most {
				t.Errorf("%d members are counted of %d marks", n, most)
			}
		}
		result, err := readEnvelope("id", []byte(body))
		if err == nil {
			var all map[string]json.RawMessage
			if e := json.Unmarshal([]byte(strings.TrimPrefix(body, "\xef\xbb\xbf")), &all); e != nil {
				t.Fatalf("a result of what is no JSON: %v", e)
			}
			var id, version string
			if json.Unmarshal(all["id"], &id) != nil || id != "id" || json.Unmarshal(all["jsonrpc"], &version) != nil || version != "2.0" || all["result"] == nil {
				t.Errorf("a result of %q", body)
			}
		}
		for _, version := range []string{v03, v10} {
			if err == nil {
				checkNews(t, version, result)
			}
			stream := newAnswer("id", &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: readCloser{strings.NewReader(body)}})
			for {
				r, err := stream.next()
				if err != nil && !isFault(err) {
					break
				}
				if err == nil {
					checkNews(t, version, r)
				}
			}
		}
	})
}

type readCloser struct{ *strings.Reader }

// Close does nothing.
func (readCloser) Close() error { return nil }

// checkPlain holds the quick way of reading an update to the slow one.
func checkPlain(t *testing.T, value []byte) {
	t.Helper()
	got, ok := plain(value)
	if !ok {
		return
	}
	var want artifactUpdate
	if err := json.Unmarshal(value, &want); err != nil {
		t.Fatalf("%q is read, and is none: %v", value, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%q (-want +got):\n%s", value, diff)
	}
}

func checkNews(t *testing.T, version string, result json.RawMessage) {
	checkPlain(t, result)
	checkPlain(t, jsonwalk.Member(result, "artifactUpdate"))
	n, err := readNews(version, result)
	if err != nil {
		return
	}
	switch {
	case n.task != nil:
		if n.task.ID == "" {
			t.Error("a task without an id")
		}
		var v view
		shown := v.snapshot(n.task.Artifacts)
		if again := v.snapshot(n.task.Artifacts); again != "" && !v.amended {
			t.Errorf("the same artifacts show %q again", again)
		}
		if !v.amended && shown != v.answer() {
			t.Errorf("shown was %q, the answer is %q", shown, v.answer())
		}
		if v.text > coord.MaxAnswerText || v.held > maxHeld {
			t.Errorf("%d bytes of text and %d of files are held", v.text, v.held)
		}
		v.contents()
	case n.status != nil:
		c := describe(n.status.Status)
		if c.Title == "" || !utf8.ValidString(c.Title) || len(c.Detail) > coord.MaxRequestContent {
			t.Errorf("a question is described as %+v", c)
		}
		baseOf(n.status.Status)
	case n.artifact != nil:
		var v view
		v.merge(*n.artifact)
	case n.message != nil:
		n.message.text()
	}
}

// FuzzCard reads anything as a card. What is chosen of it is at the registered
// origin.
func FuzzCard(f *testing.F) {
	for _, version := range []string{v03, v10} {
		f.Add(string(cardOf(version, "http://127.0.0.1:1", true)))
	}
	f.Add(`{"url":"http://127.0.0.1:1@evil.example/","supportedInterfaces":[{"url":"http://127.0.0.1:1\\@x/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		k, err := readCard([]byte(body))
		if err != nil {
			return
		}
		for _, version := range []string{v03, v10} {
			config := coord.A2AConfig{Card: "http://127.0.0.1:1/card", Origin: "http://127.0.0.1:1", Version: version, Private: true}
			if address, _, err := k.choose(config); err == nil && !strings.HasPrefix(address, config.Origin+"/") {
				t.Errorf("the address %q was chosen", address)
			}
			k.wantsCredential()
			k.capabilities()
			k.warnings(config)
		}
	})
}
