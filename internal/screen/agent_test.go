package screen

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
)

// scout is a peer with everything that a registration can say of one, and with
// names longer than a line.
func scout() coord.AgentConfig {
	return coord.AgentConfig{Route: coord.RouteA2A, Locality: coord.LocalityRemote, A2A: &coord.A2AConfig{
		Card: "https://cards.example/" + strings.Repeat("long/", 30) + "card.json", Origin: "https://" + strings.Repeat("far.", 20) + "peer.example:8443",
		Version: "1.0", Credential: "scout", Private: true, CA: "/etc/scout/ca.pem", Keys: "/etc/scout/keys.json",
	}}
}

func TestAPlanShowsAllThatIsApprovedOfAPeer(t *testing.T) {
	desk := coord.AgentConfig{Route: coord.RouteTincan, Executable: "/usr/bin/tincan", Tincan: &coord.TincanConfig{Peer: "night-desk", Profile: "/home/me/client.json", Dialect: "json"}}
	j := coord.Job{Number: 3, Title: "Ask around", Frozen: &coord.Frozen{Digest: strings.Repeat("d", 64), Tasks: []coord.FrozenTask{
		{Key: "a", Agent: "scout", Revision: 2, Host: "here", Config: scout(), Identity: coord.Identity{Files: []coord.IdentityFile{{Role: "card", Path: scout().A2A.Card, SHA256: strings.Repeat("c", 64)}}}},
		{Key: "b", Agent: "desk", Revision: 1, Host: "here", Config: desk},
	}}}
	for width, want := range map[int][]string{
		80: {"by A2A 1.0, at private addresses alone", "sent the credential scout", "trusted by the certificates of /etc/scout/ca.pem, in place of the system's",
			"card verified with the keys of /etc/scout/keys.json", "card card.json  sha256 cccc", "work goes to night-desk through /usr/bin/tincan", "as /home/me/client.json says, answers in json"},
		40: {"sent the credential scout"},
	} {
		var b strings.Builder
		s := New(nil, &b, io.Discard)
		s.Width = width
		s.Review(&b, j)
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("at %d columns the plan does not say %q:\n%s", width, w, b.String())
			}
		}
		// Names that are broken over lines are there whole.
		whole := strings.Join(strings.Fields(b.String()), "")
		for _, name := range []string{scout().A2A.Origin, scout().A2A.Card} {
			if !strings.Contains(whole, name) {
				t.Errorf("at %d columns the plan does not name all of %s:\n%s", width, name, b.String())
			}
		}
	}
}

func TestAnAgentIsShownWithWhatIsDeclaredApartFromWhatWasMeasured(t *testing.T) {
	cfg := coord.AgentConfig{Route: coord.RouteA2A, A2A: &coord.A2AConfig{Card: "https://peer.example/card", Origin: "https://peer.example", Version: "0.3", Credential: "scout"}}
	g := coord.Agent{ID: "scout", Name: "scout", Route: coord.RouteA2A, Host: "here", Locality: coord.LocalityRemote, Enabled: true, Revision: 2, Config: cfg,
		Inspection: &coord.Inspection{Revision: 1, Auth: coord.AuthReady, Operations: []coord.Operation{coord.Research}, Capabilities: []coord.Capability{
			{Name: "streaming", Has: true, Evidence: coord.Declared}, {Name: "tasks by JSONRPC 0.3", Has: true, Evidence: coord.Measured},
			{Name: "card signature verified", Evidence: coord.Measured, Detail: "not verified: the card has no signature"},
		}}}
	var b strings.Builder
	New(nil, &b, io.Discard).Agent(&b, g)
	got := strings.Split(b.String(), "\n")
	for i, line := range got { // when it was inspected is not of interest
		if at, rest, ok := strings.Cut(line, " at revision"); ok && strings.HasPrefix(at, "  inspected") {
			got[i] = "  inspected at revision" + rest
		}
	}
	want := []string{
		"scout  a2a remote, reached from here, revision 2: not inspected",
		"  work goes to https://peer.example by A2A 0.3",
		"  card from https://peer.example/card",
		"  sent the credential scout",
		"  inspected at revision 1, which is not the present one",
		"  may be asked for: research",
		"  ✔ measured: tasks by JSONRPC 0.3",
		"  ✔ declared: streaming",
		"  – lacks: card signature verified (not verified: the card has no signature)",
		"",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
