package e2e

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	_ "modernc.org/sqlite"

	"signalbox/e2e/rogue"
	"signalbox/internal/coord"
)

// serveOnce runs a serve that is expected to refuse, and gives what it said.
func (w *world) serveOnce(args ...string) (code int, said string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.ctx, binary, append([]string{"serve", "--listen", "0", "--data", w.dir}, args...)...)
	cmd.Env, cmd.SysProcAttr = w.env, bound()
	// Should it start all the same, it ends in order.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	if out.Len() > 0 {
		w.t.Errorf("a serve that refuses prints %q", out.String())
	}
	return cmd.ProcessState.ExitCode(), strings.Join(strings.Fields(log.String()), " ")
}

// refusesToServe checks that serve ends with a code and texts.
func (w *world) refusesToServe(code int, want []string, args ...string) {
	w.t.Helper()
	got, said := w.serveOnce(args...)
	for _, text := range want {
		if got != code || !strings.Contains(said, text) {
			w.t.Errorf("serve ends with %d, want %d and %q:\n%s", got, code, text, said)
		}
	}
}

func digestOf(t *testing.T, path string) [sha256.Size]byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(b)
}

// used is a data directory in which a job was completed, with nobody on it.
func used(t *testing.T) (w *world, ref string) {
	t.Helper()
	w = newWorld(t)
	d := rogue.New()
	w.cast(listen(t, d), "echo")
	ref = w.run(plan(task("t", "echo", "work")))
	w.settles(ref, coord.JobCompleted)
	if code, _, log := w.cli("stop"); code != 0 {
		t.Fatalf("stop exits with %d: %s", code, log)
	}
	<-w.door.exited
	return w, ref
}

func execSQL(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestADatabaseThatCannotBeUsedIsRefusedAndLeftAsItIs(t *testing.T) {
	cases := []struct {
		name  string
		spoil func(t *testing.T, path string)
		code  int
		want  []string
	}{
		{"of another program", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			execSQL(t, path, "CREATE TABLE mine (x)", "PRAGMA application_id = 7")
		}, 2, []string{"journal.db belongs to another program", "--data"}},
		{"of a newer version", func(t *testing.T, path string) { execSQL(t, path, "PRAGMA user_version = 999") },
			8, []string{"schema version 999", "newer version of Signalbox"}},
		{"no database", func(t *testing.T, path string) {
			if err := os.WriteFile(path, bytes.Repeat([]byte("not a database\n"), 1000), 0o600); err != nil {
				t.Fatal(err)
			}
		}, 2, []string{"journal.db is damaged or is not a database", "journal-backup"}},
		{"damaged in its pages", func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			// All but the first page, which holds the schema's version.
			for at := int64(4096); at < info.Size(); at += 4096 {
				if _, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, 4096), at); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}, 2, []string{"journal.db is damaged or is not a database", "journal-backup"}},
		{"cut off", func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, info.Size()/2); err != nil {
				t.Fatal(err)
			}
		}, 2, []string{"journal.db is damaged or is not a database", "journal-backup"}},
	}
	w, ref := used(t)
	path := filepath.Join(w.dir, "journal.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := w.in(t)
			c.spoil(t, path)
			before := digestOf(t, path)
			w.refusesToServe(c.code, c.want)
			if digestOf(t, path) != before {
				t.Error("the file was changed")
			}
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, beside := range []string{"-wal", "-shm"} {
				if err := os.Remove(path + beside); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
		})
	}
	// With the file back, everything is there.
	w.serve()
	w.login()
	if said := w.said(ref, "t", "echo"); said != "done" {
		t.Errorf("the job said %q", said)
	}
	w.sound()
}

func TestDamagedFilesBesideTheDatabaseAreToldAndMendedOrIgnored(t *testing.T) {
	w, ref := used(t)
	for _, name := range []string{"owner.lock", "serve.json"} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte("{\"pid\": \x00\xff"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(w.dir, "reserve"), 1); err != nil {
		t.Fatal(err)
	}
	w.serve()
	w.login()
	if w.worker() == 0 {
		t.Error("owner.lock names nobody")
	}
	if info, err := os.Stat(filepath.Join(w.dir, "reserve")); err != nil || info.Size() != coord.ReserveSpace {
		t.Errorf("the reserve is %v (%v)", info, err)
	}
	w.sound()

	// Bytes that changed on the disk are never given out as the artifact.
	id := w.result(ref, "t").Statement.Artifact
	var files []string
	err := filepath.WalkDir(filepath.Join(w.dir, "artifacts"), func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) != 1 {
		t.Fatalf("the artifact store holds %v (%v)", files, err)
	}
	if err := errors.Join(os.Chmod(files[0], 0o600), os.WriteFile(files[0], []byte("evil"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := w.client.ArtifactBytes(w.ctx, string(id), &got); err == nil || got.String() == "evil" {
		t.Errorf("changed bytes are given out: %q (%v)", got.String(), err)
	}
	if code, out, log := w.cli("doctor"); code == 0 || !strings.Contains(out+log, "do not match their digest") {
		t.Errorf("doctor exits with %d: %s%s", code, out, log)
	}
}

func TestTheDataDirectoryMustBeOnesOwn(t *testing.T) {
	w := closedWorld(t)
	home := filepath.Dir(w.dir)
	mkdir := func(name string, mode os.FileMode) string {
		dir := filepath.Join(home, name)
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	write := func(path string) string {
		if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	shared := mkdir("shared", 0o755)
	theirs := write(filepath.Join(shared, "thesis.txt"))
	file := write(filepath.Join(home, "file"))
	lock := mkdir("lock", 0o700)
	mkdir("lock/owner.lock", 0o700)
	for _, c := range []struct {
		name, dir string
		want      []string
	}{
		{"one that others can enter and that holds their files", shared, []string{shared, "open to other users", "chmod 700", "--data"}},
		{"a file", file, []string{file, "a part of the path is a file", "--data"}},
		{"one below a file", filepath.Join(file, "data"), []string{file, "a part of the path is a file", "--data"}},
		{"one with a folder in place of its lock", lock, []string{filepath.Join(lock, "owner.lock")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.in(t)
			w.dir = c.dir
			w.refusesToServe(7, c.want)
		})
	}
	if b, err := os.ReadFile(theirs); err != nil || string(b) != "mine" {
		t.Errorf("somebody else's file holds %q (%v)", b, err)
	}
	if info, err := os.Stat(shared); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("somebody else's folder has the mode %v (%v)", info.Mode(), err)
	}

	// An empty one is made private.
	w.dir = mkdir("empty", 0o777)
	w.serve()
	if info, err := os.Stat(w.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data directory has the mode %v (%v)", info.Mode(), err)
	}
	err := filepath.WalkDir(w.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOfTwoServesThatStartTogetherOneIsRefused(t *testing.T) {
	w := closedWorld(t)
	var both sync.WaitGroup
	type end struct {
		door *door
		err  error
	}
	ends := make(chan end, 2)
	for range 2 {
		both.Go(func() {
			d, _, err := w.launch("0")
			ends <- end{d, err}
		})
	}
	both.Wait()
	close(ends)
	var refused, won []end
	for e := range ends {
		if e.err != nil {
			refused = append(refused, e)
		} else {
			won = append(won, e)
			w.door = e.door
		}
	}
	if len(won) != 1 || len(refused) != 1 {
		t.Fatalf("%d serve, %d refuse", len(won), len(refused))
	}
	log, err := os.ReadFile(refused[0].door.stderr)
	if code := refused[0].door.cmd.ProcessState.ExitCode(); err != nil || code != 5 || !strings.Contains(string(log), "process") {
		t.Errorf("the other one ends with %d: %s", code, log)
	}
	// A worker by hand has nobody to work for.
	cmd := exec.CommandContext(w.ctx, binary, "worker", "--data", w.dir)
	cmd.Env = w.env
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "serve") {
		t.Errorf("a worker by hand ends with %v: %s", err, out)
	}
	res, err := web.RoundTrip(mustRequest(w.ctx, t, w.door.url+"/healthz"))
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("the one that serves does not answer: %v", err)
	}
	_ = res.Body.Close()
}

func TestAConfigurationThatCannotBeUsedIsToldWithItsPlace(t *testing.T) {
	w := closedWorld(t)
	home := filepath.Dir(w.dir)
	for _, c := range []struct {
		name, doc string
		code      int
		want      []string
	}{
		{"an unknown key", "listen = \"0\"\n\nsecret = \"hunter2\"\n", 2, []string{"line 3", "/secret"}},
		{"an unknown key of an agent", "[[agents]]\nid = \"a\"\nroute = \"acp\"\nexecutable = \"/bin/true\"\nprogramm = \"hunter2\"\n", 2, []string{"line 5", "programm"}},
		{"a wrong type", "listen = 7\n", 2, []string{"listen", "line 1"}},
		{"no TOML", "listen = \n", 2, []string{"line 1"}},
		{"no UTF-8", "listen = \"\xff\xfe\"\n", 2, []string{"line 1"}},
		{"a huge one", strings.Repeat("# hunter2\n", 200<<10), 6, []string{"larger than"}},
		{"an agent without a program", "[[agents]]\nid = \"a\"\nroute = \"acp\"\n", 2, []string{"executable"}},
		{"a route that is none", "[[agents]]\nid = \"a\"\nroute = \"pigeon\"\nexecutable = \"/bin/true\"\n", 2, []string{"route"}},
		{"an agent twice", strings.Repeat("[[agents]]\nid = \"a\"\nroute = \"acp\"\nexecutable = \"/bin/true\"\n", 2), 2, []string{"/agents/1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.in(t)
			path := filepath.Join(home, "bad.toml")
			if err := os.WriteFile(path, []byte(c.doc), 0o600); err != nil {
				t.Fatal(err)
			}
			code, said := w.serveOnce("--config", path)
			for _, text := range c.want {
				if code != c.code || !strings.Contains(said, text) {
					t.Errorf("serve ends with %d, want %d and %q:\n%s", code, c.code, text, said)
				}
			}
			if strings.Contains(said, "hunter2") {
				t.Errorf("the file's content is repeated:\n%s", said)
			}
		})
	}
	missing := filepath.Join(home, "missing.toml")
	w.refusesToServe(2, []string{missing, "there is no such file"}, "--config", missing)
	w.refusesToServe(2, []string{home, "is it a file?"}, "--config", home)
}
