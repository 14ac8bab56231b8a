package rogue

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Director tells agents what to play and counts their prompts. It is an
// http.Handler; agents are given its address. It is safe for concurrent use.
type Director struct {
	// Turn chooses the part for a prompt; nil plays what Cast said.
	Turn func(agent, prompt string) string

	mu      sync.Mutex
	setup   map[string]string
	turn    map[string]string
	prompts map[string][]string
	starts  map[string]int
}

// New makes a director whose agents are all honest.
func New() *Director {
	return &Director{setup: map[string]string{}, turn: map[string]string{}, prompts: map[string][]string{}, starts: map[string]int{}}
}

// Cast gives an agent its parts from its next start on; "" is an honest one.
func (d *Director) Cast(agent, setup, turn string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.setup[agent], d.turn[agent] = setup, turn
}

// Prompts gives the prompts that an agent got.
func (d *Director) Prompts(agent string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.prompts[agent]...)
}

// Starts is how often an agent was started.
func (d *Director) Starts(agent string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.starts[agent]
}

// ServeHTTP answers an agent: /start/ID with the part of its setup, /prompt/ID
// with that of its turn.
func (d *Director) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent was ended while it asked
	}
	part := ""
	d.mu.Lock()
	switch kind {
	case "start":
		d.starts[id]++
		part = d.setup[id]
	case "prompt":
		d.prompts[id] = append(d.prompts[id], string(body))
		part = d.turn[id]
	}
	d.mu.Unlock()
	if kind == "prompt" && d.Turn != nil {
		part = d.Turn(id, string(body))
	}
	_, _ = fmt.Fprint(w, part) // as above
}
