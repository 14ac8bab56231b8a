package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

func TestFieldFailuresOfTasks(t *testing.T) { runCases(t, taskCases) }

// asking has the peer ask in its stream, which ends then, and go on when it has
// the answer.
func (p *peer) asking(question string) *atomic.Bool {
	var answered atomic.Bool
	p.on("stream", func(c *call) {
		c.events(c.wrap("task", c.at("working")), c.wrap("statusUpdate", object{"taskId": "t1", "contextId": "c1", "status": c.status("input-required", "q1", question), "final": true}))
	})
	p.on("get", func(c *call) {
		if answered.Load() {
			c.reply(c.at("completed", c.text("a", "done")))
			return
		}
		c.reply(c.state(c.status("input-required", "q1", question)))
	})
	p.on("send", func(c *call) {
		answered.Store(true)
		c.reply(c.wrap("task", c.at("working")))
	})
	return &answered
}

// asked reads to the next request.
func (a *attempt) asked() *provider.Request {
	a.Helper()
	all := a.until(provider.EventRequest)
	return all[len(all)-1].Request
}

// answers gives the operator's answer to a request.
func (a *attempt) answers(r *provider.Request, want provider.Delivery) error {
	a.Helper()
	got, err := a.session.Respond(context.WithoutCancel(a.Context()), provider.Answer{Request: r.Origin.Request, Decision: coord.DecisionAnswered, Text: "red"})
	if got != want {
		a.Errorf("Respond gave %q, %v; want %q", got, err, want)
	}
	return err
}

// completes reads to the end, which is after the receipt was taken.
func (a *attempt) completes() {
	a.Helper()
	if e, _ := a.last(); e.End == nil || e.End.State != coord.AttemptCompleted {
		a.Errorf("it ended with %s", told1(e))
	}
}

// works has the task work in a stream that stays open.
func (p *peer) works() {
	p.on("stream", func(c *call) { c.events(c.wrap("task", c.at("working")), c.piece("a", "part", false)); c.hold() })
}

var taskCases = []fieldCase{
	{"16 a cancellation that succeeds and cancels nothing confirms nothing", func(t *testing.T, p *peer) {
		p.works()
		var cancelled atomic.Bool
		p.on("cancel", func(c *call) { c.reply(c.at("canceled")) }) // so it says
		p.on("get", func(c *call) {
			c.reply(c.at(map[bool]string{false: "working", true: "canceled"}[cancelled.Load()], c.text("a", "part")))
		})
		at := p.begin()
		at.until(provider.EventText)
		if got, err := at.session.Cancel(t.Context()); got != provider.CancelAsked || err != nil {
			t.Errorf("Cancel gave %q, %v", got, err)
		}
		asked := p.count("get")
		ctx, stop := context.WithTimeoutCause(t.Context(), fast.Quiet, errPatience)
		defer stop()
		if e, err := at.session.Next(ctx); err == nil {
			t.Errorf("there came %s", told1(e))
		}
		cancelled.Store(true)
		if e, _ := at.last(); e.End == nil || e.End.State != coord.AttemptCancelled || p.count("get") <= asked {
			t.Errorf("it ended with %s", told1(e))
		}
	}},
	{"16 a stream that says cancelled of a task that works confirms nothing", func(t *testing.T, p *peer) {
		p.works()
		var streamed, cancelled atomic.Bool
		p.on("stream", func(c *call) {
			c.events(c.wrap("task", c.at("working")), c.wrap("statusUpdate", object{"taskId": "t1", "contextId": "c1", "status": c.status("canceled", "m1", ""), "final": true}))
			streamed.Store(true)
		})
		p.on("cancel", func(c *call) { c.reply(c.at("canceled")) })
		p.on("get", func(c *call) {
			c.reply(c.at(map[bool]string{false: "working", true: "canceled"}[cancelled.Load()], c.text("a", "part")))
		})
		at := p.begin()
		if got, err := at.session.Cancel(t.Context()); got != provider.CancelAsked || err != nil {
			t.Errorf("Cancel gave %q, %v", got, err)
		}
		at.until(provider.EventText)
		ctx, stop := context.WithTimeoutCause(t.Context(), fast.Quiet, errPatience)
		defer stop()
		if e, err := at.session.Next(ctx); err == nil || !streamed.Load() {
			t.Errorf("there came %s", told1(e))
		}
		cancelled.Store(true)
		if e, _ := at.last(); e.End == nil || e.End.State != coord.AttemptCancelled {
			t.Errorf("it ended with %s", told1(e))
		}
	}},
	{"17 a task that cannot be cancelled because it is confirms the cancellation", func(t *testing.T, p *peer) {
		p.works()
		p.on("cancel", func(c *call) { c.fail(codeNotCancelable, "not cancelable") })
		p.on("get", func(c *call) { c.reply(c.at("canceled")) })
		at := p.begin()
		at.until(provider.EventText)
		if got, err := at.session.Cancel(t.Context()); got != provider.CancelAsked || err != nil {
			t.Errorf("Cancel gave %q, %v", got, err)
		}
		if e, _ := at.last(); e.End == nil || e.End.State != coord.AttemptCancelled {
			t.Errorf("it ended with %s", told1(e))
		}
	}},
	{"17 a task that cannot be cancelled and works is told so", func(t *testing.T, p *peer) {
		p.works()
		p.on("cancel", func(c *call) { c.fail(codeNotCancelable, "not cancelable") })
		p.on("get", func(c *call) { c.reply(c.at("working", c.text("a", "part"))) })
		at := p.begin()
		at.until(provider.EventText)
		if got, err := at.session.Cancel(t.Context()); got != provider.CancelUnsupported || err != nil {
			t.Errorf("Cancel gave %q, %v", got, err)
		}
	}},
	{"18 a task that completes while it is cancelled is completed", func(t *testing.T, p *peer) {
		p.works()
		p.on("cancel", func(c *call) { c.reply(c.at("canceled")) })
		p.on("get", func(c *call) { c.reply(c.at("completed", c.text("a", "part"))) })
		at := p.begin()
		at.until(provider.EventText)
		_, _ = at.session.Cancel(t.Context())
		if e, _ := at.last(); e.End == nil || e.End.State != coord.AttemptCompleted || e.End.Cause != provider.CauseAfterCancel {
			t.Errorf("it ended with %s", told1(e))
		}
	}},
	{"19 a subscription that finds no task loses nothing", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) { c.events(c.wrap("task", c.at("working"))) })
		p.on("subscribe", func(c *call) { c.fail(codeNotFound, "no active execution") })
		p.on("get", func(c *call) {
			if c.n < 3 {
				c.reply(c.at("working"))
				return
			}
			c.reply(c.at("completed", c.text("a", "done")))
		})
		if got := p.begin().ends(coord.AttemptCompleted); got != "done" {
			t.Errorf("the answer is %q", got)
		}
	}},
	{"19 an answer to a task that is over ends as the task did, whatever the error", func(t *testing.T, p *peer) {
		over := p.asking("which?")
		p.on("send", func(c *call) {
			over.Store(true)
			c.fail(codeInvalid, "task is in a terminal state")
		})
		at := p.begin()
		_ = at.answers(at.asked(), provider.Undeliverable)
		at.completes()
	}},
	{"20 a card that sends work elsewhere is refused by name, and never rewritten", func(t *testing.T, p *peer) {
		_, port, _ := strings.Cut(p.origin, "127.0.0.1:")
		for _, elsewhere := range []string{"http://0.0.0.0:" + port, "http://[::]:" + port, "http://agent.internal:" + port, "https://127.0.0.1:" + port} {
			p.shows(cardOf(p.version, elsewhere, true))
			config := p.config()
			a := newAdapter(t, fast)
			agent := coord.AgentConfig{Route: coord.RouteA2A, A2A: &config}
			in, err := a.Inspect(t.Context(), provider.Target{Config: agent})
			if err != nil || !strings.Contains(in.Problem, elsewhere+"/rpc") || !strings.Contains(in.Problem, p.origin) || len(in.Operations) > 0 {
				t.Errorf("Inspect of %s: %v, %q", elsewhere, err, in.Problem)
			}
			_, err = a.Prepare(t.Context(), provider.Work{Config: agent, Identity: in.Identity})
			if u := asUnsent(err); u == nil || u.Cause != provider.CauseConfig || u.Transient {
				t.Errorf("Prepare for %s: %v", elsewhere, err)
			}
		}
		if n := p.count("get") + p.count("stream"); n != 0 {
			t.Errorf("%d requests went out", n)
		}
	}},
	{"21 the card's address is fetched as it was given", func(t *testing.T, p *peer) {
		p.path = "/agents/one/.well-known/agent.json"
		p.on("stream", func(c *call) { c.reply(c.wrap("task", c.at("completed", c.text("a", "done")))) })
		p.begin().ends(coord.AttemptCompleted)
		for _, c := range p.calls() {
			if strings.HasPrefix(c.name, "other") {
				t.Errorf("%s was asked for", c.name)
			}
		}
	}},
	{"22 a card without version and transport is read as registered", func(t *testing.T, p *peer) {
		cards := []string{`"url":"%s/rpc"`, `"url":"%s/rpc","protocolVersion":"0.2.6"`, `"url":"%s/rpc","protocolVersion":""`}
		if p.version == v10 { // its interfaces have both by the schema; peers that moved from 0.3 keep the old form, or write a patch
			cards = []string{`"url":"%s/rpc","protocolVersion":"1.0.0"`, `"supportedInterfaces":[{"url":"%s/rpc","protocolBinding":"jsonrpc","protocolVersion":"1.0.1"}]`}
		}
		for _, form := range cards {
			p.shows([]byte(`{"name":"x","capabilities":{},` + fmt.Sprintf(form, p.origin) + `}`))
			p.on("send", func(c *call) { c.reply(c.wrap("task", c.at("completed", c.text("a", "done")))) })
			p.begin().ends(coord.AttemptCompleted)
		}
	}},
	{"22 a peer of another version is told, and nothing is sent in that", func(t *testing.T, p *peer) {
		for _, code := range []int{codeNoMethod, codeVersion} {
			p.on("probe", func(c *call) { c.fail(code, "no") })
			config := p.config()
			a := newAdapter(t, fast)
			agent := coord.AgentConfig{Route: coord.RouteA2A, A2A: &config}
			in, err := a.Inspect(t.Context(), provider.Target{Config: agent})
			if err != nil || !strings.Contains(in.Problem, "version "+p.version) {
				t.Errorf("Inspect: %v, %q", err, in.Problem)
			}
			_, err = a.Prepare(t.Context(), provider.Work{Config: agent, Identity: in.Identity})
			if u := asUnsent(err); u == nil || u.Cause != provider.CauseVersion {
				t.Errorf("Prepare: %v", err)
			}
			p.on("probe", nil)
			p.on("stream", func(c *call) { c.fail(code, "no") })
			e, _ := p.begin().last()
			if e.End == nil || e.End.State != coord.AttemptRejected || e.End.Cause != provider.CauseVersion {
				t.Errorf("it ended with %s", told1(e))
			}
		}
		if n := p.count("work"); n != 2 {
			t.Errorf("work was sent %d times in two attempts", n)
		}
	}},
	{"23 a result with another id is none of ours", func(t *testing.T, p *peer) {
		for _, id := range []string{`"other"`, `7`, `null`, `["a"]`} {
			p.on("stream", func(c *call) { c.id = []byte(id); c.reply(c.wrap("task", c.at("completed"))) })
			if l := p.begin().loses(); l.Cause != provider.CauseProtocol {
				t.Errorf("with the id %s the loss is %+v", id, l)
			}
		}
	}},
	{"23 an error without id is the peer's where the request could not be read", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) { c.id = []byte("null"); c.fail(codeParse, "what?") })
		if e, _ := p.begin().last(); e.End == nil || e.End.State != coord.AttemptRejected {
			t.Errorf("it ended with %s", told1(e))
		}
		// A gateway may say so after the peer took the work.
		p.on("stream", func(c *call) { c.id = []byte("null"); c.fail(-32000, "upstream timeout") })
		if l := p.begin().loses(); !strings.Contains(l.Reason, "upstream timeout") {
			t.Errorf("the loss is %+v", l)
		}
	}},
	{"24 an answer that makes another task is told with both ids, and that is not followed", func(t *testing.T, p *peer) {
		p.asking("which?")
		p.on("send", func(c *call) {
			other := c.at("working")
			other["id"] = "t2"
			c.reply(c.wrap("task", other))
		})
		at := p.begin()
		r := at.asked()
		if err := at.answers(r, provider.DeliveryLost); err == nil || !strings.Contains(err.Error(), "t2") || !strings.Contains(err.Error(), "t1") {
			t.Errorf("it is told as %v", err)
		}
		if again := at.asked(); again.Origin.Request == r.Origin.Request {
			t.Error("it is the same request again")
		}
		for _, c := range p.calls() {
			if c.task == "t2" {
				t.Errorf("%s was called for the other task", c.name)
			}
		}
	}},
	{"25 an answer names task and context, and what is of another context changes nothing", func(t *testing.T, p *peer) {
		p.asking("which?")
		p.on("stream", func(c *call) {
			foreign := object{"taskId": "t1", "contextId": "c2", "artifact": c.text("a", "foreign")}
			c.events(c.wrap("task", c.at("working")), c.wrap("artifactUpdate", foreign),
				c.wrap("statusUpdate", object{"taskId": "t2", "contextId": "c1", "status": c.status("failed", "", ""), "final": true}),
				c.wrap("statusUpdate", object{"taskId": "t1", "contextId": "c1", "status": c.status("input-required", "q1", "which?"), "final": true}))
		})
		at := p.begin()
		all := at.until(provider.EventRequest)
		if got := answerOf(all); got != "" {
			t.Errorf("the text %q came", got)
		}
		_ = at.answers(all[len(all)-1].Request, provider.Delivered)
		at.completes()
		if params := string(p.last("send").params); !strings.Contains(params, `"taskId":"t1","contextId":"c1"`) {
			t.Errorf("the answer is %s", params)
		}
	}},
	{"26 an answer that is refused is asked for again, by a request of its own", func(t *testing.T, p *peer) {
		over := p.asking("which?")
		p.on("send", func(c *call) {
			if c.n == 0 {
				c.fail(-32602, "the task takes no input")
				return
			}
			over.Store(true)
			c.reply(c.wrap("task", c.at("working")))
		})
		at := p.begin()
		first := at.asked()
		_ = at.answers(first, provider.Undeliverable)
		second := at.asked()
		if second.Origin.Request == first.Origin.Request || second.Content.Title != "which?" {
			t.Errorf("asked again is %+v", second)
		}
		_ = at.answers(first, provider.Undeliverable)
		_ = at.answers(second, provider.Delivered)
		at.completes()
		if n := p.count("send"); n != 2 {
			t.Errorf("the peer was answered %d times", n)
		}
	}},
	{"26 an answer whose receipt is cut is sought in the task's history", func(t *testing.T, p *peer) {
		p.asking("which?")
		p.on("send", (*call).abort)
		p.on("get", func(c *call) {
			task := c.state(c.status("input-required", "q1", "which?"))
			if c.count("send") > 0 {
				var sent struct{ Message object }
				if err := json.Unmarshal(p.last("send").params, &sent); err != nil {
					t.Error(err)
				}
				task["history"] = []any{sent.Message}
			}
			if c.n > 6 {
				task = c.at("completed", c.text("a", "done"))
			}
			c.reply(task)
		})
		at := p.begin()
		_ = at.answers(at.asked(), provider.Delivered)
		at.completes()
		if n := p.count("send"); n != 1 {
			t.Errorf("the peer was answered %d times", n)
		}
	}},
	{"26 an answer that is not in the task's history is unknown, and asked for again", func(t *testing.T, p *peer) {
		over := p.asking("which?")
		p.on("send", func(c *call) {
			if c.n == 0 {
				c.abort()
			}
			over.Store(true)
			c.reply(c.wrap("task", c.at("working")))
		})
		at := p.begin()
		first := at.asked()
		_ = at.answers(first, provider.DeliveryLost)
		_ = at.answers(first, provider.DeliveryLost) // nothing is sent again
		if n := p.count("send"); n != 1 {
			t.Errorf("the peer was answered %d times", n)
		}
		_ = at.answers(at.asked(), provider.Delivered)
		at.completes()
	}},
	{"27 a task that the peer does not know any more is unknown, after several looks", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) { c.events(c.wrap("task", c.at("working"))) })
		at := p.begin()
		if l := at.loses(); l.Cause != provider.CauseMissing {
			t.Errorf("the loss is %+v", l)
		}
		if n := p.count("get"); n < 3 {
			t.Errorf("it was looked for %d times", n)
		}
		v, err := at.adapter.Reconcile(t.Context(), at.work, at.session.Handle(), &coord.Receipt{Kind: receiptTask, Reference: "t1"})
		if err != nil || v.Finding != provider.NotFound {
			t.Errorf("Reconcile gave %+v, %v", v, err)
		}
		p.once()
	}},
	{"27 a task that another replica finds is followed", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) { c.events(c.wrap("task", c.at("working"))) })
		p.on("get", func(c *call) {
			if c.n < 3 {
				c.fail(codeNotFound, "no such task")
				return
			}
			c.reply(c.at("completed", c.text("a", "done")))
		})
		timing := fast
		timing.Gone = 10 * time.Second
		if got := p.beginWith(timing).ends(coord.AttemptCompleted); got != "done" {
			t.Errorf("the answer is %q", got)
		}
	}},
	{"28 artifacts are appended to, replaced, and in the end as the task has them", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) {
			c.events(c.wrap("task", c.at("working")), c.piece("a", "one ", true), c.piece("a", "two", true), c.piece("b", "other", false),
				c.piece("a", "new", false), c.moved("completed"))
		})
		p.on("get", func(c *call) { c.reply(c.at("completed", c.text("a", "new"), c.text("b", "other and more"))) })
		if got := p.begin().ends(coord.AttemptCompleted); got != "new\n\nother and more" {
			t.Errorf("the answer is %q", got)
		}
	}},
	{"28 a last piece that does not append is the whole", func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) {
			c.events(c.wrap("task", c.at("working")), c.piece("a", "one ", false), c.piece("a", "one two", false), c.moved("completed"))
		})
		p.on("get", func(c *call) { c.fail(codeNotFound, "gone already") })
		e, all := p.begin().last()
		if e.End == nil || e.End.State != coord.AttemptCompleted || answerOf(all) != "one two" || e.End.Answer != nil {
			t.Errorf("it ended with %s, %q", told1(e), answerOf(all))
		}
	}},
	{"29 a redirect is an error and is not followed", func(t *testing.T, p *peer) {
		for _, at := range []string{"card", "probe"} {
			p.on(at, func(c *call) {
				c.Header().Set("Location", p.origin+"/elsewhere")
				c.WriteHeader(http.StatusTemporaryRedirect)
			})
			config := p.config()
			agent := coord.AgentConfig{Route: coord.RouteA2A, A2A: &config}
			in, err := newAdapter(t, fast).Inspect(t.Context(), provider.Target{Config: agent})
			if err != nil || !strings.Contains(in.Problem, "redirect") {
				t.Errorf("Inspect: %v, %q", err, in.Problem)
			}
			p.on(at, nil)
		}
		p.on("stream", func(c *call) {
			c.Header().Set("Location", p.origin+"/elsewhere")
			c.WriteHeader(http.StatusTemporaryRedirect)
		})
		p.begin().loses()
		if n := p.count("other /elsewhere"); n != 0 {
			t.Errorf("%d requests followed", n)
		}
		p.once()
	}},
	{"29 an interface of another scheme or at the machine's metadata is refused", func(t *testing.T, p *peer) {
		for _, url := range []string{"file:///etc/passwd", "ftp://127.0.0.1/", "http://169.254.169.254/latest", "//127.0.0.1/rpc", "http://user@127.0.0.1/rpc"} {
			card := strings.ReplaceAll(string(cardOf(p.version, "ORIGIN", true)), "ORIGIN/rpc", url)
			p.shows([]byte(card))
			config := p.config()
			in, err := newAdapter(t, fast).Inspect(t.Context(), provider.Target{Config: coord.AgentConfig{Route: coord.RouteA2A, A2A: &config}})
			if err != nil || !strings.Contains(in.Problem, "registered origin") {
				t.Errorf("Inspect for %s: %v, %q", url, err, in.Problem)
			}
		}
	}},
	{"30 a signature is not verified without keys, and the card's own address of keys is not fetched", func(t *testing.T, p *peer) {
		var card object
		if err := json.Unmarshal(cardOf(p.version, p.origin, true), &card); err != nil {
			t.Fatal(err)
		}
		header := base64url(`{"alg":"ES256","kid":"k","jku":"` + p.origin + `/keys"}`)
		card["signatures"] = []any{object{"protected": header, "signature": base64url("not a signature")}}
		p.shows([]byte(encoded(card)))
		config := p.config()
		in, err := newAdapter(t, fast).Inspect(t.Context(), provider.Target{Config: coord.AgentConfig{Route: coord.RouteA2A, A2A: &config}})
		if err != nil || in.Problem != "" {
			t.Fatalf("Inspect: %v, %q", err, in.Problem)
		}
		for _, c := range in.Capabilities {
			if c.Name == "card signature verified" && (c.Has || !strings.Contains(c.Detail, "not verified")) {
				t.Errorf("the signature is told as %+v", c)
			}
		}
		if n := p.count("other /keys"); n != 0 {
			t.Error("the card's address of keys was fetched")
		}
	}},
}
