package directory_test

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/directory"
	"signalbox/internal/provider/providertest"
)

// bound are the credentials of these tests: a name and its origin.
type bound map[string]string

func (b bound) Bound(name, origin string) error {
	switch at, ok := b[name]; {
	case !ok:
		return coord.Errorf(coord.NotFound, "there is no credential %s", name)
	case at != origin:
		return coord.Errorf(coord.Forbidden, "the credential %s goes to %s alone", name, at)
	}
	return nil
}

// reaching gives a world whose directory knows the routes to peers.
func reaching(t *testing.T) *world {
	w := newWorld(t)
	w.Directory = directory.New(w.journal, directory.Adapters{
		coord.RouteACP:    w.fake,
		coord.RouteA2A:    providertest.NewFake(coord.RouteA2A, nil),
		coord.RouteTincan: providertest.NewFake(coord.RouteTincan, nil),
	}, directory.Options{
		Host: "here", Scratch: w.scratch, Logger: slog.New(slog.DiscardHandler),
		Credentials: bound{"scout": "https://peer.example", "other": "https://other.example"},
	})
	return w
}

func a2a(change func(*coord.AgentConfig)) coord.AgentConfig {
	cfg := coord.AgentConfig{Route: coord.RouteA2A, A2A: &coord.A2AConfig{
		Card: "https://peer.example/.well-known/agent-card.json", Origin: "https://peer.example", Version: "1.0",
	}}
	change(&cfg)
	return cfg
}

func TestEveryFaultOfAPeerIsToldAtOnce(t *testing.T) {
	w := reaching(t)
	tincan := program(t, t.TempDir(), "tincan")
	for _, c := range []struct {
		name string
		cfg  coord.AgentConfig
		want []string
	}{
		{"a peer as it should be", a2a(func(*coord.AgentConfig) {}), nil},
		{"work at another origin than the card", a2a(func(c *coord.AgentConfig) { c.A2A.Origin = "https://work.peer.example:8443" }), nil},
		{"a credential for its origin", a2a(func(c *coord.AgentConfig) { c.A2A.Credential = "scout" }), nil},
		{"nothing", coord.AgentConfig{Route: coord.RouteA2A}, []string{"/a2a"}},
		{"all empty", coord.AgentConfig{Route: coord.RouteA2A, A2A: &coord.A2AConfig{}}, []string{"/a2a/card", "/a2a/origin", "/a2a/version"}},
		{"a peer on the route of programs", coord.AgentConfig{Route: coord.RouteACP, Executable: tincan, A2A: a2a(func(*coord.AgentConfig) {}).A2A}, []string{"/a2a"}},
		{"a version that nobody speaks", a2a(func(c *coord.AgentConfig) { c.A2A.Version = "0.2" }), []string{"/a2a/version"}},
		{"http to the world", a2a(func(c *coord.AgentConfig) {
			c.A2A.Card, c.A2A.Origin = "http://peer.example/card", "http://peer.example"
		}), []string{"/a2a/card", "/a2a/origin"}},
		{"http to private addresses", a2a(func(c *coord.AgentConfig) {
			c.A2A.Card, c.A2A.Origin, c.A2A.Private = "http://10.0.0.7:8080/card", "http://10.0.0.7:8080", true
		}), nil},
		{"a password in the address", a2a(func(c *coord.AgentConfig) { c.A2A.Card = "https://me:secret@peer.example/card" }), []string{"/a2a/card"}},
		{"an origin with a path", a2a(func(c *coord.AgentConfig) { c.A2A.Origin = "https://peer.example/rpc" }), []string{"/a2a/origin"}},
		{"an origin written otherwise", a2a(func(c *coord.AgentConfig) { c.A2A.Origin = "https://PEER.example:443" }), []string{"/a2a/origin"}},
		{"a credential that is not there", a2a(func(c *coord.AgentConfig) { c.A2A.Credential = "none" }), []string{"/a2a/credential"}},
		{"a credential of another origin", a2a(func(c *coord.AgentConfig) { c.A2A.Credential = "other" }), []string{"/a2a/credential"}},
		{"relative files", a2a(func(c *coord.AgentConfig) { c.A2A.CA, c.A2A.Keys = "ca.pem", "/etc/../keys" }), []string{"/a2a/ca", "/a2a/keys"}},
		{"what programs have", a2a(func(c *coord.AgentConfig) {
			c.Executable, c.Args, c.Mode = tincan, []string{"x"}, "ask"
			c.Env, c.EnvFromEnv, c.RandomEnv = map[string]string{"A": "b"}, map[string]string{"C": "D"}, []string{"E"}
		}), []string{"/args", "/env", "/env_from_env", "/executable", "/mode", "/random_env"}},
		{"a Tincan peer as it should be", coord.AgentConfig{Route: coord.RouteTincan, Executable: tincan, Tincan: &coord.TincanConfig{Peer: "desk", Profile: "/home/me/client.json", Dialect: "text"}}, nil},
		{"a Tincan peer without a program", coord.AgentConfig{Route: coord.RouteTincan, Tincan: &coord.TincanConfig{Peer: "desk", Profile: "/p", Dialect: "json"}}, []string{"/executable"}},
		{"no Tincan peer", coord.AgentConfig{Route: coord.RouteTincan, Executable: tincan}, []string{"/tincan"}},
		{"an empty Tincan peer", coord.AgentConfig{Route: coord.RouteTincan, Executable: tincan, Tincan: &coord.TincanConfig{}}, []string{"/tincan/dialect", "/tincan/peer", "/tincan/profile"}},
		{"a peer with a line end in its name", coord.AgentConfig{Route: coord.RouteTincan, Executable: tincan, Tincan: &coord.TincanConfig{Peer: "a\nb", Profile: "/p", Dialect: "json"}}, []string{"/tincan/peer"}},
		{"both kinds at once", coord.AgentConfig{Route: coord.RouteTincan, Executable: tincan, A2A: a2a(func(*coord.AgentConfig) {}).A2A,
			Tincan: &coord.TincanConfig{Peer: "desk", Profile: "/p", Dialect: "json"}}, []string{"/a2a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			added, err := w.Add(t.Context(), "peer", c.cfg, operator)
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				if added.Locality != coord.LocalityRemote {
					t.Errorf("it is %s", added.Locality)
				}
				if err := w.Remove(t.Context(), "peer", operator); err != nil {
					t.Fatal(err)
				}
				return
			}
			if coord.CodeOf(err) != coord.Invalid {
				t.Fatalf("got %v", err)
			}
			got := pointers(err)
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEditOfAPeerMakesItsInspectionOld(t *testing.T) {
	w := reaching(t)
	tincan := program(t, t.TempDir(), "tincan")
	for name, c := range map[string]struct {
		cfg    coord.AgentConfig
		change func(*coord.AgentConfig)
	}{
		"card":     {a2a(func(*coord.AgentConfig) {}), func(c *coord.AgentConfig) { c.A2A.Card = "https://peer.example/another.json" }},
		"endpoint": {a2a(func(*coord.AgentConfig) {}), func(c *coord.AgentConfig) { c.A2A.Origin = "https://new.peer.example" }},
		"version":  {a2a(func(*coord.AgentConfig) {}), func(c *coord.AgentConfig) { c.A2A.Version = "0.3" }},
		"profile": {coord.AgentConfig{Route: coord.RouteTincan, Executable: tincan, Tincan: &coord.TincanConfig{Peer: "desk", Profile: "/p", Dialect: "json"}},
			func(c *coord.AgentConfig) { c.Tincan.Profile = "/q" }},
	} {
		t.Run(name, func(t *testing.T) {
			id := coord.AgentID(name)
			if _, err := w.Add(t.Context(), id, c.cfg, operator); err != nil {
				t.Fatal(err)
			}
			before, err := w.Inspect(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			cfg := before.Config
			if cfg.A2A != nil {
				copied := *cfg.A2A
				cfg.A2A = &copied
			}
			if cfg.Tincan != nil {
				copied := *cfg.Tincan
				cfg.Tincan = &copied
			}
			c.change(&cfg)
			after, err := w.Revise(t.Context(), id, before.Revision, cfg, operator)
			if err != nil {
				t.Fatal(err)
			}
			if after.Revision == before.Revision || after.Inspection.Usable(w.journal.Now(), after.Revision) {
				t.Errorf("revision %d is usable on the inspection of revision %d", after.Revision, before.Revision)
			}
		})
	}
}
