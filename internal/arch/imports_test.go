package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

const module = "signalbox"

// pkg is what go list says of a package. Paths are relative to the module.
type pkg struct {
	ImportPath string
	Doc        string
	Imports    []string
}

// The levels of docs/architecture.md: an arrow points from a higher to a lower one.
const (
	vocabulary = iota
	tool
	stage
	door
)

// levels places each package below internal/. A package below one of them,
// such as journal/ownerlock, is of the same level.
var levels = map[string]int{
	"coord": vocabulary, "redact": vocabulary, "sse": vocabulary, "jsonl": vocabulary, "jsonwalk": vocabulary,
	"clock": vocabulary, "fault": vocabulary, "toolwire": vocabulary, "filehash": vocabulary, "heap": vocabulary,

	"journal": tool, "artifact": tool, "process": tool, "provider": tool,
	"netguard": tool, "workspace": tool, "sandbox": tool, "testrun": tool,

	"directory": stage, "planning": stage, "approval": stage, "scheduler": stage, "synthesis": stage, "retention": stage, "certification": stage,

	"api": door, "daemon": door, "client": door, "cli": door, "mcpserver": door,
	"modelagent": door, "modelserver": door, "demo": door, "follow": door, "screen": door, "credential": door,
	"workspacemcp": door,
}

// alone are the packages that the tools and the build live in: they import
// nothing of ours, and nothing of ours imports them.
var alone = []string{"arch", "tools"}

// children are the doors that run as processes of agents, or stand in for what
// agents talk to.
var children = []string{"modelagent", "modelserver", "workspacemcp"}

// siblings are the arrows within a level that have a reason.
var siblings = map[string][]string{
	"redact": {"coord"}, "sse": {"coord"}, "jsonl": {"coord"}, "clock": {"coord"}, "fault": {"coord"}, "toolwire": {"coord"}, "filehash": {"coord"}, "heap": {"coord"},
	// An adapter drives a process or a connection through the port.
	"provider/acp":    {"provider", "process", "provider/stdio"},
	"provider/codex":  {"provider", "process", "provider/stdio"},
	"provider/stdio":  {"provider", "process"},
	"provider/tincan": {"provider", "process", "provider/stdio"}, "provider/a2a": {"provider", "netguard", "provider/stdio"},
	// The gate restricts what a program may write before it becomes the program.
	"process": {"sandbox/landlock"},
	// The command line gives the demo its screen.
	"cli": {"demo"},
	// The model agent reads the address of its model by the rules for peers.
	"modelagent": {"netguard"},
	// A confined test runs as a process in the sandbox, on the workspace.
	"sandbox": {"process"}, "testrun": {"process", "sandbox", "workspace"},
}

// violations lists every arrow that the design forbids, with the reason.
func violations(pkgs []pkg) []string {
	var out []string
	for _, p := range pkgs {
		for _, target := range p.Imports {
			if why := forbidden(p.ImportPath, target); why != "" {
				out = append(out, fmt.Sprintf("%s imports %s: %s", p.ImportPath, target, why))
			}
		}
	}
	return out
}

// forbidden says why from must not import to in code that is part of the
// binary, "" if it may. Both are relative to the module.
func forbidden(from, to string) string {
	fromName, inside := strings.CutPrefix(from, "internal/")
	toName, ours := strings.CutPrefix(to, "internal/")
	switch {
	case testSupport(from) || strings.HasPrefix(from, "e2e/") || measures(from):
		return ""
	case testSupport(to) || strings.HasPrefix(to, "e2e/") || measures(to):
		return "it exists for tests or measurements and must not become part of the binary; import it from a _test.go file"
	case within(fromName, alone) || within(toName, alone):
		return "the tools of the build and the product do not know each other; copy the few lines or move them down into a package of the product"
	case strings.HasPrefix(from, "cmd/") && ours:
		return ""
	case !inside || !ours:
		return "only cmd, internal, e2e and bench hold Go packages; move it there"
	case strings.HasPrefix(toName, fromName+"/") && fromName != "provider":
		return ""
	}
	fromLevel, known := levels[top(fromName)]
	toLevel, also := levels[top(toName)]
	switch {
	case !known || !also:
		return "one of them has no level; add it to the table of internal/arch with a thought about its place"
	case slices.Contains(siblings[fromName], toName):
		return ""
	case fromLevel < toLevel:
		return "arrows point down: doors use stages, stages use tools, tools use the vocabulary; let the upper one pass what the lower one needs, or declare a small interface below"
	case fromLevel > toLevel && slices.Contains(children, top(fromName)) && toLevel != vocabulary:
		return "it runs below an agent, or holds a model key or a token; it must not carry the journal, a stage or an adapter"
	case fromLevel > toLevel:
		return ""
	}
	switch fromLevel {
	case vocabulary:
		return "packages of the vocabulary know coord and nothing else, so that any of them can be used anywhere"
	case tool:
		return "tools do not know each other: an adapter that knew the journal, or a journal that knew a process, could decide what only a stage may decide; let the stage connect them"
	case stage:
		return "stages do not import each other; they meet in the journal, which is what lets each be read, tested and restarted alone"
	}
	if toName == "cli" || toName == "demo" {
		return "the command line is the outermost door; only cmd wires it"
	}
	return ""
}

// measures reports whether a package is a program that measures the product.
func measures(p string) bool { return top(p) == "bench" }

// testSupport reports whether a package holds what several tests share: by
// name it is a word and "test", such as providertest.
func testSupport(p string) bool {
	base := path.Base(p)
	return strings.HasSuffix(base, "test") && base != "test"
}

// within reports whether a package is one of roots or below one.
func within(name string, roots []string) bool { return slices.Contains(roots, top(name)) }

// top is the first element of a path.
func top(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}

// list gives the packages of the module with their imports of the module.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Doc,Imports", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := dec.Decode(&p)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("decode the output of go list: %v", err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module+"/")
		imports := p.Imports[:0]
		for _, target := range p.Imports {
			if rest, ok := strings.CutPrefix(target, module+"/"); ok {
				imports = append(imports, rest)
			}
		}
		p.Imports = imports
		pkgs = append(pkgs, p)
	}
	if len(pkgs) < 10 {
		t.Fatalf("go list found %d packages; this test would check nothing", len(pkgs))
	}
	return pkgs
}

func TestArrowsPointDown(t *testing.T) {
	for _, v := range violations(list(t)) {
		t.Error(v)
	}
}

// The maps are what a newcomer reads first, and nothing else keeps them true.
func TestMapsNameEveryPackage(t *testing.T) {
	for _, name := range []string{"AGENTS.md", "docs/architecture.md"} {
		b, err := os.ReadFile(filepath.Join(checkout(t), filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		named := strings.FieldsFunc(string(b), func(r rune) bool { return !unicode.IsLetter(r) })
		for p := range levels {
			_, err := os.Stat(filepath.Join(checkout(t), "internal", p))
			if there := err == nil; there && !slices.Contains(named, p) {
				t.Errorf("%s has no word of internal/%s: add it to the map", name, p)
			}
		}
	}
}

func TestEveryPackageSaysWhatItPromises(t *testing.T) {
	for _, p := range list(t) {
		if strings.TrimSpace(p.Doc) == "" {
			t.Errorf("%s has no package comment: say in doc.go what it promises", p.ImportPath)
		}
	}
}

// The rules are tested on arrows of their own, since the code has none that
// they forbid.
func TestForbidden(t *testing.T) {
	for arrow, want := range map[string]string{
		"internal/scheduler -> internal/journal":              "",
		"internal/journal -> internal/coord":                  "",
		"internal/sse -> internal/coord":                      "",
		"internal/journal -> internal/journal/ownerlock":      "",
		"internal/provider/acp -> internal/provider":          "",
		"internal/provider/acp -> internal/process":           "",
		"internal/provider/acp -> internal/jsonl":             "",
		"internal/provider/providertest -> internal/provider": "",
		"internal/daemon -> internal/api":                     "",
		"cmd/signalbox -> internal/cli":                       "",
		"e2e/peers/install -> e2e/peers":                      "",
		"bench -> internal/journal":                           "",
		"bench/agent -> internal/coord":                       "",
		"internal/cli -> bench":                               "exists for tests or measurements",
		"internal/journal -> internal/scheduler":              "arrows point down",
		"internal/coord -> internal/journal":                  "arrows point down",
		"internal/coord -> internal/sse":                      "packages of the vocabulary",
		"internal/sse -> internal/redact":                     "packages of the vocabulary",
		"internal/journal -> internal/process":                "tools do not know each other",
		"internal/provider -> internal/provider/acp":          "tools do not know each other",
		"internal/provider/acp -> internal/journal":           "tools do not know each other",
		"internal/provider/acp -> internal/provider/codex":    "tools do not know each other",
		"internal/planning -> internal/approval":              "stages do not import each other",
		"internal/api -> internal/cli":                        "outermost door",
		"internal/modelagent -> internal/journal":             "holds a model key",
		"internal/cli -> internal/provider/providertest":      "exists for tests or measurements",
		"internal/cli -> e2e/peers":                           "exists for tests or measurements",
		"internal/tools/testgate -> internal/coord":           "tools of the build",
		"internal/common -> internal/coord":                   "has no level",
		"lib/thing -> internal/coord":                         "only cmd, internal, e2e and bench",
	} {
		from, to, _ := strings.Cut(arrow, " -> ")
		got := forbidden(from, to)
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", arrow, got, want)
		}
	}
}

func TestViolationsNameBothEndsOfTheArrow(t *testing.T) {
	got := violations([]pkg{{ImportPath: "internal/planning", Imports: []string{"internal/coord", "internal/approval"}}})
	want := []string{"internal/planning imports internal/approval: " + forbidden("internal/planning", "internal/approval")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
