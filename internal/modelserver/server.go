// Package modelserver stands in for a model API on loopback, in the demo and in
// tests. It is no model: it answers from a script, and to what the script does
// not foresee with a sentence about the prompt. The same requests always get
// the same answers, so that a run can be shown and checked without an account
// or a network.
//
// It speaks what clients of OpenAI's APIs use of them: POST /v1/responses and
// POST /v1/chat/completions, each as a stream or as one document, and GET
// /v1/models.
package modelserver

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/internal/coord"
)

// Model is the name that GET /v1/models lists. Requests may name any other.
const Model = "signalbox-demo"

// maxRequests bounds what Requests keeps.
const maxRequests = 1000

// Options configures a Server. The zero value answers everybody at once.
type Options struct {
	// Token is the bearer token that every request must carry, "" for none.
	Token string
	// Script is searched in order for the first reply whose Match is in the
	// prompt.
	Script []Reply
	// Delay passes before each piece of a streamed answer.
	Delay time.Duration
}

// Reply is one line of the script.
type Reply struct {
	// Match is looked for in the last message of the user; "" is in all.
	Match string
	// Answer is the text, "" for the sentence about the prompt.
	Answer string
	// Tool, if set, is called before the answer is given: once after each
	// message of the user, over the chat completions API, and only if the
	// request offers a tool of that name. Clients also make requests without
	// tools on the side, as OpenCode does for a title.
	Tool *Tool
	// Steps are what the model does, one a request, before the answer is given:
	// the next step follows when all calls of the one before were answered. The
	// calls need not be of tools that were offered: a test may want to see a
	// model that goes astray. Over the chat completions API, which has no text
	// beside calls, a request without any tools gets the answer.
	Steps []Step
}

// Step is one answer of the model within a turn.
type Step struct {
	// Say is text beside the calls, as commentary.
	Say string
	// Calls are made at once, in this order.
	Calls []Tool
	// Hang gives nothing until the client goes away.
	Hang bool
	// Status, if set, refuses the request with this status of HTTP.
	Status int
}

// Tool is one call of a client's tool.
type Tool struct {
	Name string
	// Arguments is the JSON object to pass.
	Arguments string
}

// Request is what one answered request asked for.
type Request struct {
	Path   string
	Model  string
	Stream bool
	// Tools are the names of the tools offered. Those that clients put into the
	// input, grouped by a namespace, come as "namespace.name".
	Tools []string
	// Prompt is the last message of the user.
	Prompt string
	// Outputs are the answers to tool calls since that message.
	Outputs []Output
}

// Output is what a client answered to a call.
type Output struct {
	// Call is the id that the server gave to the call.
	Call string
	Text string
}

// Server answers model API requests. It is an http.Handler.
type Server struct {
	options Options
	mux     http.ServeMux

	mu       sync.Mutex
	count    int
	requests []Request
}

// New makes a Server.
func New(o Options) *Server {
	s := &Server{options: o}
	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("POST /v1/responses", s.responses)
	s.mux.HandleFunc("POST /v1/chat/completions", s.chat)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "There is nothing here; ask /v1/responses, /v1/chat/completions or /v1/models.")
	})
	return s
}

// ServeHTTP checks the credential and answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.options.Token != "" {
		got := []byte(r.Header.Get("Authorization"))
		if subtle.ConstantTimeCompare(got, []byte("Bearer "+s.options.Token)) != 1 {
			refuse(w, http.StatusUnauthorized, "The bearer token is missing or not the one that this server was started with.")
			return
		}
	}
	s.mux.ServeHTTP(w, r)
}

// Count is how many prompts were answered since the start.
func (s *Server) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Requests gives the last prompts that were answered, oldest first, at most a
// thousand. They hold no credential.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// record counts a request and gives its number, from 1.
func (s *Server) record(r Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if len(s.requests) == maxRequests {
		s.requests = s.requests[1:]
	}
	s.requests = append(s.requests, r)
	return s.count
}

// reply finds the script's line for a prompt, its answer filled in.
func (s *Server) reply(prompt string) Reply {
	found := Reply{}
	for _, r := range s.options.Script {
		if strings.Contains(prompt, r.Match) {
			found = r
			break
		}
	}
	if found.Answer == "" {
		found.Answer = about(prompt)
	}
	return found
}

// about is the answer to a prompt that the script does not know.
func about(prompt string) string {
	const most = 8
	words := strings.Fields(prompt)
	more := ""
	if len(words) > most {
		words, more = words[:most], " ..."
	}
	return fmt.Sprintf("This is the scripted stand-in, not a model. The prompt has %d characters and begins: %s%s",
		len([]rune(prompt)), strings.Join(words, " "), more)
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, object{"object": "list", "data": []object{
		{"id": Model, "object": "model", "created": 0, "owned_by": "signalbox"},
	}})
}

// object is one JSON object. Its members come out in the order of their names,
// so answers are the same byte for byte.
type object map[string]any

func write(w http.ResponseWriter, status int, body object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error here means that the client has gone; there is nobody to tell.
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, status int, message string) {
	write(w, status, object{"error": object{"message": message, "type": "invalid_request_error", "param": nil, "code": nil}})
}

// read decodes a body into v, or refuses it. Members it does not know are
// allowed, since clients send many.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, coord.MaxBody)).Decode(v)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refuse(w, http.StatusRequestEntityTooLarge, "The request is larger than 4 MiB.")
	case err != nil:
		refuse(w, http.StatusBadRequest, "The request is not the JSON object that this path takes.")
	}
	return err == nil
}
