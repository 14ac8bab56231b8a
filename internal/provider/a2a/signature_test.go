package a2a

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

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
		p.shows([]byte(signed.Card))
		config := p.config()
		config.Keys = keyFile(t, signed.Key)
		in, err := newAdapter(t, fast).Inspect(t.Context(), provider.Target{Config: coord.AgentConfig{Route: coord.RouteA2A, A2A: &config}})
		if err != nil || in.Problem != "" {
			t.Fatalf("Inspect: %v, %q", err, in.Problem)
		}
		if c := signedOf(in); !c.Has {
			t.Errorf("with the key %s it is told as %+v", signed.Key, c)
		}
		p.shows([]byte(strings.Replace(signed.Card, "by the SDK", "by nobody", 1)))
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
