package modelagent

import "testing"

// The shapes that a real server of llama.cpp streams (seen with `make live`):
// no ids of items, no sequence numbers, a first chunk whose content is null, a
// last one with an empty delta and measurements of the server's own.
const (
	llamaChatStart = `data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"id":"c","model":"/models/small.gguf","system_fingerprint":"b0","object":"chat.completion.chunk"}` + "\n\n"
	llamaChatText  = `data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Stop."}}],"created":1,"id":"c","model":"m","object":"chat.completion.chunk"}` + "\n\n"
	llamaTimings   = `"timings":{"cache_n":0,"prompt_n":36,"prompt_ms":1562.6,"predicted_n":10,"predicted_per_second":14.874287480312228}`
	llamaItem      = `{"type":"message","status":"completed","id":"m","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Stop."}],"role":"assistant"}`
)

func llamaChatEnd(reason string) string {
	return `data: {"choices":[{"finish_reason":"` + reason + `","index":0,"delta":{}}],"created":1,"id":"c","object":"chat.completion.chunk",` + llamaTimings + "}\n\ndata: [DONE]\n\n"
}

func TestStreamsOfLlamaAreUnderstood(t *testing.T) {
	const responsesStream = `event: response.created
data: {"type":"response.created","response":{"id":"r","object":"response","status":"in_progress"}}

event: response.output_item.added
data: {"type":"response.output_item.added","item":{"content":[],"id":"m","role":"assistant","status":"in_progress","type":"message"}}

event: response.content_part.added
data: {"type":"response.content_part.added","item_id":"m","part":{"type":"output_text","text":""}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":"m","delta":"Stop."}

event: response.output_text.done
data: {"type":"response.output_text.done","item_id":"m","text":"Stop."}

event: response.output_item.done
data: {"type":"response.output_item.done","item":` + llamaItem + `}

event: response.completed
data: {"type":"response.completed","response":{"id":"r","object":"response","status":"completed","output":[` + llamaItem + `],"usage":{"input_tokens":35,"output_tokens":4,"total_tokens":39}},` + llamaTimings + `}

`
	for name, c := range map[string]struct {
		api  api
		body string
		want outcome
	}{
		"chat": {apiChat, llamaChatStart + llamaChatText + llamaChatEnd("stop"), outcome{Text: "Stop.", Stop: "end_turn"}},
		"chat cut at its length": {
			apiChat, llamaChatStart + llamaChatText + llamaChatEnd("length"), outcome{Text: "Stop.", Kind: "incomplete_model_response"}},
		// This server says completed of an answer that it cut, too; nothing in
		// the stream tells the two apart. Whoever must know asks for chat.
		"responses, cut or not": {apiResponses, responsesStream, outcome{Text: "Stop.", Stop: "end_turn"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := against(t, c.api, serveAPI(t, stream(c.body)).URL).ask("What does red mean?"); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	t.Run("a model that is still loading", func(t *testing.T) {
		got := against(t, apiChat, serveAPI(t, stream(`data: {"error":{"message":"Loading model","type":"unavailable_error","code":503}}`+"\n\n")).URL).ask("hello")
		if got != (outcome{Kind: "model_failed"}) {
			t.Errorf("got %+v", got)
		}
	})
}
