package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/credential/binding"
	"signalbox/internal/daemon"
)

func config(t *testing.T, text string) (daemon.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "signalbox.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return daemon.LoadConfig(path)
}

func TestTheConfigurationFileDeclaresAgents(t *testing.T) {
	got, err := config(t, `
listen = "127.0.0.1:7000"
data = "/var/lib/signalbox"

[[agents]]
id = "opencode"
name = "OpenCode"
route = "acp"
executable = "/usr/bin/opencode"
args = ["acp"]
random_env = ["OPENCODE_SERVER_PASSWORD"]
mode = "ask"
preset = "opencode"
env = { LANG = "C" }

[agents.env_from_env]
API_KEY = "MY_KEY"
`)
	if err != nil {
		t.Fatal(err)
	}
	want := daemon.Config{Listen: "127.0.0.1:7000", Data: "/var/lib/signalbox", Agents: []daemon.ConfigAgent{{
		ID: "opencode",
		AgentConfig: coord.AgentConfig{
			Name: "OpenCode", Route: coord.RouteACP, Executable: "/usr/bin/opencode", Args: []string{"acp"},
			RandomEnv: []string{"OPENCODE_SERVER_PASSWORD"}, Mode: "ask", Preset: "opencode",
			Env: map[string]string{"LANG": "C"}, EnvFromEnv: map[string]string{"API_KEY": "MY_KEY"},
		},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheConfigurationFileBindsCredentialsToOrigins(t *testing.T) {
	got, err := config(t, `
[credentials.scout]
env = "SCOUT_TOKEN"
origin = "https://scout.example:8443"

[credentials.local]
keyring = true
origin = "http://127.0.0.1:8080"
`)
	if err != nil {
		t.Fatal(err)
	}
	want := daemon.Config{Credentials: map[string]binding.Source{
		"scout": {Env: "SCOUT_TOKEN", Origin: "https://scout.example:8443"},
		"local": {Keyring: true, Origin: "http://127.0.0.1:8080"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestABadConfigurationIsRefusedWithItsLineAndWithoutItsValues(t *testing.T) {
	const secret = "hunter2hunter2"
	for name, c := range map[string]struct {
		text string
		code coord.Code
		want []string
	}{
		"unknown key":     {"listen = \"0\"\nlisen = \"" + secret + "\"\n", coord.Invalid, []string{"/lisen", "line 2"}},
		"unknown in list": {"[[agents]]\nid = \"a\"\n\ntoken = \"" + secret + "\"\n", coord.Invalid, []string{"token", "line 4"}},
		"wrong type":      {"\nlisten = { x = \"" + secret + "\" }\n", coord.Invalid, []string{"line 2"}},
		"no TOML":         {"listen = " + secret + "\n", coord.Invalid, []string{"line 1"}},
		"twice":           {"listen = \"1\"\nlisten = \"" + secret + "\"\n", coord.Invalid, nil},
		"value for name":  {"[credentials.x]\nenv = \"" + secret + "!\"\norigin = \"https://peer.example\"\n", coord.Invalid, []string{"/credentials/x/env", "line 2"}},
		"two sources":     {"\n[credentials.x]\norigin = \"https://peer.example\"\nenv = \"X\"\nkeyring = true\n", coord.Invalid, []string{"/credentials/x", "line 2"}},
		"no source":       {"[credentials]\nx.origin = \"https://peer.example\"\n", coord.Invalid, []string{"/credentials/x", "line 2"}},
		"no origin":       {"\n\n[credentials.x]\nkeyring = true\n", coord.Invalid, []string{"/credentials/x/origin", "line 3"}},
		"origin in line":  {"\ncredentials = { x = { keyring = true, origin = \"https://" + secret + "@peer.example\" } }\n", coord.Invalid, []string{"/credentials/x/origin", "line 2"}},
		"value inside":    {"[credentials.x]\nkeyring = true\nvalue = \"" + secret + "\"\n", coord.Invalid, []string{"/credentials/x/value", "line 3"}},
		"our variable":    {"[credentials.x]\nenv = \"SIGNALBOX_TOKEN\"\norigin = \"https://peer.example\"\n", coord.Invalid, []string{"/credentials/x/env", "line 2"}},
		"bad name":        {"[credentials.\"X Y\"]\nkeyring = true\norigin = \"https://peer.example\"\n", coord.Invalid, []string{"/credentials/X Y", "line 1"}},
		"too large":       {"# " + strings.Repeat("x", 1<<20), coord.Limit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config(t, c.text)
			if coord.CodeOf(err) != c.code {
				t.Fatalf("error %v, code %s, want %s", err, coord.CodeOf(err), c.code)
			}
			for _, part := range append(c.want, "signalbox.toml") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not name %q", err, part)
				}
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("a value is repeated: %v", err)
			}
		})
	}
	if _, err := daemon.LoadConfig(filepath.Join(t.TempDir(), "none.toml")); coord.CodeOf(err) != coord.Invalid || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing file: %v", err)
	}
}
