package binding

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"signalbox/internal/coord"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	peer   = "https://peer.example"
	secret = "tok-1234567890abcdef"
)

func environment(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func TestAValueGoesToItsOriginAlone(t *testing.T) {
	var learned []string
	b := New(map[string]Source{"scout": {Env: "SCOUT", Origin: peer}}, Options{
		Lookup: environment(map[string]string{"SCOUT": secret}), Secret: func(_, value string) { learned = append(learned, value) },
	})
	for _, origin := range []string{"https://peer.example:8443", "http://peer.example", "https://peer.example.evil.example", "https://PEER.example", ""} {
		if got, err := b.Token("scout", origin); coord.CodeOf(err) != coord.Forbidden || got != "" {
			t.Errorf("for %q: %q, %v", origin, got, err)
		}
		if err := b.Bound("scout", origin); coord.CodeOf(err) != coord.Forbidden {
			t.Errorf("registered for %q: %v", origin, err)
		}
	}
	if _, err := b.Token("other", peer); coord.CodeOf(err) != coord.Forbidden {
		t.Errorf("an unknown name: %v", err)
	}
	if err := b.Bound("other", peer); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("an unknown name: %v", err)
	}
	if len(learned) > 0 {
		t.Errorf("the value was read for another origin")
	}
	got, err := b.Token("scout", peer)
	if err != nil || got != secret {
		t.Errorf("got %q, %v", got, err)
	}
	if err := b.Bound("scout", peer); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{secret}, learned); diff != "" {
		t.Errorf("what the redactor learned: %s", diff)
	}
}

func TestAValueIsReadAnewForEachUse(t *testing.T) {
	vars := map[string]string{"SCOUT": secret}
	b := New(map[string]Source{"scout": {Env: "SCOUT", Origin: peer}}, Options{Lookup: environment(vars)})
	for _, want := range []string{secret, "tok-rotated-0987654321"} {
		vars["SCOUT"] = want
		if got, err := b.Token("scout", peer); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	delete(vars, "SCOUT")
	if _, err := b.Token("scout", peer); coord.CodeOf(err) != coord.Forbidden || !strings.Contains(err.Error(), "SCOUT is not set") {
		t.Errorf("unset: %v", err)
	}
}

func TestAValueThatCannotBeAHeaderIsNotUsedAndNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		code  coord.Code
	}{
		"a line break at its end": {secret + "\n", coord.Invalid},
		"a second header":         {secret + "\r\nX-Other: 1", coord.Invalid},
		"a space":                 {secret + " more", coord.Invalid},
		"a control character":     {secret + "\x00", coord.Invalid},
		"a letter beyond ASCII":   {secret + "ü", coord.Invalid},
		"too short to be hidden":  {"abc", coord.Invalid},
		"too long":                {strings.Repeat("a", coord.MaxCredential+1), coord.Limit},
	} {
		t.Run(name, func(t *testing.T) {
			if err := CheckValue(c.value); coord.CodeOf(err) != c.code {
				t.Errorf("the check: %v", err)
			}
			b := New(map[string]Source{"scout": {Env: "SCOUT", Origin: peer}}, Options{Lookup: environment(map[string]string{"SCOUT": c.value})})
			got, err := b.Token("scout", peer)
			if coord.CodeOf(err) != coord.Forbidden || got != "" || strings.Contains(err.Error(), c.value) || strings.Contains(err.Error(), secret) {
				t.Errorf("got %q, %v", got, err)
			}
			if l := b.List(); len(l) != 1 || l[0].Configured || l[0].Problem == "" || strings.Contains(l[0].Problem, secret) {
				t.Errorf("the list: %+v", l)
			}
		})
	}
	if err := CheckValue(strings.Repeat("a", coord.MaxCredential)); err != nil {
		t.Errorf("the longest: %v", err)
	}
}

func TestASourceIsOneAndOfOneExactOrigin(t *testing.T) {
	for name, c := range map[string]struct {
		source Source
		faults []string
	}{
		"a variable":       {Source{Env: "SCOUT", Origin: peer}, nil},
		"the keyring":      {Source{Keyring: true, Origin: "http://127.0.0.1:8080"}, nil},
		"no source":        {Source{Origin: peer}, []string{""}},
		"two sources":      {Source{Env: "SCOUT", Keyring: true, Origin: peer}, []string{""}},
		"a value as name":  {Source{Env: secret, Origin: peer}, []string{"/env"}},
		"our own variable": {Source{Env: "SIGNALBOX_TOKEN", Origin: peer}, []string{"/env"}},
		"ours in small":    {Source{Env: "signalbox_token", Origin: peer}, []string{"/env"}},
		"no origin":        {Source{Env: "SCOUT"}, []string{"/origin"}},
		"a path":           {Source{Env: "SCOUT", Origin: peer + "/a2a"}, []string{"/origin"}},
		"a default port":   {Source{Env: "SCOUT", Origin: peer + ":443"}, []string{"/origin"}},
		"a wildcard":       {Source{Env: "SCOUT", Origin: "https://*.example"}, []string{"/origin"}},
		"all at once":      {Source{Env: "a b", Origin: "ftp://x"}, []string{"/env", "/origin"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range c.source.Check() {
				got = append(got, f.Pointer)
				if strings.Contains(f.Message, secret) {
					t.Errorf("a value is repeated: %s", f.Message)
				}
			}
			if diff := cmp.Diff(c.faults, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
