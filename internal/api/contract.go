package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"signalbox/internal/coord"
)

// What a browser sends, as the document tells it; the front door asks for it.
const (
	// CSRFHeader carries a browser session's second secret.
	CSRFHeader = "X-Signalbox-CSRF"
	// SessionCookie and the port of the front door name the session's cookie:
	// browsers share cookies among the ports of a host.
	SessionCookie = "signalbox_session_"
	usualPort     = "7717"
)

// refused is a status by which operations refuse.
type refused struct {
	status int
	// name is that of the response in the document.
	name, why string
	// of says whether an operation may refuse so, by what it takes.
	of func(*huma.Operation) bool
	// also are the operations which do so for a reason of their own.
	also []string
}

func every(*huma.Operation) bool       { return true }
func none(*huma.Operation) bool        { return false }
func takesBody(o *huma.Operation) bool { return o.RequestBody != nil }

func takes(in, name string) func(*huma.Operation) bool {
	return func(o *huma.Operation) bool {
		return slices.ContainsFunc(o.Parameters, func(p *huma.Param) bool { return p.In == in && (name == "" || p.Name == name) })
	}
}

// refusals is the one table of what is refused with which status. The tests of
// this package fail when an answer has a status that its operation does not
// declare by it.
func refusals() []refused {
	return []refused{
		{http.StatusBadRequest, "Unreadable", "The body is missing or cannot be parsed", takesBody, nil},
		{http.StatusUnauthorized, "Unauthenticated", "There is no credential, or it is not known, was revoked or has expired", every, nil},
		{http.StatusForbidden, "Forbidden", "The credential's role does not allow it, the CSRF header is missing or wrong, or the request comes through another host or origin", every, nil},
		{http.StatusNotFound, "NotFound", "There is no such thing", takes("path", ""), []string{"events"}},
		{http.StatusConflict, "Conflict", "The thing is in a state that does not allow it, or the idempotency key was used for other content", takes("header", "Idempotency-Key"), []string{"get-result"}},
		{http.StatusPreconditionFailed, "Stale", "What was looked at has changed since: look again", takes("header", "If-Match"), []string{"decide-request", "review-change-set", "freeze-job", "inspect-agent", "run-job"}},
		{http.StatusRequestEntityTooLarge, "TooLarge", "The body, or a list in it, is longer than it may be", takesBody, nil},
		{http.StatusUnsupportedMediaType, "UnsupportedMediaType", "The body is not sent as application/json", takesBody, nil},
		// Each operation refuses parameters of the query that it does not know.
		{http.StatusUnprocessableEntity, "Invalid", "The input is wrong, or the agent or the platform cannot do it; fields says where", every, nil},
		{http.StatusTooManyRequests, "TooMany", "As many are open as there may be: try again later", none, []string{"events"}},
		{http.StatusInternalServerError, "Internal", "A fault of Signalbox; error_id finds it in the log", every, nil},
		{http.StatusServiceUnavailable, "Unavailable", "Not now; trying again later is safe", every, nil},
	}
}

// The schemes by which a request may be authenticated.
const (
	bearerScheme  = "bearer"
	sessionScheme = "session"
	csrfScheme    = "csrf"
)

// refForms gives the form of what the paths name, which the operations check
// by themselves with better words than a pattern gives.
func refForms() map[string]string {
	const ulid, number, key = `[0-7][0-9A-HJKMNP-TV-Z]{25}`, `[1-9][0-9]{0,17}`, `[a-z0-9][a-z0-9._-]{0,63}`
	job := `(` + number + `|job_` + ulid + `)`
	return map[string]string{
		"job": `^` + job + `$`, "task": `^` + key + `$`, "agent": `^` + key + `$`,
		"attempt":    `^(att_` + ulid + `|tsk_` + ulid + `(/[1-9])?|` + job + `/` + key + `(/[1-9])?)$`,
		"change_set": `^(c` + number + `|cs_` + ulid + `)$`, "request": `^(r` + number + `|req_` + ulid + `)$`,
		"artifact": `^art_` + ulid + `$`, "token": `^crd_` + ulid + `$`,
	}
}

// promise adds to the document what a client's author needs and huma does not
// see: how to sign in, what is refused, and the form of names. It is done when
// somebody asks for the document, since serving needs none of it.
func promise(doc *huma.OpenAPI) {
	problem := map[string]*huma.MediaType{"application/problem+json": {Schema: doc.Components.Schemas.Schema(typeOf[Problem](), true, "")}}
	doc.Components.Responses = map[string]*huma.Response{}
	table := refusals()
	for _, r := range table {
		out := &huma.Response{Description: r.why, Content: problem}
		if retried(r.status) {
			out.Headers = map[string]*huma.Param{"Retry-After": {
				Description: "After how many seconds to try again", Required: true, Schema: &huma.Schema{Type: huma.TypeInteger},
			}}
		}
		doc.Components.Responses[r.name] = out
	}
	doc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		bearerScheme:  {Type: "http", Scheme: "bearer", Description: "A token, which begins with " + TokenPrefix + ". The roles of a requirement are the least that will do."},
		sessionScheme: {Type: "apiKey", In: "cookie", Name: SessionCookie + usualPort, Description: "A browser that was paired. The name ends with the port of the front door."},
		csrfScheme:    {Type: "apiKey", In: "header", Name: CSRFHeader, Description: "The second secret of a browser's session, for whatever is not a GET."},
	}
	forms := refForms()
	doc.Components.Schemas.Map()["Verdict"].Properties["request"].Pattern = forms["request"]
	for _, item := range doc.Paths {
		for _, o := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete} {
			if o == nil {
				continue
			}
			delete(o.Responses, "default")
			for _, r := range table {
				if r.of(o) || slices.Contains(r.also, o.OperationID) {
					o.Responses[strconv.Itoa(r.status)] = &huma.Response{Ref: "#/components/responses/" + r.name}
				}
			}
			role, _ := o.Extensions[roleMember].(coord.Role)
			browser := map[string][]string{sessionScheme: {string(role)}}
			if o.Method != http.MethodGet {
				browser[csrfScheme] = []string{}
			}
			o.Security = []map[string][]string{{bearerScheme: {string(role)}}, browser}
			for _, p := range o.Parameters {
				tell(p, forms)
			}
		}
	}
}

// tell adds what an operation demands of a parameter.
func tell(p *huma.Param, forms map[string]string) {
	switch {
	case p.In == "path":
		p.Schema.Pattern = forms[p.Name]
	case p.Name == "If-Match":
		p.Required, p.Schema.Pattern = true, `^("[1-9][0-9]{0,8}"|[1-9][0-9]{0,8})$`
	case p.Name == "state":
		p.Schema.Items.Enum = words(coord.Jobs.States()...)
	case p.Name == "kinds":
		p.Schema.Items.Enum = words(coord.EventKinds...)
	}
}

// methods are those that any operation has.
var methods = [...]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete}

// Misdirected gives the problem of a request that mux has no handler for, nil
// when it has one: 405 with the header Allow, which it sets, where another
// method would be served, else 404 with the sentence.
func Misdirected(mux *http.ServeMux, h http.Header, r *http.Request, sentence string) *Problem {
	if _, pattern := mux.Handler(r); pattern != "" {
		return nil
	}
	var allowed []string
	for _, method := range methods {
		if _, pattern := mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return NewProblem(coord.Errorf(coord.NotFound, "%s", sentence))
	}
	list := strings.Join(allowed, ", ")
	h.Set("Allow", list)
	return NewProblem(coord.Errorf(coord.Invalid, "this address does not take that method: use %s", list)).WithStatus(http.StatusMethodNotAllowed)
}
