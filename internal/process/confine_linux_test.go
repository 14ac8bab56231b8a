package process_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/process"
)

// attempts are what a program may try with the folder $1, given that it may
// write to $2: each is a command of the shell that succeeds when it did it.
var attempts = []struct{ name, command string }{
	{"make", `echo x > $1/made`},
	{"append", `echo x >> $1/file`},
	{"truncate", `truncate -s 0 $1/file`},
	{"truncate by opening", `python3 -c 'import os,sys; os.open(sys.argv[1], os.O_RDONLY|os.O_TRUNC)' $1/file`},
	{"remove", `rm -f $1/waste`},
	{"make a folder", `mkdir $1/folder`},
	{"remove a folder", `rmdir $1/empty`},
	{"rename within", `mv $1/from $1/to`},
	{"rename away", `python3 -c 'import os,sys; os.rename(sys.argv[1], sys.argv[2])' $1/away $2/away`},
	{"rename over", `echo x > $2/over && python3 -c 'import os,sys; os.rename(sys.argv[1], sys.argv[2])' $2/over $1/file`},
	{"exchange", `echo x > $2/mine && python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2) != 0)' $2/mine $1/theirs`},
	{"link out", `echo x > $2/linked && ln $2/linked $1/linked`},
	{"link in and write", `ln $1/file $2/theirs && echo x >> $2/theirs`},
	{"link by symbol", `ln -s x $1/symbol`},
	{"write through a symbol of its own", `ln -s $1/file $2/through && echo x >> $2/through`},
	{"make a pipe", `mkfifo $1/fifo`},
	{"by a child", `sh -c 'sh -c "echo x > $0/child"' $1`},
	{"in a session of its own", `setsid -w sh -c 'echo x > $0/session' $1`},
	{"by an orphan", `setsid sh -c '(sleep 0.05; echo x > $0/orphan; exit 0) &' $1; for i in 1 2 3 4 5; do sleep 0.1; test -e $1/orphan && break; done; test -e $1/orphan`},
	{"by way of the root of the process", `echo x > /proc/self/root$1/by-root`},
	{"by way of the parent", `cd $2 && echo x > ../$(basename $1)/parent`},
}

// laid lays out a folder of the operator's and one of the program's own.
func laid(t *testing.T) (theirs, own string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	theirs, own = filepath.Join(dir, "theirs"), filepath.Join(dir, "own")
	for _, folder := range []string{own, filepath.Join(theirs, "empty")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"file", "waste", "from", "away", "theirs"} {
		if err := os.WriteFile(filepath.Join(theirs, file), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return theirs, own
}

// tried runs every attempt in one program and gives the names of those that
// worked.
func tried(t *testing.T, theirs, own string, writes []string) map[string]bool {
	t.Helper()
	var script strings.Builder
	for _, a := range attempts {
		script.WriteString("if ( " + a.command + " ) 2>/dev/null; then echo '" + a.name + "'; fi\n")
	}
	script.WriteString("echo x > /dev/null && echo sink\n")
	spec := shell(own, script.String(), theirs, own)
	spec.Writes = writes
	p := start(t, &ledger{}, spec)
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	did := map[string]bool{}
	for name := range strings.Lines(string(out)) {
		did[strings.TrimSpace(name)] = true
	}
	return did
}

// content tells everything that is in a folder.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			all[path] = "folder"
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestProgramWhoseWritesAreRestrictedChangesNothingElse(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"python3", "setsid", "truncate"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatal(err)
		}
	}
	theirs, own := laid(t)
	free := tried(t, theirs, own, nil)
	theirs, own = laid(t)
	before := content(t, theirs)
	confined := tried(t, theirs, own, []string{own})
	for _, a := range attempts {
		if !free[a.name] {
			t.Errorf("%s does not work without a restriction, so it proves nothing", a.name)
		}
		if confined[a.name] {
			t.Errorf("%s works", a.name)
		}
	}
	if !confined["sink"] {
		t.Error("/dev/null cannot be written")
	}
	if diff := cmp.Diff(before, content(t, theirs)); diff != "" {
		t.Error(diff)
	}
	// All of it works in its own folders, and between them.
	theirs, own = laid(t)
	inside := tried(t, theirs, own, []string{theirs, own})
	for _, a := range attempts {
		if !inside[a.name] {
			t.Errorf("%s does not work in its own folder", a.name)
		}
	}
}

func TestProgramThatMayWriteNowhereStillRuns(t *testing.T) {
	t.Parallel()
	theirs, own := laid(t)
	for name, worked := range tried(t, theirs, own, []string{}) {
		if worked && name != "sink" {
			t.Errorf("%s works", name)
		}
	}
}

func TestFolderThatIsNoneOrGoesThroughALinkIsRefused(t *testing.T) {
	t.Parallel()
	theirs, own := laid(t)
	link := filepath.Join(own, "link")
	if err := os.Symlink(theirs, link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir  string
		code coord.Code
	}{
		"absent":           {filepath.Join(own, "absent"), coord.NotFound},
		"a file":           {filepath.Join(theirs, "file"), coord.NotFound},
		"a link":           {link, coord.Invalid},
		"below a link":     {filepath.Join(link, "empty"), coord.Invalid},
		"not canonical":    {own + "/../own", coord.Invalid},
		"not a whole path": {"own", coord.Invalid},
	} {
		spec := shell(own, "true")
		spec.Writes = []string{own, c.dir}
		_, err := process.New(executable(t), "host", &ledger{}).Start(t.Context(), spec)
		if e, ok := errors.AsType[*coord.Error](err); !ok || e.Code != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLinkThatTakesTheFoldersPlaceBeforeTheGateGoesGrantsNothing(t *testing.T) {
	t.Parallel()
	theirs, own := laid(t)
	state := filepath.Join(own, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	// The check has passed when the identity is recorded; the gate looks again.
	l := &ledger{started: func(process.Identity) {
		if err := errors.Join(os.Remove(state), os.Symlink(theirs, state)); err != nil {
			t.Error(err)
		}
	}}
	spec := shell(own, "echo x > "+theirs+"/made")
	spec.Writes = []string{state}
	_, err := process.New(executable(t), "host", l).Start(t.Context(), spec)
	if coord.CodeOf(err) != coord.Unsupported || !strings.Contains(err.Error(), "cannot be restricted") {
		t.Errorf("it gave %v", err)
	}
	if _, err := os.Stat(filepath.Join(theirs, "made")); err == nil {
		t.Error("the program ran")
	}
	if left := l.open(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}
