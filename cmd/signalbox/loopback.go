package main

import (
	"net"
	"net/http"
	"strings"
	"time"

	"signalbox/internal/modelserver"
	"signalbox/internal/provider/acp"
)

// loopbackModel is the scripted model on loopback with which it is proven what
// an agent does.
type loopbackModel struct {
	match  string
	model  *modelserver.Server
	web    *http.Server
	url    string
	served chan struct{}
}

func loopback(script acp.Script) (acp.Model, error) {
	reply := modelserver.Reply{Match: script.Match, Answer: "Done."}
	for _, calls := range script.Steps {
		var step modelserver.Step
		for _, c := range calls {
			step.Calls = append(step.Calls, modelserver.Tool{Name: c.Name, Arguments: c.Arguments})
		}
		reply.Steps = append(reply.Steps, step)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return nil, err
	}
	m := &loopbackModel{match: script.Match, model: modelserver.New(modelserver.Options{Script: []modelserver.Reply{reply}}), url: "http://" + l.Addr().String() + "/v1", served: make(chan struct{})}
	m.web = &http.Server{Handler: m.model, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(m.served)
		_ = m.web.Serve(l) // ends with Close
	}()
	return m, nil
}

// URL is the base address of the API.
func (m *loopbackModel) URL() string { return m.url }

// Offered are the tools of each request for the prompt that had any.
func (m *loopbackModel) Offered() [][]string {
	var out [][]string
	for _, r := range m.model.Requests() {
		if strings.Contains(r.Prompt, m.match) && len(r.Tools) > 0 {
			out = append(out, r.Tools)
		}
	}
	return out
}

// Close ends it with every connection.
func (m *loopbackModel) Close() {
	_ = m.web.Close()
	<-m.served
}
