package e2e

import (
	"archive/zip"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/approval"
	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
	"signalbox/internal/redact/redacttest"
)

// canary is a string that must not be found anywhere.
type canary struct{ kind, text string }

// canaries gives every line of every planted secret, and the spellings of the
// exact values.
func canaries(exact map[string]string) []canary {
	var out []canary
	for _, c := range redacttest.Canaries() {
		for line := range strings.Lines(strings.ReplaceAll(c.Secret, `\n`, "\n")) {
			if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "-----") {
				out = append(out, canary{c.Kind, line})
			}
		}
	}
	for name, value := range exact {
		out = append(out, canary{name, value}, canary{name + " in base64", base64.StdEncoding.EncodeToString([]byte(value))},
			canary{name + " in base64 with a user", base64.StdEncoding.EncodeToString([]byte("user:" + value))[8:28]},
			canary{name + " in a URL", url.QueryEscape(value)})
	}
	return out
}

// hunt looks for canaries and names each place once.
type hunt struct {
	t        *testing.T
	canaries []canary
	places   int
	bytes    int64
}

func (h *hunt) look(place string, b []byte) {
	h.t.Helper()
	h.places++
	h.bytes += int64(len(b))
	var kinds []string
	for _, c := range h.canaries {
		at := bytes.Index(b, []byte(c.text))
		if at < 0 && strings.ContainsAny(c.text, `"\/&<>`) {
			quoted, _ := json.Marshal(c.text) // a string always encodes
			at = bytes.Index(b, quoted[1:len(quoted)-1])
		}
		if at >= 0 && !slices.Contains(kinds, c.kind) {
			kinds = append(kinds, c.kind)
			h.t.Errorf("%s holds a secret of the kind %s at byte %d: …%q…", place, c.kind, at, b[max(0, at-80):min(len(b), at+len(c.text)+20)])
		}
	}
}

// disk looks at every file below a directory.
func (h *hunt) disk(dir string) {
	h.t.Helper()
	seen := map[string]bool{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		seen[d.Name()] = true
		h.look(strings.TrimPrefix(name, dir), b)
		return nil
	})
	if err != nil || !seen["journal.db"] {
		h.t.Errorf("the data directory was not searched: %v, seen %v", err, seen)
	}
}

// wire looks at every answer of the API that has to do with a job.
func (h *hunt) wire(w *world, ref string) {
	h.t.Helper()
	paths := []string{"/api/status", "/api/agents", "/api/jobs", "/api/requests", "/api/inbox", "/api/tokens", "/api/doctor"}
	for _, of := range []string{"", "/tasks", "/attempts", "/result", "/artifacts"} {
		paths = append(paths, "/api/jobs/"+ref+of)
	}
	for _, a := range must[[]coord.Attempt](w, "attempts")(w.client.Attempts(w.ctx, ref)) {
		for _, of := range []string{"", "/explain", "/output?limit=200"} {
			paths = append(paths, "/api/attempts/"+string(a.ID)+of)
		}
	}
	for _, r := range w.allRequests() {
		paths = append(paths, "/api/requests/"+string(r.ID))
	}
	for _, task := range must[coord.Result](w, "result")(w.client.Result(w.ctx, ref)).Tasks {
		for _, a := range task.Artifacts {
			if a.SHA256 != "" {
				paths = append(paths, "/api/artifacts/"+string(a.ID)+"/bytes")
			}
		}
	}
	for _, p := range paths {
		status, body := w.do(http.MethodGet, p, "")
		if status != http.StatusOK && !strings.HasSuffix(p, "/artifacts") {
			h.t.Errorf("GET %s gives %d: %s", p, status, body)
		}
		h.look("GET "+p, body)
	}
	for _, args := range [][]string{{"job", "show", ref}, {"job", "result", ref}, {"request", "list", "--all"}, {"inbox"}, {"agent", "list"}, {"job", "watch", ref, "--json"}} {
		_, out, log := w.cli(args...)
		h.look("signalbox "+strings.Join(args, " "), []byte(out+log))
	}
	h.archive(w, ref)
	h.stream(w)
}

func (w *world) allRequests() []coord.Request {
	w.t.Helper()
	all, _, err := w.client.Requests(w.ctx, 0, coord.MaxPage)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// archive looks at every member of an export.
func (h *hunt) archive(w *world, ref string) {
	h.t.Helper()
	var out bytes.Buffer
	if err := w.client.Export(w.ctx, ref, &out); err != nil {
		h.t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range z.File {
		in, err := f.Open()
		if err != nil {
			h.t.Fatal(err)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			h.t.Fatal(err)
		}
		_ = in.Close()
		h.look("the export's "+f.Name, b)
	}
}

// stream reads all events from the beginning to now, as they are on the wire.
func (h *hunt) stream(w *world) {
	h.t.Helper()
	head := must[string](w, "the present cursor")(w.client.Now(w.ctx))
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, w.door.url+"/api/events?after=0", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	res, err := web.RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	var got bytes.Buffer
	piece := make([]byte, 64<<10)
	for !strings.Contains(got.String(), "id: "+head+"\n") {
		n, err := res.Body.Read(piece)
		got.Write(piece[:n])
		if err != nil {
			h.t.Fatalf("the stream ends before %s: %v", head, err)
		}
	}
	h.look("the event stream", got.Bytes())
}

// TestNoSecretIsKeptOrShown plants secrets in everything that comes from
// outside and searches everything that comes out.
func TestNoSecretIsKeptOrShown(t *testing.T) {
	exact := map[string]string{"E2E_LEAK": "plain/" + rand.Text() + "+words", "E2E_MODEL_KEY": rand.Text()}
	h := &hunt{t: t, canaries: canaries(exact)}
	planted := strings.Join(secrets(), "\n")

	_, answers := model(t, modelserver.Options{Token: exact["E2E_MODEL_KEY"], Script: []modelserver.Reply{{Answer: planted + "\nthat was all"}}})
	fails := listen(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		// The body of an error, with the credential that was sent.
		doc, _ := json.Marshal(object{"error": object{"message": planted + r.Header.Get("Authorization"), "type": planted, "code": planted}})
		rw.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "/stream/") {
			rw.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(rw, "event: error\ndata: %s\n\n", doc)
			return
		}
		rw.WriteHeader(http.StatusUnauthorized)
		_, _ = rw.Write(doc) // the client that left saw nothing
	}))

	var env []string
	for name, value := range exact {
		env = append(env, name+"="+value)
	}
	w := newWorld(t, env...)
	h.canaries = append(h.canaries, canary{"operator's token", w.token})
	self := must[string](w, "this program")(os.Executable())
	for _, mode := range []string{"leak", "leak-error", "leak-stop"} {
		w.register(mode, coord.AgentConfig{Route: coord.RouteACP, Executable: self, Args: []string{agentWord, mode, mode, w.stage.url},
			EnvFromEnv: map[string]string{leakEnv: "E2E_LEAK"}})
	}
	for id, base := range map[string]string{"model": answers, "model-error": fails + "/plain/v1", "model-stream": fails + "/stream/v1"} {
		w.register(id, coord.AgentConfig{Route: coord.RouteACP, Executable: binary,
			Args:       []string{"model-agent", "--api", "chat-completions", "--base-url", base, "--model", "m"},
			EnvFromEnv: map[string]string{"MODEL_API_KEY": "E2E_MODEL_KEY"}})
	}

	title := "deploy with DB_PASSWORD=" + redacttest.Canaries()[22].Secret
	p := plan(task("leak", "leak", planted), task("error", "leak-error", planted), task("stop", "leak-stop", planted),
		task("model", "model", planted), task("model-error", "model-error", "ask"), task("model-stream", "model-stream", "ask"), task("last", "model", planted, "leak", "model"))
	p.Title = title
	ref := w.run(p)
	r := w.asked(ref, "leak")
	h.disk(w.dir) // with the write-ahead log
	must[coord.Request](w, "decide")(w.client.Decide(w.ctx, string(r.ID), approval.Decision{Decision: coord.DecisionDeny, Digest: r.Digest, Reason: planted[:coord.MaxReason/2]}))
	w.settles(ref, coord.JobFailed)
	w.expect(ref, "leak:completed error:failed stop:failed model:completed model-error:failed model-stream:failed last:completed")

	// Markers show that the secrets came as far as the journal.
	if said := w.said(ref, "leak", "leak"); strings.Count(said, "[redacted:") < 30 || !strings.Contains(said, "[redacted:E2E_LEAK]") {
		t.Errorf("what the agent said holds %d markers:\n%s", strings.Count(said, "[redacted:"), said)
	}
	if n := strings.Count(w.said(ref, "model", "model"), "[redacted:"); n < 30 {
		t.Errorf("what the model said holds %d markers", n)
	}
	if n := len(w.result(ref, "leak").Artifacts); n < 30 {
		t.Errorf("%d artifacts were kept", n)
	}

	h.refusals(w, planted)
	h.wire(w, ref)

	// An unknown outcome is resolved with what a person pasted.
	lost := w.run(plan(task("leak", "leak", planted)))
	w.asked(lost, "leak")
	w.killWorker()
	w.settles(lost, coord.JobAttention)
	must[coord.Attempt](w, "resolve")(w.client.Resolve(w.ctx, lost+"/leak", coord.Adopted, planted[:coord.MaxReason/2], planted))
	w.settles(lost, coord.JobCompleted)
	h.wire(w, lost)
	h.disk(w.dir)
	if code, _, log := w.cli("stop"); code != 0 {
		t.Errorf("stop exits with %d: %s", code, log)
	}
	<-w.door.exited
	h.disk(w.dir)
	h.look("the log of serve and its workers", []byte(w.log()))
	h.look("what serve printed", w.door.stdout.Bytes())
	t.Logf("%d places, %d bytes searched for %d secrets", h.places, h.bytes, len(h.canaries))
	if h.places < 100 {
		t.Errorf("only %d places were searched", h.places)
	}
}

// refusals sends what is refused and looks at the refusals.
func (h *hunt) refusals(w *world, planted string) {
	h.t.Helper()
	quoted, err := json.Marshal(planted)
	if err != nil {
		h.t.Fatal(err)
	}
	doc := string(quoted)
	for path, body := range map[string]string{
		"/api/jobs":                      `{"title":` + doc + `,"tasks":[{"agent":` + doc + `,"instruction":` + doc + `,"needs":[` + doc + `]}]}`,
		"/api/plans/validate":            `{` + doc + `:1,"tasks":` + doc + `}`,
		"/api/agents":                    `{"id":` + doc + `,"route":` + doc + `,"executable":` + doc + `,"args":[` + doc + `],"env":{` + doc + `:` + doc + `}}`,
		"/api/requests/r1/decide":        `{"decision":` + doc + `,"digest":` + doc + `}`,
		"/api/attempts/1%2Fleak/resolve": `{"how":` + doc + `}`,
		"/api/tokens":                    `{"name":` + doc + `,"role":` + doc + `}`,
		"/api/stop":                      doc,
		"/pair":                          `{"code":` + doc + `,"kind":` + doc + `}`,
		"/api/jobs/" + url.PathEscape(strings.ReplaceAll(planted, "\n", " ")[:90]) + "/run": `{"digest":"x"}`,
	} {
		status, answer := w.do(http.MethodPost, path, body)
		if status/100 != 4 {
			h.t.Errorf("POST %s gives %d: %s", path, status, answer)
		}
		h.look("the refusal of POST "+path[:min(len(path), 30)], answer)
	}
	// Events are filtered by words from outside, too.
	err = w.client.Follow(w.ctx, client.Filter{Job: planted[:90]}, func(coord.Event) error { return errSeen })
	h.look("the refusal of a stream", []byte(fmt.Sprint(err)))
}
