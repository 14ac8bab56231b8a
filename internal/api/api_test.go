package api_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/api"
	"signalbox/internal/coord"
	"signalbox/internal/credential/binding"
	"signalbox/internal/journal"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
	"signalbox/internal/scheduler"
	"signalbox/internal/synthesis"
)

func TestEveryCodeHasItsStatus(t *testing.T) {
	want := map[coord.Code]int{
		coord.Invalid: 422, coord.Unauthenticated: 401, coord.Forbidden: 403, coord.NotFound: 404, coord.Conflict: 409,
		coord.Stale: 412, coord.Limit: 413, coord.Unavailable: 503, coord.Unsupported: 422, coord.Internal: 500,
	}
	got := map[coord.Code]int{}
	for _, code := range coord.Codes {
		p := api.NewProblem(coord.Errorf(code, "a sentence"))
		if p.Code != code {
			t.Errorf("code %s became %s", code, p.Code)
		}
		got[code] = p.Status
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p := api.NewProblem(coord.Errorf(coord.Unavailable, "later")); p.GetHeaders().Get("Retry-After") == "" {
		t.Error("unavailable without Retry-After")
	}
}

func TestEveryOperationIsRefusedToLowerRoles(t *testing.T) {
	w := newWorld(t, nil)
	doc, err := api.Document()
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Paths map[string]map[string]struct {
			ID   string     `json:"operationId"`
			Role coord.Role `json:"x-role"`
		}
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for path, methods := range d.Paths {
		path = strings.NewReplacer("{job}", "1", "{agent}", "a", "{attempt}", "1%2Ffix", "{request}", "r1", "{change_set}", "c1", "{artifact}", "art_x", "{token}", "crd_x", "{task}", "fix").Replace(path)
		for method, op := range methods {
			if !op.Role.Allows(coord.RoleRead) {
				t.Errorf("%s says no role", op.ID)
			}
			for _, role := range []coord.Role{coord.RoleDraft, coord.RoleRead} {
				if role.Allows(op.Role) {
					continue
				}
				refused++
				w.ask(as(role), strings.ToUpper(method), path, "").want(http.StatusForbidden).problem(coord.Forbidden)
			}
		}
	}
	if refused < 30 {
		t.Errorf("only %d refusals were tried", refused)
	}
}

func TestNobodyIsServedWithoutAnActor(t *testing.T) {
	w := newWorld(t, nil)
	for name, ctx := range map[string]context.Context{
		"none": t.Context(), "no role": api.As(t.Context(), coord.Actor{Door: "api"}), "no such role": api.As(t.Context(), as("root")),
	} {
		for _, path := range []string{"/api/status", "/api/nothing"} {
			rec := httptest.NewRecorder()
			w.api.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody))
			reply{t, rec.Code, rec.Header(), rec.Body.String()}.want(http.StatusUnauthorized).problem(coord.Unauthenticated)
			if t.Failed() {
				t.Log(name, path)
			}
		}
	}
}

func TestInputIsRefusedWithPointersAndWithoutItsValues(t *testing.T) {
	w := newWorld(t, nil)
	w.addAgent("a")
	const secret = "hunter2-hunter2-hunter2"
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		want               []coord.Field
	}{
		"unknown member": {"POST", "/api/tokens", `{"name":"x","role":"read","` + secret[:7] + `":"` + secret + `"}`, 422,
			[]coord.Field{{Pointer: "/hunter2", Message: "there is no such member"}}},
		"missing member": {"POST", "/api/tokens", `{"name":"x"}`, 422, []coord.Field{{Pointer: "/role", Message: "required"}}},
		"a word that is none": {"POST", "/api/tokens", `{"name":"x","role":"` + secret + `"}`, 422,
			[]coord.Field{{Pointer: "/role", Message: `expected value to be one of "operator, draft, read"`}}},
		"another type": {"POST", "/api/admission", `{"paused":"` + secret + `"}`, 422,
			[]coord.Field{{Pointer: "/paused", Message: "expected boolean"}}},
		"no JSON":       {"POST", "/api/admission", `{"paused":` + secret, 400, []coord.Field{{Message: "not valid JSON of the expected shape"}}},
		"no body":       {"POST", "/api/admission", ``, 400, nil},
		"no such query": {"GET", "/api/jobs?limt=3", ``, 422, []coord.Field{{Pointer: "/query/limt", Message: "unknown query parameter"}}},
		"a bad number":  {"GET", "/api/jobs?limit=" + secret, ``, 422, []coord.Field{{Pointer: "/query/limit", Message: "invalid integer"}}},
		"a bad state":   {"GET", "/api/jobs?state=" + secret, ``, 422, []coord.Field{{Pointer: "/query/state", Message: "no state of a job; one of draft, running, needs_attention, completed, failed, cancelled"}}},
		"a bad kind":    {"GET", "/api/events?kinds=job.changed," + secret, ``, 422, []coord.Field{{Pointer: "/query/kinds/1", Message: "there is no such kind of event"}}},
		"edit of what":  {"PUT", "/api/agents/a", `{"route":"acp"}`, 422, []coord.Field{{Pointer: "/header/If-Match", Message: `required: the revision that was looked at, such as "3"`}}},
		"every fault of a plan": {"POST", "/api/jobs", `{"deadline":"soon","extra":1,"tasks":[{"agent":"a"},{"agent":"nobody","instruction":"x","needs":["zz"]}]}`, 422,
			[]coord.Field{
				{Pointer: "/deadline", Message: "expected string to be a duration such as 45m or 1h30m"},
				{Pointer: "/extra", Message: "there is no such member"},
				{Pointer: "/tasks/0/instruction", Message: "required"},
			}},
		"shape and content together": {"POST", "/api/plans/validate", `{"extra":1,"tasks":[{"agent":"nobody","instruction":"x","needs":["zz"]}]}`, 422,
			[]coord.Field{
				{Pointer: "/extra", Message: "there is no such member"},
				{Pointer: "/tasks/0/agent", Message: "no agent is registered under this id; see 'signalbox agent list'"},
				{Pointer: "/tasks/0/needs/0", Message: "no task of this plan has this key"},
			}},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.ask(operator, c.method, c.path, c.body).want(c.status)
			p := r.problem(coord.Invalid)
			if plan := strings.Contains(c.body, `"tasks"`); plan != (p.Detail == "the plan cannot be used") {
				t.Errorf("the faults are headed %q", p.Detail)
			}
			if diff := cmp.Diff(c.want, p.Fields); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(r.body, secret) {
				t.Errorf("the value is repeated: %s", r.body)
			}
		})
	}
}

func TestABodyBeyondTheBoundIsALimit(t *testing.T) {
	w := newWorld(t, nil)
	w.ask(operator, http.MethodPost, "/api/admission", `{"x":"`+strings.Repeat("a", coord.MaxBody)+`"}`).want(http.StatusRequestEntityTooLarge).problem(coord.Limit)
}

func TestUnknownPathsAreProblems(t *testing.T) {
	w := newWorld(t, nil)
	for _, path := range []string{"/api/nothing", "/", "/internal/credentials/x", "/api/jobs/1/nothing"} {
		w.ask(operator, http.MethodGet, path, "").want(http.StatusNotFound).problem(coord.NotFound)
	}
}

// failing is a scheduler with a fault of ours.
type failing struct{ api.Scheduler }

func (failing) Status(context.Context) (scheduler.Status, error) {
	return scheduler.Status{}, errors.New("the secret inside")
}

func TestAnInternalErrorIsLoggedUnderItsIDAndNotShown(t *testing.T) {
	w := newWorld(t, nil, func(s *api.Stages) { s.Scheduler = failing{s.Scheduler} })
	r := w.ask(operator, http.MethodGet, "/api/status", "").want(http.StatusInternalServerError)
	p := r.problem(coord.Internal)
	if strings.Contains(r.body, "secret inside") || p.ErrorID == "" {
		t.Errorf("shown: %s", r.body)
	}
	if log := w.log.String(); !strings.Contains(log, p.ErrorID) || !strings.Contains(log, "the secret inside") {
		t.Errorf("log: %s", log)
	}
}

const onePlan = `{"title":"One","tasks":[{"key":"fix","agent":"a","instruction":"Do it"}]}`

func TestAJobGoesFromDraftToResult(t *testing.T) {
	w := newWorld(t, func(provider.Work) providertest.Script {
		return providertest.Script{Steps: []providertest.Step{
			{Do: providertest.Say, Text: "working"},
			{Do: providertest.Ask, Name: "ask", Text: "May I?", Options: providertest.YesNo()},
			{Do: providertest.Await, Name: "ask"},
			{Do: providertest.Say, Text: " done"},
			{Do: providertest.End, State: coord.AttemptCompleted},
		}}
	})
	w.addAgent("a")
	drafted := w.ask(as(coord.RoleDraft), http.MethodPost, "/api/jobs", onePlan).want(http.StatusCreated)
	if drafted.header.Get("ETag") != `"1"` {
		t.Errorf("ETag %s", drafted.header.Get("ETag"))
	}
	frozen := data[coord.Job](w.ask(as(coord.RoleDraft), http.MethodPost, "/api/jobs/1/freeze", "").want(http.StatusOK))
	w.ask(operator, http.MethodPost, "/api/jobs/1/run", `{"digest":"another"}`).want(http.StatusPreconditionFailed).problem(coord.Stale)
	w.ask(operator, http.MethodPost, "/api/jobs/1/run", `{"digest":"`+frozen.Frozen.Digest+`"}`).want(http.StatusOK)
	in := await(w, "/api/inbox", func(i api.Inbox) bool { return i.Count.Requests == 1 })
	r := in.Requests[0]
	w.ask(operator, http.MethodPost, "/api/requests/r1/decide", `{"decision":"approve","digest":"other"}`).want(http.StatusPreconditionFailed).problem(coord.Stale)
	got := data[[]api.Outcome](w.ask(operator, http.MethodPost, "/api/decisions",
		`{"decisions":[{"request":"r1","decision":"approve","digest":"`+r.Digest+`"},{"request":"r2","decision":"deny","digest":"x"}]}`).want(http.StatusOK))
	if got[0].Request == nil || got[0].Request.Decision != coord.DecisionApproved || got[1].Problem == nil || got[1].Problem.Code != coord.NotFound {
		t.Errorf("outcomes %+v", got)
	}
	w.ask(operator, http.MethodPost, "/api/requests/r1/decide", `{"decision":"deny","digest":"`+r.Digest+`"}`).want(http.StatusConflict).problem(coord.Conflict)
	await(w, "/api/jobs/1", func(j coord.Job) bool { return j.State == coord.JobCompleted })
	result := data[coord.Result](w.ask(as(coord.RoleRead), http.MethodGet, "/api/jobs/1/result", "").want(http.StatusOK))
	if s := result.Tasks[0].Statement; s == nil || s.Text != "working done" {
		t.Errorf("result %+v", result)
	}
	if by := r.Agent; by != "a" {
		t.Errorf("request by %s", by)
	}
	pieces := data[[]api.Piece](w.ask(as(coord.RoleRead), http.MethodGet, "/api/attempts/1%2Ffix%2F1/output", "").want(http.StatusOK))
	var said strings.Builder
	for _, p := range pieces {
		said.WriteString(p.Text.Text)
	}
	if said.String() != "working done" {
		t.Errorf("output %q", said.String())
	}
	first := w.ask(as(coord.RoleRead), http.MethodGet, "/api/attempts/1%2Ffix/output?limit=1", "").want(http.StatusOK)
	if !strings.Contains(first.body, `"next":`) {
		t.Errorf("the first page of output does not continue: %s", first.body)
	}
	export := w.ask(as(coord.RoleRead), http.MethodGet, "/api/jobs/1/export", "").want(http.StatusOK)
	if _, err := zip.NewReader(strings.NewReader(export.body), int64(len(export.body))); err != nil {
		t.Errorf("export: %v", err)
	}
	if cd := export.header.Get("Content-Disposition"); cd != `attachment; filename=signalbox-job-1.zip` {
		t.Errorf("Content-Disposition %s", cd)
	}
	for _, path := range []string{"tasks", "attempts", "requests", "artifacts"} {
		w.ask(as(coord.RoleRead), http.MethodGet, "/api/jobs/1/"+path, "").want(http.StatusOK)
	}
	w.ask(as(coord.RoleRead), http.MethodGet, "/api/attempts/1%2Ffix/explain", "").want(http.StatusOK)
	w.ask(operator, http.MethodPost, "/api/jobs/1/cancel", "").want(http.StatusConflict)
	next := data[coord.Job](w.ask(as(coord.RoleDraft), http.MethodPost, "/api/jobs/1/continue", onePlan).want(http.StatusCreated))
	if next.Number != 2 || next.From == nil || len(next.Plan.Tasks[0].Inputs) != 1 {
		t.Errorf("continued %+v", next)
	}
}

func TestEditsNeedTheRevisionThatWasSeen(t *testing.T) {
	w := newWorld(t, nil)
	w.addAgent("a")
	w.ask(operator, http.MethodPost, "/api/jobs", onePlan).want(http.StatusCreated)
	w.ask(operator, http.MethodPut, "/api/jobs/1", onePlan, "If-Match", `"2"`).want(http.StatusPreconditionFailed).problem(coord.Stale)
	r := w.ask(operator, http.MethodPut, "/api/jobs/1", onePlan, "If-Match", `"1"`).want(http.StatusOK)
	if r.header.Get("ETag") != `"2"` {
		t.Errorf("ETag %s", r.header.Get("ETag"))
	}
	w.ask(operator, http.MethodPut, "/api/jobs/1", onePlan, "If-Match", `1`).want(http.StatusPreconditionFailed)
	w.ask(operator, http.MethodPost, "/api/jobs/1/discard", "").want(http.StatusOK)
}

func TestAKeyMakesAMutationHappenOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.addAgent("a")
	first := w.ask(operator, http.MethodPost, "/api/jobs", onePlan, "Idempotency-Key", "k").want(http.StatusCreated)
	if first.header.Get("Idempotency-Replayed") != "" {
		t.Error("the first answer says that it is a replay")
	}
	again := w.ask(operator, http.MethodPost, "/api/jobs", " "+onePlan+"\n", "Idempotency-Key", "k").want(http.StatusCreated)
	if again.header.Get("Idempotency-Replayed") != "true" || again.header.Get("ETag") != first.header.Get("ETag") {
		t.Errorf("headers of the replay: %v", again.header)
	}
	if diff := cmp.Diff(data[coord.Job](first), data[coord.Job](again)); diff != "" {
		t.Error(diff)
	}
	other := w.ask(operator, http.MethodPost, "/api/jobs", strings.Replace(onePlan, "One", "Two", 1), "Idempotency-Key", "k").want(http.StatusConflict)
	if p := other.problem(coord.Conflict); !strings.Contains(p.Detail, string(data[coord.Job](first).ID)) {
		t.Errorf("the conflict does not name the first: %s", p.Detail)
	}
	// Another credential has keys of its own.
	w.ask(as(coord.RoleDraft), http.MethodPost, "/api/jobs", onePlan, "Idempotency-Key", "k").want(http.StatusCreated)
	// A failure is not remembered.
	w.ask(operator, http.MethodPost, "/api/jobs/1/run", `{"digest":"x"}`, "Idempotency-Key", "r").want(http.StatusConflict)
	frozen := data[coord.Job](w.ask(operator, http.MethodPost, "/api/jobs/1/freeze", "").want(http.StatusOK))
	body := `{"digest":"` + frozen.Frozen.Digest + `"}`
	w.ask(operator, http.MethodPost, "/api/jobs/1/run", body, "Idempotency-Key", "r").want(http.StatusOK)
	if r := w.ask(operator, http.MethodPost, "/api/jobs/1/run", body, "Idempotency-Key", "r").want(http.StatusOK); r.header.Get("Idempotency-Replayed") != "true" {
		t.Error("the second run is no replay")
	}
}

func TestOneKeyAtTheSameMomentMakesOneJob(t *testing.T) {
	w := newWorld(t, nil)
	w.addAgent("a")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/api/jobs", strings.NewReader(onePlan))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set(roleHeader, string(operator.Role))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", "k")
			res, err := w.client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			if res.Body.Close(); res.StatusCode != http.StatusCreated {
				t.Errorf("status %d", res.StatusCode)
			}
		})
	}
	group.Wait()
	if jobs := data[[]coord.Job](w.ask(operator, http.MethodGet, "/api/jobs", "")); len(jobs) != 1 {
		t.Errorf("%d jobs", len(jobs))
	}
}

// The worker may die right after a draft was committed: its answer must have
// been left by the draft's own transaction, and not by the door afterwards.
func TestADraftLeavesItsAnswerItself(t *testing.T) {
	w := newWorld(t, nil)
	w.addAgent("a")
	k := journal.Key{Scope: "s", Name: "k", Digest: "d"}
	commits := w.journal.Head()
	plan := coord.Plan{Tasks: []coord.PlanTask{{Agent: "a", Instruction: "Do it"}}}
	job, err := w.planning.Draft(journal.WithKey(t.Context(), k), plan, operator)
	if err != nil {
		t.Fatal(err)
	}
	err = w.journal.View(t.Context(), func(v *journal.View) error {
		doc, found, err := v.Answered(k)
		if err == nil && (!found || !bytes.Contains(doc, []byte(job.ID))) {
			t.Errorf("found %v: %s", found, doc)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// A second draft under the key at the same moment is undone with all it wrote.
	if _, err := w.planning.Draft(journal.WithKey(t.Context(), k), plan, operator); coord.CodeOf(err) != coord.Conflict {
		t.Errorf("the second draft: %v", err)
	}
	if w.journal.Head() != commits+1 {
		t.Errorf("%d events for one draft", w.journal.Head()-commits)
	}
}

func TestJobsArePaged(t *testing.T) {
	w := newWorld(t, nil)
	w.addAgent("a")
	for range 5 {
		w.ask(operator, http.MethodPost, "/api/jobs", onePlan).want(http.StatusCreated)
	}
	var numbers []int64
	path := "/api/jobs?limit=2&state=draft,running"
	for range 5 {
		var page api.Page[coord.Job]
		r := w.ask(operator, http.MethodGet, path, "").want(http.StatusOK)
		if err := json.Unmarshal([]byte(r.body), &page); err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Data {
			numbers = append(numbers, j.Number)
		}
		if page.Next == 0 {
			break
		}
		path = "/api/jobs?limit=2&state=draft,running&before=" + string(rune('0'+page.Next))
	}
	if diff := cmp.Diff([]int64{5, 4, 3, 2, 1}, numbers); diff != "" {
		t.Error(diff)
	}
}

func TestATokenIsShownOnceAndKeptNowhere(t *testing.T) {
	w := newWorld(t, nil)
	first := w.ask(operator, http.MethodPost, "/api/tokens", `{"name":"ci","role":"draft"}`, "Idempotency-Key", "k").want(http.StatusCreated)
	token := data[api.Token](first)
	if !strings.HasPrefix(token.Token, api.TokenPrefix) || strings.Contains(first.body, api.HashOf(token.Token)) {
		t.Errorf("token %s", first.body)
	}
	again := w.ask(operator, http.MethodPost, "/api/tokens", `{"name":"ci","role":"draft"}`, "Idempotency-Key", "k").want(http.StatusCreated)
	if strings.Contains(again.body, token.Token) || data[api.Token](again).ID != token.ID {
		t.Errorf("the replay: %s", again.body)
	}
	list := w.ask(operator, http.MethodGet, "/api/tokens", "").want(http.StatusOK)
	if strings.Contains(list.body, api.HashOf(token.Token)) || !strings.Contains(list.body, string(token.ID)) {
		t.Errorf("the list: %s", list.body)
	}
	w.ask(operator, http.MethodDelete, "/api/tokens/"+string(token.ID), "").want(http.StatusOK)
	w.ask(operator, http.MethodDelete, "/api/tokens/"+string(token.ID), "").want(http.StatusNotFound)
}

func TestArtifactBytesAreAnAttachmentThatNoBrowserOpens(t *testing.T) {
	w := newWorld(t, nil)
	ref, err := w.store.Put(t.Context(), bytes.NewReader([]byte("<script>alert(1)</script>")), 100)
	if err != nil {
		t.Fatal(err)
	}
	var kept coord.Artifact
	err = w.journal.Update(t.Context(), func(tx *journal.Tx) (err error) {
		kept, err = tx.AddArtifact(coord.Artifact{Job: "job_x", Name: `a"b.html`, Media: "text/html", Size: ref.Size, SHA256: ref.SHA256, Origin: "said"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.ask(as(coord.RoleRead), http.MethodGet, "/api/artifacts/"+string(kept.ID), "").want(http.StatusOK)
	r := w.ask(as(coord.RoleRead), http.MethodGet, "/api/artifacts/"+string(kept.ID)+"/bytes", "").want(http.StatusOK)
	got := map[string]string{}
	for _, name := range []string{"Content-Type", "Content-Disposition", "X-Content-Type-Options", "Content-Security-Policy"} {
		got[name] = r.header.Get(name)
	}
	want := map[string]string{
		"Content-Type": "application/octet-stream", "Content-Disposition": `attachment; filename="a\"b.html"`,
		"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox; default-src 'none'",
	}
	if diff := cmp.Diff(want, got); diff != "" || r.body != "<script>alert(1)</script>" {
		t.Errorf("%s\n%s", diff, r.body)
	}
}

func TestAdmissionAndStopReachTheWorker(t *testing.T) {
	w := newWorld(t, nil)
	if s := data[api.Status](w.ask(operator, http.MethodPost, "/api/admission", `{"paused":true}`).want(http.StatusOK)); !s.Paused {
		t.Errorf("status %+v", s)
	}
	w.ask(operator, http.MethodPost, "/api/stop", `{"drain":true}`).want(http.StatusAccepted)
	if drain := <-w.stops; !drain {
		t.Error("the stop does not drain")
	}
}

func TestDirectoryAndDoctorAreServed(t *testing.T) {
	w := newWorld(t, nil)
	w.addAgent("a")
	if a := data[coord.Agent](w.ask(operator, http.MethodPost, "/api/agents/a/inspect", "").want(http.StatusOK)); a.Inspection == nil {
		t.Error("no inspection")
	}
	if a := data[coord.Agent](w.ask(operator, http.MethodPost, "/api/agents/a/enabled", `{"enabled":false}`).want(http.StatusOK)); a.Enabled {
		t.Error("still enabled")
	}
	agent := data[coord.Agent](w.ask(operator, http.MethodGet, "/api/agents/a", "").want(http.StatusOK))
	config, err := json.Marshal(coord.AgentConfig{Route: coord.RouteACP, Name: "Renamed", Executable: agent.Config.Executable})
	if err != nil {
		t.Fatal(err)
	}
	if a := data[coord.Agent](w.ask(operator, http.MethodPut, "/api/agents/a", string(config), "If-Match", `"1"`).want(http.StatusOK)); a.Name != "Renamed" || a.Revision != 2 {
		t.Errorf("revised %+v", a)
	}
	if a := data[coord.Agent](w.ask(operator, http.MethodDelete, "/api/agents/a", "").want(http.StatusOK)); !a.Removed {
		t.Error("not removed")
	}
	w.ask(operator, http.MethodGet, "/api/suggestions", "").want(http.StatusOK)
	w.ask(operator, http.MethodGet, "/api/presets", "").want(http.StatusOK)
	if p := data[[]api.Preset](w.ask(operator, http.MethodPost, "/api/presets/import", `{"version":"1","agents":[],"anything":{"else":1}}`).want(http.StatusOK)); len(p) != 1 {
		t.Errorf("imported %+v", p)
	}
	w.ask(operator, http.MethodGet, "/api/doctor", "").want(http.StatusOK)
	w.ask(operator, http.MethodPost, "/api/doctor", `{}`).want(http.StatusOK)
	w.ask(operator, http.MethodGet, "/api/openapi.json", "").want(http.StatusOK)
}

func TestCredentialsAreToldOfWithoutTheirValues(t *testing.T) {
	w := newWorld(t, nil)
	r := w.ask(operator, http.MethodGet, "/api/credentials", "").want(http.StatusOK)
	want := []binding.BoundCredential{
		{Name: "scout", Origin: "https://scout.example", Source: "env SCOUT_TOKEN", Configured: true},
		{
			Name: "unset", Origin: "https://unset.example:8443", Source: "env UNSET",
			Problem: "the credential unset has no value: the variable UNSET is not set where signalbox serve was started",
		},
	}
	if diff := cmp.Diff(want, data[[]binding.BoundCredential](r)); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(r.body, scoutToken) {
		t.Errorf("a value is in %s", r.body)
	}
	w.ask(as(coord.RoleDraft), http.MethodGet, "/api/credentials", "").want(http.StatusForbidden)

	// Whoever only asks how things stand is told which have none.
	if got := data[api.Status](w.ask(as(coord.RoleRead), http.MethodGet, "/api/status", "").want(http.StatusOK)).UnsetCredentials; !slices.Equal(got, []string{"unset"}) {
		t.Errorf("status names %q as credentials without a value", got)
	}
	found := data[[]synthesis.Finding](w.ask(as(coord.RoleRead), http.MethodGet, "/api/doctor", "").want(http.StatusOK))
	if len(found) != 1 || found[0].Code != synthesis.CredentialUnset || found[0].Subject != "credential unset" {
		t.Errorf("the doctor finds %+v", found)
	}
}
