package daemon

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/api"
	"signalbox/internal/coord"
)

func TestAClaimIsWorthTheCredentialThatWasFound(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	made := func(ago time.Duration) coord.Moment { return coord.Moment{Wall: now.Add(-ago)} }
	token := coord.Credential{ID: "crd_t", Name: "ci", Role: coord.RoleDraft, Kind: "token", Hash: "t", Made: made(0)}
	session := coord.Credential{ID: "crd_s", Name: "browser", Role: coord.RoleOperator, Kind: "session", Hash: "s", CSRF: api.HashOf("second"), Made: made(0)}
	with := func(c coord.Credential, change func(*coord.Credential)) coord.Credential {
		change(&c)
		return c
	}
	aged := func(c coord.Credential, ago time.Duration) coord.Credential {
		return with(c, func(c *coord.Credential) { c.Made = made(ago) })
	}
	byToken := claim{Kind: "token", Hash: "t", Presence: "terminal"}
	bySession := claim{Kind: "session", Hash: "s", CSRF: api.HashOf("second"), Presence: "browser"}
	without := claim{Kind: "session", Hash: "s", CSRF: api.HashOf(""), Presence: "browser"}
	holder := coord.Actor{Credential: "crd_t", Name: "ci", Role: coord.RoleDraft, Door: "api", Presence: "terminal"}
	browser := coord.Actor{Credential: "crd_s", Name: "browser", Role: coord.RoleOperator, Door: "browser", Presence: "browser"}
	for name, c := range map[string]struct {
		claim   claim
		found   coord.Credential
		method  string
		want    coord.Actor
		code    coord.Code
		message string
	}{
		"a token":                          {claim: byToken, found: token, method: "POST", want: holder},
		"a token of any age":               {claim: byToken, found: aged(token, 10*coord.SessionTTL), method: "POST", want: holder},
		"a token that was not found":       {byToken, coord.Credential{}, "GET", coord.Actor{}, coord.Unauthenticated, "this token is not known or was revoked: get a new one"},
		"a session":                        {claim: bySession, found: session, method: "POST", want: browser},
		"a session that was not found":     {bySession, coord.Credential{}, "GET", coord.Actor{}, coord.Unauthenticated, "this session is not known or was revoked: get a new one"},
		"a session's value as a token":     {byToken, session, "GET", coord.Actor{}, coord.Unauthenticated, "this token is not known"},
		"a token as a session":             {bySession, token, "GET", coord.Actor{}, coord.Unauthenticated, "this session is not known"},
		"nothing, and nothing found":       {claim{}, coord.Credential{}, "GET", coord.Actor{}, coord.Unauthenticated, "is not known"},
		"a session on its last day":        {claim: bySession, found: aged(session, coord.SessionTTL), method: "POST", want: browser},
		"a session that is over":           {bySession, aged(session, coord.SessionTTL+1), "GET", coord.Actor{}, coord.Unauthenticated, "the browser has been signed in for too long"},
		"one secret for a look":            {claim: without, found: session, method: "GET", want: browser},
		"one secret for a look at headers": {claim: without, found: session, method: "HEAD", want: browser},
		"one secret for a change":          {without, session, "POST", coord.Actor{}, coord.Forbidden, "X-Signalbox-CSRF is missing or wrong"},
		"one secret for a removal":         {without, session, "DELETE", coord.Actor{}, coord.Forbidden, "X-Signalbox-CSRF is missing or wrong"},
		"one secret for an unknown method": {without, session, "get", coord.Actor{}, coord.Forbidden, "X-Signalbox-CSRF is missing or wrong"},
		"no hash of the second secret":     {claim{Kind: "session", Hash: "s", Presence: "browser"}, session, "POST", coord.Actor{}, coord.Forbidden, "X-Signalbox-CSRF"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := judge(c.claim, c.found, c.method, now)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if c.code == "" && err != nil || c.code != "" && (coord.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.message)) {
				t.Errorf("error %v, want %s: %s", err, c.code, c.message)
			}
		})
	}
}

func TestWhatIsNoClaimIsNobodys(t *testing.T) {
	for _, value := range []string{"", "rubbish", `{"kind":"token"`, `["token"]`, `{"kind":1}`} {
		c, err := claimIn(http.Header{claimHeader: {value}})
		if c != (claim{}) || coord.CodeOf(err) != coord.Unauthenticated {
			t.Errorf("%q is the claim %+v, error %v", value, c, err)
		}
	}
	want := claim{Kind: "session", Hash: api.HashOf("a"), CSRF: api.HashOf("b"), Presence: "browser"}
	if got, err := claimIn(want.header()); got != want || err != nil {
		t.Errorf("%+v, error %v", got, err)
	}
}

// asked is what arrived at the worker's end of a link.
type asked struct {
	method, path string
	header       http.Header
}

// patientClient has all the time in the world.
type patientClient struct{ *httptest.ResponseRecorder }

func (patientClient) SetReadDeadline(time.Time) error  { return nil }
func (patientClient) SetWriteDeadline(time.Time) error { return nil }

// TestOneRequestCarriesWhoAsksAndNoSecret looks at the worker's end of the link.
func TestOneRequestCarriesWhoAsksAndNoSecret(t *testing.T) {
	ours, theirs := net.Pipe()
	arrived := make(chan asked, 8)
	server := serverOn(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- asked{r.Method, r.URL.Path, r.Header}
		if err := json.NewEncoder(w).Encode(coord.Actor{Role: coord.RoleOperator}); err != nil {
			t.Error(err)
		}
	}), func() {})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listenOn(theirs)) }()
	link := transportOn(ours)
	const host, value, second = "127.0.0.1:7717", "sbx_the-first-secret", "the-second-secret"
	door := newDoor(link, slog.New(slog.DiscardHandler), host, "7717", "test", 1)
	forged := claim{Kind: "token", Hash: api.HashOf("somebody else"), Presence: "browser"}.header().Get(claimHeader)
	cookie := door.cookie() + "=" + value
	csrf := http.CanonicalHeaderKey(CSRFHeader) // as a server reads it
	token := claim{Kind: "token", Hash: api.HashOf(value), Presence: "none"}
	terminal := claim{Kind: "token", Hash: api.HashOf(value), Presence: "terminal"}
	session := claim{Kind: "session", Hash: api.HashOf(value), CSRF: api.HashOf(second), Presence: "browser"}
	bare := claim{Kind: "session", Hash: api.HashOf(value), CSRF: api.HashOf(""), Presence: "browser"}
	for name, c := range map[string]struct {
		headers []string // name, value pairs
		want    claim    // zero: it gets no further than the door
	}{
		"a token":                     {[]string{"Authorization", "Bearer " + value}, token},
		"a token at a terminal":       {[]string{"Authorization", "Bearer " + value, PresenceHeader, "terminal"}, terminal},
		"a token at no terminal":      {[]string{"Authorization", "Bearer " + value, PresenceHeader, "browser"}, token},
		"a session":                   {[]string{"Cookie", cookie, csrf, second}, session},
		"a session without its other": {[]string{"Cookie", cookie}, bare},
		"a session at a terminal":     {[]string{"Cookie", cookie, PresenceHeader, "terminal"}, bare},
		"both":                        {[]string{"Authorization", "Bearer " + value, "Cookie", cookie, csrf, second}, token},
		"a forged claim":              {[]string{"Authorization", "Bearer " + value, claimHeader, forged}, token},
		"one in small letters":        {[]string{"Authorization", "Bearer " + value, strings.ToLower(claimHeader), forged}, token},
		"one that is hop by hop":      {[]string{"Authorization", "Bearer " + value, claimHeader, forged, "Connection", claimHeader}, token},
		"a forged claim alone":        {[]string{claimHeader, forged}, claim{}},
		"another scheme":              {[]string{"Authorization", "Basic " + value}, claim{}},
		"no token":                    {[]string{"Authorization", "Bearer x", "Cookie", cookie}, claim{}},
		"another cookie":              {[]string{"Cookie", "session=" + value}, claim{}},
		"nothing":                     {nil, claim{}},
	} {
		for path, at := range map[string]string{"/api/admission": "/api/admission", "/pair/link": actorPath} {
			t.Run(name+" at "+path, func(t *testing.T) {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(`{}`))
				r.Host = host
				r.Header["Signalbox-Other"] = []string{"x"}
				for i := 0; i < len(c.headers); i += 2 {
					r.Header[c.headers[i]] = []string{c.headers[i+1]} // small letters stay small
				}
				w := patientClient{httptest.NewRecorder()}
				door.ServeHTTP(w, r)
				if c.want == (claim{}) {
					if w.Code != http.StatusUnauthorized || len(arrived) != 0 {
						t.Errorf("status %d, and %d requests arrived", w.Code, len(arrived))
					}
					return
				}
				if w.Code != http.StatusOK || len(arrived) != 1 {
					t.Fatalf("status %d, and %d requests arrived: %s", w.Code, len(arrived), w.Body)
				}
				got := <-arrived
				if got.method != http.MethodPost || got.path != at {
					t.Errorf("%s %s", got.method, got.path)
				}
				if what, err := claimIn(got.header); what != c.want || err != nil || len(got.header[claimHeader]) != 1 {
					t.Errorf("claims %q, want %+v, error %v", got.header[claimHeader], c.want, err)
				}
				for name, values := range got.header {
					all := strings.Join(values, " ")
					if strings.Contains(all, value) || strings.Contains(all, second) || strings.HasPrefix(name, "Signalbox-") && name != claimHeader {
						t.Errorf("the link carries %s: %s", name, all)
					}
				}
			})
		}
	}
	link.CloseIdleConnections()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
