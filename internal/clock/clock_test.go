package clock_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"signalbox/internal/clock"
	"signalbox/internal/coord"
)

// bootEnv makes the test binary print its boot id.
const bootEnv = "CLOCK_TEST_PRINT_BOOT"

func TestMain(m *testing.M) {
	if os.Getenv(bootEnv) != "" {
		fmt.Print(clock.System()().BootID)
		return
	}
	os.Exit(m.Run())
}

func TestMomentsOfOneBootAdvanceTogether(t *testing.T) {
	now := clock.System()
	a := now()
	<-time.After(20 * time.Millisecond) // what is measured is time itself
	b := now()
	if a.BootID == "" || a.BootID != b.BootID {
		t.Errorf("boot ids %q and %q", a.BootID, b.BootID)
	}
	for name, d := range map[string]time.Duration{"wall": b.Wall.Sub(a.Wall), "boot": b.Boot - a.Boot, "awake": b.Awake - a.Awake, "Since": b.Since(a)} {
		if d < 20*time.Millisecond || d > 10*time.Second {
			t.Errorf("%s advanced by %v in 20ms", name, d)
		}
	}
	if a.Awake <= 0 || a.Boot < a.Awake-time.Millisecond {
		t.Errorf("boot %v is less than awake %v", a.Boot, a.Awake)
	}
}

func TestWallIsUTCAndComparable(t *testing.T) {
	w := clock.System()().Wall
	if w.Location() != time.UTC || strings.Contains(w.String(), "m=") {
		t.Errorf("wall is %v", w)
	}
	if d := time.Since(w); d < 0 || d > time.Minute {
		t.Errorf("wall is off by %v", d)
	}
}

func TestBootIDIsTheSameInEveryProcess(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = []string{bootEnv + "=1"}
	out, err := cmd.Output()
	id, idErr := clock.BootID()
	if err != nil || idErr != nil || string(out) != id || id == "" {
		t.Errorf("here %q (%v), in another process %q (%v)", id, idErr, out, err)
	}
}

func BenchmarkSystem(b *testing.B) {
	now := clock.System()
	b.ReportAllocs()
	var m coord.Moment
	for b.Loop() {
		m = now()
	}
	_ = m
}
