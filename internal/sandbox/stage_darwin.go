package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/filehash"
)

// wrapper is the system's own sandbox. It becomes the program, so that there is
// one process, as on Linux.
const wrapper = "/usr/bin/sandbox-exec"

// stage is the process between the supervisor and the program.
func stage() {
	o, err := readOrder()
	if err != nil {
		fail(stageOrder, err)
	}
	if err := os.Chdir(filepath.Join(o.Dir, o.Start)); err != nil {
		fail(stageDir, err)
	}
	if err := setLimits(o.Limits); err != nil {
		fail(stageLimits, err)
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(o.Program, &st); err != nil {
		fail(stageExec, err)
	}
	if filehash.StateOf(&st) != o.ID {
		fail(stageExec, errors.New("the program changed while the run was prepared"))
	}
	tell(reply{Ready: true, Layers: []string{"rlimits", "seatbelt"}})
	fail(stageExec, syscall.Exec(wrapper, profile(o), o.Env))
}

// duplicate makes to a descriptor that the program keeps.
func duplicate(from, to int) error { return unix.Dup2(from, to) }

func setLimits(l Limits) error {
	cpu := uint64((l.CPU + time.Second - 1) / time.Second)
	for _, limit := range []struct {
		what      int
		soft, max uint64
	}{
		{unix.RLIMIT_CORE, 0, 0},
		{unix.RLIMIT_NOFILE, uint64(l.Files), uint64(l.Files)},
		{unix.RLIMIT_FSIZE, uint64(l.FileSize), uint64(l.FileSize)},
		{unix.RLIMIT_CPU, cpu, cpu + 2},
	} {
		if err := unix.Setrlimit(limit.what, &unix.Rlimit{Cur: limit.soft, Max: limit.max}); err != nil {
			return err
		}
	}
	unix.Umask(0o077)
	return nil
}

// profile is the command of the wrapper. Paths go in as parameters, so that no
// name of a file is read as a rule. The last rule that matches decides.
func profile(o order) []string {
	argv := []string{wrapper}
	var rules strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&rules, format+"\n", args...) }
	param := func(path string) string {
		name := fmt.Sprintf("P%d", len(argv))
		argv = append(argv, "-D", name+"="+path)
		return fmt.Sprintf("(param %q)", name)
	}
	say("(version 1)")
	say("(deny default)")
	say("(deny process-fork) (deny network*) (deny mach-lookup) (deny mach-register)")
	say("(allow signal (target self))")
	say("(allow sysctl-read)")
	program := param(o.Program)
	say("(allow process-exec (literal %s))", program)
	// What the loader and the C library ask for. Names and sizes of files can be
	// asked for everywhere, as in the tier landlock.
	say("(allow file-read-metadata)")
	say(`(allow file-read* (subpath "/usr/lib") (subpath "/System/Library") (subpath "/private/var/db/dyld") (subpath "/private/var/db/timezone"))`)
	say(`(allow file-read* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom"))`)
	say(`(allow file-write-data (literal "/dev/null") (literal "/dev/zero"))`)
	for _, path := range append([]string{o.Program, o.Dir}, o.Reads...) {
		say("(allow file-read* (subpath %s))", param(path))
	}
	say("(allow file-read* file-write* (subpath %s))", param(o.Scratch))
	for _, m := range o.Masks {
		say("(deny file-read* file-write* (subpath %s))", param(filepath.Join(o.Dir, m.Path)))
	}
	argv = append(argv, "-p", rules.String())
	return append(append(argv, "--", o.Program), o.Argv[1:]...)
}
