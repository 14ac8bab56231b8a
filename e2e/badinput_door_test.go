package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/e2e/rogue"
	"signalbox/internal/api"
	"signalbox/internal/client"
	"signalbox/internal/coord"
)

// closedWorld is a world on which no Signalbox runs yet.
func closedWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errPatience)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, dir: filepath.Join(dir, "data"), mark: "E2E_WORLD=" + filepath.Base(filepath.Dir(dir)) + filepath.Base(dir)}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "SIGNALBOX_") {
			w.env = append(w.env, e)
		}
	}
	t.Cleanup(w.end)
	return w
}

func mustRequest(ctx context.Context, t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// as is the world with another credential.
func (w *world) as(token string) *world {
	w.t.Helper()
	sub := *w
	sub.token = token
	c, err := client.New(client.Options{URL: w.door.url, Token: token})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	sub.client = c
	return &sub
}

func TestATokenOfTheWrongRoleIsRefusedEverywhere(t *testing.T) {
	w := newWorld(t)
	d := rogue.New()
	w.cast(listen(t, d), "asker")
	d.Cast("asker", "", "ask")
	ref := w.run(plan(task("t", "asker", "ask me")))
	r := w.asked(ref, "t")
	draft := must[api.Token](w, "token")(w.client.AddToken(w.ctx, "assistant", coord.RoleDraft))
	read := must[api.Token](w, "token")(w.client.AddToken(w.ctx, "looker", coord.RoleRead))
	waiting := must[coord.Job](w, "draft")(w.as(draft.Token).client.Draft(w.ctx, plan(task("t", "asker", "x"))))
	frozen := must[coord.Job](w, "freeze")(w.client.Freeze(w.ctx, string(waiting.ID)))

	type call struct{ method, path, body string }
	levers := []call{
		{http.MethodPost, "/api/jobs/" + string(waiting.ID) + "/run", `{"digest":"` + frozen.Frozen.Digest + `"}`},
		{http.MethodPost, "/api/requests/" + string(r.ID) + "/decide", `{"decision":"approve","option":"yes","digest":"` + r.Digest + `"}`},
		{http.MethodPost, "/api/jobs/" + ref + "/cancel", ""},
		{http.MethodPost, "/api/tokens", `{"name":"mine","role":"operator"}`},
		{http.MethodDelete, "/api/tokens/" + string(read.ID), ""},
		{http.MethodPost, "/api/admission", `{"paused":true}`},
		{http.MethodPost, "/api/stop", `{}`},
		{http.MethodPost, "/api/doctor", `{}`},
		{http.MethodDelete, "/api/agents/asker", ""},
	}
	drafts := []call{{http.MethodPost, "/api/jobs", `{"tasks":[{"agent":"asker","instruction":"x"}]}`}}
	for name, who := range map[string]struct {
		token string
		calls []call
	}{"draft": {draft.Token, levers}, "read": {read.Token, append(drafts, levers...)}} {
		for _, c := range who.calls {
			status, body := w.as(who.token).do(c.method, c.path, c.body, "Idempotency-Key", name+c.path,
				// What a client says of itself counts for nothing: not even the
				// hash of the operator's own token, said as the front door says it.
				"Signalbox-Claim", `{"kind":"token","hash":"`+api.HashOf(w.token)+`","presence":"terminal"}`, "X-Signalbox-Presence", "terminal")
			var p api.Problem
			if err := json.Unmarshal(body, &p); err != nil || status != http.StatusForbidden || p.Code != coord.Forbidden || !strings.Contains(p.Detail, "operator") && !strings.Contains(p.Detail, "draft") {
				t.Errorf("%s %s with a %s token gives %d: %s", c.method, c.path, name, status, body)
			}
		}
	}
	if code, _, log := w.as(draft.Token).cli("request", "approve", "r1", "--digest", r.Digest); code != 3 || !strings.Contains(log, "operator") {
		t.Errorf("request approve with a draft token exits with %d: %s", code, log)
	}
	if now := must[coord.Request](w, "request")(w.client.Request(w.ctx, string(r.ID))); now.Decision != coord.DecisionOpen {
		t.Errorf("the request is %s", now.Decision)
	}
	w.expect(ref, "t:waiting")

	// A stream that is open when its token is revoked ends, and the token is
	// good for nothing more.
	after := must[string](w, "cursor")(w.client.Now(w.ctx))
	gone := make(chan error, 1)
	reading := make(chan struct{})
	go func() {
		first := true
		gone <- w.as(read.Token).client.Follow(w.ctx, client.Filter{After: after}, func(coord.Event) error {
			if first {
				first = false
				close(reading)
			}
			return nil
		})
	}()
	must[coord.Job](w, "draft")(w.client.Draft(w.ctx, plan(task("t", "asker", "x"))))
	<-reading
	if err := w.client.RevokeToken(w.ctx, string(read.ID)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-gone:
		w.refused("following with a revoked token", err, coord.Unauthenticated)
	case <-time.After(2 * coord.StreamBeat):
		t.Error("the stream of a revoked token goes on")
	}
	for _, token := range []string{read.Token, read.Token[:len(read.Token)-1] + "x", "sbx", strings.Repeat("x", 30<<10)} {
		status, body := w.as(token).do(http.MethodGet, "/api/status", "")
		if status != http.StatusUnauthorized || !strings.Contains(string(body), "token") {
			t.Errorf("a token that is none gives %d: %s", status, body)
		}
	}
	w.decide(r, coord.DecisionDeny, "")
	w.settles(ref, coord.JobCompleted)
}

func TestAForeignHostOriginOrSiteIsRefusedBeforeAnythingElse(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name, header, value string
	}{
		{"a name that points here", "Host", "evil.example"},
		{"that name with the port", "Host", "evil.example:" + w.door.url[strings.LastIndex(w.door.url, ":")+1:]},
		{"another port", "Host", "127.0.0.1:1"},
		{"all addresses", "Host", "0.0.0.0:" + w.door.url[strings.LastIndex(w.door.url, ":")+1:]},
		{"another origin", "Origin", "https://evil.example"},
		{"no origin", "Origin", "null"},
		{"another port's origin", "Origin", "http://127.0.0.1:1"},
		{"another site", "Sec-Fetch-Site", "cross-site"},
		{"a neighbour of the site", "Sec-Fetch-Site", "same-site"},
	} {
		for _, path := range []string{"/api/status", "/pair", "/healthz", "/"} {
			req := mustRequest(w.ctx, t, w.door.url+path)
			req.Header.Set("Authorization", "Bearer "+w.token)
			if c.header == "Host" {
				req.Host = c.value
			} else {
				req.Header.Set(c.header, c.value)
			}
			res, err := web.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if err := errors.Join(err, res.Body.Close()); err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != http.StatusForbidden || !strings.Contains(string(body), w.door.url) || res.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s at %s gives %d: %s", c.name, path, res.StatusCode, body)
			}
		}
	}
	if status, _ := w.do(http.MethodGet, "/api/status", "", "Origin", w.door.url, "Sec-Fetch-Site", "same-origin"); status != http.StatusOK {
		t.Errorf("its own origin gives %d", status)
	}
}
