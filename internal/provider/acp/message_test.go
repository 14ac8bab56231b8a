package acp

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"signalbox/internal/coord"
	"signalbox/internal/jsonwalk"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// FuzzLine reads any line in every way in which an agent's lines are read:
// nothing panics, and what comes of it is within the bounds.
func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","rawInput":{},"content":[{"type":"diff","path":"a","oldText":"x\ny","newText":"x"}]}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"resource","resource":{"uri":"file:///","blob":"AQID"}}}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"a","kind":"allow_once"},null,7]}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","usage":{"inputTokens":1}}}`))
	f.Add([]byte(` `))
	f.Fuzz(func(t *testing.T, line []byte) {
		if !jsonwalk.IsObject(line) || !jsonwalk.Valid(line) {
			return // stdio drops it
		}
		m := stdio.Message{Params: jsonwalk.Member(line, "params"), Result: jsonwalk.Member(line, "result"), Error: jsonwalk.Member(line, "error")}
		if u, err := readUpdate(m.Params); err == nil {
			for _, ev := range u.Update.events() {
				if a := ev.Activity; a != nil && (len(a.Title) > coord.MaxTitle || len(a.Detail) > maxDetail) {
					t.Errorf("the activity is %+v", a)
				}
				if _, err := json.Marshal(ev); err != nil {
					t.Error(err)
				}
			}
		}
		var p permissionParams
		if stdio.Decode(m.Params, &p) == nil {
			options, dropped := p.options()
			if len(options)+dropped != len(p.Options) || len(options) > coord.MaxOptions {
				t.Errorf("%d options of %d, %d dropped", len(options), len(p.Options), dropped)
			}
			if c := p.ToolCall.describe(); len(c.Detail) > coord.MaxRequestContent || len(c.Title) > coord.MaxTitle || !utf8.ValidString(c.Title+c.Detail) {
				t.Errorf("the content has %d and %d bytes", len(c.Title), len(c.Detail))
			}
		}
		end, _ := stopped(m, true, false)
		if end.State == coord.AttemptCancelled || end.Cause == provider.CauseAfterCancel || len(end.Reason) > coord.MaxReason {
			t.Errorf("unasked, the end is %+v", end)
		}
	})
}

func TestChangesAreShownWithTheirSurroundings(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"", "a", "@@ line 1 @@\n-\n+a"},
		{"a", "a", "@@ line 2 @@\n a"},
		{"a\nb\nc", "a\nc", "@@ line 2 @@\n a\n-b\n c"},
		{"a\nc", "a\nb\nc", "@@ line 2 @@\n a\n+b\n c"},
		{"a\na", "a\na\na", "@@ line 3 @@\n a\n a\n+a"},
		{"1\n2\n3\n4\n5\n6", "1\n2\n3\n4\n5\nsix", "@@ line 6 @@\n 3\n 4\n 5\n-6\n+six"},
	} {
		if got := change(c.before, c.after); got != c.want {
			t.Errorf("from %q to %q: %q", c.before, c.after, got)
		}
	}
}
