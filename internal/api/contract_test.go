package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"signalbox/internal/api"
	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// contract is what these tests read of the document.
var contract = sync.OnceValue(func() (doc struct {
	Paths map[string]map[string]struct {
		ID        string `json:"operationId"`
		Responses map[string]struct {
			Ref     string `json:"$ref"`
			Headers map[string]any
		}
		Security   []map[string][]string
		Parameters []struct {
			Name, In string
			Schema   struct{ Pattern string }
		}
	}
	Components struct {
		Responses map[string]struct {
			Content map[string]any
		}
		SecuritySchemes map[string]struct{ Type, In, Name, Scheme string }
	}
}) {
	text, err := api.Document()
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		panic(err)
	}
	return doc
})

func TestTheDocumentSaysOfEachOperationHowItRefusesAndWhoMayAsk(t *testing.T) {
	doc := contract()
	for path, item := range doc.Paths {
		for method, o := range item {
			for status, r := range o.Responses {
				name := strings.TrimPrefix(r.Ref, "#/components/responses/")
				if status[0] == '2' {
					continue
				}
				if _, ok := doc.Components.Responses[name].Content["application/problem+json"]; !ok {
					t.Errorf("%s: %s is no problem: %+v", o.ID, status, r)
				}
			}
			for _, status := range []string{"401", "403", "422", "500", "503"} {
				if o.Responses[status].Ref == "" {
					t.Errorf("%s does not declare %s", o.ID, status)
				}
			}
			if o.Responses["404"].Ref == "" && strings.Contains(path, "{") {
				t.Errorf("%s names something and does not declare 404", o.ID)
			}
			for _, p := range o.Parameters {
				if p.In == "path" && p.Schema.Pattern == "" {
					t.Errorf("%s does not say of which form %s is: see refForms", o.ID, p.Name)
				}
			}
			if len(o.Security) != 2 || len(o.Security[0]["bearer"]) != 1 || len(o.Security[1]["session"]) != 1 {
				t.Fatalf("%s may be asked with %v", o.ID, o.Security)
			}
			if _, asked := o.Security[1]["csrf"]; asked == (method == "get") {
				t.Errorf("%s asks for the CSRF header: %v", o.ID, asked)
			}
		}
	}
	if s := doc.Components.SecuritySchemes["csrf"]; s.Name != api.CSRFHeader || s.In != "header" {
		t.Errorf("the CSRF header is %+v", s)
	}
	if s := doc.Components.SecuritySchemes["session"]; s.In != "cookie" || !strings.HasPrefix(s.Name, api.SessionCookie) {
		t.Errorf("the session is %+v", s)
	}
}

func TestAnAnswerHasTheHeadersOfItsKindOnly(t *testing.T) {
	for id, want := range map[string][]string{"status": nil, "list-jobs": nil, "get-job": {"ETag"}, "draft-job": {"ETag", "Idempotency-Replayed"}, "add-token": {"Idempotency-Replayed"}} {
		for _, item := range contract().Paths {
			for _, o := range item {
				if o.ID != id {
					continue
				}
				for status, r := range o.Responses {
					for _, name := range []string{"ETag", "Idempotency-Replayed"} {
						if _, has := r.Headers[name]; status[0] == '2' && has != slices.Contains(want, name) {
							t.Errorf("%s declares %s: %v", id, name, has)
						}
					}
				}
			}
		}
	}
}

func TestAnotherMethodIsNotAllowedAndToldWhichIs(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct{ method, path, allow string }{
		{http.MethodDelete, "/api/jobs", "GET, HEAD, POST"},
		{http.MethodTrace, "/api/status", "GET, HEAD"},
		{http.MethodOptions, "/api/jobs/1/run", "POST"},
		{http.MethodPatch, "/api/agents/a", "GET, HEAD, PUT, DELETE"},
		{"QUERY", "/api/openapi.json", "GET, HEAD"},
	} {
		r := w.ask(operator, c.method, c.path, "").want(http.StatusMethodNotAllowed)
		r.problem(coord.Invalid)
		if got := r.header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s allows %q, want %q", c.method, c.path, got, c.allow)
		}
	}
	for _, path := range []string{"/api/none", "/", "/api", "/api/jobs/1/none"} {
		r := w.ask(operator, http.MethodGet, path, "").want(http.StatusNotFound)
		r.problem(coord.NotFound)
		if r.header.Get("Allow") != "" {
			t.Errorf("%s allows something", path)
		}
	}
}

// Schemathesis found these: each was taken.
func TestABodyThatTheSchemaForbidsIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.addAgent("a")
	for _, c := range []struct{ name, path, body, pointer string }{
		{"a null member", "/api/doctor", `{"codes":null}`, "/codes"},
		{"a null in a list", "/api/doctor", `{"codes":[null]}`, "/codes/0"},
		{"a null deep inside", "/api/jobs", `{"tasks":[{"agent":"a","instruction":"x","needs":null}]}`, "/tasks/0/needs"},
		{"a null body", "/api/admission", `null`, ""},
		{"a member in other letters", "/api/admission", `{"PAUSED":true}`, "/PAUSED"},
		{"a member twice, once in other letters", "/api/admission", `{"paused":false,"Paused":true}`, "/Paused"},
	} {
		p := w.ask(operator, http.MethodPost, c.path, c.body).want(http.StatusUnprocessableEntity).problem(coord.Invalid)
		if len(p.Fields) == 0 || !slices.ContainsFunc(p.Fields, func(f coord.Field) bool { return f.Pointer == c.pointer }) {
			t.Errorf("%s: %+v", c.name, p.Fields)
		}
	}
	// What is not ours may hold nulls.
	w.ask(operator, http.MethodPost, "/api/presets/import", `{"agents":[],"extensions":null}`).want(http.StatusOK)
}

func TestABodyOfAnotherKindIsAnUnsupportedMediaType(t *testing.T) {
	w := newWorld(t, nil)
	w.ask(operator, http.MethodPost, "/api/admission", `{"paused":true}`, "Content-Type", "text/plain").want(http.StatusUnsupportedMediaType).problem(coord.Invalid)
}

// Schemathesis found this one: an inspection that failed had no lists.
func TestAListThatIsEmptyIsNoNull(t *testing.T) {
	w := newWorld(t, nil)
	w.fake.OnInspect = func(provider.Target) (coord.Inspection, error) {
		return coord.Inspection{Auth: coord.AuthUnknown, Problem: "it does not start"}, nil
	}
	w.addAgent("a")
	r := w.ask(operator, http.MethodPost, "/api/agents/a/inspect", "").want(http.StatusOK)
	if seen := data[coord.Agent](r).Inspection; seen == nil || seen.Problem == "" || seen.Capabilities == nil || seen.Operations == nil || seen.Identity.Files == nil {
		t.Errorf("the inspection is %+v", seen)
	}
}
