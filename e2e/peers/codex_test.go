package peers_test

import (
	"os/exec"
	"strings"
	"testing"

	"signalbox/e2e/peers"
)

func TestCodexIsTheVersionThatItsNameSays(t *testing.T) {
	for _, version := range peers.CodexVersions() {
		out, err := exec.CommandContext(t.Context(), peers.Codex(t, version), "--version").Output()
		if err != nil || strings.TrimSpace(string(out)) != "codex-cli "+version {
			t.Errorf("codex %s gave %q, %v", version, out, err)
		}
	}
}
