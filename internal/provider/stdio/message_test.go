package stdio

import (
	"strings"
	"testing"

	"signalbox/internal/coord"
)

func TestLinesAreToldApart(t *testing.T) {
	for line, want := range map[string]kind{
		`{"id":1,"method":"a"}`: request, `{"id":"x","method":"a","params":{}}`: request, `{"method":"a","emittedAtMs":1}`: notification,
		`{"id":1,"result":null}`: response, `{"id":1,"result":{}}`: response, `{"id":1,"error":{"code":1}}`: response, `{"jsonrpc":"2.0","id":1,"result":1}`: response,
		`{"id":1}`: noise, `{}`: noise, `[]`: noise, `[{"method":"a"}]`: noise, `"x"`: noise, `12`: noise, `INFO x`: noise, ``: noise, `{"id":1.5,"method":"a"}`: noise,
		`{"id":{},"method":"a"}`: noise, `{"id":[],"result":1}`: noise, `{"method":1}`: noise, ` {"method":"a"}`: notification, `{"method":"a"}x`: noise,
	} {
		if _, got := classify([]byte(line), ""); got != want {
			t.Errorf("%s is %d; want %d", line, got, want)
		}
	}
}

func TestLinesWithoutTheDemandedVersionAreNoise(t *testing.T) {
	for line, want := range map[string]kind{
		``: noise, ` `: noise, "\t \t": noise, `{}`: noise, `{`: noise, `[]`: noise, `null`: noise, `7`: noise,
		`{"method":"a"}`:                             noise,
		`{"jsonrpc":"1.0","method":"a"}`:             noise,
		`{"jsonrpc":"2.0"}`:                          noise,
		`{"jsonrpc":2.0,"method":"a"}`:               noise,
		`{"jsonrpc":"2.0","id":1}`:                   noise,
		`{"jsonrpc":"2.0","id":1.5,"result":{}}`:     noise,
		`{"jsonrpc":"2.0","id":{},"result":{}}`:      noise,
		`{"jsonrpc":"2.0","id":true,"method":"a"}`:   noise,
		`{"jsonrpc":"2.0","error":{}}`:               noise,
		`{"jsonrpc":"2.0","method":"a"} trailing`:    noise,
		`{"jsonrpc":"2.0","method":"a"}`:             notification,
		`  {"jsonrpc":"2.0","method":"a"}`:           notification,
		`{"jsonrpc":"2.0","id":1,"method":"a"}`:      request,
		`{"jsonrpc":"2.0","id":"x","method":"a"}`:    request,
		`{"jsonrpc":"2.0","id":null,"method":"a"}`:   request,
		`{"jsonrpc":"2.0","id":1,"result":null}`:     response,
		`{"jsonrpc":"2.0","id":null,"error":{}}`:     response,
		`{"jsonrpc":"2.0","id":"1","result":"x"}`:    response,
		`{"jsonrpc":"2.0","id":1,"result":{},"x":1}`: response,
	} {
		if _, got := classify([]byte(line), "2.0"); got != want {
			t.Errorf("%s is %d; want %d", line, got, want)
		}
	}
}

func FuzzLine(f *testing.F) {
	for _, s := range []string{`{"id":1,"method":"a","params":{"x":[1,2]}}`, `{"id":1,"error":{"code":"x","message":[]}}`, "\xff", `{"id":null,"method":"\ud800"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, k := classify(line, "")
		if k == response {
			var v struct{ A int }
			_ = Unpack(m, "x", &v)
		}
		if k == request && m.ID == nil {
			t.Error("a request without id")
		}
	})
}

func TestWordsAreClippedBeforeASecretThatDoesNotFit(t *testing.T) {
	text := strings.Repeat("a ", 10) + "sk-" + strings.Repeat("x", 40)
	if got := Clip(text, 40); strings.Contains(got, "sk-") || len(got) > 40 {
		t.Errorf("it is %q", got)
	}
	if got := Cut(strings.Repeat("é", 200), 101); len(got) > 101 || !strings.HasSuffix(got, "...") {
		t.Errorf("it is %q", got)
	}
	if got := Reason(strings.Repeat("b ", coord.MaxReason)); len(got) > coord.MaxReason {
		t.Errorf("it has %d bytes", len(got))
	}
}
