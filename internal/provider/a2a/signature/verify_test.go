package signature

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCanonicalForm has the examples of RFC 8785, and what else its rules say.
func TestCanonicalForm(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"the RFC's first example", `{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{"the RFC's order of names", `{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			`{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`},
		{"numbers at the borders", `[0,-0,1e21,1e20,1e-6,1e-7,5e-324,1.7976931348623157e308,9007199254740992]`, `[0,0,1e+21,100000000000000000000,0.000001,1e-7,5e-324,1.7976931348623157e+308,9007199254740992]`},
		{"what HTML and JavaScript escape is not escaped", `"<>&\u2028\u2029\u007f"`, "\"<>&\u2028\u2029\u007f\""},
		{"space", " { \"b\" : [ ] , \"a\" : { } } ", `{"a":{},"b":[]}`},
		{"a name that stands twice", `{"a":1,"a":2}`, ""},
		{"half a surrogate", `"\ud83d"`, ""},
		{"a number beyond all", `1e999`, ""},
		{"no JSON", `{`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := canonical([]byte(tt.in))
			if ok != (tt.want != "") || ok && string(got) != tt.want {
				t.Errorf("got %q, %v; want %q", got, ok, tt.want)
			}
		})
	}
}

func base64url(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// keyFile writes a JSON Web Key Set.
func keyFile(t *testing.T, keys ...any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, []byte(encoded(t, map[string]any{"keys": keys})), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSignaturesThatProveNothingAreNotVerified(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": base64.RawURLEncoding.EncodeToString(public)}
	const plain = `{"name":"n","description":"","tenant":"","skills":[],"extensions":[],"required":false}`
	sign := func(header, payload string) map[string]any {
		protected := base64url(header)
		sig := ed25519.Sign(private, []byte(protected+"."+base64url(payload)))
		return map[string]any{"protected": protected, "signature": base64.RawURLEncoding.EncodeToString(sig)}
	}
	good := `{"alg":"EdDSA","kid":"k1"}`
	served, stripped := `{"description":"","extensions":[],"name":"n","required":false,"skills":[],"tenant":""}`, `{"description":"","name":"n","skills":[]}`
	for _, tt := range []struct {
		name string
		card string
		sig  map[string]any
		keys any
		want bool
	}{
		{"over the card as it is served", plain, sign(good, served), key, true},
		{"over the card as A2A has it", plain, sign(good, stripped), key, true},
		{"over the card as the SDKs have it", plain, sign(good, `{"name":"n","required":false}`), key, true},
		{"over another card", plain, sign(good, `{"name":"m"}`), key, false},
		{"of a card with something more", strings.Replace(plain, `"name"`, `"more":1,"name"`, 1), sign(good, served), key, false},
		{"of a card with a name that stands twice", strings.Replace(plain, `"name"`, `"name":"x","name"`, 1), sign(good, served), key, false},
		{"by no algorithm", plain, map[string]any{"protected": base64url(`{"alg":"none","kid":"k1"}`), "signature": ""}, key, false},
		{"by an algorithm that the key is not for", plain, sign(`{"alg":"ES256","kid":"k1"}`, served), key, false},
		{"by a symmetric algorithm", plain, sign(`{"alg":"HS256","kid":"k1"}`, served), key, false},
		{"with what must be understood", plain, sign(`{"alg":"EdDSA","kid":"k1","crit":["b64"],"b64":false}`, served), key, false},
		{"by a key of another id", plain, sign(`{"alg":"EdDSA","kid":"k2"}`, served), key, false},
		{"without the key's id", plain, sign(`{"alg":"EdDSA"}`, served), key, false},
		{"with a key for another algorithm", plain, sign(good, served), map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "k1", "alg": "RS256", "x": key["x"]}, false},
		{"with a key that is none", plain, sign(good, served), map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": "AAAA"}, false},
		{"that is no signature", plain, map[string]any{"protected": base64url(good), "signature": "!"}, key, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			card := strings.Replace(tt.card, "{", `{"signatures":[`+encoded(t, tt.sig)+`],`, 1)
			if id, why := Verify([]byte(card), keyFile(t, tt.keys)); (id == "k1") != tt.want || (why == "") != tt.want {
				t.Errorf("the key is %q, %q", id, why)
			}
		})
	}
}

func TestWithoutKeysNothingIsVerified(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "none": `{"keys":[]}`, "list": `[{"kid":"k1"}]`, "long": strings.Repeat(" ", maxKeys+1)} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if id, why := Verify([]byte(`{"signatures":[{}]}`), file); id != "" || why == "" {
			t.Errorf("%s: the key is %q, %q", name, id, why)
		}
	}
	if id, why := Verify([]byte(`{"signatures":[{}]}`), filepath.Join(dir, "absent")); id != "" || why == "" {
		t.Errorf("without a file the key is %q, %q", id, why)
	}
}

func TestFormsOfACardAreCanonical(t *testing.T) {
	var got []string
	for _, f := range forms([]byte(`{"signatures":[{}],"b":{"list":[]},"a":[{"examples":[],"x":""}]}`)) {
		if !json.Valid(f) {
			t.Errorf("%s is no JSON", f)
		}
		got = append(got, string(f))
	}
	want := []string{`{"a":[{"examples":[],"x":""}],"b":{"list":[]}}`, `{"a":[{"x":""}],"b":{}}`, `{"a":[{}]}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzForms holds canonical forms to being their own.
func FuzzForms(f *testing.F) {
	f.Add(`{"signatures":[{}],"b":{"list":[]},"a":[{"examples":[],"x":"\u00e9"},1e3]}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, form := range forms([]byte(body)) {
			if again, ok := canonical(form); !ok || string(again) != string(form) {
				t.Errorf("the canonical form %q has the form %q", form, again)
			}
		}
	})
}
