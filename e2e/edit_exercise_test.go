package e2e

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
)

// exercise is a small task of programming: a stub, tests that fail, and what a
// model would write to make them pass.
type exercise struct {
	name string
	// files are what the agent finds, tests those of them that are run.
	files map[string]string
	tests []string
	// stub is the file that the solution replaces.
	stub, solution string
}

// exercises reads those of a language.
func exercises(t *testing.T, language string) []exercise {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("exercises", language, "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("there is no exercise in %s (%v)", language, err)
	}
	var out []exercise
	for _, dir := range dirs {
		e := exercise{name: filepath.Base(dir), files: map[string]string{}}
		err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(filepath.Join(dir, path))
			stub, solves := strings.CutPrefix(path, "solution/")
			switch {
			case solves:
				e.stub, e.solution = stub, string(b)
				return err
			case strings.Contains(path, "test"):
				e.tests = append(e.tests, path)
			}
			e.files[path] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(e.tests) == 0 || e.files[e.stub] == "" || e.files[e.stub] == e.solution {
			t.Fatalf("the exercise %s is not whole", e.name)
		}
		out = append(out, e)
	}
	return out
}

// reply is what the model does when it is given the exercise.
func (e exercise) reply() modelserver.Reply {
	return modelserver.Reply{Match: "exercise " + e.name, Answer: "The tests of " + e.name + " pass.", Steps: []modelserver.Step{
		{Calls: []modelserver.Tool{calls("list", map[string]any{"path": "."}), calls("read", map[string]any{"path": "README.md"}), calls("read", map[string]any{"path": e.stub})}},
		runTests(e.tests...),
		write(e.stub, e.solution),
		runTests(e.tests...),
	}}
}

// solve gives exercises to Codex in one job, and checks that each goes from
// failing to passing, and that what lands is the solution.
func (w *world) solve(executable string, list []exercise) {
	w.t.Helper()
	var script []modelserver.Reply
	for _, e := range list {
		script = append(script, e.reply())
	}
	_, url := model(w.t, modelserver.Options{Script: script})
	home := codexHome(w.t, url)
	w.own(home)
	w.register("codex", coord.AgentConfig{Route: coord.RouteCodex, Executable: executable, Env: map[string]string{"CODEX_HOME": home, "HOME": home}})
	w.certify()
	var tasks []coord.PlanTask
	dirs := map[string]string{}
	for _, e := range list {
		dirs[e.name] = repository(w.t, e.files)
		w.own(dirs[e.name])
		one := edit(e.name, "codex", dirs[e.name], "Solve the exercise "+e.name+"; README.md says what it is.", coord.Write, coord.Test)
		one.Tests = e.tests
		tasks = append(tasks, one)
	}
	ref := w.run(plan(tasks...))
	w.settles(ref, coord.JobCompleted)
	requests := must[[]coord.Request](w, "requests")(w.client.JobRequests(w.ctx, ref))
	sets, _, err := w.client.ChangeSets(w.ctx, 0, coord.MaxPage)
	if err != nil || len(sets) != len(list) {
		w.t.Fatalf("there are %d change sets (%v), want %d", len(sets), err, len(list))
	}
	for _, e := range list {
		var runs []string
		for _, r := range requests {
			if r.Key == e.name && r.Done != nil && r.Done.Report != nil {
				runs = append(runs, string(r.Done.Report.Outcome))
				if r.Done.Report.Outcome == coord.TestsPassed && (r.Done.Report.Passed == 0 || r.Done.Report.Failed > 0) {
					w.t.Errorf("%s: what passed is %+v", e.name, r.Done.Report)
				}
			}
		}
		if got := strings.Join(runs, " "); got != "failed passed" {
			w.t.Errorf("%s: the runs of tests are %q\n%s", e.name, got, w.log())
		}
		if got := files(w.t, dirs[e.name]); !cmp.Equal(got, e.files) {
			w.t.Errorf("%s changed before it was approved: %s", e.name, cmp.Diff(e.files, got))
		}
		for _, s := range sets {
			if s.Key != e.name {
				continue
			}
			d := w.display(s)
			if c := w.lands(d); c.State != coord.ChangeSetLanded {
				w.t.Errorf("%s: the change set is %s: %+v", e.name, c.State, c.Steps)
			}
		}
		e.files[e.stub] = e.solution
		if got := files(w.t, dirs[e.name]); !cmp.Equal(got, e.files) {
			w.t.Errorf("%s: what landed: %s", e.name, cmp.Diff(e.files, got))
		}
	}
}

func TestExercisesInThreeLanguagesGoFromFailingToPassing(t *testing.T) {
	w := newWorld(t, "PATH="+filepath.Dir(peers.Bun(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	var all []exercise
	for _, language := range []string{"go", "typescript", "python"} {
		found := exercises(t, language)
		if len(found) < 2 {
			t.Errorf("%s has %d exercises", language, len(found))
		}
		all = append(all, found...)
	}
	w.solve(peers.Codex(t, "0.171.0"), all)
}

func TestExercisesAreSolvedAsAnOrdinaryUser(t *testing.T) {
	uid := os.Geteuid()
	if uid == 0 {
		uid = 65534
	}
	// The programs that this user may start: Codex is in a folder of root's.
	place := public(t)
	codex := filepath.Join(place, "codex")
	copyFile(t, peers.Codex(t, "0.171.0"), codex)
	var path []string
	for _, name := range []string{"go", "git"} {
		found, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		path = append(path, filepath.Dir(found))
	}
	if err := os.Chmod(filepath.Dir(binary), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	w := emptyWorld(t, "HOME="+place, "PATH="+strings.Join(path, string(os.PathListSeparator)))
	if w.dir = filepath.Join(place, "data"); uid != os.Geteuid() {
		w.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	list := exercises(t, "go")[:1]
	// A user who never compiled anything would compile the standard library
	// within the two minutes of the first run.
	warm := filepath.Join(place, "warm", "module")
	put(t, warm, list[0].files)
	w.own(warm)
	compile := exec.CommandContext(w.ctx, "go", "test", "-c", "-vet=off", "-trimpath", "-buildvcs=false", "-o", filepath.Join(place, "warm.test"), ".")
	compile.Dir, compile.Env = warm, append(w.env, "CGO_ENABLED=0", "GOFLAGS=", "GOCACHE=")
	compile.SysProcAttr = &syscall.SysProcAttr{Credential: w.user}
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("compiling: %v\n%s", err, out)
	}
	w.serve()
	w.login()
	w.solve(codex, list)
	certificates := must[[]standing](w, "certificates")(w.client.Certificates(w.ctx))
	for _, c := range certificates {
		if c.Certificate.Facts.UID != uid {
			t.Errorf("a certificate is for the user %d", c.Certificate.Facts.UID)
		}
	}
}

// public makes a folder that other users can enter, which t.TempDir is not.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "e2e-public-") //nolint:usetesting // see above
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err == nil {
		_, err = io.Copy(out, in)
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		t.Fatal(fmt.Errorf("copying %s: %w", from, err))
	}
}
