package e2e

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"signalbox/internal/coord"
)

// parrot is a peer of A2A 1.0 that lets nobody in without its token, and puts
// what it got of that wherever a peer can put something.
type parrot struct {
	token string // "" asks for none

	mu     sync.Mutex
	origin string
	rpc    string // where the card sends work, "" is origin
	work   int    // how often it got some
	alien  int    // requests without the token
}

func (p *parrot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	heard := r.Header.Get("Authorization")
	if p.token != "" && heard != "Bearer "+p.token {
		p.alien++
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		_ = json.NewEncoder(w).Encode(object{ // the client may be gone
			"name": "parrot", "description": "I heard " + heard, "version": "1", "skills": []any{object{"id": "s", "name": heard}},
			"supportedInterfaces": []any{object{"url": cmp.Or(p.rpc, p.origin) + "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}},
		})
		return
	}
	var call struct {
		ID     json.RawMessage
		Method string
	}
	if json.NewDecoder(r.Body).Decode(&call) != nil || call.Method != "SendMessage" {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"no such task"}}`, call.ID)
		return
	}
	p.work++
	parts := []any{object{"text": "I heard " + heard}, object{"raw": []byte(heard), "filename": "heard.txt"},
		object{"data": object{"heard": heard}}, object{"url": p.origin + "/" + heard, "filename": "address"}}
	_ = json.NewEncoder(w).Encode(object{"jsonrpc": "2.0", "id": call.ID, "result": object{"task": object{"id": "t-1", "contextId": "c-1",
		"status": object{"state": "TASK_STATE_COMPLETED"}, "artifacts": []any{object{"artifactId": "a", "parts": parts}}}}})
}

// perch serves a parrot.
func perch(t *testing.T, token string) *parrot {
	p := &parrot{token: token}
	origin := listen(t, p)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.origin = origin
	return p
}

func (p *parrot) counts() (work, alien int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.work, p.alien
}

// TestACredentialReachesItsPeerAndIsKeptNowhere binds a value to one peer, which
// says it back in every way, and searches all that is kept and shown.
func TestACredentialReachesItsPeerAndIsKeptNowhere(t *testing.T) {
	t.Parallel()
	value := rand.Text()
	near, other := perch(t, value), perch(t, "")
	w := emptyWorld(t, "E2E_PEER_TOKEN="+value)
	config := fmt.Sprintf("[credentials.near]\nenv = \"E2E_PEER_TOKEN\"\norigin = %q\n[credentials.unset]\nenv = \"E2E_PEER_UNSET\"\norigin = %q\n", near.origin, other.origin)
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "signalbox.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	w.serve()
	w.login()
	h := &hunt{t: t, canaries: append(canaries(map[string]string{"the peer's token": value}), canary{"operator's token", w.token})}

	code, out, log := w.cli("agent", "add", "near", "--a2a", near.origin+"/card", "--a2a-version", "1.0", "--private", "--credential", "near")
	if code != 0 || !strings.Contains(out, "sent the credential near") || !strings.Contains(out, "[redacted:credential_near]") {
		t.Errorf("agent add exits with %d:\n%s%s", code, out, log)
	}
	h.look("agent add", []byte(out+log))
	for _, args := range [][]string{{"credential", "list"}, {"credential", "list", "--json"}, {"agent", "show", "near"}, {"agent", "show", "near", "--json"}} {
		_, out, log := w.cli(args...)
		h.look(strings.Join(args, " "), []byte(out+log))
	}

	ref := w.run(plan(task("t", "near", "say what you hear")))
	w.settles(ref, coord.JobCompleted)
	if said := w.said(ref, "t", "near"); !strings.Contains(said, "I heard Bearer [redacted:credential_near]") {
		t.Errorf("the peer said %q", said)
	}
	references := 0
	for _, a := range w.result(ref, "t").Artifacts {
		if a.Reference != "" {
			references++
		}
	}
	if n := len(w.result(ref, "t").Artifacts); n < 4 || references != 1 {
		t.Errorf("%d artifacts are kept, %d of them addresses", n, references)
	}
	h.wire(w, ref)
	h.disk(w.dir)
	h.look("the log of serve and its workers", []byte(w.log()))

	archive := filepath.Join(t.TempDir(), "job.zip")
	if code, out, log := w.cli("job", "export", ref, "--output", archive); code != 0 {
		t.Fatalf("job export exits with %d: %s%s", code, out, log)
	}
	if code, out, log := w.cli("verify", archive); code != 0 {
		t.Errorf("verify exits with %d: %s%s", code, out, log)
	}

	// It goes nowhere else, and one without a value lets nothing leave.
	elsewhere := endpoint(other.origin+"/card", other.origin, "1.0")
	elsewhere.A2A.Credential = "near"
	_, err := w.client.AddAgent(w.ctx, "other", elsewhere)
	w.refused("a registration for another origin", err, coord.Invalid)
	elsewhere.A2A.Credential = "unset"
	must[coord.Agent](w, "add unset")(w.client.AddAgent(w.ctx, "unset", elsewhere))
	if in := must[coord.Agent](w, "inspect unset")(w.client.InspectAgent(w.ctx, "unset")).Inspection; in == nil || !strings.Contains(in.Problem, "E2E_PEER_UNSET") {
		t.Errorf("without a value the inspection is %+v", in)
	}
	if work, alien := near.counts(); work != 1 || alien != 0 {
		t.Errorf("the peer got work %d times and was asked %d times without its token", work, alien)
	}
	if work, _ := other.counts(); work != 0 {
		t.Errorf("the other peer got work %d times", work)
	}
}

// TestWhatChangedSinceTheApprovalGetsNoWork changes what was approved of a peer
// between the approval and the work: nothing is sent, and it is told why.
func TestWhatChangedSinceTheApprovalGetsNoWork(t *testing.T) {
	w := newWorld(t)
	far := perch(t, "")
	relay := t.TempDir()
	w.reach("far", endpoint(far.origin+"/card", far.origin, "1.0"))
	w.reach("desk", w.tincan(relay))

	// stays runs an approved plan after a change.
	stays := func(agent, want string, change func()) {
		t.Helper()
		j := must[coord.Job](w, "draft")(w.client.Draft(w.ctx, plan(task("t", agent, "work"))))
		ref := fmt.Sprint(j.Number)
		j = must[coord.Job](w, "freeze")(w.client.Freeze(w.ctx, ref))
		change()
		must[coord.Job](w, "run")(w.client.Run(w.ctx, ref, j.Frozen.Digest))
		w.settles(ref, coord.JobFailed)
		if a := w.attempt(ref, "t"); a.State != coord.AttemptNotSent || a.Cause != "stale" || !strings.Contains(a.Reason, want) {
			t.Errorf("%s: the attempt is %s (%s): %s", agent, a.State, a.Cause, a.Reason)
		}
	}
	stays("far", "card "+far.origin+"/card has other content", func() {
		far.mu.Lock()
		far.rpc = "http://127.0.0.1:1" // the endpoint
		far.mu.Unlock()
	})
	if in := must[coord.Agent](w, "inspect far")(w.client.InspectAgent(w.ctx, "far")).Inspection; !strings.Contains(in.Problem, "http://127.0.0.1:1/rpc") || len(in.Operations) > 0 {
		t.Errorf("the inspection of a card that sends work elsewhere is %+v", in)
	}
	far.mu.Lock()
	far.rpc = ""
	far.mu.Unlock()
	stays("desk", "profile", func() {
		if err := os.WriteFile(filepath.Join(relay, "client.json"), []byte(`{"relay":"https://other.example","agent":"me"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	})

	// A new revision is not what was inspected, so it is inspected before a plan
	// is frozen, and in a version that the peer does not speak there is none.
	g := must[coord.Agent](w, "inspect far")(w.client.InspectAgent(w.ctx, "far"))
	g = must[coord.Agent](w, "edit far")(w.client.ReviseAgent(w.ctx, "far", g.Revision, endpoint(far.origin+"/card", far.origin, "0.3")))
	if g.Inspection != nil && g.Inspection.Revision == g.Revision {
		t.Errorf("revision %d has an inspection that nobody made", g.Revision)
	}
	j := must[coord.Job](w, "draft")(w.client.Draft(w.ctx, plan(task("t", "far", "work"))))
	_, err := w.client.Freeze(w.ctx, fmt.Sprint(j.Number))
	w.refused("a plan with a version that the peer does not speak", err, coord.Conflict)
	if e, ok := errors.AsType[*coord.Error](err); !ok || !strings.Contains(fmt.Sprint(e.Message, e.Fields), "no JSON-RPC in version 0.3") {
		t.Errorf("it is refused with %+v", e)
	}
	if work, _ := far.counts(); work != 0 || len(submitted(t, relay)) != 0 {
		t.Errorf("the peers got work: %d and %d", work, len(submitted(t, relay)))
	}
}
