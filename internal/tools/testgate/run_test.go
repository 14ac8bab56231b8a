package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module with one test file and makes it the working
// directory, so that gate judges a real run of go test.
func module(t *testing.T, tests string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":    "module example\n\ngo 1.26\n",
		"a_test.go": "package example\n\nimport (\"os\"; \"testing\")\n\nvar _ = os.Exit\n\n" + tests + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
}

func TestGate(t *testing.T) {
	const (
		pass  = "func TestPass(t *testing.T) { t.Log(\"quiet\") }\n"
		skips = "func TestAway(t *testing.T) { t.Skip(\"npm is not installed\") }\n"
		fails = "func TestFail(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Error(\"went wrong\") }) }\n"
		exits = "func TestExit(t *testing.T) { println(\"last words\"); os.Exit(3) }\n"
	)
	for name, c := range map[string]struct {
		tests  string
		ci     bool
		good   bool
		last   string
		has    []string
		hasNot string
	}{
		"all pass":             {tests: pass, ci: true, good: true, last: "1 passed, 0 failed, 0 skipped", has: []string{"ok  \texample\t"}, hasNot: "quiet"},
		"a skip is listed":     {tests: pass + skips, good: true, last: "1 passed, 0 failed, 1 skipped", has: []string{"SKIP example TestAway: ", "npm is not installed"}},
		"a skip fails in CI":   {tests: pass + skips, ci: true, last: "1 passed, 0 failed, 1 skipped", has: []string{"npm is not installed", "every test must run"}},
		"a failure shows":      {tests: pass + fails, last: "1 passed, 2 failed, 0 skipped", has: []string{"--- FAIL: TestFail/sub", "went wrong", "FAIL\texample\t"}, hasNot: "quiet"},
		"an exit shows":        {tests: pass + exits, has: []string{"last words", "FAIL\texample\t"}},
		"no test is no pass":   {tests: "", last: "0 passed, 0 failed, 0 skipped", has: []string{"no test ran"}},
		"a build error shows":  {tests: "func TestX(t *testing.T) { undefinedName() }", last: "0 passed, 0 failed, 0 skipped", has: []string{"undefinedName", "build failed"}},
		"TestMain that is mum": {tests: pass + "func TestMain(m *testing.M) { os.Exit(0) }", last: "0 passed, 0 failed, 0 skipped", has: []string{"no test ran"}},
	} {
		t.Run(name, func(t *testing.T) {
			module(t, c.tests)
			var out strings.Builder
			good, err := gate(t.Context(), []string{"-plain", "./..."}, &out, c.ci)
			if err != nil {
				t.Fatal(err)
			}
			if good != c.good {
				t.Errorf("good is %v, want %v", good, c.good)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if last := lines[len(lines)-1]; c.last != "" && last != c.last {
				t.Errorf("last line %q, want %q", last, c.last)
			}
			for _, want := range c.has {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in the output", want)
				}
			}
			if c.hasNot != "" && strings.Contains(out.String(), c.hasNot) {
				t.Errorf("%q is in the output", c.hasNot)
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}

func TestGateWithoutACompilerRunsWithoutTheRaceDetector(t *testing.T) {
	module(t, "func TestPass(t *testing.T) {}")
	t.Setenv("CGO_ENABLED", "0")
	var out strings.Builder
	good, err := gate(t.Context(), []string{"-race", "./..."}, &out, true)
	if err != nil || !good {
		t.Errorf("good is %v, error %v", good, err)
	}
	if !strings.Contains(out.String(), "The race detector did not run: ") {
		t.Errorf("the summary does not say it:\n%s", out.String())
	}
}

func TestGateRefusesPatternsWithoutAFlag(t *testing.T) {
	if _, err := gate(t.Context(), []string{"./..."}, &strings.Builder{}, false); err == nil {
		t.Error("no error")
	}
}
