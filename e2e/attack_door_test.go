package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"signalbox/internal/api"
	"signalbox/internal/coord"
	"signalbox/internal/daemon"
)

// op is an operation of the OpenAPI document.
type op struct {
	id, method, path string
	role             coord.Role
}

// operations gives what the served document has, by id.
func (w *world) operations() (all []op) {
	w.t.Helper()
	_, body := w.do(http.MethodGet, "/api/openapi.json", "")
	var doc struct {
		Paths map[string]map[string]struct {
			ID   string     `json:"operationId"`
			Role coord.Role `json:"x-role"`
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		w.t.Fatal(err)
	}
	for path, methods := range doc.Paths {
		for method, o := range methods {
			all = append(all, op{o.ID, strings.ToUpper(method), path, o.Role})
		}
	}
	if len(all) < 40 {
		w.t.Fatalf("the document has %d operations only", len(all))
	}
	slices.SortFunc(all, func(a, b op) int { return cmp.Compare(a.id, b.id) })
	return all
}

// place fills in the path of an operation with what exists in no world.
func (o op) place() string {
	return strings.NewReplacer("{job}", "999", "{agent}", "none", "{attempt}", "999%2Fnone", "{request}", "r999", "{change_set}", "c999",
		"{artifact}", "art_none", "{token}", "crd_none", "{task}", "none").Replace(o.path)
}

// refuses demands that an operation is refused with a status and a problem
// document.
func (w *world) refuses(what string, o op, status int, code coord.Code, headers ...string) {
	w.t.Helper()
	got, body := w.do(o.method, o.place(), "", headers...)
	var p api.Problem
	if err := json.Unmarshal(body, &p); got != status || err != nil || p.Code != code {
		w.t.Errorf("%s %s: %d %s, want %d %s", what, o.id, got, body, status, code)
	}
}

func TestEveryOperationIsRefusedToStrangers(t *testing.T) {
	w := newWorld(t)
	operator := w.token
	role := map[coord.Role]string{}
	for _, r := range []coord.Role{coord.RoleRead, coord.RoleDraft} {
		role[r] = must[api.Token](w, "token")(w.client.AddToken(w.ctx, string(r), r)).Token
	}
	revoked := must[api.Token](w, "token")(w.client.AddToken(w.ctx, "revoked", coord.RoleOperator))
	if err := w.client.RevokeToken(w.ctx, string(revoked.ID)); err != nil {
		t.Fatal(err)
	}
	session, csrf := w.browse()
	port := w.door.url[strings.LastIndexByte(w.door.url, ':')+1:]
	head := must[api.Status](w, "status")(w.client.Status(w.ctx)).Head
	forbidden := 0
	for _, o := range w.operations() {
		for r, token := range role {
			if !r.Allows(o.role) {
				forbidden++
				w.refuses("role "+string(r), o, http.StatusForbidden, coord.Forbidden, "Authorization", "Bearer "+token)
			}
		}
		for _, value := range []string{"Bearer " + revoked.Token, "Bearer " + api.TokenPrefix + "guess", "Bearer", "Basic b3A6b3A=", operator} {
			w.refuses("credential", o, http.StatusUnauthorized, coord.Unauthenticated, "Authorization", value)
		}
		for _, origin := range []string{"null", "https://127.0.0.1:" + port, "http://127.0.0.1", "http://127.0.0.1:1", "http://evil.example", "http://localhost:" + port} {
			w.refuses("origin "+origin, o, http.StatusForbidden, coord.Forbidden, "Origin", origin)
		}
		for _, site := range []string{"cross-site", "same-site"} {
			w.refuses("site "+site, o, http.StatusForbidden, coord.Forbidden, "Sec-Fetch-Site", site)
		}
		for _, host := range []string{"evil.example", "evil.example:" + port, "127.0.0.1", "127.0.0.2:" + port, "[::1]:" + port} {
			w.foreign(o, host)
		}
		w.token = "" // the browser has a cookie alone
		w.refuses("nobody", o, http.StatusUnauthorized, coord.Unauthenticated)
		if o.method != http.MethodGet {
			for _, value := range []string{"", "guess", session, csrf + "x"} {
				w.refuses("CSRF", o, http.StatusForbidden, coord.Forbidden, "Cookie", session, daemon.CSRFHeader, value)
			}
		}
		w.token = operator
	}
	if forbidden < 30 {
		t.Errorf("only %d refusals of roles were tried", forbidden)
	}
	// With both secrets the browser is let in.
	w.token = ""
	if status, body := w.do(http.MethodPost, "/api/admission", `{"paused":false}`, "Cookie", session, daemon.CSRFHeader, csrf); status != http.StatusOK {
		t.Errorf("the session itself gets %d %s", status, body)
	}
	w.token = operator
	for _, e := range w.events(head) {
		if e.Kind != coord.AdmissionMoved {
			t.Errorf("a refused request left %s", e.Kind)
		}
	}
}

// browse signs a browser in and gives its cookie and its second secret.
func (w *world) browse() (cookie, csrf string) {
	w.t.Helper()
	_, body := w.do(http.MethodPost, "/pair/link", "")
	var link api.Data[daemon.Link]
	if err := json.Unmarshal(body, &link); err != nil {
		w.t.Fatal(err)
	}
	u, err := url.Parse(link.Data.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.door.url+"/pair", strings.NewReader(`{"code":"`+u.Fragment+`"}`))
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := web.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	var out api.Data[daemon.Paired]
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil || len(res.Cookies()) == 0 {
		w.t.Fatalf("pairing a browser gives %d (%v)", res.StatusCode, err)
	}
	for _, c := range res.Cookies() {
		if strings.HasPrefix(c.Name, "signalbox_session") {
			cookie = c.Name + "=" + c.Value
		}
	}
	return cookie, out.Data.CSRF
}

// foreign asks under another name of this address.
func (w *world) foreign(o op, host string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, o.method, w.door.url+o.place(), http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Authorization", "Bearer "+w.token)
	res, err := web.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusForbidden {
		w.t.Errorf("host %s %s: %d (%v)", host, o.id, res.StatusCode, err)
	}
}

// TestEveryChangeIsMadeOnceForItsKey takes a job through its life, each request
// sent twice under one key and once more with another content.
func TestEveryChangeIsMadeOnceForItsKey(t *testing.T) {
	w := newWorld(t)
	w.scripted("asker", "ask")
	w.scripted("spare", "echo")
	spare := must[coord.Agent](w, "agent")(w.client.Agent(w.ctx, "spare"))
	number := 0
	once := func(status int, method, path string, body any, headers ...string) []byte {
		t.Helper()
		number++
		doc, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, "Idempotency-Key", fmt.Sprint("key ", number))
		got, first := w.do(method, path, string(doc), headers...)
		if got != status {
			t.Fatalf("%s %s: %d %s", method, path, got, first)
		}
		head := must[api.Status](w, "status")(w.client.Status(w.ctx)).Head
		got, second := w.do(method, path, string(doc), headers...)
		if got != status || stripToken(first) != stripToken(second) {
			t.Errorf("%s %s again: %d\n%s\nfirst\n%s", method, path, got, second, first)
		}
		for _, e := range w.events(head) {
			// Running work goes on and leaves events of its own meanwhile.
			if slices.Contains([]coord.EventKind{coord.AgentChanged, coord.CredentialMade, coord.AdmissionMoved}, e.Kind) {
				t.Errorf("%s %s again left %s", method, path, e.Kind)
			}
		}
		return first
	}
	doc := func(text string) coord.Plan { return plan(task("work", "asker", text)) }
	once(201, "POST", "/api/jobs", doc("one"))
	if status, body := w.do("POST", "/api/jobs", `{"tasks":[{"agent":"asker","instruction":"another"}]}`, "Idempotency-Key", "key 1"); status != http.StatusConflict {
		t.Errorf("another request under the same key: %d %s", status, body)
	}
	once(200, "PUT", "/api/jobs/1", doc("two"), "If-Match", `"1"`)
	for _, stale := range []string{`"1"`, `"7"`} {
		if status, body := w.do("PUT", "/api/jobs/1", mustJSON(t, doc("three")), "If-Match", stale); status != http.StatusPreconditionFailed {
			t.Errorf("job revision %s: %d %s", stale, status, body)
		}
		if status, body := w.do("PUT", "/api/agents/spare", mustJSON(t, spare.Config), "If-Match", strconv.Quote(strconv.Itoa(spare.Revision+5))); status != http.StatusPreconditionFailed {
			t.Errorf("agent revision: %d %s", status, body)
		}
	}
	for _, bad := range []string{"", "*", `W/"1"`, `"one"`, `"0"`, `"-1"`, `"99999999999999999999"`} {
		if status, body := w.do("PUT", "/api/jobs/1", mustJSON(t, doc("three")), "If-Match", bad); status != http.StatusUnprocessableEntity {
			t.Errorf("If-Match %q: %d %s", bad, status, body)
		}
	}
	var frozen api.Data[coord.Job]
	if err := json.Unmarshal(once(200, "POST", "/api/jobs/1/freeze", nil), &frozen); err != nil || frozen.Data.Frozen == nil {
		t.Fatalf("not frozen (%v)", err)
	}
	once(200, "POST", "/api/jobs/1/run", map[string]string{"digest": frozen.Data.Frozen.Digest})
	r := w.asked("1", "work")
	once(200, "POST", "/api/requests/"+string(r.ID)+"/decide", map[string]any{"decision": coord.DecisionApprove, "option": "yes", "digest": r.Digest})
	w.settles("1", coord.JobCompleted)
	if n := len(w.stage.prompted("asker")); n != 1 {
		t.Errorf("the agent got %d prompts", n)
	}
	once(201, "POST", "/api/jobs/1/continue", doc("go on"))
	once(200, "POST", "/api/jobs/2/discard", nil)
	once(201, "POST", "/api/tokens", map[string]string{"name": "made", "role": "read"})
	once(200, "POST", "/api/admission", map[string]bool{"paused": true})
	once(200, "POST", "/api/agents/spare/enabled", map[string]bool{"enabled": false})
	once(200, "PUT", "/api/agents/spare", spare.Config, "If-Match", strconv.Quote(strconv.Itoa(spare.Revision)))
	once(200, "DELETE", "/api/agents/spare", nil)
	if jobs, _, err := w.client.Jobs(w.ctx, 0, 0); err != nil || len(jobs) != 2 {
		t.Errorf("there are %d jobs (%v)", len(jobs), err)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// stripToken takes away what an answer shows once, on purpose, and what tells
// the time of a look.
func stripToken(body []byte) string {
	var doc struct {
		Data map[string]any `json:"data"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return string(body)
	}
	delete(doc.Data, "token")
	b, err := json.Marshal(doc.Data)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// cuts is a source of places to cut at; its seed is printed with a failure.
func cuts(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the cuts have the seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}
