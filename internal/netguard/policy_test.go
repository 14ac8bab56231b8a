package netguard

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/internal/coord"
)

func TestARequestGoesToItsRegisteredOriginOrNowhere(t *testing.T) {
	var hits atomic.Int32
	port := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	g := guard(t, Options{Resolver: &names{answers: map[string][][]string{"peer.test": {{"127.0.0.1"}}, "other.test": {{"127.0.0.1"}}}}})
	here := "http://peer.test:" + port
	for name, c := range map[string]struct {
		access Access
		url    string
		host   string
		code   coord.Code
		say    string
	}{
		"another host":             {Access{Origin: here, Private: true}, "http://other.test:" + port + "/", "", coord.Forbidden, "not at the registered origin"},
		"another port":             {Access{Origin: here, Private: true}, "http://peer.test:1/", "", coord.Forbidden, "not at the registered origin"},
		"another scheme":           {Access{Origin: here, Private: true}, "https://peer.test:" + port + "/", "", coord.Forbidden, "not at the registered origin"},
		"the address of the host":  {Access{Origin: here, Private: true}, "http://127.0.0.1:" + port + "/", "", coord.Forbidden, "not at the registered origin"},
		"a longer host":            {Access{Origin: here, Private: true}, "http://peer.test.other.test:" + port + "/", "", coord.Forbidden, "not at the registered origin"},
		"nothing registered":       {Access{}, here + "/", "", coord.Invalid, "no address"},
		"an origin with a path":    {Access{Origin: here + "/a", Private: true}, here + "/a", "", coord.Invalid, "no path"},
		"an origin in capitals":    {Access{Origin: strings.ToUpper(here), Private: true}, here + "/", "", coord.Forbidden, "canonical"},
		"http without private":     {Access{Origin: here}, here + "/", "", coord.Forbidden, "private addresses alone"},
		"a query":                  {Access{Origin: here, Private: true}, here + "/?token=hunter2hunter2", "", coord.Invalid, "query"},
		"a user":                   {Access{Origin: here, Private: true}, "http://hunter2hunter2@peer.test:" + port + "/", "", coord.Invalid, "user"},
		"another Host":             {Access{Origin: here, Private: true}, here + "/", "other.test", coord.Forbidden, "another host"},
		"a private address":        {Access{Origin: "https://127.0.0.1:" + port}, "https://127.0.0.1:" + port + "/", "", coord.Forbidden, "loopback"},
		"metadata":                 {Access{Origin: "http://169.254.169.254", Private: true}, "http://169.254.169.254/latest", "", coord.Forbidden, "link-local"},
		"a public address by http": {Access{Origin: "http://1.1.1.1", Private: true}, "http://1.1.1.1/", "", coord.Forbidden, "is public"},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, strings.NewReader("work"))
			if err != nil {
				t.Fatal(err)
			}
			if c.host != "" {
				req.Host = c.host
			}
			_, err = g.Do(t.Context(), c.access, req)
			refused(t, err, c.code, c.say)
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a secret is repeated: %v", err)
			}
		})
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("the peer got %d requests", n)
	}
}

func TestEveryAddressOfANameIsLookedAtAndOneBadOneRefusesIt(t *testing.T) {
	p := newRaw(t, func(*raw, net.Conn) {})
	many := make([]string, coord.MaxNetAnswers+1)
	for i := range many {
		many[i] = "127.0.0.1"
	}
	for name, c := range map[string]struct {
		answers []string
		private bool
		say     string
	}{
		"metadata after loopback":      {[]string{"127.0.0.1", "169.254.169.254"}, true, "169.254.169.254, which is link-local"},
		"metadata before loopback":     {[]string{"169.254.169.254", "127.0.0.1"}, true, "link-local"},
		"public among private":         {[]string{"127.0.0.1", "93.184.215.14"}, true, "is public"},
		"private among public":         {[]string{"93.184.215.14", "10.0.0.1"}, false, "is private"},
		"loopback of the other family": {[]string{"93.184.215.14", "::1"}, false, "loopback"},
		"mapped":                       {[]string{"127.0.0.1", "::ffff:127.0.0.1"}, true, "mapped"},
		"link-local of IPv6":           {[]string{"127.0.0.1", "fe80::1"}, true, "link-local"},
		"unspecified":                  {[]string{"0.0.0.0"}, true, "this network"},
		"more than anybody has":        {many, true, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t, Options{Resolver: &names{answers: map[string][][]string{"peer.test": {c.answers}}}})
			_, err := send(t, g, Access{Origin: "https://peer.test:" + p.port, Private: c.private}, "/")
			refused(t, err, coord.Forbidden, c.say)
		})
	}
	if n := p.accepted.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestANameThatChangesItsMeaningIsLookedAtAnewAndNeverInBetween(t *testing.T) {
	p := newRaw(t, answering(forever("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")))
	r := &names{answers: map[string][][]string{"peer.test": {{"127.0.0.1"}, {"169.254.169.254"}, {"93.184.215.14"}, {"127.0.0.1"}}}}
	g := guard(t, Options{Resolver: r})
	a := Access{Origin: "http://peer.test:" + p.port, Private: true}
	for i, say := range []string{"", "link-local", "is public", ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.Origin+"/", strings.NewReader("work"))
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		res, err := g.Do(t.Context(), a, req)
		if say != "" {
			refused(t, err, coord.Forbidden, say)
		} else if err != nil {
			t.Fatal(err)
		} else {
			_ = res.Body.Close()
		}
		// One look for one connection: there is no second answer to be used.
		if n := r.asked["ip4peer.test"]; n != i+1 {
			t.Errorf("after request %d the name was asked for %d times", i, n)
		}
	}
	if n := p.accepted.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

func TestTheSecondAddressIsTriedWhenTheFirstIsDead(t *testing.T) {
	port := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	// Nobody listens on 127.0.0.2 there: the peer listens on 127.0.0.1 alone.
	g := guard(t, Options{Resolver: &names{answers: map[string][][]string{"peer.test": {{"127.0.0.2", "127.0.0.1"}}}}})
	res, err := send(t, g, Access{Origin: "http://peer.test:" + port, Private: true}, "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
}

func TestTLSVerifiesTheNameWithTheRootsOfTheRegistration(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	var hits atomic.Int32
	for name, c := range map[string]struct {
		certified string
		until     time.Time
		ca        string
		host      string
		say       string // "" when it works
	}{
		"the name and our authority":    {"peer.test", time.Now().Add(time.Hour), ours.file, "peer.test", ""},
		"an address that is certified":  {"127.0.0.1", time.Now().Add(time.Hour), ours.file, "127.0.0.1", ""},
		"another name":                  {"other.test", time.Now().Add(time.Hour), ours.file, "peer.test", "another name"},
		"the address for the name":      {"127.0.0.1", time.Now().Add(time.Hour), ours.file, "peer.test", "another name"},
		"a name for the address":        {"peer.test", time.Now().Add(time.Hour), ours.file, "127.0.0.1", "another name"},
		"the authority of another peer": {"peer.test", time.Now().Add(time.Hour), theirs.file, "peer.test", "nobody who is trusted"},
		"the system's authorities":      {"peer.test", time.Now().Add(time.Hour), "", "peer.test", "nobody who is trusted"},
		"expired":                       {"peer.test", time.Now().Add(-time.Hour), ours.file, "peer.test", "not valid at this time"},
		"a file that is not there":      {"peer.test", time.Now().Add(time.Hour), ours.file + "x", "peer.test", "cannot be read"},
		"a file without a certificate":  {"peer.test", time.Now().Add(time.Hour), empty, "peer.test", "no PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			hits.Store(0)
			port := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }), ours.issue(t, c.certified, c.until))
			g := guard(t, Options{Resolver: &names{answers: map[string][][]string{"peer.test": {{"127.0.0.1"}}}}})
			res, err := send(t, g, Access{Origin: "https://" + c.host + ":" + port, Private: true, CA: c.ca}, "/")
			if c.say != "" {
				refused(t, err, coord.Forbidden, c.say)
				if hits.Load() != 0 {
					t.Error("the peer got the request")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
		})
	}
}

// vault gives one value for one origin.
type vault struct{ name, origin, value string }

func (v vault) Token(name, origin string) (string, error) {
	if name != v.name || origin != v.origin {
		return "", coord.Errorf(coord.Forbidden, "it goes to %s and nowhere else", v.origin)
	}
	return v.value, nil
}

func TestACredentialGoesToItsOriginAlone(t *testing.T) {
	var got atomic.Value
	port := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got.Store(r.Header.Get("Authorization")) }))
	r := &names{answers: map[string][][]string{"peer.test": {{"127.0.0.1"}}, "other.test": {{"127.0.0.1"}}}}
	here := "http://peer.test:" + port
	g := guard(t, Options{Resolver: r, Credentials: vault{"scout", here, "hunter2hunter2"}})
	res, err := send(t, g, Access{Origin: here, Private: true, Credential: "scout"}, "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if got.Load() != "Bearer hunter2hunter2" {
		t.Errorf("the peer got %q", got.Load())
	}
	if res.Request != nil && res.Request.Header.Get("Authorization") != "" {
		t.Error("the response hands the value back")
	}
	res, err = send(t, g, Access{Origin: here, Private: true}, "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if got.Load() != "" {
		t.Errorf("without a credential the peer got %q", got.Load())
	}
	_, err = send(t, g, Access{Origin: "http://other.test:" + port, Private: true, Credential: "scout"}, "/")
	refused(t, err, coord.Forbidden, "nowhere else")
	_, err = send(t, g, Access{Origin: here, Private: true, Credential: "unknown"}, "/")
	refused(t, err, coord.Forbidden, "")
	_, err = send(t, guard(t, Options{Resolver: r}), Access{Origin: here, Private: true, Credential: "scout"}, "/")
	refused(t, err, coord.Forbidden, "not known")
}
