package coord_test

import (
	"testing"

	"signalbox/internal/coord"
)

func TestHiddenNamesAreThoseOfCredentialsAndMetadata(t *testing.T) {
	for name, want := range map[string]bool{
		".git": true, ".GIT": true, ".Env": true, ".env.local": true, "server.PEM": true, "tls.key": true, ".npmrc": true, "id_ed25519": true,
		"bunfig.toml": true, ".ssh": true,
		"git": false, "env": false, ".envrc2": false, ".environment": false, ".gitignore": false, ".github": false, "key": false, "keyboard.ts": false, "": false,
	} {
		if got := coord.HiddenName(name); got != want {
			t.Errorf("HiddenName(%q) = %v", name, got)
		}
	}
}
