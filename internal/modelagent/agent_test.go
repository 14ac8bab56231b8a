package modelagent

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPayloadOfResponsesHasNoToolsAndIsNotStored(t *testing.T) {
	api := serveAPI(t, document(`{"status":"completed","output":[{"type":"reasoning"},{"type":"message","content":[{"type":"output_text","text":"one "},{"type":"output_text","text":"two"}]}]}`))
	p := against(t, apiResponses, api.URL)
	if got, want := p.ask("hello"), (outcome{Text: "one two", Stop: "end_turn"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	requests := api.got()
	if len(requests) != 1 {
		t.Fatalf("%d requests, want 1", len(requests))
	}
	r := requests[0]
	want := map[string]any{"model": "test-model", "stream": true, "store": false,
		"input": []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "input_text", "text": "hello"}}}}}
	if diff := cmp.Diff(want, r.Body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if r.Path != "/v1/responses" || r.Header.Get("Authorization") != "Bearer "+secret || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("path %q, headers %v", r.Path, r.Header)
	}
	if accept := r.Header.Get("Accept"); !strings.Contains(accept, "text/event-stream") || !strings.Contains(accept, "application/json") {
		t.Errorf("Accept %q", accept)
	}
}

func TestPayloadOfChatIsOneMessage(t *testing.T) {
	api := serveAPI(t, document(`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`))
	p := against(t, apiChat, api.URL)
	if got, want := p.ask("hello <&>"), (outcome{Text: "hi", Stop: "end_turn"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	r := api.got()[0]
	want := map[string]any{"model": "test-model", "stream": true,
		"messages": []any{map[string]any{"role": "user", "content": "hello <&>"}}}
	if diff := cmp.Diff(want, r.Body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if r.Path != "/v1/chat/completions" {
		t.Errorf("path %q", r.Path)
	}
}

func TestSecondPromptAndSecondSessionAreRefused(t *testing.T) {
	api := serveAPI(t, stream(textDelta("x")+completed))
	p := against(t, apiResponses, api.URL)
	id := p.session()
	p.send(promptFrame(id, "one"))
	if got := p.finish(); got.Stop != "end_turn" {
		t.Fatalf("got %+v", got)
	}
	p.send(promptFrame(id, "two"))
	p.wantError("2", -32602, "session_already_used")
	p.send(newSession)
	p.wantError("1", -32602, "invalid_session")
	p.send(initialize)
	p.wantError("0", -32602, "invalid_initialize")
	if n := len(api.got()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestStreamSentByteByByteKeepsEveryCharacter(t *testing.T) {
	const text = "h\u00e9llo \u4e16\u754c \U0001f6a6 \u2028 \"quoted\" \\ tab\t line\n"
	for name, body := range map[api]string{
		apiResponses: textDelta(text) + completed,
		apiChat:      chatDelta(text) + chatStop + chatDone,
	} {
		t.Run(string(name), func(t *testing.T) {
			api := serveAPI(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				for i := range len(body) {
					_, _ = io.WriteString(w, body[i:i+1])
					_ = http.NewResponseController(w).Flush()
				}
			})
			if got, want := against(t, name, api.URL).ask("hello"), (outcome{Text: text, Stop: "end_turn"}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestAnswerIsCompleteBeforeTheStreamEnds(t *testing.T) {
	for name, body := range map[api]string{
		// What follows the boundary is not looked at, were it a tool.
		apiResponses: textDelta("done") + completed + `data: {"type":"response.output_item.added","item":{"type":"web_search_call"}}` + "\n\n",
		apiChat:      chatDelta("done") + chatStop + chatDone + `data: {"error":{"message":"late"}}` + "\n\n",
	} {
		t.Run(string(name), func(t *testing.T) {
			api := serveAPI(t, streamAndHold(body))
			if got, want := against(t, name, api.URL).ask("hello"), (outcome{Text: "done", Stop: "end_turn"}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestResponsesOutcomes(t *testing.T) {
	item := func(event, kind string) string {
		return `data: {"type":"response.output_item.` + event + `","item":{"type":"` + kind + `"}}` + "\n\n"
	}
	complete := func(response string) string {
		return `data: {"type":"response.completed","response":` + response + "}\n\n"
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    outcome
	}{
		{"events that are not known are ignored", stream(`data: {"type":"response.created","response":{"error":null}}` + "\n\n" + item("added", "reasoning") + item("added", "message") + `data: {"type":"response.reasoning_summary_text.delta","delta":"thought"}` + "\n\n" + textDelta("a") + item("done", "message") + `data: {"type":"response.new_thing"}` + "\n\n" + completed), outcome{Text: "a", Stop: "end_turn"}},
		{"the end without the boundary is incomplete", stream(textDelta("a")), outcome{Text: "a", Kind: "incomplete_model_response"}},
		{"an event without its blank line is incomplete", stream(textDelta("a") + strings.TrimRight(completed, "\n")), outcome{Text: "a", Kind: "incomplete_model_response"}},
		{"DONE is not this API's boundary", stream(textDelta("a") + chatDone), outcome{Text: "a", Kind: "incomplete_model_response"}},
		{"no text is empty although the snapshot has some", stream(complete(`{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}]}`)), outcome{Kind: "empty_model_response"}},
		{"a status other than completed is incomplete", stream(textDelta("a") + complete(`{"status":"in_progress","output":[]}`)), outcome{Text: "a", Kind: "incomplete_model_response"}},
		{"an output that is no list is invalid", stream(textDelta("a") + complete(`{"status":"completed","output":null}`)), outcome{Text: "a", Kind: "invalid_model_response"}},
		{"a completion without a response is a protocol error", stream(textDelta("a") + complete(`null`)), outcome{Text: "a", Kind: "network_or_protocol_error"}},
		{"a tool item that begins is refused at once", streamAndHold(textDelta("a") + item("added", "function_call")), outcome{Text: "a", Kind: "unsupported_model_tool"}},
		{"a tool item that is done is refused", streamAndHold(item("done", "mcp_call")), outcome{Kind: "unsupported_model_tool"}},
		{"a tool item of an unknown kind is refused", streamAndHold(item("added", "time_travel")), outcome{Kind: "unsupported_model_tool"}},
		{"a web search at completion is refused", stream(textDelta("a") + complete(`{"status":"completed","output":[{"type":"message"},{"type":"web_search_call"}]}`)), outcome{Text: "a", Kind: "unsupported_model_tool"}},
		{"arguments of a function call are refused", streamAndHold(`data: {"type":"response.function_call_arguments.delta","delta":"{}"}` + "\n\n"), outcome{Kind: "unsupported_model_tool"}},
		{"progress of a web search is refused", streamAndHold(`data: {"type":"response.web_search_call.in_progress"}` + "\n\n"), outcome{Kind: "unsupported_model_tool"}},
		{"a delta that is no string is invalid", streamAndHold(`data: {"type":"response.output_text.delta","delta":{"a":1}}` + "\n\n"), outcome{Kind: "invalid_model_response"}},
		{"half of a surrogate pair is invalid", streamAndHold(`data: {"type":"response.output_text.delta","delta":"\ud83d"}` + "\n\n"), outcome{Kind: "invalid_model_response"}},
		{"error fails", streamAndHold(textDelta("a") + `data: {"type":"error","message":"BODY"}` + "\n\n"), outcome{Text: "a", Kind: "model_failed"}},
		{"failed fails", streamAndHold(`data: {"type":"response.failed"}` + "\n\n"), outcome{Kind: "model_failed"}},
		{"incomplete fails", streamAndHold(`data: {"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}` + "\n\n"), outcome{Kind: "model_failed"}},
		{"incomplete at the token limit is incomplete", streamAndHold(`data: {"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}` + "\n\n"), outcome{Kind: "incomplete_model_response"}},
		{"an error without a type fails", streamAndHold(`data: {"error":{"message":"BODY"}}` + "\n\n"), outcome{Kind: "model_failed"}},
		{"bad JSON is a protocol error", streamAndHold("data: {]\n\n"), outcome{Kind: "network_or_protocol_error"}},
		{"bad UTF-8 is a protocol error", streamAndHold("data: {\"type\":\"\xff\"}\n\n"), outcome{Kind: "network_or_protocol_error"}},
		{"an array is a protocol error", streamAndHold("data: []\n\n"), outcome{Kind: "network_or_protocol_error"}},
		{"a document that is truncated is incomplete", document(`{"status":"incomplete","output":[]}`), outcome{Kind: "incomplete_model_response"}},
		{"a document with a tool is refused", document(`{"status":"completed","output":[{"type":"function_call"}]}`), outcome{Kind: "unsupported_model_tool"}},
		{"a document without text is empty", document(`{"status":"completed","output":[]}`), outcome{Kind: "empty_model_response"}},
		{"HTML is a protocol error", document(`<html>BODY</html>`), outcome{Kind: "network_or_protocol_error"}},
		{"a second document is a protocol error", document(`{"status":"completed","output":[]}{}`), outcome{Kind: "network_or_protocol_error"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			api := serveAPI(t, tt.handler)
			p := against(t, apiResponses, api.URL)
			if got := p.ask("hello"); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			p.stdin.Close()
			if p.exit(); strings.Contains(p.seen.String()+p.stderr.String(), "BODY") {
				t.Error("the body of the response is in the output")
			}
			if n := len(api.got()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestChatOutcomes(t *testing.T) {
	chunk := func(choice string) string { return `data: {"choices":[` + choice + "]}\n\n" }
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    outcome
	}{
		{"DONE without stop is incomplete", streamAndHold(chatDelta("a") + chatDone), outcome{Text: "a", Kind: "incomplete_model_response"}},
		{"stop without DONE is incomplete", stream(chatDelta("a") + chatStop), outcome{Text: "a", Kind: "incomplete_model_response"}},
		{"DONE without its blank line is incomplete", stream(chatDelta("a") + chatStop + "data: [DONE]\n"), outcome{Text: "a", Kind: "incomplete_model_response"}},
		{"stop in the chunk of the last text counts", streamAndHold(chunk(`{"delta":{"content":"a"},"finish_reason":"stop"}`) + chatDone), outcome{Text: "a", Stop: "end_turn"}},
		{"length is incomplete", streamAndHold(chunk(`{"delta":{"content":"a"},"finish_reason":"length"}`)), outcome{Text: "a", Kind: "incomplete_model_response"}},
		{"content_filter is incomplete", streamAndHold(chunk(`{"delta":{},"finish_reason":"content_filter"}`)), outcome{Kind: "incomplete_model_response"}},
		{"a tool call is refused", streamAndHold(chatDelta("a") + chunk(`{"delta":{"tool_calls":[{"index":0}]}}`)), outcome{Text: "a", Kind: "unsupported_model_tool"}},
		{"a function call is refused", streamAndHold(chunk(`{"delta":{"function_call":{"name":"f"}}}`)), outcome{Kind: "unsupported_model_tool"}},
		{"an empty list of tool calls is none", streamAndHold(chunk(`{"delta":{"content":"a","tool_calls":[],"function_call":null}}`) + chatStop + chatDone), outcome{Text: "a", Stop: "end_turn"}},
		{"two choices are invalid", streamAndHold(chunk(`{"delta":{}},{"delta":{}}`)), outcome{Kind: "invalid_model_response"}},
		{"content that is no string is invalid", streamAndHold(chunk(`{"delta":{"content":7}}`)), outcome{Kind: "invalid_model_response"}},
		{"a usage chunk without choices is ignored", streamAndHold(chatDelta("a") + chatStop + `data: {"choices":[],"usage":{}}` + "\n\n" + chatDone), outcome{Text: "a", Stop: "end_turn"}},
		{"error fails", streamAndHold(chatDelta("a") + `data: {"error":{"message":"BODY"}}` + "\n\n"), outcome{Text: "a", Kind: "model_failed"}},
		{"null error is none", streamAndHold(`data: {"error":null,"choices":[{"delta":{"content":"a"}}]}` + "\n\n" + chatStop + chatDone), outcome{Text: "a", Stop: "end_turn"}},
		{"the event error fails", streamAndHold("event: error\n" + `data: {"message":"BODY"}` + "\n\n"), outcome{Kind: "model_failed"}},
		{"the field error fails", streamAndHold(`error: {"message":"BODY"}` + "\n\n"), outcome{Kind: "model_failed"}},
		{"an empty event is a keepalive", streamAndHold("data:\n\n: ping\n\n" + chatDelta("a") + chatStop + chatDone), outcome{Text: "a", Stop: "end_turn"}},
		{"null content and no delta are no text", streamAndHold(chunk(`{"delta":{"role":"assistant","content":null}}`) + chunk(`{"finish_reason":null}`) + chatStop + chatDone), outcome{Kind: "empty_model_response"}},
		{"an empty finish reason is none yet", streamAndHold(chunk(`{"delta":{"content":"a"},"finish_reason":""}`) + chatStop + chatDone), outcome{Text: "a", Stop: "end_turn"}},
		{"thoughts are no text", streamAndHold(chunk(`{"delta":{"reasoning":"a","reasoning_content":"b"}}`) + chatStop + chatDone), outcome{Kind: "empty_model_response"}},
		{"CRLF, no space and a mark are read", streamAndHold("\xef\xbb\xbf" + strings.ReplaceAll(strings.ReplaceAll(chatDelta("a")+chatStop+chatDone, "data: ", "data:"), "\n", "\r\n")), outcome{Text: "a", Stop: "end_turn"}},
		{"two documents in one event are a protocol error", streamAndHold("data: {\"choices\":[]}\ndata: {\"choices\":[]}\n\n"), outcome{Kind: "network_or_protocol_error"}},
		{"a document with null content is invalid", document(`{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}`), outcome{Kind: "invalid_model_response"}},
		{"a document without a choice is invalid", document(`{"choices":[]}`), outcome{Kind: "invalid_model_response"}},
		{"a document with tools is refused", document(`{"choices":[{"message":{"tool_calls":[{}]},"finish_reason":"tool_calls"}]}`), outcome{Kind: "unsupported_model_tool"}},
		{"a document cut at its length is incomplete", document(`{"choices":[{"message":{"content":"a"},"finish_reason":"length"}]}`), outcome{Kind: "incomplete_model_response"}},
		{"a document with an error fails", document(`{"error":{"message":"BODY"}}`), outcome{Kind: "model_failed"}},
		{"an empty document is empty", document(`{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}`), outcome{Kind: "empty_model_response"}},
		{"gzip that was not asked for is a protocol error", func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Accept-Encoding"); got != "identity" {
				t.Errorf("Accept-Encoding %q", got)
			}
			w.Header().Set("Content-Encoding", "gzip")
			document("\x1f\x8b")(w, r)
		}, outcome{Kind: "network_or_protocol_error"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			api := serveAPI(t, tt.handler)
			p := against(t, apiChat, api.URL)
			if got := p.ask("hello"); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			p.stdin.Close()
			if p.exit(); strings.Contains(p.seen.String()+p.stderr.String(), "BODY") {
				t.Error("the body of the response is in the output")
			}
		})
	}
}

func TestStatusOtherThan200IsToldWithoutBodyOrRetry(t *testing.T) {
	for _, status := range []int{201, 204, 301, 307, 400, 401, 429, 500, 503} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			api := serveAPI(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.Header().Set("Retry-After", "0")
				w.Header().Set("Set-Cookie", "a=b")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "BODY "+r.Header.Get("Authorization"))
			})
			p := against(t, apiResponses, api.URL)
			if got, want := p.ask("hello"), (outcome{Kind: fmt.Sprintf("http_%d", status)}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			p.stdin.Close()
			if p.exit(); strings.Contains(p.seen.String()+p.stderr.String(), "BODY") {
				t.Error("the body of the response is in the output")
			}
			if n := len(api.got()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestCancelBeforeHeadersAnswersAtOnce(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	api := serveAPI(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	p := against(t, apiResponses, api.URL)
	id := p.session()
	p.send(promptFrame(id, "hello"))
	await(t, arrived, "request")
	p.send(cancelFrame(id))
	if got, want := p.finish(), (outcome{Stop: "cancelled"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	await(t, gone, "end of the connection")
	p.send(cancelFrame(id), `{"jsonrpc":"2.0","id":9,"method":"session/cancel","params":{"sessionId":"`+id+`"}}`)
	p.stdin.Close()
	if line := p.line(); line != "" {
		t.Errorf("a cancel after the end was answered: %s", line)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestCancelInMidStreamSuppressesLaterText(t *testing.T) {
	more := make(chan struct{})
	api := serveAPI(t, func(w http.ResponseWriter, r *http.Request) {
		stream(textDelta("early"))(w, r)
		_ = http.NewResponseController(w).Flush()
		<-more
		_, _ = io.WriteString(w, textDelta("late")+completed)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	p := against(t, apiResponses, api.URL)
	id := p.session()
	p.send(promptFrame(id, "hello"))
	if m := p.next(); m.Params.Update.Content.Text != "early" {
		t.Fatalf("got %+v", m)
	}
	p.send(cancelFrame(id))
	got := p.finish()
	close(more)
	if want := (outcome{Stop: "cancelled"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	p.stdin.Close()
	if line := p.line(); line != "" {
		t.Errorf("output after the answer: %s", line)
	}
}

func TestCancelOfAnotherSessionIsIgnored(t *testing.T) {
	more := make(chan struct{})
	api := serveAPI(t, func(w http.ResponseWriter, r *http.Request) {
		<-more
		stream(textDelta("a")+completed)(w, r)
	})
	p := against(t, apiResponses, api.URL)
	id := p.session()
	p.send(promptFrame(id, "hello"), cancelFrame("another"), cancelFrame(strings.ToUpper(id)+" "), `{"jsonrpc":"2.0","id":5,"method":"nonsense"}`)
	p.wantError("5", -32601, "method_not_found") // the cancels were handled before
	close(more)
	if got, want := p.finish(), (outcome{Text: "a", Stop: "end_turn"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDeadlineHoldsBeforeHeadersAndInMidStream(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"":     func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"some": streamAndHold(textDelta("some")),
	} {
		t.Run("text:"+name, func(t *testing.T) {
			api := serveAPI(t, handler)
			p := against(t, apiResponses, api.URL, "--timeout", "0.3")
			began := time.Now()
			if got, want := p.ask("hello"), (outcome{Text: name, Kind: "network_timeout"}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if took := time.Since(began); took < 300*time.Millisecond || took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestDeadlineHoldsWhileConnecting(t *testing.T) {
	// A listener whose backlog is full does not answer a connection at all; a
	// handshake that is never answered is the same to the client and needs no
	// such tricks.
	silent := listen(t)
	p := start(t, []string{"MODEL_API_KEY=" + secret}, "--base-url", "https://"+silent, "--model", "m", "--timeout", "0.2")
	if got, want := p.ask("hello"), (outcome{Kind: "network_timeout"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDeadlineHoldsWhileTheClientReadsNothing(t *testing.T) {
	gone := make(chan struct{})
	p := startUnread(t, serveAPI(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		streamAndHold(strings.Repeat(textDelta(strings.Repeat("full ", 1000)), 200))(w, r)
	}).URL, "--timeout", "3")
	await(t, gone, "end of the request")
	p.readTo(`"id":2,"error":{"code":-32000,"message":"network_timeout"`)
}

func TestOutputLimitDropsTheDeltaThatCrossesIt(t *testing.T) {
	api := serveAPI(t, streamAndHold(textDelta("12345")+textDelta("6789")+textDelta("\u00e9")+textDelta("x")))
	p := against(t, apiResponses, api.URL, "--max-output-bytes", "10")
	if got, want := p.ask("hello"), (outcome{Text: "123456789", Kind: "output_limit"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestResponseLimitCountsTheBody(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"a stream":         streamAndHold(textDelta("a") + strings.Repeat(": comment\n", 200)),
		"a line":           streamAndHold(textDelta("a") + "data: " + strings.Repeat("x", 2000)),
		"a long document":  document(`{"x":"` + strings.Repeat("x", 2000) + `"}`),
		"a document's end": document(`{"status":"completed","output":[]}` + strings.Repeat(" ", 2000)),
	} {
		t.Run(name, func(t *testing.T) {
			api := serveAPI(t, handler)
			p := against(t, apiResponses, api.URL, "--max-response-bytes", "1000")
			if got := p.ask("hello"); got.Kind != "response_limit" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestFaultyPromptsMakeNoRequestAndLeaveTheOneUse(t *testing.T) {
	api := serveAPI(t, stream(textDelta("a")+completed))
	p := against(t, apiResponses, api.URL, "--max-prompt-bytes", "20")
	id := p.session()
	for _, tt := range []struct{ frame, kind string }{
		{promptFrame("other", "x"), "invalid_session"},
		{blocksFrame(id, `[]`), "invalid_prompt"},
		{blocksFrame(id, `null`), "invalid_prompt"},
		{blocksFrame(id, `{"type":"text","text":"x"}`), "invalid_prompt"},
		{blocksFrame(id, `["x"]`), "unsupported_content"},
		{blocksFrame(id, `[{"type":"text","text":"x"},{"type":"image","data":"","mimeType":"image/png"}]`), "unsupported_content"},
		{blocksFrame(id, `[{"type":"resource","resource":{"uri":"file:///x","text":"y"}}]`), "unsupported_content"},
		{blocksFrame(id, `[{"type":"audio"}]`), "unsupported_content"},
		{blocksFrame(id, `[{"type":"text","text":null}]`), "unsupported_content"},
		{blocksFrame(id, `[{"type":"resource_link","uri":7}]`), "unsupported_content"},
		{blocksFrame(id, `[{"type":"text","text":"\ud800"}]`), "invalid_prompt"},
		{blocksFrame(id, `[{"type":"text","text":"\ud800"},{"type":"image"}]`), "unsupported_content"},
		{blocksFrame(id, `[{"type":"text","text":" \n\u00a0"}]`), "prompt_limit"},
		{promptFrame(id, strings.Repeat("\u00e9", 11)), "prompt_limit"},
		{blocksFrame(id, `[{"type":"text","text":"1234567890"},{"type":"text","text":"123456789"}]`), "prompt_limit"},
	} {
		p.send(tt.frame)
		p.wantError("2", -32602, tt.kind)
	}
	if n := len(api.got()); n != 0 {
		t.Fatalf("%d requests before a proper prompt", n)
	}
	p.send(promptFrame(id, strings.Repeat("\u00e9", 10)))
	if got, want := p.finish(), (outcome{Text: "a", Stop: "end_turn"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestLinksBecomeReferencesInThePrompt(t *testing.T) {
	api := serveAPI(t, stream(textDelta("a")+completed))
	p := against(t, apiResponses, api.URL)
	p.send(blocksFrame(p.session(), `[{"type":"text","text":"Read"},{"type":"resource_link","uri":"file:///etc/passwd","name":"n"},{"type":"text","text":"\ud83d\udea6"}]`))
	if got := p.finish(); got.Stop != "end_turn" {
		t.Fatalf("got %+v", got)
	}
	want := []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "input_text",
		"text": "Read\n\nReferenced resource, not retrieved: file:///etc/passwd\n\n\U0001f6a6"}}}}
	if diff := cmp.Diff(want, api.got()[0].Body["input"]); diff != "" {
		t.Errorf("input (-want +got):\n%s", diff)
	}
}

func TestFaultyMessagesAreAnsweredWithNullAndTheNextIsRead(t *testing.T) {
	p := against(t, apiResponses, "http://127.0.0.1:9")
	for _, tt := range []struct {
		frame string
		code  int
		kind  string
	}{
		{`{`, -32700, "parse_error"},
		{``, -32700, "parse_error"},
		{"  \t", -32700, "parse_error"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700, "parse_error"},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize"} x`, -32700, "parse_error"},
		{`NaN`, -32700, "parse_error"},
		{`7`, -32600, "invalid_request"},
		{`"x"`, -32600, "invalid_request"},
		{`null`, -32600, "invalid_request"},
		{`[` + initialize + `]`, -32600, "invalid_request"},
		{`{"id":1,"method":"initialize"}`, -32600, "invalid_request"},
		{`{"jsonrpc":2.0,"id":1,"method":"initialize"}`, -32600, "invalid_request"},
		{`{"JSONRPC":"2.0","id":1,"method":"initialize"}`, -32600, "invalid_request"},
		{`{"jsonrpc":"2.0","id":1}`, -32600, "invalid_request"},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, -32600, "invalid_request"},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}`, -32600, "invalid_request"},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":null}`, -32600, "invalid_request"},
		{`{"jsonrpc":"2.0","id":true,"method":"initialize"}`, -32600, "invalid_request"},
		{`{"jsonrpc":"2.0","id":1.5,"method":"initialize"}`, -32600, "invalid_request"},
		{`{"jsonrpc":"2.0","id":{},"method":"initialize"}`, -32600, "invalid_request"},
		{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 129) + `","method":"initialize"}`, -32600, "invalid_request"},
	} {
		p.send(tt.frame)
		p.wantError("null", tt.code, tt.kind)
	}
	p.session() // the agent goes on, untouched
}

func TestFrameAboveTheLimitEndsTheProcess(t *testing.T) {
	p := against(t, apiResponses, "http://127.0.0.1:9", "--max-prompt-bytes", "100")
	fits := `{"jsonrpc":"2.0","id":7,"method":"x","params":{"y":""}}`
	fits = strings.Replace(fits, `""`, `"`+strings.Repeat("y", 100+65536-len(fits))+`"`, 1)
	p.send(fits)
	p.wantError("7", -32601, "method_not_found")
	_, _ = io.WriteString(p.stdin, fits+" \n"+initialize+"\n") // the agent may be gone before it is written
	p.wantError("null", -32600, "frame_limit")
	if line := p.line(); line != "" {
		t.Errorf("output after the end: %s", line)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}

func TestSessionNeedsInitializeCwdAndNoServers(t *testing.T) {
	p := against(t, apiResponses, "http://127.0.0.1:9")
	p.send(newSession)
	p.wantError("1", -32602, "invalid_session")
	p.send(initialize)
	if m := p.next(); m.Error != nil {
		t.Fatal(m.Error.Message)
	}
	for _, params := range []string{`{}`, `{"cwd":"/"}`, `{"cwd":null,"mcpServers":[]}`, `{"cwd":"/","mcpServers":null}`, `{"cwd":"/","mcpServers":{}}`, `{"cwd":"/","mcpServers":[{"name":"x","command":"/x","args":[],"env":[]}]}`} {
		p.send(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":` + params + `}`)
		p.wantError("1", -32602, "invalid_session")
	}
	p.send(promptFrame("", "x"))
	p.wantError("2", -32602, "invalid_session")
	p.send(newSession)
	if m := p.next(); m.Error != nil {
		t.Errorf("a proper session/new after faulty ones: %s", m.Error.Message)
	}
}

func TestCredentialIsReadAtThePromptAndMustBeOneToken(t *testing.T) {
	api := serveAPI(t, stream(textDelta("a")+completed))
	for name, env := range map[string][]string{
		"missing":  nil,
		"empty":    {"MODEL_API_KEY="},
		"line end": {"MODEL_API_KEY=x\r\nX-Forged: 1"},
		"space":    {"MODEL_API_KEY=x y"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, env, "--base-url", api.URL, "--model", "m")
			if got, want := p.ask("hello"), (outcome{Kind: "credential_unavailable"}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			p.send(promptFrame("x", "y"))
			p.wantError("2", -32602, "invalid_session")
		})
	}
	if n := len(api.got()); n != 0 {
		t.Errorf("%d requests without a credential", n)
	}
	p := start(t, []string{"OTHER_KEY=" + secret}, "--base-url", api.URL, "--model", "m", "--api-key-env", "OTHER_KEY")
	if got := p.ask("hello"); got.Stop != "end_turn" {
		t.Errorf("with --api-key-env: %+v", got)
	}
}

func TestConnectionRefusedAndCutAreProtocolErrors(t *testing.T) {
	if got, want := against(t, apiResponses, "http://127.0.0.1:1").ask("hello"), (outcome{Kind: "network_or_protocol_error"}); got != want {
		t.Errorf("refused: got %+v, want %+v", got, want)
	}
	api := serveAPI(t, func(w http.ResponseWriter, r *http.Request) {
		stream(textDelta("a"))(w, r)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	if got, want := against(t, apiResponses, api.URL).ask("hello"), (outcome{Text: "a", Kind: "network_or_protocol_error"}); got != want {
		t.Errorf("cut: got %+v, want %+v", got, want)
	}
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	proxy := serveAPI(t, stream(textDelta("proxied")+completed))
	p := start(t, []string{"MODEL_API_KEY=" + secret, "HTTP_PROXY=" + proxy.URL, "HTTPS_PROXY=" + proxy.URL, "http_proxy=" + proxy.URL, "https_proxy=" + proxy.URL, "ALL_PROXY=" + proxy.URL},
		"--base-url", "https://model.invalid/v1", "--model", "m")
	if got, want := p.ask("hello"), (outcome{Kind: "network_or_protocol_error"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if n := len(proxy.got()); n != 0 {
		t.Errorf("the proxy got %d requests", n)
	}
}

func TestClientThatReadsNoAnswersIsLeft(t *testing.T) {
	p := startUnread(t, serveAPI(t, streamAndHold(strings.Repeat(textDelta(strings.Repeat("full ", 1000)), 100))).URL)
	request := `{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 100) + `","method":"unknown"}` + "\n"
	for range 50 {
		if _, err := io.WriteString(p.stdin, strings.Repeat(request, 1000)); err != nil {
			break // it has gone
		}
	}
	var exit *exec.ExitError
	if err := p.wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the agent ended with %v, want exit code 1", err)
	}
}
