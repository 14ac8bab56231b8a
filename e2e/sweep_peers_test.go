//go:build fault

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
)

// distant is a job of an A2A peer, which asks something, and of a Tincan peer.
// The commits lie between these points, and are struck in the first scenario.
var distant = scenario{
	name:  "peers",
	tasks: []coord.PlanTask{task("ask", "ask", "ask which colour"), task("desk", "desk", "go on", "ask")},
	peers: true, from: "attempt.prepare.before", only: []string{"attempt.", "event.", "answer.", "process."}, ends: true,
}

// abroad is the real peer of all runs, on the SDK for Go.
var abroad struct {
	once sync.Once
	peer peers.A2A
}

// counter stands between Signalbox and the real peer, and counts what reaches
// the peer.
type counter struct {
	peer  *url.URL
	proxy *httputil.ReverseProxy

	mu          sync.Mutex
	submissions int
	answers     []string // the texts of answers
}

// counting serves a counter for the real peer until the test ends, and gives
// its origin.
func counting(t, outer *testing.T) (*counter, string) {
	t.Helper()
	abroad.once.Do(func() { abroad.peer = peers.GoA2A(outer) })
	peer, err := url.Parse(abroad.peer.Origin)
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{peer: peer}
	origin := listen(t, c)
	c.proxy = &httputil.ReverseProxy{
		FlushInterval: -1, // events go on as they come
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(peer) },
		ModifyResponse: func(res *http.Response) error {
			if !strings.HasSuffix(res.Request.URL.Path, "agent-card.json") {
				return nil
			}
			card, err := io.ReadAll(res.Body)
			if err != nil {
				return err
			}
			card = bytes.ReplaceAll(card, []byte(abroad.peer.Origin), []byte(origin))
			res.Body = io.NopCloser(bytes.NewReader(card))
			res.Header.Set("Content-Length", strconv.Itoa(len(card)))
			return nil
		},
		// Signalbox dies while it is answered.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	return c, origin
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it died while it sent, so the peer gets nothing
	}
	var call struct {
		Method string `json:"method"`
		Params struct {
			Message struct {
				TaskID string `json:"taskId"`
				Parts  []struct {
					Text string `json:"text"`
				} `json:"parts"`
			} `json:"message"`
		} `json:"params"`
	}
	_ = json.Unmarshal(body, &call) // a card is asked for without a body
	c.mu.Lock()
	switch m := call.Params.Message; {
	case call.Method != "SendMessage" && call.Method != "SendStreamingMessage":
	case m.TaskID == "":
		c.submissions++
	default:
		for _, p := range m.Parts {
			c.answers = append(c.answers, p.Text)
		}
	}
	c.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	c.proxy.ServeHTTP(w, r)
}

// enlist registers the peers of a run.
func (r *swept) enlist(outer *testing.T) {
	r.t.Helper()
	var origin string
	r.counter, origin = counting(r.t, outer)
	found := map[string]coord.AgentConfig{
		"ask":  endpoint(origin+"/.well-known/agent-card.json", origin, abroad.peer.Version),
		"desk": r.tincan(r.log),
	}
	for _, id := range []string{"ask", "desk"} {
		r.list(id, found[id])
	}
}

// got counts what the peer of a task was asked for.
func (r *swept) got(key string) int {
	r.t.Helper()
	if key == "desk" {
		return len(submitted(r.t, r.log))
	}
	r.counter.mu.Lock()
	defer r.counter.mu.Unlock()
	return r.counter.submissions
}

// gotAnswer counts the answers to a request that reached the peer: each says
// which request it answers.
func (r *swept) gotAnswer(q coord.Request) (n int) {
	r.counter.mu.Lock()
	defer r.counter.mu.Unlock()
	for _, text := range r.counter.answers {
		if text == string(q.ID) {
			n++
		}
	}
	return n
}

// giveUp abandons what is of unknown outcome, which frees what it holds.
func (r *swept) giveUp() {
	r.t.Helper()
	for _, a := range must[[]coord.Attempt](r.world, "attempts")(r.client.Attempts(r.ctx, r.ref)) {
		if a.State == coord.AttemptUnknown {
			must[coord.Attempt](r.world, "abandon")(r.client.Resolve(r.ctx, string(a.ID), coord.Abandoned, "the sweep is over", ""))
		}
	}
}
