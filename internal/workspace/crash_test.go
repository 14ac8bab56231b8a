package workspace_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
)

// order is what a child lands, from its arguments.
type order struct {
	Root  coord.WorkspaceIdentity
	Shelf string
	// Point is where the child kills itself, "" for nowhere.
	Point string
	Steps []coord.LandingStep
}

// land is the child: it tells the number of each step before it begins it.
func land(args []string) error {
	b, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	r, err := workspace.Open(o.Root)
	if err != nil {
		return err
	}
	store, err := openShelf(o.Shelf)
	if err != nil {
		return err
	}
	r.At(func(point string) {
		if point == o.Point {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	for i, s := range o.Steps {
		fmt.Println(i)
		if done := workspace.Apply(context.Background(), r, store, s); done.State != coord.StepLanded {
			return fmt.Errorf("step %d is %s: %s", i, done.State, done.Note)
		}
	}
	return nil
}

// start gives the child that carries the order out.
func start(t *testing.T, o order) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "order")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, file)
	cmd.Env = append(os.Environ(), roleVar+"=land")
	cmd.Stderr = os.Stderr
	return cmd
}

func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// TestDeathAtEachPointIsToldTruly kills the landing process at each point of
// each kind of step, with and without somebody who edits the file then.
func TestDeathAtEachPointIsToldTruly(t *testing.T) {
	t.Parallel()
	const checked, written, exchanged, verified, removed = 0, 1, 2, 3, 4
	const temp = ".signalbox-test-1"
	kinds := map[string]struct{ before, after string }{"create": {"", "ours"}, "replace": {"base", "ours"}, "remove": {"base", ""}}
	for _, tc := range []struct {
		kind  string
		point int
		sight workspace.Sight
		left  string // under the temporary name
	}{
		{"create", checked, workspace.Before, ""},
		{"create", written, workspace.Before, "ours"},
		{"create", exchanged, workspace.After, ""},
		{"replace", checked, workspace.Before, ""},
		{"replace", written, workspace.Before, "ours"},
		{"replace", exchanged, workspace.After, "base"},
		{"replace", verified, workspace.After, "base"},
		{"replace", removed, workspace.After, ""},
		{"remove", checked, workspace.Before, ""},
		{"remove", exchanged, workspace.After, "base"},
		{"remove", verified, workspace.After, "base"},
		{"remove", removed, workspace.After, ""},
	} {
		t.Run(tc.kind+" "+workspace.Points[tc.point], func(t *testing.T) {
			for _, edited := range []bool{false, true} {
				k := kinds[tc.kind]
				dir := tree(t, map[string]string{"d/": ""})
				file := filepath.Join(dir, "d", "f")
				if k.before != "" {
					put(t, file, k.before)
				}
				o := order{Root: open(t, dir).Identity(), Shelf: t.TempDir(), Point: workspace.Points[tc.point]}
				store, err := openShelf(o.Shelf)
				if err != nil {
					t.Fatal(err)
				}
				s := step(t, store, "d/f", k.before, k.after)
				o.Steps = []coord.LandingStep{s}
				if err := start(t, o).Run(); !killed(err) {
					t.Fatalf("the child was to die and gave %v", err)
				}
				want := map[string]string{"d": "d---------"}
				if tc.left != "" {
					want["d/"+temp] = tc.left
				}
				at, sight := k.before, tc.sight
				if tc.sight == workspace.After {
					at = k.after
				}
				if edited {
					at, sight = "theirs", workspace.Foreign
					put(t, file, at)
				}
				if at != "" {
					want["d/f"] = at
				}
				r := open(t, dir)
				got, note, err := workspace.Look(r, s)
				if err != nil || got != sight || (note == "") != (tc.left == "") {
					t.Errorf("edited %t: looking gave %s, %q, %v; want %s", edited, got, note, err, sight)
				}
				if diff := cmp.Diff(want, names(t, dir)); diff != "" {
					t.Errorf("edited %t: the workspace (-want +got):\n%s", edited, diff)
				}
				free, err := workspace.Tidy(t.Context(), r, store, s)
				if !edited {
					delete(want, "d/"+temp)
				}
				if diff := cmp.Diff(want, names(t, dir)); diff != "" || err != nil || free != (want["d/"+temp] == "") {
					t.Errorf("edited %t: tidying gave %t, %v (-want +got):\n%s", edited, free, err, diff)
				}
			}
		})
	}
}

// TestDeathAtAnyTimeLeavesEachFileBeforeOrAfter kills a process that lands
// many steps at moments that nothing chooses.
func TestDeathAtAnyTimeLeavesEachFileBeforeOrAfter(t *testing.T) {
	t.Parallel()
	const files = 45
	deaths := 0
	for round := range 4 {
		dir := tree(t, nil)
		o := order{Shelf: t.TempDir()}
		store, err := openShelf(o.Shelf)
		if err != nil {
			t.Fatal(err)
		}
		contents := map[string][2]string{}
		for i := range files {
			p := fmt.Sprintf("d%d/f%d", i%7, i)
			c := [2]string{strings.Repeat("x", 1000+i), strings.Repeat("y", 100_000+i)}
			if i%3 < 2 { // to be made, or to be removed
				c[i%3] = ""
			}
			contents[p] = c
			if c[0] != "" {
				put(t, filepath.Join(dir, p), c[0])
			}
			s := step(t, store, p, c[0], c[1])
			s.Temp = fmt.Sprintf(".signalbox-test-%d", i)
			o.Steps = append(o.Steps, s)
		}
		r := open(t, dir)
		o.Root = r.Identity()
		cmd := start(t, o)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		begun, until := 0, 1+rand.IntN(files-5)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if begun++; begun == until {
				_ = cmd.Process.Kill()
			}
		}
		if killed(cmd.Wait()) {
			deaths++
		}
		for i, s := range o.Steps {
			sight, note, err := workspace.Look(r, s)
			if err != nil || sight == workspace.Foreign || i < begun-1 && sight != workspace.After || i >= begun && sight != workspace.Before {
				t.Errorf("round %d, %d steps begun: step %d is %s, %q, %v", round, begun, i, sight, note, err)
			}
			if free, err := workspace.Tidy(t.Context(), r, store, s); !free || err != nil {
				t.Errorf("round %d: tidying step %d gave %t, %v", round, i, free, err)
			}
			want := contents[s.Path][0]
			if sight == workspace.After {
				want = contents[s.Path][1]
			}
			if got, err := os.ReadFile(filepath.Join(dir, s.Path)); string(got) != want || (want == "") != errors.Is(err, os.ErrNotExist) {
				t.Errorf("round %d: %s holds %d bytes, %v; want %d", round, s.Path, len(got), err, len(want))
			}
		}
		for p := range names(t, dir) {
			if strings.Contains(p, ".signalbox-") {
				t.Errorf("round %d: %s is left over", round, p)
			}
		}
	}
	if deaths == 0 {
		t.Error("nobody died")
	}
}
