package peers

import "testing"

// Bun is the test runner and JavaScript runtime Bun 1.4.5, one executable of
// 90 MB which needs nothing beside it. It is the binary of the package
// @oven/bun-linux-x64: elsewhere it is not available.
func Bun(t testing.TB) string {
	t.Helper()
	return installed(t, npmInstalled, "node_modules", "@oven", "bun-linux-x64", "bin", "bun")
}
