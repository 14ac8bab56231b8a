package filehashtest

import (
	"fmt"
	"os"
	"testing"
)

// Read runs what is given, and tells the bytes that this process read meanwhile
// by calls of the system, from files or else (rchar of proc(5)). Nothing else
// may run in the test's process.
func Read(t testing.TB, run func()) int64 {
	t.Helper()
	begin := read(t)
	run()
	return read(t) - begin
}

func read(t testing.TB) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(text), "rchar: %d", &n); err != nil {
		t.Fatalf("/proc/self/io is %q: %v", text, err)
	}
	return n
}
