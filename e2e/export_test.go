package e2e

import (
	"archive/zip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
)

func TestAnExportIsVerifiedAndOneChangedByteIsFound(t *testing.T) {
	w := newWorld(t)
	w.add("asker", peers.GoSDKAgent(t))
	ref := w.run(plan(task("t", "asker", "ask me first")))
	w.decide(w.asked(ref, "t"), coord.DecisionApprove, "")
	w.settles(ref, coord.JobCompleted)
	whole := filepath.Join(t.TempDir(), "job.zip")
	if code, _, log := w.cli("job", "export", ref, "--output", whole); code != 0 {
		t.Fatalf("job export exits with %d: %s", code, log)
	}
	if code, out, log := w.cli("verify", whole); code != 0 {
		t.Fatalf("verify exits with %d: %s%s", code, out, log)
	}
	archive, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]int64{} // the offset of a byte in the middle
	z, err := zip.OpenReader(whole)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		at, err := f.DataOffset()
		if err != nil {
			t.Fatal(err)
		}
		members[f.Name] = at + int64(f.CompressedSize64/2)
	}
	if len(members) < 11 {
		t.Errorf("the archive has the members %v", members)
	}
	artifacts := 0
	for name, at := range members {
		if strings.HasPrefix(name, "artifacts/") {
			artifacts++
		}
		broken := filepath.Join(t.TempDir(), "broken.zip")
		changed := append([]byte(nil), archive...)
		changed[at] ^= 1
		if err := os.WriteFile(broken, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, log := w.cli("verify", broken); code == 0 || !strings.Contains(out+log, name) {
			t.Errorf("a changed byte of %s: verify exits with %d: %s%s", name, code, out, log)
		}
	}
	if artifacts == 0 {
		t.Error("the archive holds no artifact")
	}
}
