package modelagent

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestFieldCases holds the failures seen in other agents in the field that
// concern an agent, under their numbers in the project's list of 48. The
// client's cases are with the ACP adapter.
func TestFieldCases(t *testing.T) {
	answer := func(t *testing.T) *endpointServer { return serveAPI(t, stream(textDelta("answer")+completed)) }

	t.Run("case 2: a version that is a string or a future one is refused with -32602", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		for _, params := range []string{`{"protocolVersion":"1"}`, `{"protocolVersion":"2025-06-18"}`, `{"protocolVersion":true}`, `{"protocolVersion":1.0}`, `{"protocolVersion":null}`, `{}`} {
			p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":` + params + `}`)
			p.wantError("0", -32602, "invalid_initialize")
		}
		p.session() // a refused initialize is none
	})

	t.Run("case 4: stdout holds nothing but protocol, from its first byte on", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		p.send(initialize)
		if line := p.line(); !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":0,"result":`) {
			t.Errorf("first line %q", line)
		}
	})

	t.Run("case 5: frames written while text streams are never interleaved", func(t *testing.T) {
		const deltas = 2000
		api := serveAPI(t, stream(strings.Repeat(textDelta(strings.Repeat("interleave ", 20)), deltas)+completed))
		p := against(t, apiResponses, api.URL, "--max-output-bytes", "16000000", "--max-response-bytes", "16000000")
		id := p.session()
		p.send(promptFrame(id, "go"))
		go func() { // answers to these compete with the text
			for range 500 {
				_, _ = io.WriteString(p.stdin, `{"jsonrpc":"2.0","id":"other","method":"unknown"}`+"\n")
			}
		}()
		text, others, done := 0, 0, false
		for !done || others < 500 {
			switch m := p.next(); { // next fails on anything that is not one whole message
			case m.Method == "session/update":
				text += len(m.Params.Update.Content.Text)
			case string(m.ID) == `"other"`:
				others++
			default:
				done = true
			}
		}
		if want := deltas * 220; text != want {
			t.Errorf("%d bytes of text, want %d", text, want)
		}
	})

	t.Run("case 6: a character split over three writes arrives whole, on stdin as from the network", func(t *testing.T) {
		api := serveAPI(t, stream(textDelta("\u4e16")+completed))
		p := against(t, apiResponses, api.URL)
		frame := promptFrame(p.session(), "\u4e16") + "\n"
		cut := strings.Index(frame, "\u4e16")
		for _, part := range []string{frame[:cut+1], frame[cut+1 : cut+2], frame[cut+2:]} {
			if _, err := io.WriteString(p.stdin, part); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := p.finish(), (outcome{Text: "\u4e16", Stop: "end_turn"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if sent := quote(api.got()[0].Body["input"]); !strings.Contains(sent, "\u4e16") {
			t.Errorf("the API got %s", sent)
		}
	})

	t.Run("case 7: U+2028 in a text is one frame, both ways", func(t *testing.T) {
		api := serveAPI(t, stream("data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\u2028b\u2029c\"}\n\n"+completed))
		p := against(t, apiResponses, api.URL)
		p.send(blocksFrame(p.session(), "[{\"type\":\"text\",\"text\":\"x\u2028y\"}]"))
		line := p.line()
		if strings.ContainsAny(line, "\u2028\u2029") {
			t.Errorf("a line separator is in the frame unescaped: %q", line)
		}
		var m message
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Params.Update.Content.Text != "a\u2028b\u2029c" {
			t.Errorf("got %q (%v)", line, err)
		}
		if got := p.finish(); got.Stop != "end_turn" {
			t.Errorf("got %+v", got)
		}
	})

	t.Run("case 8: frames that end in CRLF are read", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		p.send(initialize+"\r", newSession+"\r")
		for range 2 {
			if m := p.next(); m.Error != nil {
				t.Errorf("error %s", m.Error.Message)
			}
		}
	})

	t.Run("case 10: a frame above the limit is told as such", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		_, _ = io.WriteString(p.stdin, strings.Repeat("x", defaultPrompt+frameOverhead+1)+"\n") // the agent may leave before it is all written
		p.wantError("null", -32600, "frame_limit")
	})

	t.Run("case 15: no authentication is offered, so none can be demanded", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		p.send(initialize)
		var result struct{ AuthMethods []any }
		m := p.next()
		if err := json.Unmarshal(m.Result, &result); err != nil || result.AuthMethods == nil || len(result.AuthMethods) != 0 {
			t.Errorf("result %s (%v)", m.Result, err)
		}
		p.send(`{"jsonrpc":"2.0","id":3,"method":"authenticate","params":{"methodId":"x"}}`)
		p.wantError("3", -32601, "method_not_found")
	})

	t.Run("case 19: a cancel in the same write as the prompt ends it cancelled", func(t *testing.T) {
		for range 30 { // a lost cancel would be a race, seen once in eight elsewhere
			api := serveAPI(t, streamAndHold(""))
			p := against(t, apiResponses, api.URL)
			id := p.session()
			p.send(promptFrame(id, "hello"), cancelFrame(id))
			if got, want := p.finish(), (outcome{Stop: "cancelled"}); got != want {
				t.Fatalf("got %+v, want %+v", got, want)
			}
			p.stdin.Close()
			p.exit()
		}
	})

	t.Run("case 20: a cancel is acknowledged while the network hangs", func(t *testing.T) {
		p := start(t, []string{"MODEL_API_KEY=" + secret}, "--base-url", "https://"+listen(t), "--model", "m")
		id := p.session()
		p.send(promptFrame(id, "hello"), cancelFrame(id))
		began := time.Now()
		if got, want := p.finish(), (outcome{Stop: "cancelled"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})

	t.Run("case 22: a cancelled prompt is answered once", func(t *testing.T) {
		api := serveAPI(t, streamAndHold(textDelta("x")))
		p := against(t, apiResponses, api.URL)
		id := p.session()
		p.send(promptFrame(id, "hello"), cancelFrame(id), cancelFrame(id), cancelFrame(id))
		if got := p.finish(); got.Stop != "cancelled" {
			t.Errorf("got %+v", got)
		}
		p.stdin.Close()
		if line := p.line(); line != "" {
			t.Errorf("after the answer: %s", line)
		}
	})

	t.Run("case 23: a cancel is a notification and never answered, not even with an id", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		id := p.session()
		p.send(`{"jsonrpc":"2.0","id":8,"method":"session/cancel","params":{"sessionId":"`+id+`"}}`, `{"jsonrpc":"2.0","id":9,"method":"unknown"}`)
		p.wantError("9", -32601, "method_not_found")
	})

	t.Run("case 24: cancel before prompt is ignored", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		id := p.session()
		p.send(cancelFrame(id), promptFrame(id, "hello"))
		if got, want := p.finish(), (outcome{Text: "answer", Stop: "end_turn"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})

	t.Run("case 25: no update follows the answer", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		if got := p.ask("hello"); got.Stop != "end_turn" {
			t.Fatalf("got %+v", got)
		}
		p.stdin.Close()
		if line := p.line(); line != "" {
			t.Errorf("after the answer: %s", line)
		}
	})

	t.Run("case 26: a failure is an error and no stop reason", func(t *testing.T) {
		api := serveAPI(t, stream(textDelta("part")+`data: {"type":"response.failed"}`+"\n\n"))
		if got, want := against(t, apiResponses, api.URL).ask("hello"), (outcome{Text: "part", Kind: "model_failed"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})

	t.Run("case 27: a truncated answer is no success", func(t *testing.T) {
		api := serveAPI(t, stream(chatDelta("part")+`data: {"choices":[{"delta":{},"finish_reason":"length"}]}`+"\n\n"+chatDone))
		if got, want := against(t, apiChat, api.URL).ask("hello"), (outcome{Text: "part", Kind: "incomplete_model_response"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})

	t.Run("case 28: an answer without text is no success", func(t *testing.T) {
		api := serveAPI(t, stream(chatStop+chatDone))
		if got, want := against(t, apiChat, api.URL).ask("hello"), (outcome{Kind: "empty_model_response"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})

	t.Run("case 32: the end of the agent in mid-prompt is exit code 0 after stdin ended", func(t *testing.T) {
		api := serveAPI(t, streamAndHold(textDelta("x")))
		p := against(t, apiResponses, api.URL)
		p.send(promptFrame(p.session(), "hello"))
		p.next()
		p.stdin.Close()
		if code := p.exit(); code != 0 {
			t.Errorf("exit %d", code)
		}
	})

	// endless streams text for as long as it is taken.
	endless := func(w http.ResponseWriter, r *http.Request) {
		stream("")(w, r)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, textDelta(strings.Repeat("full ", 1000))); err != nil {
				return
			}
		}
	}

	t.Run("case 34: a full stdout does not hold up the end", func(t *testing.T) {
		p := startUnread(t, serveAPI(t, endless).URL)
		began := time.Now()
		p.stdin.Close()
		if err := p.wait(); err != nil {
			t.Errorf("the agent ended with %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the end took %v", took)
		}
	})

	t.Run("case 34: a full stdout does not hold up a cancel", func(t *testing.T) {
		gone := make(chan struct{})
		p := startUnread(t, serveAPI(t, func(w http.ResponseWriter, r *http.Request) {
			defer close(gone)
			endless(w, r)
		}).URL)
		p.send(cancelFrame(p.id))
		await(t, gone, "end of the request")
		p.readTo(`"id":2,"result":{"stopReason":"cancelled"}`)
	})

	t.Run("case 35: a client that writes before it reads is no deadlock", func(t *testing.T) {
		p := startUnread(t, serveAPI(t, endless).URL)
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = io.WriteString(p.stdin, `{"jsonrpc":"2.0","id":3,"method":"unknown","params":{"x":"`+strings.Repeat("p", 256<<10)+`"}}`+"\n")
		}()
		await(t, written, "room on stdin")
		p.readTo(`"id":3,"error":{"code":-32601,`)
	})

	t.Run("case 36: the agent starts no child", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("only Linux lists the children of a process in a file")
		}
		api := serveAPI(t, streamAndHold(textDelta("x")))
		p := against(t, apiResponses, api.URL)
		p.send(promptFrame(p.session(), "hello"))
		p.next()
		lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
		if err != nil || len(lists) == 0 {
			t.Fatalf("no list of children (%v)", err)
		}
		for _, list := range lists {
			if children, _ := os.ReadFile(list); len(children) > 0 {
				t.Errorf("children %s", children)
			}
		}
	})

	t.Run("case 38: the agent exits within a second of the end of stdin, even in mid-prompt", func(t *testing.T) {
		for name, handler := range map[string]http.HandlerFunc{
			"before the headers": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"in mid-stream":      streamAndHold(textDelta("x")),
		} {
			t.Run(name, func(t *testing.T) {
				arrived := make(chan struct{})
				api := serveAPI(t, func(w http.ResponseWriter, r *http.Request) {
					close(arrived)
					handler(w, r)
				})
				p := against(t, apiResponses, api.URL)
				p.send(promptFrame(p.session(), "hello"))
				await(t, arrived, "request")
				began := time.Now()
				p.stdin.Close()
				if code := p.exit(); code != 0 {
					t.Errorf("exit %d", code)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("took %v", took)
				}
				for line := range p.lines {
					if strings.Contains(line, `"id":2`) {
						t.Errorf("the abandoned prompt was answered: %s", line)
					}
				}
			})
		}
	})

	t.Run("case 40: after a refused version there is no session", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		p.send(strings.Replace(initialize, `"protocolVersion":1`, `"protocolVersion":2`, 1), newSession)
		p.wantError("0", -32602, "invalid_initialize")
		p.wantError("1", -32602, "invalid_session")
	})

	t.Run("case 41: the version told is the integer 1", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		p.send(initialize)
		if line := p.line(); !strings.Contains(line, `"protocolVersion":1,`) {
			t.Errorf("line %q", line)
		}
	})

	t.Run("case 42: null in an optional place is as good as nothing there", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientInfo":null,"clientCapabilities":null,"_meta":null}}`,
			`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[],"additionalDirectories":null,"_meta":null}}`)
		if m := p.next(); m.Error != nil {
			t.Fatal(m.Error.Message)
		}
		var result struct{ SessionID string }
		if err := json.Unmarshal(p.next().Result, &result); err != nil {
			t.Fatal(err)
		}
		p.send(blocksFrame(result.SessionID, `[{"type":"text","text":"x","annotations":null},{"type":"resource_link","uri":"u","name":"n","title":null,"size":null}]`))
		if got := p.finish(); got.Stop != "end_turn" {
			t.Errorf("got %+v", got)
		}
	})

	t.Run("case 43: every result is an object, and empty ones are sent as {}", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		p.send(initialize, newSession)
		first := p.next()
		second := p.next()
		for _, m := range []message{first, second} {
			if !strings.HasPrefix(string(m.Result), "{") {
				t.Errorf("result %s", m.Result)
			}
		}
		if !strings.Contains(string(first.Result), `"promptCapabilities":{}`) {
			t.Errorf("result %s", first.Result)
		}
	})

	t.Run("case 44: an id comes back byte for byte", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		for _, id := range []string{`"a"`, `"\u0061"`, `"\ud83d\udea6 \/"`, `"1"`, `""`, `0`, `-1`, `-0`, `9223372036854775807`, `null`} {
			p.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"unknown"}`)
			if line := p.line(); !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":`+id+`,"error":`) {
				t.Errorf("id %s: %q", id, line)
			}
		}
	})

	t.Run("case 45: a parse error has id null", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		p.send(`{"jsonrpc":"2.0","id":5,"method":`)
		if line := p.line(); !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`) {
			t.Errorf("line %q", line)
		}
	})

	t.Run("case 46: a batch gets one refusal with id null and nothing of it is done", func(t *testing.T) {
		p := against(t, apiResponses, answer(t).URL)
		p.send(`[`+initialize+`,`+newSession+`]`, newSession)
		p.wantError("null", -32600, "invalid_request")
		p.wantError("1", -32602, "invalid_session") // initialize was not done
	})
}
