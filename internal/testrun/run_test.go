package testrun_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"signalbox/e2e/peers"
	"signalbox/internal/coord"
	"signalbox/internal/sandbox"
	"signalbox/internal/testrun"
)

// helper is the program that becomes the sandbox's stages.
var helper string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "testrun-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	helper = filepath.Join(dir, "helper")
	build := exec.Command("go", "build", "-trimpath", "-o", helper, "../sandbox/stagetest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the helper: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

var tiers = []coord.Tier{coord.TierNamespaces, coord.TierLandlock}

func newTester(t testing.TB) *testrun.Tester {
	t.Helper()
	box, err := sandbox.New(helper, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	return testrun.New(box, map[string]string{testrun.Bun: peers.Bun(t)}, exec.LookPath)
}

func write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// suite is a small project for one runner.
type suite struct {
	runner string
	// files are all of its files; test is the file of tests, code what it tests,
	// fixed a version of code with which the tests pass.
	files map[string]string
	test  string
	code  string
	fixed string
	// empty is a file of tests without a test, spin one that does not end, noise
	// one that prints for ever; all take the place of test.
	empty, spin, noise string
	// probe prints LEAK when it can read .env, WROTE when it can write to the
	// workspace, and passes.
	probe string
}

var suites = []suite{
	{
		runner: testrun.Bun, test: "src/sum.test.ts", code: "src/sum.ts", fixed: "export const sum = (a: number, b: number) => a + b;\n",
		files: map[string]string{
			"src/sum.ts":      "export const sum = (a: number, b: number) => a - b;\n",
			"src/sum.test.ts": "import { expect, test } from 'bun:test';\nimport { sum } from './sum';\ntest('adds', () => expect(sum(1, 2)).toBe(3));\ntest('zero', () => expect(sum(0, 0)).toBe(0));\ntest.skip('later', () => {});\n",
			// Both run code in Bun's own process where they are looked at.
			"bunfig.toml": "[test]\npreload = ['./evil.ts']\n", "evil.ts": "console.log('PRELOADED');\n",
		},
		empty: "export {};\n", spin: "import { test } from 'bun:test';\ntest('spins', () => { for (;;) {} });\n",
		noise: "import { test } from 'bun:test';\ntest('noise', () => { for (;;) console.log('x'.repeat(1000)); });\n",
		probe: "import { test } from 'bun:test';\nimport fs from 'fs';\ntest('p', () => { try { fs.readFileSync('.env'); console.log('LEAK') } catch {} try { fs.writeFileSync('made', 'x'); console.log('WROTE') } catch {} if (process.env.TOKEN) console.log('LEAK'); });\n",
	},
	{
		runner: testrun.Node, test: "src/sum.test.mjs", code: "src/sum.mjs", fixed: "export const sum = (a, b) => a + b;\n",
		files: map[string]string{
			"src/sum.mjs":      "export const sum = (a, b) => a - b;\n",
			"src/sum.test.mjs": "import test from 'node:test';\nimport assert from 'node:assert';\nimport { sum } from './sum.mjs';\ntest('adds', () => assert.equal(sum(1, 2), 3));\ntest('zero', () => assert.equal(sum(0, 0), 0));\ntest('later', { skip: true }, () => {});\n",
		},
		empty: "export {};\n", spin: "import test from 'node:test';\ntest('spins', () => { for (;;) {} });\n",
		noise: "import test from 'node:test';\ntest('noise', () => { for (;;) process._rawDebug('x'.repeat(1000)); });\n",
		probe: "import test from 'node:test';\nimport fs from 'fs';\ntest('p', () => { try { fs.readFileSync('.env'); console.log('LEAK') } catch {} try { fs.writeFileSync('made', 'x'); console.log('WROTE') } catch {} });\n",
	},
	{
		runner: testrun.Python, test: "tests/test_sum.py", code: "calc/sum.py", fixed: "def add(a, b):\n    return a + b\n",
		files: map[string]string{
			"calc/__init__.py": "", "tests/__init__.py": "",
			"calc/sum.py":       "def add(a, b):\n    return a - b\n",
			"tests/test_sum.py": "import unittest\nfrom calc.sum import add\nclass T(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1, 2), 3)\n    def test_zero(self):\n        print('noise')\n        self.assertEqual(add(0, 0), 0)\n    @unittest.skip('later')\n    def test_later(self):\n        pass\n",
		},
		empty: "x = 1\n", spin: "import unittest\nclass T(unittest.TestCase):\n    def test_spins(self):\n        while True: pass\n",
		noise: "import unittest\nclass T(unittest.TestCase):\n    def test_noise(self):\n        while True: print('x' * 1000)\n",
		probe: "import unittest\nclass T(unittest.TestCase):\n    def test_p(self):\n        for mode, path, word in (('r', '.env', 'LEAK'), ('w', 'made', 'WROTE')):\n            try:\n                open(path, mode).close()\n                print(word)\n            except OSError: pass\n",
	},
	{
		runner: testrun.Go, test: "calc/sum_test.go", code: "calc/sum.go", fixed: "package calc\n\nfunc Sum(a, b int) int { return a + b }\n",
		files: map[string]string{
			"go.mod":           "module example.test/calc\n\ngo 1.26\n",
			"calc/sum.go":      "package calc\n\nfunc Sum(a, b int) int { return a - b }\n",
			"calc/sum_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdds(t *testing.T) {\n\tif Sum(1, 2) != 3 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n\nfunc TestZero(t *testing.T) {\n\tif Sum(0, 0) != 0 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n\nfunc TestLater(t *testing.T) { t.Skip() }\n",
		},
		empty: "package calc\n\nimport \"testing\"\n\nfunc TestLater(t *testing.T) { t.Skip() }\n",
		spin:  "package calc\n\nimport \"testing\"\n\nfunc TestSpins(t *testing.T) {\n\tfor {\n\t}\n}\n",
		noise: "package calc\n\nimport (\n\t\"fmt\"\n\t\"strings\"\n\t\"testing\"\n)\n\nfunc TestNoise(t *testing.T) {\n\tfor {\n\t\tfmt.Println(strings.Repeat(\"x\", 1000))\n\t}\n}\n",
		probe: "package calc\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestP(t *testing.T) {\n\tif _, err := os.ReadFile(\"../.env\"); err == nil {\n\t\tfmt.Println(\"LEAK\")\n\t}\n\tif os.WriteFile(\"made\", nil, 0o600) == nil {\n\t\tfmt.Println(\"WROTE\")\n\t}\n}\n",
	},
}

func (s suite) make(t testing.TB) testrun.Request {
	t.Helper()
	dir := t.TempDir()
	for name, text := range s.files {
		write(t, filepath.Join(dir, name), text)
	}
	write(t, filepath.Join(dir, ".env"), "TOKEN=secret\n")
	return testrun.Request{Runner: s.runner, Workspace: dir, Files: []string{s.test}}
}

// with lays another content over a file.
func with(t testing.TB, r testrun.Request, path, text string) testrun.Request {
	t.Helper()
	r.Changes = append(slices.Clip(r.Changes), sandbox.Change{Path: path, Content: write(t, filepath.Join(t.TempDir(), "c"), text), Mode: 0o644})
	return r
}

func run(t *testing.T, ctx context.Context, tester *testrun.Tester, r testrun.Request) testrun.Result {
	t.Helper()
	plan, err := tester.Plan(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	res, err := tester.Run(ctx, r, plan)
	if err != nil {
		t.Fatalf("%v (%v)", err, errors.Unwrap(err))
	}
	return res
}

func each(t *testing.T, do func(t *testing.T, s suite, r testrun.Request)) {
	for _, s := range suites {
		for _, tier := range tiers {
			t.Run(s.runner+"/"+string(tier), func(t *testing.T) {
				r := s.make(t)
				r.Tier = tier
				do(t, s, r)
			})
		}
	}
}

func TestFailingTestsPassWithTheChangeThatFixesThem(t *testing.T) {
	tester := newTester(t)
	each(t, func(t *testing.T, s suite, r testrun.Request) {
		res := run(t, t.Context(), tester, r)
		if diff := cmp.Diff(coord.TestReport{Outcome: coord.TestsFailed, Passed: 1, Failed: 1, Skipped: 1}, res.Report); diff != "" {
			t.Errorf("before: %s\n%s", diff, res.Output)
		}
		if len(res.Cases) != 3 {
			t.Errorf("cases %+v\n%s", res.Cases, res.Output)
		}
		fixed := with(t, r, s.code, s.fixed)
		res = run(t, t.Context(), tester, fixed)
		if len(res.Report.Content) != 64 {
			t.Errorf("the receipt does not bind the change: %+v", res.Report)
		}
		res.Report.Content = ""
		if diff := cmp.Diff(coord.TestReport{Outcome: coord.TestsPassed, Passed: 2, Skipped: 1}, res.Report); diff != "" {
			t.Errorf("after: %s\n%s", diff, res.Output)
		}
		if strings.Contains(string(res.Output), "PRELOADED") {
			t.Error("a file of configuration made the runner run code")
		}
	})
}

func TestRunsWithoutAPassingTestDoNotPass(t *testing.T) {
	tester := newTester(t)
	each(t, func(t *testing.T, s suite, r testrun.Request) {
		res := run(t, t.Context(), tester, with(t, r, s.test, s.empty))
		if res.Report.Outcome != coord.TestsFailed || res.Report.Passed != 0 || res.Report.Reason == "" {
			t.Errorf("%+v\n%s", res.Report, res.Output)
		}
	})
}

func TestEndedRunsSayWhy(t *testing.T) {
	tester := newTester(t)
	each(t, func(t *testing.T, s suite, r testrun.Request) {
		if res := run(t, t.Context(), tester, with(t, r, s.test, s.noise)); res.Report.Outcome != coord.TestsOutputLimit || len(res.Output) != coord.MaxTestOutput {
			t.Errorf("noise: %+v, %d bytes", res.Report, len(res.Output))
		}
		spin := with(t, r, s.test, s.spin)
		plan, err := tester.Plan(t.Context(), spin)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(3*time.Second, func() { cancel(errors.New("the operator")) })
		defer timer.Stop()
		if res, err := tester.Run(ctx, spin, plan); err != nil || res.Report.Outcome != coord.TestsCancelled {
			t.Errorf("cancelled: %+v, %v", res.Report, err)
		}
		late, end := context.WithTimeoutCause(t.Context(), 3*time.Second, errors.New("the deadline"))
		defer end()
		if res, err := tester.Run(late, spin, plan); err != nil || res.Report.Outcome != coord.TestsTimedOut {
			t.Errorf("at the deadline: %+v, %v", res.Report, err)
		}
	})
}

func TestTestsReadNoCredentialAndWriteNothing(t *testing.T) {
	tester := newTester(t)
	each(t, func(t *testing.T, s suite, r testrun.Request) {
		res := run(t, t.Context(), tester, with(t, r, s.test, s.probe))
		if res.Report.Outcome != coord.TestsPassed || strings.Contains(string(res.Output), "LEAK") || strings.Contains(string(res.Output), "WROTE") {
			t.Errorf("%+v\n%s", res.Report, res.Output)
		}
		if _, err := os.Stat(filepath.Join(r.Workspace, "made")); err == nil {
			t.Error("a test wrote to the workspace")
		}
	})
}

func TestCompilerEmbedsNothingHidden(t *testing.T) {
	tester := newTester(t)
	r := suites[3].make(t)
	r.Tier = coord.TierNamespaces
	write(t, filepath.Join(r.Workspace, "calc", ".env"), "TOKEN=secret\n")
	r = with(t, r, "calc/sum_test.go", "package calc\n\nimport (\n\t_ \"embed\"\n\t\"testing\"\n)\n\n//go:embed .env\nvar secret string\n\nfunc TestP(t *testing.T) { t.Log(secret) }\n")
	res := run(t, t.Context(), tester, r)
	if res.Report.Outcome != coord.TestsFailed || !strings.Contains(res.Report.Reason, "compile") || strings.Contains(string(res.Output), "TOKEN") {
		t.Errorf("%+v\n%s", res.Report, res.Output)
	}
}

func TestRunIsStaleWhenAnythingDiffers(t *testing.T) {
	tester := newTester(t)
	r := suites[0].make(t)
	r.Tier = coord.TierLandlock
	approved, err := tester.Plan(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if approved.Runner != testrun.Bun || len(approved.SHA256) != 64 || len(approved.Files) != 1 || len(approved.Files[0].SHA256) != 64 || approved.Args[len(approved.Args)-1] != "./src/sum.test.ts" {
		t.Errorf("plan %+v", approved)
	}
	for _, c := range []struct {
		name   string
		change func(*coord.TestRun, *testrun.Request)
		says   string
	}{
		{"other program", func(p *coord.TestRun, _ *testrun.Request) { p.SHA256 = strings.Repeat("0", 64) }, "program has other content"},
		{"other path", func(p *coord.TestRun, _ *testrun.Request) { p.Program = "/bin/bun" }, "another program"},
		{"other arguments", func(p *coord.TestRun, _ *testrun.Request) { p.Args = append([]string{"-x"}, p.Args...) }, "arguments"},
		{"other file", func(_ *coord.TestRun, r *testrun.Request) { *r = with(t, *r, suites[0].test, suites[0].empty) }, "src/sum.test.ts"},
		{"fewer files", func(p *coord.TestRun, _ *testrun.Request) { p.Files = nil }, "files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, r := approved, r
			c.change(&p, &r)
			_, err := tester.Run(t.Context(), r, p)
			if coord.CodeOf(err) != coord.Stale || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestRequestsThatAreNoFilesOfTestsAreRefused(t *testing.T) {
	tester := newTester(t)
	r := suites[0].make(t)
	many := make([]string, coord.MaxTestFiles+1)
	for i := range many {
		many[i] = fmt.Sprintf("a%d.test.ts", i)
	}
	for _, c := range []struct {
		name, runner string
		files        []string
		code         coord.Code
	}{
		{"none", "", nil, coord.Invalid},
		{"too many", "", many, coord.Invalid},
		{"not a test", "", []string{"src/sum.ts"}, coord.Invalid},
		{"traversal", "", []string{"../x.test.ts"}, coord.Invalid},
		{"absolute", "", []string{"/x.test.ts"}, coord.Invalid},
		{"an option", "", []string{"-r.test.ts"}, coord.Invalid},
		{"unclean", "", []string{"src/./sum.test.ts"}, coord.Invalid},
		{"hidden", "", []string{".git/x.test.ts"}, coord.Invalid},
		{"twice", "", []string{"src/sum.test.ts", "src/sum.test.ts"}, coord.Invalid},
		{"two runners", "", []string{"src/sum.test.ts", "test_x.py"}, coord.Invalid},
		{"other runner", testrun.Python, []string{"src/sum.test.ts"}, coord.Invalid},
		{"unknown runner", "make", []string{"src/sum.test.ts"}, coord.Invalid},
		{"absent", "", []string{"src/no.test.ts"}, coord.NotFound},
		{"typed for an old node", testrun.Node, []string{"src/sum.test.ts"}, coord.Unsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := r
			r.Runner, r.Files = c.runner, c.files
			if _, err := tester.Plan(t.Context(), r); coord.CodeOf(err) != c.code {
				t.Errorf("error %v", err)
			}
		})
	}
}
