// Command go2 is a peer on the official a2a-go v2.4.0: A2A 1.0 at /v1 and, with
// the same tasks, 0.3 at /v03. It does what the peers on the JavaScript SDK do,
// see there.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

type agent struct{ submissions atomic.Int64 }

// Execute plays the words of the message.
func (g *agent) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		var b strings.Builder
		for _, p := range ec.Message.Parts {
			b.WriteString(p.Text())
		}
		said, first := b.String(), ec.StoredTask == nil
		status := func(s a2a.TaskState, text string) bool {
			var m *a2a.Message
			if text != "" {
				m = a2a.NewMessageForTask(a2a.MessageRoleAgent, ec, a2a.NewTextPart(text))
			}
			return yield(a2a.NewStatusUpdateEvent(ec, s, m), nil)
		}
		if first {
			g.submissions.Add(1)
		}
		if strings.HasPrefix(said, "msg") {
			yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("direct: "+said)), nil)
			return
		}
		if first && !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) {
			return
		}
		switch {
		case first && strings.HasPrefix(said, "ask"):
			_ = status(a2a.TaskStateWorking, "") && status(a2a.TaskStateInputRequired, "which colour?")
			return
		case strings.HasPrefix(said, "fail"):
			status(a2a.TaskStateFailed, "boom")
			return
		case strings.HasPrefix(said, "reject"):
			status(a2a.TaskStateRejected, "no")
			return
		}
		if status(a2a.TaskStateWorking, "started") && g.pieces(ctx, ec, said, yield) {
			status(a2a.TaskStateCompleted, "")
		}
	}
}

// pieces gives the artifact; false when it was stopped.
func (g *agent) pieces(ctx context.Context, ec *a2asrv.ExecutorContext, said string, yield func(a2a.Event, error) bool) bool {
	n, text := 1, func(int) string { return "answer: " + said }
	slow := false
	if _, err := fmt.Sscanf(said, "slow %d", &n); err == nil {
		slow, text = true, func(i int) string { return fmt.Sprintf("chunk%d ", i) }
	}
	var id a2a.ArtifactID
	for i := range n {
		if slow {
			select {
			case <-ctx.Done():
				return false
			case <-time.After(200 * time.Millisecond):
			}
		}
		var ev *a2a.TaskArtifactUpdateEvent
		if i == 0 {
			ev = a2a.NewArtifactEvent(ec, a2a.NewTextPart(text(i)))
			id = ev.Artifact.ID
		} else {
			ev = a2a.NewArtifactUpdateEvent(ec, id, a2a.NewTextPart(text(i)))
		}
		ev.LastChunk = i == n-1
		if !yield(ev, nil) {
			return false
		}
	}
	return true
}

// Cancel says that the task is cancelled.
func (*agent) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, a2a.NewMessageForTask(a2a.MessageRoleAgent, ec, a2a.NewTextPart("canceled by client"))), nil)
	}
}

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	base := "http://" + l.Addr().String()
	card := &a2a.AgentCard{
		Name: "peer-go2", Description: "a peer for tests", Version: "0.0.1",
		SupportedInterfaces: []*a2a.AgentInterface{
			{URL: base + "/v1", ProtocolBinding: a2a.TransportProtocolJSONRPC, ProtocolVersion: "1.0"},
			{URL: base + "/v03", ProtocolBinding: a2a.TransportProtocolJSONRPC, ProtocolVersion: "0.3"},
		},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Capabilities: a2a.AgentCapabilities{Streaming: true},
		Skills:       []a2a.AgentSkill{{ID: "s", Name: "s", Description: "s", Tags: []string{"t"}}},
	}
	g := &agent{}
	h := a2asrv.NewHandler(g)
	mux := http.NewServeMux()
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewAgentCardHandler(a2av0.NewStaticAgentCardProducer(card)))
	mux.Handle("/v1", a2asrv.NewJSONRPCHandler(h, a2asrv.WithTransportKeepAlive(time.Second)))
	mux.Handle("/v03", a2av0.NewJSONRPCHandler(h))
	mux.HandleFunc("/submissions", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, g.submissions.Load()) })
	_ = json.NewEncoder(os.Stdout).Encode(map[string]string{"origin": base})
	log.Fatal(http.Serve(l, mux))
}
