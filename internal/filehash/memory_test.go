package filehash_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/filehash"
	"signalbox/internal/filehash/filehashtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// size is that of the files whose sums are remembered here.
const size = 1 << 20

// content is size bytes.
func content(of byte) []byte { return bytes.Repeat([]byte{of}, size) }

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	must(t, os.WriteFile(path, b, 0o700))
}

// overwrite changes bytes where they are, and sets the time of modification back.
func overwrite(t testing.TB, path string, b []byte) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.Write(b)
	must(t, errors.Join(err, f.Close(), os.Chtimes(path, info.ModTime(), info.ModTime())))
}

// swaps put content('2') in the place of content('1').
var swaps = map[string]func(t *testing.T, path string){
	"renamed over":              func(t *testing.T, path string) { must(t, os.Rename(path+".other", path)) },
	"overwritten":               func(t *testing.T, path string) { overwrite(t, path, content('2')) },
	"written anew":              func(t *testing.T, path string) { write(t, path, content('2')) },
	"changed by its other name": func(t *testing.T, path string) { overwrite(t, path+".alias", content('2')) },
	"removed and made": func(t *testing.T, path string) {
		must(t, os.Remove(path))
		write(t, path, content('2'))
	},
	"another hard link": func(t *testing.T, path string) {
		must(t, errors.Join(os.Remove(path), os.Link(path+".other", path)))
	},
	"changed in memory": func(t *testing.T, path string) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		must(t, err)
		copy(b, content('2'))
		must(t, unix.Munmap(b))
	},
}

func TestChangeOfAFileIsSeenAfterItsSumWasRemembered(t *testing.T) {
	paths, files := map[string]string{}, []string{}
	for name := range swaps {
		path := filepath.Join(t.TempDir(), "program")
		write(t, path, content('1'))
		write(t, path+".other", content('2'))
		must(t, os.Link(path, path+".alias"))
		info, err := os.Stat(path)
		must(t, errors.Join(err, os.Chtimes(path+".other", info.ModTime(), info.ModTime())))
		paths[name], files = path, append(files, path, path+".other")
	}
	filehashtest.Settle(t, files...)
	for name, swap := range swaps {
		t.Run(name, func(t *testing.T) {
			var m filehash.Memory
			for range 2 {
				if _, sum, err := m.Of(paths[name]); err != nil || sum != sumOf(content('1')) {
					t.Fatalf("the sum before is %s, %v", sum, err)
				}
			}
			if m.Len() != 1 {
				t.Fatalf("%d sums are remembered", m.Len())
			}
			swap(t, paths[name])
			state, sum, err := m.Of(paths[name])
			if err != nil || sum != sumOf(content('2')) || state.Size != size {
				t.Errorf("the sum after is %s, %v", sum, err)
			}
		})
	}
}

func TestFileOfAMomentAgoIsReadEachTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	write(t, path, []byte("-"))
	var m filehash.Memory
	same, last := 0, filehash.State{}
	for i := range 2000 {
		b := []byte{byte('0' + i%2)}
		overwrite(t, path, b)
		state, sum, err := m.Of(path)
		if err != nil || sum != sumOf(b) {
			t.Fatalf("after %d changes the sum is %s, %v", i, sum, err)
		}
		if state == last {
			same++
		}
		last = state
	}
	t.Logf("%d changes left the state as it was", same)
	if m.Len() > 0 {
		t.Errorf("%d sums are remembered", m.Len())
	}
}

func TestFileThatChangesWhileItIsReadHasNoSum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	write(t, path, content('1'))
	filehashtest.Settle(t, path)
	var m filehash.Memory
	_, err := m.During(path, func() { overwrite(t, path, content('2')) })
	if !errors.Is(err, filehash.ErrChanged) {
		t.Errorf("the error is %v", err)
	}
	if m.Len() > 0 {
		t.Errorf("%d sums are remembered", m.Len())
	}
	if _, sum, err := m.Of(path); err != nil || sum != sumOf(content('2')) {
		t.Errorf("the sum after is %s, %v", sum, err)
	}
}

func TestWhatIsNoRegularFileHasNoSum(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write(t, in("file"), nil)
	must(t, errors.Join(syscall.Mkfifo(in("pipe"), 0o600), os.Symlink("file", in("link"))))
	for name, want := range map[string]error{".": filehash.ErrIrregular, "pipe": filehash.ErrIrregular, "link": syscall.ELOOP, "none": fs.ErrNotExist} {
		if _, sum, err := filehash.Of(in(name)); sum != "" || !errors.Is(err, want) {
			t.Errorf("%s has the sum %q, %v", name, sum, err)
		}
	}
}

func TestMemoryHasABound(t *testing.T) {
	var paths []string
	dir := t.TempDir()
	for i := range coord.MaxSums + 10 {
		path := filepath.Join(dir, time.Duration(i).String())
		write(t, path, []byte(path))
		paths = append(paths, path)
	}
	filehashtest.Settle(t, paths...)
	var m filehash.Memory
	for range 2 {
		for _, path := range paths {
			if _, sum, err := m.Of(path); err != nil || sum != sumOf([]byte(path)) {
				t.Fatalf("the sum is %s, %v", sum, err)
			}
		}
		if m.Len() != coord.MaxSums {
			t.Errorf("%d sums are remembered", m.Len())
		}
	}
}
