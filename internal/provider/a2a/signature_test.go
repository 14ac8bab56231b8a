package a2a

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
	"signalbox/internal/provider"
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

func keyFile(t *testing.T, keys ...any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, []byte(encoded(object{"keys": keys})), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestCardsThatTheSDKSignedAreVerified has the official SDK as the one who
// signs, by each algorithm. Its form of a card leaves out more than A2A's own.
func TestCardsThatTheSDKSignedAreVerified(t *testing.T) {
	p := newPeer(t, v10)
	for _, signed := range peers.A2ASignedCards(t, p.origin) {
		p.card = []byte(signed.Card)
		config := p.config()
		config.Keys = keyFile(t, signed.Key)
		in, err := newAdapter(t, fast).Inspect(t.Context(), provider.Target{Config: coord.AgentConfig{Route: coord.RouteA2A, A2A: &config}})
		if err != nil || in.Problem != "" {
			t.Fatalf("Inspect: %v, %q", err, in.Problem)
		}
		if c := signedOf(in); !c.Has {
			t.Errorf("with the key %s it is told as %+v", signed.Key, c)
		}
		p.card = []byte(strings.Replace(signed.Card, "by the SDK", "by nobody", 1))
		in, _ = newAdapter(t, fast).Inspect(t.Context(), provider.Target{Config: coord.AgentConfig{Route: coord.RouteA2A, A2A: &config}})
		if c := signedOf(in); c.Has || len(in.Warnings) == 0 {
			t.Errorf("changed, it is told as %+v, %q", c, in.Warnings)
		}
	}
	if n := p.count("other /keys"); n != 0 {
		t.Errorf("the card's address of keys was fetched %d times", n)
	}
}

func signedOf(in coord.Inspection) coord.Capability {
	for _, c := range in.Capabilities {
		if c.Name == capabilitySigned {
			return c
		}
	}
	return coord.Capability{}
}

func TestSignaturesThatProveNothingAreNotVerified(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := object{"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": base64.RawURLEncoding.EncodeToString(public)}
	const plain = `{"name":"n","description":"","tenant":"","skills":[],"extensions":[],"required":false}`
	sign := func(header, payload string) object {
		protected := base64url(header)
		sig := ed25519.Sign(private, []byte(protected+"."+base64url(payload)))
		return object{"protected": protected, "signature": base64.RawURLEncoding.EncodeToString(sig)}
	}
	good := `{"alg":"EdDSA","kid":"k1"}`
	served, stripped := `{"description":"","extensions":[],"name":"n","required":false,"skills":[],"tenant":""}`, `{"description":"","name":"n","skills":[]}`
	for _, tt := range []struct {
		name string
		card string
		sig  object
		keys any
		want bool
	}{
		{"over the card as it is served", plain, sign(good, served), key, true},
		{"over the card as A2A has it", plain, sign(good, stripped), key, true},
		{"over the card as the SDKs have it", plain, sign(good, `{"name":"n","required":false}`), key, true},
		{"over another card", plain, sign(good, `{"name":"m"}`), key, false},
		{"of a card with something more", strings.Replace(plain, `"name"`, `"more":1,"name"`, 1), sign(good, served), key, false},
		{"of a card with a name that stands twice", strings.Replace(plain, `"name"`, `"name":"x","name"`, 1), sign(good, served), key, false},
		{"by no algorithm", plain, object{"protected": base64url(`{"alg":"none","kid":"k1"}`), "signature": ""}, key, false},
		{"by an algorithm that the key is not for", plain, sign(`{"alg":"ES256","kid":"k1"}`, served), key, false},
		{"by a symmetric algorithm", plain, sign(`{"alg":"HS256","kid":"k1"}`, served), key, false},
		{"with what must be understood", plain, sign(`{"alg":"EdDSA","kid":"k1","crit":["b64"],"b64":false}`, served), key, false},
		{"by a key of another id", plain, sign(`{"alg":"EdDSA","kid":"k2"}`, served), key, false},
		{"without the key's id", plain, sign(`{"alg":"EdDSA"}`, served), key, false},
		{"with a key for another algorithm", plain, sign(good, served), object{"kty": "OKP", "crv": "Ed25519", "kid": "k1", "alg": "RS256", "x": key["x"]}, false},
		{"with a key that is none", plain, sign(good, served), object{"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": "AAAA"}, false},
		{"that is no signature", plain, object{"protected": base64url(good), "signature": "!"}, key, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, err := readCard([]byte(strings.Replace(tt.card, "{", `{"signatures":[`+encoded(tt.sig)+`],`, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if c, warning := k.verify(keyFile(t, tt.keys)); c.Has != tt.want || (warning == "") != tt.want {
				t.Errorf("it is told as %+v, %q", c, warning)
			}
			if c, _ := k.verify(""); c.Has {
				t.Error("it is verified without keys")
			}
		})
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

func TestWhatACardSaysOfItselfStaysInOneLine(t *testing.T) {
	k, err := readCard([]byte(`{"name":"a\n  card signature verified","version":"1\r\n\u2028\u0085 2"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := k.identity(coord.A2AConfig{}).Version, "a card signature verified 1 2"; got != want {
		t.Errorf("the version is %q, want %q", got, want)
	}
}
