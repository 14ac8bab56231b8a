package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
	"signalbox/internal/workspace/workspacetest"
)

// TestNothingIsReadAcrossAMount makes mounts in a namespace of its own: another
// file system, and two of the same one, which have the same device number.
func TestNothingIsReadAcrossAMount(t *testing.T) {
	dir := tree(t, map[string]string{
		"out/file": "secret", "w/other/": "", "w/same/file": "fine", "w/bound": "fine", "w/plain/file": "fine",
	})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, dir)
	cmd.Env = append(os.Environ(), roleVar+"=mount")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// acrossMounts is the child of the test.
func acrossMounts(args []string) error {
	dir := args[0]
	w := filepath.Join(dir, "w")
	err := errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("tmpfs", filepath.Join(w, "other"), "tmpfs", 0, ""),
		syscall.Mount(filepath.Join(dir, "out"), filepath.Join(w, "same"), "", syscall.MS_BIND, ""),
		syscall.Mount(filepath.Join(dir, "out", "file"), filepath.Join(w, "bound"), "", syscall.MS_BIND, ""),
		os.WriteFile(filepath.Join(w, "other", "file"), []byte("x"), 0o600),
	)
	if err != nil {
		return fmt.Errorf("the namespace cannot be made; user namespaces must be allowed: %w", err)
	}
	id, _, err := workspace.Identify(w)
	if err != nil {
		return err
	}
	r, err := workspace.Open(id)
	if err != nil {
		return err
	}
	if _, err := r.Read("plain/file"); err != nil {
		return err
	}
	for _, p := range []string{"other/file", "same/file", "bound"} {
		f, err := r.Read(p)
		if coord.CodeOf(err) != coord.Invalid || !strings.Contains(err.Error(), "another file system is mounted") {
			return fmt.Errorf("reading %s gave %q, %w", p, f.Content, err)
		}
		step := coord.LandingStep{Kind: coord.StepRemove, Path: p, Before: workspace.Sum([]byte("secret")), Temp: ".signalbox-1"}
		if done := workspace.Apply(context.Background(), r, nil, step); done.State == coord.StepLanded {
			return fmt.Errorf("%s was removed", p)
		}
	}
	l, err := r.List(".")
	if err != nil {
		return err
	}
	for _, e := range l.Entries {
		if (e.Refused != "") != (e.Name != "plain") {
			return fmt.Errorf("%s is refused with %q", e.Name, e.Refused)
		}
	}
	return nil
}

func init() { roles["mount"], roles["without exchange"] = acrossMounts, withoutExchange }

// TestFileSystemWithoutExchangeIsRefused has the system answer as such a file
// system does.
func TestFileSystemWithoutExchangeIsRefused(t *testing.T) {
	dir := tree(t, map[string]string{"f": "a"})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, dir)
	cmd.Env = append(os.Environ(), roleVar+"=without exchange")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff(map[string]string{"f": "a"}, names(t, dir)); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
}

// withoutExchange is the child of the test.
func withoutExchange(args []string) error {
	id, _, err := workspace.Identify(args[0])
	if err != nil {
		return err
	}
	r, err := workspace.Open(id)
	if err != nil {
		return err
	}
	if err := workspace.CanLand(r); err != nil {
		return err
	}
	if err := forbidExchange(); err != nil {
		return err
	}
	if err := workspace.CanLand(r); coord.CodeOf(err) != coord.Unsupported || !strings.Contains(err.Error(), "local disk") {
		return fmt.Errorf("probing gave %w", err)
	}
	store := &workspacetest.Contents{}
	sha, err := store.Put(context.Background(), []byte("b"))
	if err != nil {
		return err
	}
	for _, step := range []coord.LandingStep{
		{Kind: coord.StepReplace, Path: "f", Before: workspace.Sum([]byte("a")), After: sha, Temp: ".signalbox-1"},
		{Kind: coord.StepCreate, Path: "g/h", After: sha, Temp: ".signalbox-1"},
		{Kind: coord.StepRemove, Path: "f", Before: workspace.Sum([]byte("a")), Temp: ".signalbox-1"},
	} {
		if done := workspace.Apply(context.Background(), r, store, step); done.State != coord.StepFailed || !strings.Contains(done.Note, "local disk") {
			return fmt.Errorf("%s gave %s, %q", step.Kind, done.State, done.Note)
		}
	}
	return nil
}

// forbidExchange makes renameat2 fail with EINVAL in this process.
func forbidExchange() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_RENAMEAT2},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x00050000 | uint32(unix.EINVAL)}, // SECCOMP_RET_ERRNO
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000},                       // SECCOMP_RET_ALLOW
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const setFilter, allThreads = 1, 1
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, setFilter, allThreads, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}
