package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/redact/redacttest"
)

func TestEveryCanaryIsReplacedUnderItsKind(t *testing.T) {
	seen := map[string]bool{}
	for i, c := range redacttest.Canaries() {
		seen[c.Kind] = true
		t.Run(fmt.Sprintf("%d_%s", i, c.Kind), func(t *testing.T) {
			want := strings.Replace(c.Context, c.Secret, "["+"redacted:"+c.Kind+"]", 1)
			if diff := cmp.Diff(want, New().String(c.Context)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	for _, k := range kinds {
		if !seen[k] {
			t.Errorf("kind %s has no canary", k)
		}
	}
}

// Agents write JSON that holds JSON: what was a line break is then the letters
// of its escape, and a word begins after them.
func TestASecretRightAfterAnEscapeIsReplaced(t *testing.T) {
	for _, c := range redacttest.Canaries() {
		if strings.ContainsAny(c.Secret, "\n\\\"") || !strings.HasPrefix(c.Context, c.Secret) {
			continue // not one that is known by its own beginning
		}
		for _, before := range []string{`one\n`, `one\t`, `one\\r`, `one\u003c`, `\u0022`} {
			if got := New().String(before + c.Secret); strings.Contains(got, c.Secret) || !strings.HasPrefix(got, before) {
				t.Errorf("%s after %s becomes %s", c.Kind, before, got)
			}
		}
		for _, before := range []string{"one", "n", "u003c", `\x`} {
			if text := before + c.Secret; New().String(text) != text {
				t.Errorf("%s within a word after %s becomes %s", c.Kind, before, New().String(text))
			}
		}
	}
}

// harmless are texts that look a little like secrets and must stay.
var harmless = []string{
	"",
	"job_01HZX3M9Q8K7V6T5S4R3P2N1M0 and att_01J9ZYXWVTSRQPNMKJHGFEDCBA",
	"token=job_01HZX3M9Q8K7V6T5S4R3P2N1M0",
	`{"token":"crd_01HZX3M9Q8K7V6T5S4R3P2N1M0"}`,
	"id 6f1c2d3e-4b5a-6978-8796-a5b4c3d2e1f0 was seen",
	"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  file.txt",
	"commit 73b2f52a6c1d9e8f7a6b5c4d3e2f1a0b9c8d7e6f (HEAD -> main)",
	"index 83db48f..bf269f4 100644",
	"The password is stored in the vault; ask for the token.",
	"Bearer authentication is described in RFC 6750; a bearer token is sent in a header.",
	"Basic training for everyone, basic authentication included",
	"Authorization: required for every route",
	"password: string",
	"token: accessToken,",
	"const token = getAccessTokenFromHeader2024(req)",
	`token := os.Getenv("API_TOKEN_2024")`,
	"secret = secrets2024[name11]",
	"opts := Options{Secret: Secret2Options9{}}",
	"API_KEY=${API_KEY_2024}",
	"API_KEY=$API_KEY_2024",
	`password: "{{ .Values.password2024 }}"`,
	"api_key=<your-api-key-123>",
	"password=********",
	"max_tokens=4096 token_count: 12345678",
	"nextPageToken: CAEQAA12xyzXYZ99",
	"secret: /run/secrets/db2024/password1",
	"secret: ./fixtures/secret2024.json",
	"token = sha256Token",
	"https://example.com:8080/path?x=a@b.example",
	"http://localhost:3000/@scope/pkg@1.2.3",
	"git clone ssh://git@host.example:22/repo.git",
	"postgres://app:${DB_PASSWORD}@localhost/app",
	"fmt.Sprintf(\"https://%s:%s@%s/\", user, pass, host)",
	"sk-learn is short, sk-some-kebab-case-identifier-without-number is long",
	"task-1234567890abcdef1234567890 and disk-0123456789abcdef0123456789",
	"npm_config_registry npm_lifecycle_event npm_package_version_with_long_name",
	"hf_hub_download_with_a_very_long_function_name",
	"xoxo-hugs-and-kisses",
	"eyJhbGciOiJIUzI1NiJ9 is a header alone",
	"AKIA is a prefix, AIza is one, too; ghp_ and sbx_ as well",
	"-----BEGIN CERTIFICATE-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END CERTIFICATE-----",
	"if strings.Contains(s, \"-----BEGIN RSA PRIVATE KEY-----\") {\n\treturn errors.New(\"private key\")\n}",
	"a := map[string]int{\"x\": 1, \"y\": 2} // see https://go.dev/ref/spec#Map_types",
	"func (c *scanner) at(s string, i int) match { return c.kindAt(s, i) }",
	"--token is required; --password prompts",
	"[redacted:github-token] stays, and so does [redacted:nothing-known]",
	"Grüße: 你好, мир",
	"invalid \xff\xfe bytes: \x80=\x81",
}

func TestHarmlessTextStaysAsItIs(t *testing.T) {
	for _, text := range harmless {
		if got := New().String(text); got != text {
			t.Errorf("%q\nbecame\n%q", text, got)
		}
	}
}

func TestExactValueIsReplacedInEveryEncoding(t *testing.T) {
	const secret = `tr0ub4dor & "3"/<x>?`
	marshalled, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := json.Marshal(string(marshalled))
	if err != nil {
		t.Fatal(err)
	}
	r := New()
	r.Add("DOOR", secret)
	for name, text := range map[string]string{
		"plain":            secret,
		"query":            url.QueryEscape(secret),
		"path":             url.PathEscape(secret),
		"lower-case query": strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(secret), "%3C", "%3c"), "%3E", "%3e"),
		"json":             string(marshalled[1 : len(marshalled)-1]),
		"json in json":     string(twice[3 : len(twice)-3]),
		"base64":           base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 raw":       base64.RawStdEncoding.EncodeToString([]byte(secret)),
		"base64url":        base64.URLEncoding.EncodeToString([]byte(secret)),
	} {
		if name == "lower-case query" {
			text = lowerHex(text)
		}
		got := r.String("<" + text + ">")
		if !strings.HasPrefix(got, "<[redacted:DOOR]") || len(got) > len("<[redacted:DOOR]>")+2 {
			t.Errorf("%s: %q became %q", name, text, got)
		}
	}
}

func TestExactValueIsFoundInsideOfOtherBase64AtEveryShift(t *testing.T) {
	const secret = "vierundzwanzig-gute-Worte"
	r := New()
	r.Add("KEY", secret)
	for shift := range 6 {
		coded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", shift) + secret + "tail"))
		got := r.String(coded)
		if !strings.Contains(got, "[redacted:KEY]") {
			t.Errorf("shift %d: %q became %q", shift, coded, got)
		}
	}
}

func TestAddIgnoresShortValuesAndCleansNames(t *testing.T) {
	r := New()
	r.Add("SHORT", " seven77\n")
	r.Add("odd name]", "\n eight888 \n")
	r.Add("", "nameless value")
	r.Add(strings.Repeat("n", 200), "value of a long name")
	want := "seven77 [redacted:odd_name_] [redacted:secret] [redacted:" + strings.Repeat("n", 64) + "]"
	if diff := cmp.Diff(want, r.String("seven77 eight888 nameless value value of a long name")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestLongestExactValueWins(t *testing.T) {
	r := New()
	r.Add("SHORT", "passphrase")
	r.Add("LONG", "passphrase and more")
	if got, want := r.String("a passphrase and more, a passphrase and"), "a [redacted:LONG], a [redacted:SHORT] and"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExactValueThatStartsWithinAnotherSecretIsReplacedToItsEnd(t *testing.T) {
	r := New()
	r.Add("PHRASE", "Q7 and five words more")
	secret := "gh" + "p_" + strings.Repeat("a1", 20)
	if got, want := r.String(secret+"Q7 and five words more."), "[redacted:github-token]."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAddIsSafeBesideString(t *testing.T) {
	r := New()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 20 {
				secret := fmt.Sprintf("secret value %d/%d", i, j)
				r.Add("V", secret)
				if got := r.String(secret); got != "[redacted:V]" {
					t.Errorf("%q became %q", secret, got)
				}
			}
		})
	}
	wg.Wait()
}

func TestPEMWithoutEndIsReplacedUpToItsBound(t *testing.T) {
	line := strings.Repeat("Ab1+", 16) + "\n"
	begin := "-----" + "BEGIN PRIVATE KEY-----\n"
	got := New().String(begin + strings.Repeat(line, 1000))
	if kept := len(got) - len("[redacted:private-key]"); kept != len(begin)+1000*len(line)-maxPEM {
		t.Errorf("kept %d bytes of %d", kept, 1000*len(line))
	}
}

func TestPEMInADiffIsReplaced(t *testing.T) {
	line := "+" + strings.Repeat("Ab1+", 16) + "\n"
	got := New().String("+-----" + "BEGIN EC PRIVATE KEY-----\n" + line + line + "+-----" + "END EC PRIVATE KEY-----\n+next\n")
	if want := "+[redacted:private-key]\n+next\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// pieces draws text of secrets, parts of secrets, markers and what lies between.
func pieces() *rapid.Generator[string] {
	var parts []string
	for _, c := range redacttest.Canaries() {
		parts = append(parts, c.Context, c.Secret, c.Secret[:len(c.Secret)/2], c.Context[:len(c.Context)/2], c.Secret[len(c.Secret)/2:])
	}
	parts = append(parts, harmless...)
	for _, s := range exactValues {
		parts = append(parts, s, s[:len(s)-2], s[2:], base64.StdEncoding.EncodeToString([]byte(s)))
	}
	parts = append(parts, ":", "=", "\"", "'", `\"`, `\`, "\n", " ", "@", "://", "https://u", "password", `"token":"`, `\"token\":\"`, "--secret ", "[", "]", "[redacted:", "[redacted:ONE]", "Authorization: ", "Bearer ", "eyJ", ".", "-----", "x1", "A9b8C7")
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 12).Draw(t, "parts"), "")
	})
}

var exactValues = []string{"hunter2hunter2", "aaaaaaaaaa", `pass "word" & <more>`, "redacted", "A9b8C7d6:E5@f4", "Bearer of news"}

func withExact() *Redactor {
	r := New()
	for i, s := range exactValues {
		r.Add([]string{"ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX"}[i], s)
	}
	return r
}

func TestRedactingTwiceChangesNothing(t *testing.T) {
	r := withExact()
	rapid.Check(t, func(t *rapid.T) {
		once := r.String(pieces().Draw(t, "text"))
		if diff := cmp.Diff(once, r.String(once)); diff != "" {
			t.Fatalf("-once +twice\n%s", diff)
		}
	})
}

func TestNoExactValueIsLeft(t *testing.T) {
	r := withExact()
	rapid.Check(t, func(t *rapid.T) {
		got := r.String(pieces().Draw(t, "text"))
		for name := range r.known.Load().names {
			got = strings.ReplaceAll(got, "["+"redacted:"+name+"]", "|")
		}
		for _, s := range exactValues {
			if strings.Contains(got, s) {
				t.Fatalf("%q is in %q", s, got)
			}
		}
	})
}

func FuzzRedactor(f *testing.F) {
	for _, c := range redacttest.Canaries() {
		f.Add(c.Context, 7, 11)
	}
	for _, text := range harmless {
		f.Add(text, 3, 5)
	}
	r := withExact()
	f.Fuzz(func(t *testing.T, text string, a, b int) {
		whole := r.String(text)
		if again := r.String(whole); again != whole {
			t.Fatalf("once:  %q\ntwice: %q", whole, again)
		}
		a, b = clamp(a, len(text)), clamp(b, len(text))
		a, b = min(a, b), max(a, b)
		if got := inPieces(r, text[:a], text[a:b], text[b:]); got != whole {
			t.Fatalf("whole:  %q\npieces: %q", whole, got)
		}
	})
}

func clamp(n, limit int) int { return min(max(n, 0), limit) }

func BenchmarkCleanText(b *testing.B) {
	for name, text := range map[string]string{
		"prose": strings.Repeat("The signal box keeps a section occupied until it is proven clear, and a task unknown until its outcome is. ", 10_000),
		"code":  strings.Repeat("\tfor i, want := range []string{\"a\", \"b\"} {\n\t\tif got := f(i); got != want { t.Errorf(\"f(%d) = %q\", i, got) }\n\t}\n", 10_000),
		"json":  strings.Repeat(`{"id":"job_01HZX3M9Q8K7V6T5S4R3P2N1M0","state":"running","count":17,"text":"hello"},`, 10_000),
	} {
		b.Run(name, func(b *testing.B) {
			r := withExact()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.String(text)
			}
		})
	}
}

// BenchmarkHostileText is about text that makes each rule look far in vain.
func BenchmarkHostileText(b *testing.B) {
	for name, text := range map[string]string{
		"jwt":    "-eyJ",
		"keys":   "secret:",
		"quotes": `token="a `,
		"pem":    "-----" + "BEGIN PRIVATE KEY-----",
		"urls":   "http://a:b ",
		"flags":  "--a",
		"exact":  "hunter2hunter",
	} {
		b.Run(name, func(b *testing.B) {
			r := withExact()
			text := strings.Repeat(text, 1<<20/len(text))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.String(text)
			}
		})
	}
}
