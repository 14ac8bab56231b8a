package a2a

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
	"signalbox/internal/filehash/filehashtest"
	"signalbox/internal/netguard"
	"signalbox/internal/provider"
)

func TestPartsOfAllKindsAreKeptAndAddressesAreNotFetched(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		parts := map[string][]any{
			v03: {
				object{"kind": "text", "text": "see"}, object{"kind": "file", "file": object{"bytes": "AQID", "mimeType": "image/png", "name": "a.png"}},
				object{"kind": "file", "file": object{"uri": p.origin + "/secret.txt", "name": "b.txt"}}, object{"kind": "data", "data": object{"n": 1}},
				object{"kind": "strange"}, object{"kind": "file", "file": object{"bytes": "!!"}},
			},
			v10: {
				object{"text": "see"}, object{"raw": "AQID", "mediaType": "image/png", "filename": "a.png"}, object{"url": p.origin + "/secret.txt", "filename": "b.txt"},
				object{"data": object{"n": 1}}, object{"strange": 1}, object{"raw": "!!"},
			},
		}[p.version]
		if p.version == v10 {
			parts = append(parts, object{"data": nil})
		}
		p.on("stream", func(c *call) {
			c.reply(c.wrap("task", c.at("completed", object{"artifactId": "x", "name": "report", "parts": parts})))
		})
		var got []string
		_, all := p.begin().last()
		for _, e := range all {
			if c := e.Content; c != nil {
				got = append(got, fmt.Sprintf("%s %s %q %s", c.Name, c.Media, c.Bytes, strings.TrimPrefix(c.Reference, p.origin)))
			}
			if a := e.Activity; a != nil {
				got = append(got, a.Status+": "+a.Detail)
			}
		}
		want := []string{`a.png image/png "\x01\x02\x03" `, `b.txt  "" /secret.txt`, `report.json application/json "{\"n\":1}" `}
		if p.version == v10 {
			want = append(want, `report.json application/json "null" `)
		}
		want = append(want, "not kept: 1 no valid base64. ")
		if diff := cmp.Diff(want, got); diff != "" || answerOf(all) != "see" {
			t.Errorf("the answer is %q, the contents (-want +got):\n%s", answerOf(all), diff)
		}
		if n := p.count("other /secret.txt"); n != 0 {
			t.Errorf("the address was fetched %d times", n)
		}
	})
}

func TestAnotherTaskInAnswerToALookDecidesNothing(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) {
			c.events(c.wrap("task", c.at("working")), c.piece("a", "ours", false), c.moved("completed"))
		})
		p.on("get", func(c *call) {
			other := c.at("failed", c.text("a", "theirs"))
			other["id"] = "t2"
			c.reply(other)
		})
		at := p.begin()
		if got := at.ends(coord.AttemptCompleted); got != "ours" {
			t.Errorf("the answer is %q", got)
		}
		v, err := at.adapter.Reconcile(t.Context(), at.work, at.session.Handle(), &coord.Receipt{Kind: receiptTask, Reference: "t1"})
		if err != nil || v.Finding != provider.FoundNothing || v.End != nil || !strings.Contains(strings.Join(v.Evidence, " "), "t2") {
			t.Errorf("Reconcile gave %+v, %v", v, err)
		}
	})
}

func TestAnAuthorizationThatThePeerWaitsForIsAsked(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		var given, over atomic.Bool
		p.on("stream", func(c *call) {
			c.reply(c.wrap("task", c.state(c.status("auth-required", "m1", "Log in at https://x.example"))))
		})
		p.on("get", func(c *call) {
			switch {
			case over.Load():
				c.reply(c.at("completed", c.text("a", "done")))
				return
			case given.Load():
				c.reply(c.at("working"))
				return
			}
			c.reply(c.state(c.status("auth-required", "m1", "Log in at https://x.example")))
		})
		at := p.begin()
		r := at.asked()
		if r.Content.Tool != "authorization" || r.Content.Title != "Log in at https://x.example" || !strings.Contains(r.Content.Detail, "outside of Signalbox") {
			t.Errorf("the request is %+v", r.Content)
		}
		given.Store(true) // and the peer goes on by itself
		all := at.until(provider.EventWithdrawn)
		if all[len(all)-1].Withdrawn != r.Origin.Request {
			t.Errorf("withdrawn is %+v", all[len(all)-1])
		}
		over.Store(true)
		at.completes()
		if n := p.count("send"); n != 0 {
			t.Errorf("the peer was sent %d messages", n)
		}
	})
}

func TestALaterProcessKnowsAnAnswerOfAnEarlierOne(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		p.asking("which?")
		at := p.begin()
		r := at.asked()
		at.close()
		s, ok := at.session.(*session)
		if !ok {
			t.Fatal("another session")
		}
		sent := s.answerID(r.Origin.Request)
		var waiting []string
		reattach := func(answered ...string) {
			t.Helper()
			at.close()
			work := at.work
			work.Waiting = waiting
			work.Answered = answered
			var err error
			if at.session, err = at.adapter.Reattach(t.Context(), work, at.session.Handle(), &coord.Receipt{Kind: receiptTask, Reference: "t1"}); err != nil {
				t.Fatal(err)
			}
		}
		waiting = []string{r.Origin.Request, "an older one"}
		reattach()
		if e := at.next(); e.Request == nil || e.Request.Origin.Request != r.Origin.Request {
			t.Errorf("first came %s", told1(e))
		}
		if e := at.next(); e.Withdrawn != "an older one" {
			t.Errorf("what is not asked any more comes as %s", told1(e))
		}
		waiting = nil
		reattach()
		if again := at.asked(); again.Origin.Request != r.Origin.Request {
			t.Errorf("a request that was not answered comes as %q, was %q", again.Origin.Request, r.Origin.Request)
		}
		reattach(r.Origin.Request)
		if again := at.asked(); again.Origin.Request != r.Origin.Request+"#2" {
			t.Errorf("a request whose answer was lost comes as %q", again.Origin.Request)
		}
		// An answer may come before the task was seen.
		reattach(r.Origin.Request)
		got, err := at.session.Respond(t.Context(), provider.Answer{Request: r.Origin.Request + "#2", Decision: coord.DecisionAnswered, Text: "red"})
		if got != provider.Delivered || err != nil {
			t.Errorf("Respond gave %q, %v", got, err)
		}
		// The peer has the answer and has not gone on yet: it is not asked again.
		p.on("get", func(c *call) {
			task := c.state(c.status("input-required", "q1", "which?"))
			task["history"] = []any{object{"messageId": sent, "role": "user", "kind": "message", "parts": []any{}}}
			if c.n > 12 {
				task = c.at("completed", c.text("a", "done"))
			}
			c.reply(task)
		})
		reattach(r.Origin.Request)
		e, all := at.last()
		for _, e := range all {
			if e.Request != nil {
				t.Errorf("it was asked again: %+v", e.Request)
			}
		}
		if e.End == nil || e.End.State != coord.AttemptCompleted || answerOf(all) != "done" {
			t.Errorf("it ended with %s, %q", told1(e), answerOf(all))
		}
		p.once()
	})
}

func TestALaterProcessShowsOnlyWhatIsNewAndEndsWithTheWhole(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		p.on("stream", func(c *call) { c.events(c.wrap("task", c.at("working")), c.piece("a", "abc", false)); c.hold() })
		p.on("get", func(c *call) {
			texts := []string{"abc", "abcd", "abcde"}
			if c.n < len(texts) {
				c.reply(c.at("working", c.text("a", texts[c.n])))
				return
			}
			c.reply(c.at("completed", c.text("a", "abcdef")))
		})
		p.on("subscribe", func(c *call) { c.fail(codeUnsupported, "no") })
		at := p.begin()
		receipt := at.until(provider.EventReceipt)[0].Receipt
		at.until(provider.EventText)
		at.close()
		p.mu.Lock()
		p.got = nil
		p.mu.Unlock()
		var err error
		if at.session, err = at.adapter.Reattach(t.Context(), at.work, at.session.Handle(), receipt); err != nil {
			t.Fatal(err)
		}
		e, all := at.last()
		shown := ""
		for _, e := range all {
			if e.Receipt != nil {
				t.Error("there was a second receipt")
			}
			if e.Text != nil {
				shown += e.Text.Text
			}
		}
		if e.End == nil || e.End.Answer == nil || *e.End.Answer != "abcdef" || shown != "def" {
			t.Errorf("shown was %q, it ended with %s", shown, told1(e))
		}
		if n := p.count("work"); n != 0 {
			t.Errorf("work was sent %d times", n)
		}
	})
}

func TestACardThatChangedSinceTheApprovalStopsTheWork(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		config := p.config()
		agent := coord.AgentConfig{Route: coord.RouteA2A, A2A: &config}
		a := newAdapter(t, fast)
		in, err := a.Inspect(t.Context(), provider.Target{Config: agent})
		if err != nil || in.Problem != "" {
			t.Fatalf("Inspect: %v, %q", err, in.Problem)
		}
		f := in.Identity.Files
		if len(f) != 1 || f[0].Role != "card" || f[0].Path != config.Card || len(f[0].SHA256) != 64 || f[0].Size == 0 {
			t.Errorf("the identity is %+v", f)
		}
		p.shows(append(cardOf(p.version, p.origin, true), '\n'))
		_, err = a.Prepare(t.Context(), provider.Work{Config: agent, Identity: in.Identity})
		if u := asUnsent(err); u == nil || u.Cause != provider.CauseStale || !strings.Contains(u.Message, "card") {
			t.Errorf("Prepare gave %v", err)
		}
		if n := p.count("work"); n != 0 {
			t.Errorf("work was sent %d times", n)
		}
	})
}

// Whom to trust for a peer is approved as its card is.
func TestFilesOfCertificatesAndKeysThatChangedSinceTheApprovalStopTheWork(t *testing.T) {
	for _, role := range []string{"certificates", "keys"} {
		t.Run(role, func(t *testing.T) {
			p := newPeer(t, v10)
			file := filepath.Join(t.TempDir(), role)
			write := func(content string) {
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("one")
			filehashtest.Settle(t, file)
			config := p.config()
			if role == "keys" {
				config.Keys = file
			} else {
				config.CA = file // the peer speaks http, which reads none
			}
			agent := coord.AgentConfig{Route: coord.RouteA2A, A2A: &config}
			a := newAdapter(t, fast)
			in, err := a.Inspect(t.Context(), provider.Target{Config: agent})
			if err != nil || in.Problem != "" || len(in.Identity.Files) != 2 || in.Identity.Files[1].Role != role {
				t.Fatalf("Inspect: %v, %q, %+v", err, in.Problem, in.Identity)
			}
			write("two")
			_, err = a.Prepare(t.Context(), provider.Work{Config: agent, Identity: in.Identity})
			if u := asUnsent(err); u == nil || u.Cause != provider.CauseStale || !strings.Contains(u.Message, role) {
				t.Errorf("Prepare gave %v", err)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if in, err := a.Inspect(t.Context(), provider.Target{Config: agent}); err != nil || !strings.Contains(in.Problem, role) {
				t.Errorf("Inspect without the file: %v, %q", err, in.Problem)
			}
			if n := p.count("work"); n != 0 {
				t.Errorf("work was sent %d times", n)
			}
		})
	}
}

func TestTheTenantOfTheInterfaceIsInEveryRequest(t *testing.T) {
	p := newPeer(t, v10)
	p.shows(fmt.Appendf(nil, `{"name":"x","capabilities":{"streaming":true},"supportedInterfaces":[
		{"url":"%[1]s/grpc","protocolBinding":"GRPC","protocolVersion":"1.0"},{"url":"%[1]s/old","protocolBinding":"JSONRPC","protocolVersion":"0.3"},
		{"url":"%[1]s/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":"blue"}]}`, p.origin))
	p.asking("which?")
	p.on("cancel", func(c *call) { c.fail(codeNotCancelable, "no") })
	at := p.begin()
	r := at.asked()
	_, _ = at.session.Cancel(t.Context())
	_, _ = at.session.Respond(t.Context(), provider.Answer{Request: r.Origin.Request, Decision: coord.DecisionAnswered, Text: "red"})
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.got {
		if c.name != "card" && !strings.Contains(string(c.params), `"tenant":"blue"`) {
			t.Errorf("%s has the parameters %s", c.name, c.params)
		}
	}
}

// recorder is a guard that notes what each request is allowed.
type recorder struct {
	*netguard.Guard
	mu   sync.Mutex
	seen []netguard.Access
}

// Do notes and sends.
func (r *recorder) Do(ctx context.Context, a netguard.Access, req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.seen = append(r.seen, a)
	r.mu.Unlock()
	return r.Guard.Do(ctx, a, req)
}

// tokens gives one value, whatever the name.
type tokens struct{}

// Token gives the value.
func (tokens) Token(string, string) (string, error) { return "s3cret", nil }

func TestTheCredentialGoesToTheOriginOfTheWorkAlone(t *testing.T) {
	cards, p := newPeer(t, v10), newPeer(t, v10)
	cards.card = cardOf(v10, p.origin, true)
	p.on("stream", func(c *call) { c.reply(c.wrap("task", c.at("completed"))) })
	guard := &recorder{Guard: netguard.New(netguard.Options{Credentials: tokens{}})}
	t.Cleanup(guard.Close)
	config := p.config()
	config.Card, config.Credential = cards.origin+cards.path, "name"
	at := prepare(t, New(guard, Options{Timing: fast}), config, "the work").send()
	at.ends(coord.AttemptCompleted)
	if got := cards.last("card").header.Get("Authorization"); got != "" {
		t.Errorf("the card's origin got %q", got)
	}
	if got := p.last("stream").header.Get("Authorization"); got != "Bearer s3cret" {
		t.Errorf("the work's origin got %q", got)
	}
	for _, a := range guard.seen {
		if a.Origin == cards.origin && a.Credential != "" || a.Origin == p.origin && a.Credential != "name" || !a.Private {
			t.Errorf("a request was allowed %+v", a)
		}
	}
}

func TestACardThatWantsACredentialIsToldBeforeAnythingIsSent(t *testing.T) {
	for name, security := range map[string]string{
		v03: `"security":[{"bearer":[]}]`, v10: `"securityRequirements":[{"schemes":{"bearer":{"list":[]}}}]`,
	} {
		p := newPeer(t, name)
		p.shows([]byte(strings.Replace(string(cardOf(name, p.origin, true)), "{", "{"+security+",", 1)))
		config := p.config()
		agent := coord.AgentConfig{Route: coord.RouteA2A, A2A: &config}
		a := newAdapter(t, fast)
		in, err := a.Inspect(t.Context(), provider.Target{Config: agent})
		if err != nil || in.Auth != coord.AuthRequired || in.Problem == "" || in.AuthHint == "" {
			t.Errorf("Inspect: %v, %+v", err, in)
		}
		_, err = a.Prepare(t.Context(), provider.Work{Config: agent, Identity: in.Identity})
		if u := asUnsent(err); u == nil || u.Cause != provider.CauseAuth {
			t.Errorf("Prepare gave %v", err)
		}
		// A peer that refuses what the card does not speak of.
		p.shows(nil)
		p.on("probe", func(c *call) { c.WriteHeader(http.StatusUnauthorized) })
		if in, err := a.Inspect(t.Context(), provider.Target{Config: agent}); err != nil || in.Auth != coord.AuthRequired || in.Problem == "" {
			t.Errorf("Inspect: %v, %+v", err, in)
		}
		p.on("probe", func(c *call) { c.fail(codeUnauthenticated, "who are you?") })
		if in, err := a.Inspect(t.Context(), provider.Target{Config: agent}); err != nil || in.Auth != coord.AuthRequired || in.Problem == "" {
			t.Errorf("Inspect: %v, %+v", err, in)
		}
		if n := p.count("work"); n != 0 {
			t.Errorf("work was sent %d times", n)
		}
	}
}

func TestWorkThatCannotLeaveIsNotSent(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		at := prepare(t, newAdapter(t, fast), p.config(), "the work")
		// A server takes connections in their order: when it answers on another
		// one, it has the one that was made ahead, and can close it.
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.origin+p.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		res, err := p.server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		p.server.CloseClientConnections()
		if err := p.server.Listener.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := at.session.Send(t.Context())
		if _, ok := errors.AsType[*netguard.Unsent](err); got != coord.HandedNothing || !ok {
			t.Errorf("Send gave %q, %v", got, err)
		}
		if a, err := at.session.Close(t.Context()); a != coord.Ended || err != nil {
			t.Errorf("Close gave %q, %v", a, err)
		}
		if n := p.count("work"); n != 0 {
			t.Errorf("work was sent %d times", n)
		}
	})
}

func TestSendThatIsGivenUpSaysWhatIsCertain(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		at := prepare(t, newAdapter(t, fast), p.config(), strings.Repeat("the work ", 4<<20)) // more than sockets hold
		release := make(chan struct{})
		ctx, cancel := context.WithCancelCause(t.Context())
		p.server.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			cancel(errors.New("given up"))
			<-release
		})
		defer close(release)
		if got, err := at.session.Send(ctx); got != coord.HandedUnknown || err == nil {
			t.Errorf("Send gave %q, %v", got, err)
		}
		if l := at.loses(); l.Cause != provider.CauseGone {
			t.Errorf("the loss is %+v", l)
		}
	})
}

func TestATaskWithoutAReceiptIsSoughtWhereThePeerListsItsTasks(t *testing.T) {
	found := map[string]provider.Finding{"js-1.3.0": provider.FoundEnded}
	for _, e := range peers.A2AEndpoints(t) {
		at := prepare(t, newAdapter(t, fast), registered(e), "hello").send()
		at.ends(coord.AttemptCompleted)
		v, err := at.adapter.Reconcile(t.Context(), at.work, at.session.Handle(), nil)
		want := or(string(found[e.Name]), string(provider.FoundNothing))
		if err != nil || string(v.Finding) != want || len(v.Evidence) == 0 {
			t.Errorf("%s: Reconcile gave %+v, %v; want %s", e.Name, v, err, want)
		}
		if looked := registered(e).Version == v10; looked == strings.Contains(v.Evidence[0], "no way to look") {
			t.Errorf("%s: the evidence is %q", e.Name, v.Evidence)
		}
		if v.Finding == provider.FoundEnded && v.Text != "answer: hello" {
			t.Errorf("%s: the answer is %q", e.Name, v.Text)
		}
	}
}
