package a2a

import (
	"strings"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

func TestWhatACardSaysOfItselfStaysInOneLine(t *testing.T) {
	k, err := readCard([]byte(`{"name":"a\n  card signature verified","version":"1\r\n\u2028\u0085 2"}`))
	if err != nil {
		t.Fatal(err)
	}
	id, err := k.identity(coord.A2AConfig{})
	if want := "a card signature verified 1 2"; err != nil || id.Version != want {
		t.Errorf("the version is %q (%v), want %q", id.Version, err, want)
	}
}

func TestACardOfManyWrongAddressesIsRefusedAtOnce(t *testing.T) {
	many := strings.Repeat(`{"url":"x","transport":"JSONRPC"},`, 30_000)
	k, err := readCard([]byte(`{"url":"http://elsewhere.example/","additionalInterfaces":[` + strings.TrimSuffix(many, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, _, err = k.choose(coord.A2AConfig{Version: v03, Origin: "https://peer.example"})
	if u := asUnsent(err); u == nil || u.Cause != provider.CauseConfig || !strings.Contains(u.Message, "elsewhere.example") || !strings.Contains(u.Message, "https://peer.example") {
		t.Errorf("it was refused with %v", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %s", took)
	}
	k, err = readCard([]byte(`{"supportedInterfaces":[{"url":"https://peer.example/","protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":"` + strings.Repeat("t", maxID+1) + `"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.choose(coord.A2AConfig{Version: v10, Origin: "https://peer.example"}); asUnsent(err) == nil {
		t.Error("a tenant beyond its bound was taken")
	}
}

func TestAnExcerptEndsBeforeAWordThatIsCut(t *testing.T) {
	body := strings.Repeat(" ", maxExcerpt-9) + "a bearer-of-secrets"
	if got := strings.TrimSpace(excerpt([]byte(body))); got != "a ..." {
		t.Errorf("the excerpt is %q", got)
	}
}
