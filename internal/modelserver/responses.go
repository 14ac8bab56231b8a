package modelserver

import (
	"fmt"
	"maps"
	"net/http"
)

func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
		Input  input  `json:"input"`
		Tools  []tool `json:"tools"`
	}
	if !read(w, r, &body) {
		return
	}
	if len(body.Input) == 0 {
		refuse(w, http.StatusBadRequest, "The request has no input.")
		return
	}
	prompt, _ := body.Input.prompt()
	asked := Request{Path: r.URL.Path, Model: body.Model, Stream: body.Stream, Prompt: prompt, Outputs: body.Input.outputs()}
	asked.Tools = append(names(body.Tools, ""), body.Input.offered()...)
	a := response{number: s.record(asked), model: body.Model, prompt: prompt}
	reply := s.reply(prompt)
	step := reply.step(len(asked.Outputs))
	switch {
	case step == nil:
		a.say(reply.Answer)
	case step.Status != 0:
		refuse(w, step.Status, "The script refuses this request.")
		return
	case step.Hang:
		a.hangs = true
	default:
		if step.Say != "" {
			a.say(step.Say)
			a.items[0]["phase"] = "commentary"
		}
		for i, c := range step.Calls {
			a.call(fmt.Sprintf("call_%d_%d", a.number, i+1), c)
		}
	}
	if !body.Stream {
		if a.hangs {
			<-r.Context().Done()
			return
		}
		write(w, http.StatusOK, a.document("completed", a.items))
		return
	}
	a.stream(newStream(w, r, s.options.Delay))
}

// response is one answer of the responses API.
type response struct {
	number        int
	model, prompt string
	hangs         bool
	items         []object
	// texts are what the items say, "" for calls.
	texts []string
	said  string
}

func (a *response) say(text string) {
	a.add(text, object{"id": a.id("msg"), "type": "message", "role": "assistant", "content": []object{part(text)}})
	a.said += text
}

func (a *response) call(id string, t Tool) {
	a.add("", object{"id": a.id("fc"), "type": "function_call", "call_id": id, "name": t.Name, "arguments": t.Arguments})
	a.said += t.Arguments
}

func (a *response) add(text string, item object) {
	item["status"] = "completed"
	a.items, a.texts = append(a.items, item), append(a.texts, text)
}

// id names the next item.
func (a *response) id(kind string) string {
	if len(a.items) == 0 {
		return fmt.Sprintf("%s_%d", kind, a.number)
	}
	return fmt.Sprintf("%s_%d_%d", kind, a.number, len(a.items)+1)
}

func part(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []object{}}
}

func (a *response) document(status string, items []object) object {
	var usage any
	if status == "completed" {
		in, out := tokens(a.prompt), tokens(a.said)
		usage = object{"input_tokens": in, "input_tokens_details": object{"cached_tokens": 0},
			"output_tokens": out, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": in + out}
	}
	return object{"id": fmt.Sprintf("resp_%d", a.number), "object": "response", "created_at": 0, "model": a.model,
		"status": status, "error": nil, "incomplete_details": nil, "output": append([]object{}, items...), "usage": usage}
}

// stream sends the answer piece by piece.
func (a *response) stream(out *stream) {
	sequence := 0
	event := func(kind string, body object) {
		body["type"], body["sequence_number"] = kind, sequence
		sequence++
		out.send(kind, body)
	}
	event("response.created", object{"response": a.document("in_progress", nil)})
	for i, item := range a.items {
		began := maps.Clone(item)
		began["status"] = "in_progress"
		if text := a.texts[i]; text == "" {
			event("response.output_item.added", object{"output_index": i, "item": began})
			out.pause()
			event("response.function_call_arguments.done", object{"item_id": item["id"], "output_index": i, "arguments": item["arguments"]})
		} else {
			began["content"] = []object{}
			event("response.output_item.added", object{"output_index": i, "item": began})
			inPart := func(body object) object {
				body["item_id"], body["output_index"], body["content_index"] = item["id"], i, 0
				return body
			}
			event("response.content_part.added", inPart(object{"part": part("")}))
			for _, piece := range pieces(text) {
				out.pause()
				event("response.output_text.delta", inPart(object{"delta": piece}))
			}
			event("response.output_text.done", inPart(object{"text": text}))
			event("response.content_part.done", inPart(object{"part": part(text)}))
		}
		event("response.output_item.done", object{"output_index": i, "item": item})
	}
	if a.hangs {
		<-out.ctx.Done()
		return
	}
	event("response.completed", object{"response": a.document("completed", a.items)})
}
