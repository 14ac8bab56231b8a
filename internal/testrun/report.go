package testrun

import (
	"bytes"
	"encoding/xml"
	"strconv"
	"strings"

	"signalbox/internal/sandbox"
)

// Case is one test as its runner reported it.
type Case struct {
	Name string
	// Outcome is "passed", "failed" or "skipped".
	Outcome string
	// Message is what the runner said of a failure, shortened.
	Message string
}

// Bounds on what is kept of single tests: a person reads the failures.
const (
	maxCases   = 500
	maxName    = 300
	maxMessage = 2000
)

// cases are the tests of a run. The counts are of all, the list is bounded.
type cases struct {
	list                    []Case
	passed, failed, skipped int
}

const (
	passed  = "passed"
	failed  = "failed"
	skipped = "skipped"
)

func (c *cases) add(name, outcome, message string) {
	switch outcome {
	case passed:
		c.passed++
	case failed:
		c.failed++
	case skipped:
		c.skipped++
	}
	if len(c.list) < maxCases {
		c.list = append(c.list, Case{shorten(name, maxName), outcome, shorten(strings.TrimSpace(message), maxMessage)})
	}
}

// shorten cuts a text and keeps it UTF-8.
func shorten(s string, most int) string {
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// parse reads a runner's report. What cannot be read counts no test.
func parse(runner string, out sandbox.Outcome) cases {
	switch runner {
	case Bun, Node:
		return parseJUnit(out.Report)
	case Python:
		return parsePython(out.Output)
	case Go:
		return parseGo(out.Output)
	}
	return cases{}
}

// suite is a test suite of JUnit's format, as Bun 1.4 and Node.js 20 write it:
// suites within suites, and cases at any level.
type suite struct {
	Name   string  `xml:"name,attr"`
	Suites []suite `xml:"testsuite"`
	Cases  []struct {
		Name    string    `xml:"name,attr"`
		Failure *junitEnd `xml:"failure"`
		Error   *junitEnd `xml:"error"`
		Skipped *junitEnd `xml:"skipped"`
	} `xml:"testcase"`
}

type junitEnd struct {
	Message string `xml:"message,attr"`
}

func parseJUnit(report []byte) cases {
	var root suite
	// A report that is cut at its bound does not parse, and proves nothing.
	if err := xml.NewDecoder(bytes.NewReader(report)).Decode(&root); err != nil {
		return cases{}
	}
	var all cases
	var visit func(s suite, above string, depth int)
	visit = func(s suite, above string, depth int) {
		if depth > 100 {
			return
		}
		for _, c := range s.Cases {
			name := above + c.Name
			switch {
			case c.Failure != nil:
				all.add(name, failed, c.Failure.Message)
			case c.Error != nil:
				all.add(name, failed, c.Error.Message)
			case c.Skipped != nil:
				all.add(name, skipped, "")
			default:
				all.add(name, passed, "")
			}
		}
		for _, below := range s.Suites {
			visit(below, above+below.Name+" > ", depth+1)
		}
	}
	visit(root, "", 0)
	return all
}

// goLine is the end of a top-level test in the output of -test.v; those of
// subtests are indented.
var goLine = lazily(`(?m)^--- (PASS|FAIL|SKIP): (\S+) \(`)

func parseGo(output []byte) cases {
	var all cases
	words := map[string]string{"PASS": passed, "FAIL": failed, "SKIP": skipped}
	for _, m := range goLine().FindAllSubmatch(output, -1) {
		all.add(string(m[2]), words[string(m[1])], "")
	}
	return all
}

// What unittest -v prints: one line a test, and at the end the sums.
var (
	pythonLine = lazily(`(?m)^(.*) \.\.\. (?:.*)\b(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$`)
	pythonRan  = lazily(`(?m)^Ran (\d+) tests? in `)
	pythonSum  = lazily(`(failures|errors|skipped|unexpected successes)=(\d+)`)
)

// parsePython takes the sums from the last lines, since what a test prints may
// stand between a test's name and its end.
func parsePython(output []byte) cases {
	var all cases
	for _, m := range pythonLine().FindAllSubmatch(output, -1) {
		switch word := string(m[2]); {
		case word == "ok" || word == "expected failure":
			all.add(string(m[1]), passed, "")
		case strings.HasPrefix(word, "skipped"):
			all.add(string(m[1]), skipped, "")
		default:
			all.add(string(m[1]), failed, "")
		}
	}
	ran := pythonRan().FindAllSubmatchIndex(output, -1)
	if len(ran) == 0 {
		return cases{list: all.list}
	}
	last := ran[len(ran)-1]
	total := count(output[last[2]:last[3]])
	all.failed, all.skipped = 0, 0
	for _, m := range pythonSum().FindAllSubmatch(output[last[1]:], -1) {
		if n := count(m[2]); string(m[1]) == skipped {
			all.skipped += n
		} else {
			all.failed += n
		}
	}
	all.passed = max(0, total-all.failed-all.skipped)
	return all
}

func count(digits []byte) int {
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		return 0
	}
	return n
}
