package peers

import "testing"

// CodexVersions are the versions of codex that tests run against: the one that
// the first facts were measured with and the newest one when this was written.
func CodexVersions() []string { return []string{"0.163.0", "0.171.0"} }

// Codex is the native program of one of CodexVersions. It comes from the
// package of the platform itself, which needs no script to be installed, and
// not from the wrapper on Node that users have beside it. It exists for Linux
// on x86-64: elsewhere it is not available.
//
// `codex app-server` answers initialize after 50 to 900 ms and keeps all of its
// state below CODEX_HOME. It reaches no address but that of the model that its
// configuration names, once plugins, analytics and the update check are off.
func Codex(t testing.TB, version string) string {
	t.Helper()
	return installed(t, npmInstalled, "node_modules", "codex-"+version, "vendor", "x86_64-unknown-linux-musl", "bin", "codex")
}
