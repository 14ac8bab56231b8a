package modelserver

import (
	"fmt"
	"net/http"
	"slices"
)

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages input  `json:"messages"`
		Tools    []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if !read(w, r, &body) {
		return
	}
	if len(body.Messages) == 0 {
		refuse(w, http.StatusBadRequest, "The request has no messages.")
		return
	}
	prompt, toolAnswered := body.Messages.prompt()
	asked := Request{Path: r.URL.Path, Model: body.Model, Stream: body.Stream, Prompt: prompt, Outputs: body.Messages.outputs()}
	for _, t := range body.Tools {
		asked.Tools = append(asked.Tools, t.Function.Name)
	}
	id := fmt.Sprintf("chatcmpl-%d", s.record(asked))
	reply := s.reply(prompt)
	usage := object{"prompt_tokens": tokens(prompt), "completion_tokens": tokens(reply.Answer), "total_tokens": tokens(prompt) + tokens(reply.Answer)}

	message, finish := object{"role": "assistant", "content": reply.Answer}, "stop"
	var calls []Tool
	if t := reply.Tool; t != nil && !toolAnswered && slices.Contains(asked.Tools, t.Name) {
		calls = []Tool{*t}
	}
	if step := reply.step(len(asked.Outputs)); step != nil && len(asked.Tools) > 0 {
		switch {
		case step.Status != 0:
			refuse(w, step.Status, "The script refuses this request.")
			return
		case step.Hang:
			<-r.Context().Done()
			return
		}
		calls = step.Calls
	}
	if len(calls) > 0 {
		made := make([]object, len(calls))
		for i, t := range calls {
			made[i] = object{"index": i, "id": fmt.Sprintf("call_%s_%d", id, i+1), "type": "function", "function": object{"name": t.Name, "arguments": t.Arguments}}
		}
		message, finish = object{"role": "assistant", "content": nil, "tool_calls": made}, "tool_calls"
	}
	if !body.Stream {
		write(w, http.StatusOK, object{"id": id, "object": "chat.completion", "created": 0, "model": body.Model, "usage": usage,
			"choices": []object{{"index": 0, "message": message, "finish_reason": finish}}})
		return
	}
	out := newStream(w, r, s.options.Delay)
	chunk := func(choices []object, usage any) {
		out.send("", object{"id": id, "object": "chat.completion.chunk", "created": 0, "model": body.Model, "choices": choices, "usage": usage})
	}
	delta := func(d object, finish any) {
		chunk([]object{{"index": 0, "delta": d, "finish_reason": finish}}, nil)
	}
	if finish == "tool_calls" {
		out.pause()
		delta(message, nil)
	} else {
		delta(object{"role": "assistant", "content": ""}, nil)
		for _, piece := range pieces(reply.Answer) {
			out.pause()
			delta(object{"content": piece}, nil)
		}
	}
	delta(object{}, finish)
	if body.StreamOptions.IncludeUsage {
		chunk([]object{}, usage)
	}
	out.raw("", []byte("[DONE]"))
}

// tokens is a count that looks like one: four characters make a token.
func tokens(text string) int { return (len(text) + 3) / 4 }
