package daemon_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/internal/api"
	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/daemon"
	"signalbox/internal/journal"
)

// none takes the token of a request away.
var none = map[string]string{"Authorization": ""}

// refused checks that an answer is a problem of a code.
func refused(t *testing.T, res *http.Response, status int, code coord.Code) {
	t.Helper()
	var p api.Problem
	decode(t, res, status, &p)
	if p.Code != code {
		t.Errorf("code %s, want %s: %s", p.Code, code, p.Detail)
	}
}

// newToken makes a token of a role.
func (s *served) newToken(role coord.Role) api.Token {
	s.t.Helper()
	var out api.Data[api.Token]
	decode(s.t, s.do(http.MethodPost, "/api/tokens", `{"name":"t","role":"`+string(role)+`"}`, nil), http.StatusCreated, &out)
	return out.Data
}

func TestTheDoor(t *testing.T) {
	s := serve(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.place.URL, "http://"), ":")

	t.Run("answers under its own names only", func(t *testing.T) {
		for host, status := range map[string]int{
			"127.0.0.1:" + port: 200, "localhost:" + port: 200,
			"evil.example:" + port: 403, "127.0.0.1": 403, "localhost:1": 403, "127.0.0.1.nip.example:" + port: 403,
		} {
			res := s.do(http.MethodGet, "/api/status", "", map[string]string{"Host": host})
			if res.Body.Close(); res.StatusCode != status {
				t.Errorf("host %s: status %d, want %d", host, res.StatusCode, status)
			}
		}
	})
	t.Run("answers no other origin", func(t *testing.T) {
		own := s.place.URL
		for name, c := range map[string]struct {
			headers map[string]string
			path    string
			status  int
		}{
			"own":                {map[string]string{"Origin": own}, "/api/status", 200},
			"other":              {map[string]string{"Origin": "http://evil.example"}, "/api/status", 403},
			"other port":         {map[string]string{"Origin": "http://127.0.0.1:1"}, "/api/status", 403},
			"null":               {map[string]string{"Origin": "null"}, "/api/status", 403},
			"https":              {map[string]string{"Origin": strings.Replace(own, "http:", "https:", 1)}, "/api/status", 403},
			"same site":          {map[string]string{"Sec-Fetch-Site": "same-site"}, "/api/status", 403},
			"cross site":         {map[string]string{"Sec-Fetch-Site": "cross-site"}, "/api/status", 403},
			"own page":           {map[string]string{"Sec-Fetch-Site": "same-origin"}, "/api/status", 200},
			"a link to a page":   {map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, "/", 200},
			"a link to the API":  {map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, "/api/status", 403},
			"an image of a page": {map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, "/", 403},
		} {
			res := s.do(http.MethodGet, c.path, "", c.headers)
			if res.Body.Close(); res.StatusCode != c.status {
				t.Errorf("%s: status %d, want %d", name, res.StatusCode, c.status)
			}
		}
	})
	t.Run("serves nobody without a credential", func(t *testing.T) {
		for name, value := range map[string]string{
			"none": "", "another scheme": "Basic " + s.token, "no prefix": "Bearer x", "unknown": "Bearer sbx_unknown", "hash": "Bearer " + api.HashOf(s.token),
		} {
			res := s.do(http.MethodGet, "/api/status", "", map[string]string{"Authorization": value})
			t.Log(name)
			refused(t, res, http.StatusUnauthorized, coord.Unauthenticated)
		}
	})
	t.Run("takes the role from the credential", func(t *testing.T) {
		reader := s.newToken(coord.RoleRead)
		// The worker would believe this of the door: it is the operator's own.
		forged := `{"kind":"token","hash":"` + api.HashOf(s.token) + `","presence":"browser"}`
		for _, extra := range []map[string]string{
			{}, {daemon.ClaimHeader: forged}, {strings.ToLower(daemon.ClaimHeader): forged}, {daemon.ClaimHeader: forged, "Connection": daemon.ClaimHeader},
		} {
			extra["Authorization"] = "Bearer " + reader.Token
			refused(t, s.do(http.MethodPost, "/api/admission", `{"paused":true}`, extra), http.StatusForbidden, coord.Forbidden)
			res := s.do(http.MethodGet, "/api/status", "", extra)
			if res.Body.Close(); res.StatusCode != http.StatusOK {
				t.Errorf("a reader reads: status %d", res.StatusCode)
			}
		}
		refused(t, s.do(http.MethodGet, "/api/status", "", map[string]string{"Authorization": "", daemon.ClaimHeader: forged}), http.StatusUnauthorized, coord.Unauthenticated)
	})
	t.Run("changes to no other protocol", func(t *testing.T) {
		res := s.do(http.MethodGet, "/api/status", "", map[string]string{"Authorization": "Bearer " + s.token,
			"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAoAAAAAIAAAAA"})
		if res.Body.Close(); res.StatusCode != http.StatusOK {
			t.Errorf("status %d", res.StatusCode)
		}
	})
	t.Run("shows no route to who is not known", func(t *testing.T) {
		var first string
		for _, at := range []struct{ method, path string }{
			{http.MethodGet, "/api/status"}, {http.MethodDelete, "/api/status"}, {http.MethodGet, "/api/nothing"}, {http.MethodGet, "/api/internal/actor"},
		} {
			res := s.do(at.method, at.path, "", map[string]string{"Authorization": "Bearer " + api.TokenPrefix + "unknown"})
			body, err := io.ReadAll(res.Body)
			if err = errors.Join(err, res.Body.Close()); err != nil {
				t.Fatal(err)
			}
			if first == "" {
				first = string(body)
			}
			if res.StatusCode != http.StatusUnauthorized || string(body) != first || res.Header.Get("Allow") != "" {
				t.Errorf("%s %s: status %d, %s", at.method, at.path, res.StatusCode, body)
			}
		}
	})
	t.Run("forgets a revoked token at once", func(t *testing.T) {
		token := s.newToken(coord.RoleRead)
		use := map[string]string{"Authorization": "Bearer " + token.Token}
		decode(t, s.do(http.MethodGet, "/api/status", "", use), http.StatusOK, nil)
		decode(t, s.do(http.MethodDelete, "/api/tokens/"+string(token.ID), "", nil), http.StatusOK, nil)
		refused(t, s.do(http.MethodGet, "/api/status", "", use), http.StatusUnauthorized, coord.Unauthenticated)
	})
	t.Run("leads to the API and nothing else of the worker", func(t *testing.T) {
		hash := api.HashOf(s.token)
		for _, path := range []string{
			"/internal/actor", "/api/../internal/actor", "/api/%2e%2e/internal/actor", `/api/..\internal/actor`,
			"/internal/credentials/" + hash, "/api/../internal/credentials/" + hash, "/api/%2e%2e/internal/credentials/" + hash,
			"/api/..%2finternal/credentials/" + hash, "//internal/credentials/" + hash, "/api//../internal/credentials/" + hash,
			"/api/%2e%2e%2finternal%2fcredentials%2f" + hash, "/api/x/../../internal/credentials/" + hash, `/api/..\internal/credentials/` + hash,
		} {
			res := s.do(http.MethodGet, path, "", nil)
			res.Body.Close()
			if res.StatusCode/100 == 2 {
				t.Errorf("%s: status %d", path, res.StatusCode)
			}
			if to := res.Header.Get("Location"); to != "" {
				again := s.do(http.MethodGet, strings.TrimPrefix(to, s.place.URL), "", nil)
				if again.Body.Close(); again.StatusCode != http.StatusNotFound {
					t.Errorf("%s leads to %s: status %d", path, to, again.StatusCode)
				}
			}
		}
	})
	t.Run("records who decided and how", func(t *testing.T) {
		decode(t, s.do(http.MethodPost, "/api/admission", `{"paused":false}`, map[string]string{daemon.PresenceHeader: "terminal"}), http.StatusOK, nil)
		e := s.lastEvent(coord.AdmissionMoved)
		if e.By == nil || e.By.Door != "api" || e.By.Presence != "terminal" || e.By.Role != coord.RoleOperator || e.By.Credential == "" || e.By.Name != "test" {
			t.Errorf("by %+v", e.By)
		}
	})
	t.Run("makes pages that hold only their own script", func(t *testing.T) {
		for _, path := range []string{"/", "/pair"} {
			res := s.do(http.MethodGet, path, "", none)
			res.Body.Close()
			policy := res.Header.Get("Content-Security-Policy")
			if res.StatusCode != http.StatusOK || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
				t.Errorf("%s: status %d, policy %q", path, res.StatusCode, policy)
			}
		}
		refused(t, s.do(http.MethodGet, "/nothing", "", none), http.StatusNotFound, coord.NotFound)
	})
}

func TestPairing(t *testing.T) {
	s := serve(t)

	t.Run("takes a code once", func(t *testing.T) {
		refused(t, s.do(http.MethodPost, "/pair", `{"code":"`+s.code()+`"}`, none), http.StatusUnauthorized, coord.Unauthenticated)
	})
	t.Run("needs the role operator for a new link", func(t *testing.T) {
		reader := s.newToken(coord.RoleDraft)
		refused(t, s.do(http.MethodPost, "/pair/link", "", map[string]string{"Authorization": "Bearer " + reader.Token}), http.StatusForbidden, coord.Forbidden)
		refused(t, s.do(http.MethodPost, "/pair/link", "", none), http.StatusUnauthorized, coord.Unauthenticated)
	})
	t.Run("signs a browser in, with a second secret against forged requests", func(t *testing.T) {
		s.newLink()
		res := s.do(http.MethodPost, "/pair", `{"code":"`+s.code()+`"}`, none)
		cookies := res.Cookies()
		var paired api.Data[daemon.Paired]
		decode(t, res, http.StatusOK, &paired)
		if paired.Data.Token != "" || paired.Data.CSRF == "" || len(cookies) != 2 {
			t.Fatalf("paired %+v, cookies %v", paired, cookies)
		}
		jar := map[string]string{"Authorization": ""}
		for _, c := range cookies {
			jar["Cookie"] += c.Name + "=" + c.Value + "; "
			if session := strings.Contains(c.Name, "session"); c.SameSite != http.SameSiteStrictMode || c.HttpOnly != session || c.Path != "/" {
				t.Errorf("cookie %v", c)
			}
			if !strings.Contains(c.Name, "session") && c.Value != paired.Data.CSRF {
				t.Error("the pages cannot read the second secret again")
			}
		}
		decode(t, s.do(http.MethodGet, "/api/status", "", jar), http.StatusOK, nil)
		refused(t, s.do(http.MethodPost, "/api/admission", `{"paused":false}`, jar), http.StatusForbidden, coord.Forbidden)
		jar[daemon.CSRFHeader] = "wrong"
		refused(t, s.do(http.MethodPost, "/api/admission", `{"paused":false}`, jar), http.StatusForbidden, coord.Forbidden)
		jar[daemon.CSRFHeader] = paired.Data.CSRF
		decode(t, s.do(http.MethodPost, "/api/admission", `{"paused":false}`, jar), http.StatusOK, nil)
		if e := s.lastEvent(coord.AdmissionMoved); e.By == nil || e.By.Door != "browser" || e.By.Presence != "browser" {
			t.Errorf("by %+v", e.By)
		}
		// A session's value is no bearer token, and a token is no session.
		session := cookies[slices.IndexFunc(cookies, func(c *http.Cookie) bool { return strings.HasPrefix(c.Name, api.SessionCookie) })]
		for _, wrong := range []map[string]string{
			{"Authorization": "Bearer " + session.Value}, {"Authorization": "", "Cookie": session.Name + "=" + s.token},
		} {
			refused(t, s.do(http.MethodGet, "/api/status", "", wrong), http.StatusUnauthorized, coord.Unauthenticated)
		}
		// A session makes links as it makes all changes: with both secrets.
		decode(t, s.do(http.MethodPost, "/pair/link", "", jar), http.StatusOK, nil)
		delete(jar, daemon.CSRFHeader)
		refused(t, s.do(http.MethodPost, "/pair/link", "", jar), http.StatusForbidden, coord.Forbidden)
	})
	t.Run("refuses what is no pairing", func(t *testing.T) {
		for _, body := range []string{`{`, `{"code":"x","role":"operator"}`, `{"code":"x","kind":"root"}`} {
			res := s.do(http.MethodPost, "/pair", body, none)
			refused(t, res, http.StatusUnprocessableEntity, coord.Invalid)
		}
	})
	t.Run("bounds the tries", func(t *testing.T) {
		s.newLink()
		for range 20 {
			res := s.do(http.MethodPost, "/pair", `{"code":"guess"}`, none)
			res.Body.Close()
		}
		refused(t, s.do(http.MethodPost, "/pair", `{"code":"guess"}`, none), http.StatusTooManyRequests, coord.Limit)
		// Whoever guesses does not keep out the one who has the code.
		res := s.do(http.MethodPost, "/pair", `{"code":"`+s.code()+`"}`, none)
		if res.Body.Close(); res.StatusCode != http.StatusOK {
			t.Errorf("the right code gave %d after wrong ones", res.StatusCode)
		}
	})
}

func TestASessionIsSignedOutWhenItIsOverOrRevoked(t *testing.T) {
	s := &served{t: t, dir: t.TempDir(), done: make(chan error, 1), log: &log{}}
	ago := time.Duration(0)
	j, err := journal.Open(t.Context(), journal.Options{
		Dir: s.dir, Redact: func(s string) string { return s }, Logger: slog.New(slog.DiscardHandler),
		Clock: func() coord.Moment { return clock.System()().Add(-ago) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]coord.CredentialID{}
	for _, c := range []struct {
		name string
		ago  time.Duration
	}{{"over", coord.SessionTTL + time.Minute}, {"nearly over", coord.SessionTTL - time.Hour}, {"new", 0}} {
		ago = c.ago
		err := j.Update(t.Context(), func(tx *journal.Tx) error {
			made, err := tx.AddCredential(coord.Credential{Name: c.name, Role: coord.RoleOperator, Kind: "session", Hash: api.HashOf(c.name)}, nil)
			ids[c.name] = made.ID
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.token = s.pairToken()
	_, port, _ := strings.Cut(strings.TrimPrefix(s.place.URL, "http://"), ":")
	look := func(name string) *http.Response {
		return s.do(http.MethodGet, "/api/status", "", map[string]string{"Authorization": "", "Cookie": api.SessionCookie + port + `="` + name + `"`})
	}
	for _, name := range []string{"nearly over", "new"} {
		decode(t, look(name), http.StatusOK, nil)
	}
	refused(t, look("over"), http.StatusUnauthorized, coord.Unauthenticated)
	decode(t, s.do(http.MethodDelete, "/api/tokens/"+string(ids["new"]), "", nil), http.StatusOK, nil)
	refused(t, look("new"), http.StatusUnauthorized, coord.Unauthenticated)
}

// newLink makes a new pairing link.
func (s *served) newLink() {
	s.t.Helper()
	var out api.Data[daemon.Link]
	decode(s.t, s.do(http.MethodPost, "/pair/link", "", nil), http.StatusOK, &out)
	s.link = out.Data.URL
}
