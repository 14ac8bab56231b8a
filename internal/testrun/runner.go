package testrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/sandbox"
)

// lazily compiles a pattern when it is first used: most processes of this
// program run no tests, and each starts with what is compiled at its start.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// programNames are what each runner's program is called on a path.
var programNames = map[string]string{Bun: "bun", Node: "node", Python: "python3", Go: "go"}

// questionTimeout bounds a question to a runner: its version or its paths.
const questionTimeout = 20 * time.Second

var errQuestionSlow = errors.New("a runner did not answer within 20 seconds")

// program finds the executable of a runner, its links resolved.
func (t *Tester) program(ctx context.Context, runner string) (string, error) {
	path := t.programs[runner]
	if path == "" {
		var err error
		if path, err = t.lookup(programNames[runner]); err != nil {
			return "", coord.Errorf(coord.NotFound, "The runner %s is not installed; install it, or name its path in the configuration.", programNames[runner])
		}
	}
	if runner == Python {
		// python3 may be a script that chooses an interpreter.
		found, err := askPython(ctx, path)
		if err != nil {
			return "", err
		}
		path = found
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", coord.Errorf(coord.NotFound, "The runner %s is not where it is said to be; look at its path in the configuration.", programNames[runner])
	}
	return resolved, nil
}

// ask runs a runner's program, outside of any workspace, to learn of itself.
func ask(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, questionTimeout, errQuestionSlow)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", &coord.Error{Code: coord.Unavailable, Message: fmt.Sprintf("The runner %s does not answer; try to start it by hand.", filepath.Base(program)), Err: err}
	}
	return strings.TrimSpace(string(out[:min(len(out), coord.MaxPath)])), nil
}

func askPython(ctx context.Context, program string) (string, error) {
	return ask(ctx, program, "-I", "-S", "-c", "import sys; print(sys.executable)")
}

// caseTimeout is in milliseconds, as Bun and Node.js take it.
var caseTimeout = strconv.FormatInt(coord.TestCaseTimeout.Milliseconds(), 10)

// bunArgs: neither .env nor bunfig.toml is looked at, and "./" makes a path of
// what would be a filter (Bun 1.4.5).
func bunArgs(files []string) []string {
	args := []string{"test", "--no-env-file", "--config=/dev/null", "--timeout", caseTimeout, "--reporter=junit", "--reporter-outfile=" + sandbox.ReportPath}
	for _, f := range files {
		args = append(args, "./"+f)
	}
	return args
}

// nodeStart imports each file into one process: Node.js before 22.8 starts a
// process for each file otherwise, which a confined program cannot.
const nodeStart = `import { pathToFileURL } from "node:url"; for (const file of process.argv.slice(1)) await import(pathToFileURL(file));`

var nodeVersion = lazily(`^v(\d+)\.(\d+)\.`)

func (t *Tester) nodeArgs(ctx context.Context, r Request, program string) ([]string, error) {
	version, err := ask(ctx, program, "--version")
	if err != nil {
		return nil, err
	}
	m := nodeVersion().FindStringSubmatch(version)
	if m == nil {
		return nil, coord.Errorf(coord.Unsupported, "The runner node tells a version that is none of Node.js.")
	}
	major, _ := strconv.Atoi(m[1]) // digits by the pattern
	minor, _ := strconv.Atoi(m[2])
	if major < 20 {
		return nil, coord.Errorf(coord.Unsupported, "The runner node is older than version 20; install a newer one.")
	}
	typed := slices.ContainsFunc(r.Files, func(f string) bool { return strings.Contains(filepath.Ext(f), "ts") })
	if typed && (major < 22 || major == 22 && minor < 18) {
		return nil, coord.Errorf(coord.Unsupported, "Node.js before 22.18 does not run TypeScript; use bun, or install a newer Node.js.")
	}
	report := []string{"--test-reporter=spec", "--test-reporter-destination=stdout", "--test-reporter=junit", "--test-reporter-destination=" + sandbox.ReportPath}
	var args []string
	if major > 22 || major == 22 && minor >= 8 {
		args = append([]string{"--test", "--experimental-test-isolation=none", "--test-timeout=" + caseTimeout}, report...)
	} else {
		args = append(report, "--input-type=module", "-e", nodeStart, "--")
	}
	for _, f := range r.Files {
		args = append(args, "./"+f)
	}
	return args, nil
}

// pythonArgs: no variables, no packages of the user, no compiled files.
func pythonArgs(files []string) []string {
	return append([]string{"-E", "-s", "-B", "-m", "unittest", "-v"}, files...)
}

// pythonReads are the interpreter's libraries. The program is at bin/python3.N
// of its installation.
func pythonReads(program string) ([]string, error) {
	prefix := filepath.Dir(filepath.Dir(program))
	version := strings.TrimPrefix(filepath.Base(program), "python")
	lib := filepath.Join(prefix, "lib", "python"+version)
	if _, err := os.Stat(filepath.Join(lib, "unittest")); err != nil {
		return nil, coord.Errorf(coord.Unsupported, "The libraries of the runner python3 are not beside it; name the path of an interpreter such as /usr/bin/python3.11 in the configuration.")
	}
	return []string{lib, filepath.Join(prefix, "lib")}, nil
}

// goArgs compiles one package; the test program then gets testArgs.
func goArgs(r Request) (args []string, pattern string, err error) {
	dir := filepath.Dir(r.Files[0])
	var names []string
	for _, f := range r.Files {
		if filepath.Dir(f) != dir {
			return nil, "", coord.Errorf(coord.Invalid, "The Go files of one run of tests lie in one folder; ask for a run for each.")
		}
		found, err := goTests(r, f)
		if err != nil {
			return nil, "", err
		}
		names = append(names, found...)
	}
	if len(names) == 0 {
		return nil, "", coord.Errorf(coord.Invalid, "The Go files hold no test function.")
	}
	pattern = "^(" + strings.Join(names, "|") + ")$"
	return []string{"test", "-c", "-vet=off", "-trimpath", "-buildvcs=false", "./" + filepath.ToSlash(dir)}, pattern, nil
}

// goTests are the names of the test functions of a file.
func goTests(r Request, path string) ([]string, error) {
	f, err := r.open(path)
	if err != nil {
		return nil, coord.Errorf(coord.NotFound, "The file of tests %.200q is not there, or is no regular file.", path)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, coord.MaxFile))
	if err != nil {
		return nil, &coord.Error{Code: coord.Unavailable, Message: "A file of tests cannot be read.", Err: err}
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Base(path), text, parser.SkipObjectResolution)
	if file == nil {
		return nil, coord.Errorf(coord.Invalid, "The file of tests %.200q is no Go (%s).", path, errors.Unwrap(err))
	}
	var names []string
	for _, d := range file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && goTestName().MatchString(fn.Name.Name) {
			names = append(names, fn.Name.Name)
		}
	}
	return names, nil
}

var goTestName = lazily(`^(Test|Example|Fuzz)([^\p{Ll}].*)?$`)

// goEnv is the environment of a compilation: the toolchain that is there, no
// network, no C, nothing that the workspace or the user configured.
var goEnv = []string{
	"GOFLAGS=", "GOENV=off", "GOWORK=off", "GOPROXY=off", "GOTOOLCHAIN=local", "GONOSUMDB=", "GOVCS=*:off", "CGO_ENABLED=0", "GOTELEMETRY=off", "LC_ALL=C",
}

// goPlaces are asked of the toolchain by name, since its defaults depend on the
// user's configuration, which the compilation does not read.
func goPlaces(ctx context.Context, program string) ([]string, error) {
	text, err := ask(ctx, program, "env", "-json", "GOCACHE", "GOMODCACHE", "GOPATH", "GOROOT")
	if err != nil {
		return nil, err
	}
	var places map[string]string
	if err := json.Unmarshal([]byte(text), &places); err != nil {
		return nil, &coord.Error{Code: coord.Unavailable, Message: "The runner go does not tell where its caches are.", Err: err}
	}
	var env []string
	for name, path := range places {
		env = append(env, name+"="+path)
	}
	return env, nil
}
