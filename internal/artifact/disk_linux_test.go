package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"signalbox/internal/coord"
)

// fullDir names, in the environment, where a child mounts a small disk, in a
// mount namespace of its own, and fills it.
const fullDir = "SIGNALBOX_TEST_FULL_DISK"

func init() {
	if dir := os.Getenv(fullDir); dir != "" {
		if err := fillDisk(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func fillDisk(dir string) error {
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=4m"); err != nil {
		return fmt.Errorf("mounting: %w", err)
	}
	s, err := New(dir, plain)
	if err != nil {
		return err
	}
	known := map[string]int64{}
	var last Ref
	for i := range 8 {
		var ref Ref
		ref, err = s.Put(context.Background(), bytes.NewReader(bytes.Repeat([]byte{byte(i)}, 1<<20)), coord.MaxArtifact)
		if err != nil {
			break
		}
		known[ref.SHA256], last = ref.Size, ref
	}
	if coord.CodeOf(err) != coord.Unavailable || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some space") {
		return fmt.Errorf("a full disk gave %w after %d artifacts", err, len(known))
	}
	rep, err := s.Verify(context.Background(), known)
	if err != nil || len(known) == 0 || rep.Count != len(known) || len(rep.Missing)+len(rep.Damaged)+len(rep.Orphans) > 0 {
		return fmt.Errorf("after a full disk: %+v, %w", rep, err)
	}
	if left, err := os.ReadDir(s.temp()); err != nil || len(left) > 0 {
		return fmt.Errorf("%d temporary files are left, %w", len(left), err)
	}
	if err := s.Remove(last.SHA256); err != nil {
		return err
	}
	_, err = s.Put(context.Background(), strings.NewReader("there is space again"), coord.MaxArtifact)
	return err
}

func TestAFullDiskIsUnavailableAndHarmsNothing(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), fullDir+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	denied := errors.Is(err, fs.ErrPermission) || strings.Contains(string(out), "mounting: "+syscall.EPERM.Error()) || strings.Contains(string(out), "mounting: "+syscall.EACCES.Error())
	if denied && os.Getenv("CI") == "" {
		t.Skip("this machine lets no user make a mount namespace, so no disk of its own can be filled")
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
