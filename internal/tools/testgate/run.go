package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of go test -json; the names are those of test2json and of
// the build output of cmd/go.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
}

// skip is a test that did not run.
type skip struct{ name, reason string }

// run collects what go test says and prints what a person needs: the closing
// line of each package, and all output of what failed.
type run struct {
	out     io.Writer
	verbose bool

	passed, failed int
	skips          []skip
	// pending holds the output of tests and packages that have not ended.
	pending map[string][]string
}

func newRun(out io.Writer, verbose bool) *run {
	return &run{out: out, verbose: verbose, pending: map[string][]string{}}
}

// read takes the events of one go test process until its output ends. A line
// that is no event is printed as it is: it comes from the go command itself.
func (r *run) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
				r.take(e)
			} else {
				fmt.Fprint(r.out, line)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the output of go test: %w", err)
		}
	}
}

func (r *run) take(e event) {
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		if r.verbose || closing(e) {
			fmt.Fprint(r.out, e.Output)
		} else {
			r.pending[key] = append(r.pending[key], e.Output)
		}
	case "pass":
		if e.Test != "" {
			r.passed++
		}
		delete(r.pending, key)
	case "skip":
		if e.Test != "" {
			r.skips = append(r.skips, skip{e.Package + " " + e.Test, reason(r.pending[key])})
		}
		delete(r.pending, key)
	case "fail":
		if e.Test != "" {
			r.failed++
			r.flush(key)
		} else {
			r.crashed(e.Package)
		}
	}
}

// closing reports whether e is the line that go test prints for a package
// without -v. It passes at once; other output waits for the verdict.
func closing(e event) bool {
	if e.Test != "" {
		return false
	}
	return strings.HasPrefix(e.Output, "ok  \t") || strings.HasPrefix(e.Output, "FAIL\t") ||
		strings.HasPrefix(e.Output, "?   \t") || strings.HasPrefix(e.Output, "\t"+e.Package+"\t")
}

// crashed prints what is left of a failed package: the output of the package
// itself and of tests that a panic, an exit or the time limit cut off.
func (r *run) crashed(pkg string) {
	var keys []string
	for key := range r.pending {
		if strings.HasPrefix(key, pkg+"\x00") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		r.flush(key)
	}
}

func (r *run) flush(key string) {
	for _, line := range r.pending[key] {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(r.out, line)
		}
	}
	delete(r.pending, key)
}

// reason is what a skipped test said, on one line of bounded length.
func reason(output []string) string {
	var words []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			words = append(words, line)
		}
	}
	if len(words) == 0 {
		return "no reason given"
	}
	const enough = 240
	text := strings.Join(words, " ")
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "..."
	}
	return text
}

// verdict prints the summary and reports whether the run is good. exits says
// whether every go test process ended with success.
func (r *run) verdict(exits, ci bool) bool {
	good := exits && r.failed == 0
	for _, s := range r.skips {
		fmt.Fprintf(r.out, "SKIP %s: %s\n", s.name, s.reason)
	}
	if len(r.skips) > 0 && ci {
		fmt.Fprintln(r.out, "FAIL: tests were skipped, and in CI every test must run")
		good = false
	}
	if r.passed+r.failed == 0 {
		fmt.Fprintln(r.out, "FAIL: no test ran")
		good = false
	}
	if !good && r.failed == 0 {
		fmt.Fprintln(r.out, "FAIL: see above")
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, len(r.skips))
	return good
}
