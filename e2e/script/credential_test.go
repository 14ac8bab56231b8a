package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheValueOfACredentialIsNeverOnTheTerminal(t *testing.T) {
	const value = "hunter2hunter2"
	dir := t.TempDir()
	config := filepath.Join(dir, "signalbox.toml")
	if err := os.WriteFile(config, []byte("[credentials.scout]\nkeyring = true\norigin = \"https://scout.example\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		keys, say string
		code      int
	}{
		"typed":       {value + "\r", "is there a keyring in this session", 7},
		"nothing":     {"\r", "no value was given", 2},
		"interrupted": {value + "\x03", "no value was given", 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := onTerminal(t, nil, base(dir), dir, "credential", "set", "scout", "--config", config)
			w.see("value of scout: ")
			w.enter(c.keys)
			w.see(c.say)
			w.ends(c.code)
			if strings.Contains(w.text(), "hunter2") {
				t.Errorf("the value is on the screen:\n%s", w.text())
			}
		})
	}
}
