package acp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// contents are tool calls as agents send them, with what a person is shown.
var contents = []struct {
	name, toolCall string
	want           coord.RequestContent
}{
	{"a command", `{"toolCallId":"c1","title":"Run ls","kind":"execute","rawInput":{"command":"ls -l","cwd":"/tmp"},"locations":[{"path":"/tmp"},{"path":"/a","line":7}]}`,
		coord.RequestContent{Title: "Run ls", Tool: "execute", Detail: "Input:\n{\n  \"command\": \"ls -l\",\n  \"cwd\": \"/tmp\"\n}\n\nPlaces:\n/tmp\n/a:7"}},
	{"an edit", `{"toolCallId":"c2","title":"Edit","kind":"edit","content":[{"type":"diff","path":"/a.go","oldText":"1\n2\n3\n4\n5\n6\n7\n8\n9","newText":"1\n2\n3\n4\nfive\n6\n7\n8\n9"}]}`,
		coord.RequestContent{Title: "Edit", Tool: "edit", Detail: "Change of /a.go:\n@@ line 5 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8"}},
	{"a new file", `{"toolCallId":"c3","title":"Write","content":[{"type":"diff","path":"/b","oldText":null,"newText":"x\ny\n"}]}`,
		coord.RequestContent{Title: "Write", Detail: "New file /b:\n+x\n+y"}},
	{"text and what is not shown", `{"toolCallId":"c4","title":"T","content":[{"type":"content","content":{"type":"text","text":"why"}},{"type":"terminal","terminalId":"x"},{"type":"content","content":{"type":"image","data":"AQID"}}]}`,
		coord.RequestContent{Title: "T", Detail: "Text:\nwhy\n\nContent:\nof type \"terminal\", which is not shown\n\nContent:\nof type \"image\", which is not shown", Cut: true}},
	{"no title", `{"toolCallId":"c5","rawInput":"plain"}`,
		coord.RequestContent{Title: "The agent asks for a permission and does not say for what.", Detail: "Input:\nplain"}},
	{"a long title", `{"toolCallId":"c6","title":"` + strings.Repeat("t ", 150) + `","rawInput":{"a":1}}`,
		coord.RequestContent{Title: strings.Repeat("t ", 98) + "t...", Detail: "Input:\n{\n  \"a\": 1\n}\n\nTitle:\n" + strings.Repeat("t ", 149) + "t"}},
	{"too much", `{"toolCallId":"c7","title":"T","rawInput":"` + strings.Repeat("x", 70<<10) + `"}`,
		coord.RequestContent{Title: "T", Detail: "Input:\n" + strings.Repeat("x", coord.MaxRequestContent-3-len("Input:\n")) + "...", Cut: true}},
}

func init() {
	peers["asks for everything"] = func(p *peer) {
		prompt := p.prompted()
		for i, c := range contents {
			p.ask(fmt.Sprint(i), c.toolCall, defaultOptions)
			p.result(fmt.Sprint(i))
		}
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}
	// What OpenCode does for tools of MCP servers.
	peers["tells after it asks"] = func(p *peer) {
		prompt := p.prompted()
		p.ask("1", `{"toolCallId":"t1","title":"rs_workspace","kind":"other","rawInput":{}}`, defaultOptions)
		p.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t2","rawInput":{"not":"this"}}`)
		p.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"in_progress","rawInput":{"path":"a.txt"}}`)
		p.result("1")
		// And what others do: everything is told before.
		p.update(`{"sessionUpdate":"tool_call","toolCallId":"t3","title":"Before","kind":"read","rawInput":{"path":"b.txt"}}`)
		p.ask("2", `{"toolCallId":"t3"}`, defaultOptions)
		p.result("2")
		// And some of it is too long to be remembered.
		p.update(`{"sessionUpdate":"tool_call","toolCallId":"t5","title":"Long","rawInput":"` + strings.Repeat("x", 70<<10) + `"}`)
		p.ask("5", `{"toolCallId":"t5"}`, defaultOptions)
		p.result("5")
		// And one of which nothing is ever told.
		p.ask("3", `{"toolCallId":"t4","title":"Mystery","rawInput":{}}`, defaultOptions)
		p.result("3")
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["floods with requests"] = func(p *peer) {
		prompt := p.prompted()
		for i := range 20_000 {
			p.ask(fmt.Sprint(i), toolCall, defaultOptions)
		}
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["asks a few too many"] = func(p *peer) {
		prompt := p.prompted()
		for i := range coord.MaxPendingRequests + 2 {
			p.ask(fmt.Sprint(i), toolCall, defaultOptions)
		}
		p.result(fmt.Sprint(coord.MaxPendingRequests))
		p.result(fmt.Sprint(coord.MaxPendingRequests + 1))
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}
	peers["uses an id twice"] = func(p *peer) {
		prompt := p.prompted()
		p.ask("1", toolCall, defaultOptions)
		p.ask("1", `{"toolCallId":"t2","title":"Run rm","rawInput":{"command":"rm"}}`, defaultOptions)
		p.result("1")
		p.ask("1", toolCall, defaultOptions)
		p.note("second", string(p.result("1").Error))
		p.raw(`{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"sessionId":"sess-other","toolCall":` + toolCall + `,"options":[]}}` + "\n")
		p.note("foreign", string(p.result("9").Error))
		p.say("a")
		p.end(prompt, "end_turn")
		p.rest()
	}
}

func deny(t *testing.T, s provider.Session, r *provider.Request) {
	t.Helper()
	if got, err := s.Respond(t.Context(), provider.Answer{Request: r.Origin.Request, Decision: coord.DecisionDenied, Option: "no"}); got != provider.Delivered {
		t.Errorf("Respond gave %v, %v", got, err)
	}
}

func TestRequestsShowAllThatTheAgentGave(t *testing.T) {
	s := newBench(t, "asks for everything").run("x")
	for _, c := range contents {
		r := last(until(t, s, provider.EventRequest)).Request
		if diff := cmp.Diff(c.want, r.Content); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		deny(t, s, r)
	}
	until(t, s, provider.EventEnd)
}

func TestRequestsWaitForWhatTheAgentTellsRightAfterAsking(t *testing.T) {
	s := newBench(t, "tells after it asks").run("x")
	for _, want := range []coord.RequestContent{
		{Title: "rs_workspace", Tool: "other", Detail: "Input:\n{\n  \"path\": \"a.txt\"\n}"},
		{Title: "Before", Tool: "read", Detail: "Input:\n{\n  \"path\": \"b.txt\"\n}"},
		{Title: "Long", Cut: true},
		{Title: "Mystery"},
	} {
		r := last(until(t, s, provider.EventRequest)).Request
		if diff := cmp.Diff(want, r.Content); diff != "" {
			t.Error(diff)
		}
		deny(t, s, r)
	}
	until(t, s, provider.EventEnd)
}

func TestFloodOfRequestsEndsTheAgent(t *testing.T) {
	b := newBench(t, "floods with requests")
	s := b.run("x")
	start := time.Now()
	all := until(t, s, provider.EventLost)
	n := 0
	for _, e := range all {
		if e.Kind == provider.EventRequest {
			n++
		}
	}
	if l := last(all).Lost; l.Cause != provider.CauseRequests || l.Activity != coord.Ended || n != coord.MaxPendingRequests || len(all) > 4*coord.MaxPendingRequests {
		t.Errorf("%d requests of %d events, the loss is %+v", n, len(all), l)
	}
	t.Logf("it took %v", time.Since(start))
}

func TestRequestsBeyondTheBoundAreCancelledAndTold(t *testing.T) {
	s := newBench(t, "asks a few too many").run("x")
	told := 0
	for _, e := range until(t, s, provider.EventEnd) {
		if e.Activity != nil && e.Activity.Status == "refused" {
			told++
		}
	}
	if told != 2 {
		t.Errorf("%d refusals were told", told)
	}
}

func TestAnIDThatStandsForTwoRequestsIsAnsweredForTheFirstOnly(t *testing.T) {
	b := newBench(t, "uses an id twice")
	s := b.run("x")
	r := last(until(t, s, provider.EventRequest)).Request
	if r.Content.Title != "Run ls" {
		t.Errorf("the request is %+v", r)
	}
	deny(t, s, r)
	for _, e := range until(t, s, provider.EventEnd) {
		if e.Kind == provider.EventRequest {
			t.Errorf("a second request came: %+v", e.Request)
		}
	}
	if second, foreign := b.file("second"), b.file("foreign"); !strings.Contains(second[0], "-32600") || !strings.Contains(foreign[0], "-32602") {
		t.Errorf("the peer was answered %s and %s", second, foreign)
	}
}
