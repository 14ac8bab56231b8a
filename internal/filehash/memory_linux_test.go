package filehash_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"signalbox/internal/filehash"
	"signalbox/internal/filehash/filehashtest"
)

// large is that of a program as large as Codex, without taking the place.
const large = 256 << 20

func TestUnchangedFileIsReadOnceForAllThatAsk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	write(t, path, nil)
	must(t, os.Truncate(path, large))
	filehashtest.Settle(t, path)
	var m filehash.Memory
	ask := func() {
		if _, sum, err := m.Of(path); err != nil || len(sum) != 64 {
			t.Errorf("the sum is %s, %v", sum, err)
		}
	}
	n := filehashtest.Read(t, func() {
		var all sync.WaitGroup
		for range 8 {
			all.Go(ask)
		}
		all.Wait()
	})
	if n < large || n > large+large/2 {
		t.Errorf("eight that asked at once read %d bytes", n)
	}
	if n := filehashtest.Read(t, ask); n > 64<<10 {
		t.Errorf("the next one read %d bytes", n)
	}
}

func TestOnlyFileSystemsThatDateChangesAreTrusted(t *testing.T) {
	for path, want := range map[string]bool{t.TempDir(): true, "/proc/version": false, "/sys/kernel/notes": false} {
		f, err := os.Open(path)
		must(t, err)
		if got := filehash.Dated(f); got != want {
			t.Errorf("the changes of %s are trusted: %t", path, got)
		}
		must(t, f.Close())
	}
}
