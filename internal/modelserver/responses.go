package modelserver

import (
	"fmt"
	"net/http"
)

func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
		Input  input  `json:"input"`
		Tools  []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if !read(w, r, &body) {
		return
	}
	if len(body.Input) == 0 {
		refuse(w, http.StatusBadRequest, "The request has no input.")
		return
	}
	prompt, _ := body.Input.prompt()
	asked := Request{Path: r.URL.Path, Model: body.Model, Stream: body.Stream, Prompt: prompt}
	for _, t := range body.Tools {
		asked.Tools = append(asked.Tools, t.Name)
	}
	number := s.record(asked)
	answer := s.reply(prompt).Answer
	itemID := fmt.Sprintf("msg_%d", number)
	response := func(status string, output []object, usage any) object {
		return object{"id": fmt.Sprintf("resp_%d", number), "object": "response", "created_at": 0, "model": body.Model,
			"status": status, "error": nil, "incomplete_details": nil, "output": output, "usage": usage}
	}
	item := func(status string, parts ...object) object {
		return object{"id": itemID, "type": "message", "role": "assistant", "status": status, "content": append([]object{}, parts...)}
	}
	part := func(text string) object {
		return object{"type": "output_text", "text": text, "annotations": []object{}}
	}
	done := response("completed", []object{item("completed", part(answer))}, object{
		"input_tokens": tokens(prompt), "output_tokens": tokens(answer), "total_tokens": tokens(prompt) + tokens(answer)})
	if !body.Stream {
		write(w, http.StatusOK, done)
		return
	}
	out := newStream(w, r, s.options.Delay)
	sequence := 0
	event := func(kind string, body object) {
		body["type"], body["sequence_number"] = kind, sequence
		sequence++
		out.send(kind, body)
	}
	inPart := func(body object) object {
		body["item_id"], body["output_index"], body["content_index"] = itemID, 0, 0
		return body
	}
	event("response.created", object{"response": response("in_progress", []object{}, nil)})
	event("response.output_item.added", object{"output_index": 0, "item": item("in_progress")})
	event("response.content_part.added", inPart(object{"part": part("")}))
	for _, piece := range pieces(answer) {
		out.pause()
		event("response.output_text.delta", inPart(object{"delta": piece}))
	}
	event("response.output_text.done", inPart(object{"text": answer}))
	event("response.content_part.done", inPart(object{"part": part(answer)}))
	event("response.output_item.done", object{"output_index": 0, "item": item("completed", part(answer))})
	event("response.completed", object{"response": done})
}
