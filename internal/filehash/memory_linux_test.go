package filehash_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

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

// moveExtents is EXT4_IOC_MOVE_EXT with its argument: it exchanges parts of two
// files, and dates no change of the donor.
const moveExtents = 0xC028660F

func TestPartsThatAreExchangedWithoutADateAreSeen(t *testing.T) {
	dir := t.TempDir()
	program, other := filepath.Join(dir, "program"), filepath.Join(dir, "other")
	write(t, program, content('1'))
	write(t, other, content('2'))
	unix.Sync() // what was not written to the disk yet lies nowhere
	filehashtest.Settle(t, program)
	var m filehash.Memory
	before, _, err := m.Of(program)
	must(t, err)
	if _, _, err := m.Of(program); err != nil || m.Len() != 1 {
		t.Fatalf("%d sums are remembered, %v", m.Len(), err)
	}
	donor, err := os.OpenFile(program, os.O_RDWR, 0)
	must(t, err)
	defer donor.Close()
	orig, err := os.OpenFile(other, os.O_RDWR, 0)
	must(t, err)
	defer orig.Close()
	argument := struct {
		_, donor                      uint32
		origStart, donorStart, n, did uint64
	}{donor: uint32(donor.Fd()), origStart: 6, donorStart: 6, n: 1}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, orig.Fd(), moveExtents, uintptr(unsafe.Pointer(&argument))); errno == unix.ENOTTY || errno == unix.EOPNOTSUPP {
		t.Logf("the file system of %s exchanges nothing", dir)
		return
	} else if errno != 0 || argument.did != 1 {
		t.Fatalf("%d parts were exchanged: %v", argument.did, errno)
	}
	must(t, unix.Fadvise(int(donor.Fd()), 0, 0, unix.FADV_DONTNEED))
	now, err := os.ReadFile(program)
	must(t, err)
	after, sum, err := m.Of(program)
	if err != nil || after != before || sum != sumOf(now) || sum == sumOf(content('1')) {
		t.Errorf("the sum is %s, %v; the state was %+v and is %+v", sum, err, before, after)
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
