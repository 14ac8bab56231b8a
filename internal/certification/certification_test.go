package certification

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/redact"
	"signalbox/internal/sandbox"
)

var operator = coord.Actor{Role: coord.RoleOperator, Name: "ada"}

// runners are programs in files of the test.
type runners []coord.IdentityFile

func (r runners) Programs(context.Context) []coord.IdentityFile { return r }

func (r runners) Program(_ context.Context, runner string) (coord.IdentityFile, error) {
	for _, p := range r {
		if filepath.Base(p.Path) == runner {
			return p, nil
		}
	}
	return coord.IdentityFile{}, coord.Errorf(coord.NotFound, "%s is not installed", runner)
}

// nobody is a directory without agents.
type nobody struct{}

func (nobody) List(context.Context) ([]coord.Agent, error) { return nil, nil }
func (nobody) Usable(context.Context, coord.AgentID) (coord.Agent, error) {
	return coord.Agent{}, coord.Errorf(coord.NotFound, "there is no such agent")
}

// house is a Certification over a real box and a journal whose time the test
// sets.
type house struct {
	*Certification
	t    *testing.T
	dir  string
	late time.Duration
}

func newHouse(t *testing.T) *house {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, dir: dir}
	boot, err := clock.BootID()
	if err != nil {
		t.Fatal(err)
	}
	m, err := journal.NewMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(t.Context(), journal.Options{Memory: m, Redact: redact.New().String, Logger: slog.New(slog.DiscardHandler),
		Clock: func() coord.Moment {
			return coord.Moment{Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), BootID: boot, Boot: time.Hour, Awake: time.Hour}.Add(h.late)
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	box, err := sandbox.New(self, filepath.Join(dir, "confinement"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	h.Certification = New(Options{Journal: j, Box: box, Agents: nobody{}, Runners: runners{h.program("bun"), h.program("go")}, Scratch: dir, Logger: slog.New(slog.DiscardHandler)})
	return h
}

// program makes or changes a runner.
func (h *house) program(name string) coord.IdentityFile {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = f.WriteString(name + "\n")
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return coord.IdentityFile{Role: coord.FileRunner, Path: path}
}

// keeps stores a certificate for programs as they are now.
func (h *house) keeps(edit func(*coord.Certificate), programs ...coord.IdentityFile) {
	h.t.Helper()
	facts, err := h.o.Box.Facts(coord.TierNamespaces, programs)
	if err != nil {
		h.t.Fatal(err)
	}
	cert := coord.Certificate{Facts: facts, Issued: h.o.Journal.Now(), Probes: []coord.ProbeResult{{Name: "write_outside", Verdict: coord.ProbeDenied}}}
	if edit != nil {
		edit(&cert)
	}
	err = h.o.Journal.Update(h.t.Context(), func(tx *journal.Tx) error {
		_, err := tx.AddCertificate(cert, operator)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// agent is one whose tools are Signalbox's own, with its program.
func (h *house) agent() coord.Agent {
	return coord.Agent{ID: "codex", Revision: 2, Inspection: &coord.Inspection{
		Identity:     coord.Identity{Files: []coord.IdentityFile{{Role: "launcher", Path: h.program("codex").Path}}},
		Capabilities: []coord.Capability{{Name: coord.CapabilityTools, Has: true}},
	}}
}

func (h *house) ofAgent(edit func(*coord.Certificate)) {
	h.keeps(func(c *coord.Certificate) {
		c.Facts.Agent, c.Facts.Revision = "codex", 2
		if edit != nil {
			edit(c)
		}
	}, coord.IdentityFile{Role: coord.FileAgent, Path: filepath.Join(h.dir, "codex")})
}

func TestOperationsAreOfferedOnlyWhileTheirCertificatesHold(t *testing.T) {
	all := []coord.Operation{coord.Read, coord.Write, coord.Test}
	for _, c := range []struct {
		name string
		// make keeps certificates and changes what they stand on.
		make func(h *house, a *coord.Agent)
		want []coord.Operation
		why  string
	}{
		{"both hold", func(h *house, _ *coord.Agent) { h.ofAgent(nil); h.keeps(nil, h.o.Runners.Programs(t.Context())...) }, all, ""},
		{"none was made", func(*house, *coord.Agent) {}, nil, "there is none"},
		{"only that of the sandbox", func(h *house, _ *coord.Agent) { h.keeps(nil, h.o.Runners.Programs(t.Context())...) }, nil, "there is none"},
		{"only that of the agent", func(h *house, _ *coord.Agent) { h.ofAgent(nil) }, all[:2], "there is none"},
		{"the agent's program changed", func(h *house, _ *coord.Agent) { h.ofAgent(nil); h.program("codex") }, nil, "other content"},
		{"the agent's program is gone", func(h *house, _ *coord.Agent) {
			h.ofAgent(nil)
			if err := os.Remove(filepath.Join(h.dir, "codex")); err != nil {
				t.Fatal(err)
			}
		}, nil, "not there"},
		{"another configuration", func(h *house, a *coord.Agent) { h.ofAgent(nil); a.Revision++ }, nil, "there is none"},
		{"another agent", func(h *house, a *coord.Agent) { h.ofAgent(nil); a.ID = "other" }, nil, "there is none"},
		{"one runner changed", func(h *house, _ *coord.Agent) {
			h.ofAgent(nil)
			h.keeps(nil, h.o.Runners.Programs(t.Context())...)
			h.program("bun")
		}, all, ""},
		{"every runner changed", func(h *house, _ *coord.Agent) {
			h.ofAgent(nil)
			h.keeps(nil, h.o.Runners.Programs(t.Context())...)
			h.program("bun")
			h.program("go")
		}, all[:2], "other content"},
		{"no runner is installed", func(h *house, _ *coord.Agent) { h.ofAgent(nil); h.o.Runners = runners{} }, all[:2], "bun, node, python3 or go"},
		{"too old", func(h *house, _ *coord.Agent) {
			h.ofAgent(nil)
			h.keeps(nil, h.o.Runners.Programs(t.Context())...)
			h.late = coord.CertificateTTL
		}, nil, "older than"},
		{"a probe got through", func(h *house, _ *coord.Agent) {
			h.ofAgent(func(c *coord.Certificate) {
				c.Probes = append(c.Probes, coord.ProbeResult{Name: "tcp_connect", Verdict: coord.ProbePermitted})
			})
		}, nil, "tcp_connect"},
		{"a newer one does not hold", func(h *house, _ *coord.Agent) {
			h.ofAgent(nil)
			h.ofAgent(func(c *coord.Certificate) { c.Facts.Kernel = "6.1" })
		}, all[:2], "there is none"},
		{"its tools are its own", func(h *house, a *coord.Agent) {
			h.ofAgent(nil)
			a.Inspection.Capabilities[0] = coord.Capability{Name: coord.CapabilityTools, Detail: "it has a shell"}
		}, nil, "it has a shell"},
		{"nothing is known of its tools", func(h *house, a *coord.Agent) { h.ofAgent(nil); a.Inspection.Capabilities = nil }, nil, "nothing shows"},
		{"it was never looked at", func(h *house, a *coord.Agent) { h.ofAgent(nil); a.Inspection = nil }, nil, "nothing shows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			a := h.agent()
			c.make(h, &a)
			got, why := h.Certified(t.Context(), a, nil)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("it may: %s", diff)
			}
			for _, op := range all {
				offered := strings.Contains(" "+join(got)+" ", " "+string(op)+" ")
				if offered && why[op] != "" || !offered && !strings.Contains(why[op], c.why) {
					t.Errorf("why not %s: %q, want %q", op, why[op], c.why)
				}
			}
		})
	}
}

func TestTestsAreOfferedOnlyWithACertificateForTheRunnersOfTheirFiles(t *testing.T) {
	for _, c := range []struct {
		name      string
		certified []string
		tests     []string
		why       []string // none: tests are offered
	}{
		{"any runner, where no file is named", []string{"go"}, nil, nil},
		{"the runner of the file", []string{"go"}, []string{"pkg/a_test.go"}, nil},
		{"another runner", []string{"go"}, []string{"a.test.ts"}, []string{"a.test.ts is run by bun", "there is none", "signalbox sandbox certify"}},
		{"one of two runners", []string{"bun"}, []string{"a.test.ts", "b.spec.js", "pkg/a_test.go"}, []string{"pkg/a_test.go is run by go", "signalbox sandbox certify"}},
		{"both runners", []string{"bun", "go"}, []string{"a.test.ts", "pkg/a_test.go"}, nil},
		{"neither of two runners", nil, []string{"a.test.ts", "pkg/a_test.go"}, []string{"run by bun", "run by go"}},
		{"a runner that is not installed", []string{"bun", "go"}, []string{"test_a.py"}, []string{"test_a.py is run by python", "not installed"}},
		{"a file that is no test", []string{"bun", "go"}, []string{"a.txt"}, []string{`no runner takes "a.txt"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			a := h.agent()
			h.ofAgent(nil)
			for _, name := range c.certified {
				h.keeps(nil, coord.IdentityFile{Role: coord.FileRunner, Path: filepath.Join(h.dir, name)})
			}
			got, why := h.Certified(t.Context(), a, c.tests)
			if offered := strings.HasSuffix(join(got), string(coord.Test)); offered != (c.why == nil) {
				t.Errorf("it may %s: %q", join(got), why[coord.Test])
			}
			for _, part := range c.why {
				if !strings.Contains(why[coord.Test], part) {
					t.Errorf("the reason is %q, want %q in it", why[coord.Test], part)
				}
			}
		})
	}
}

func join(ops []coord.Operation) string {
	var out []string
	for _, op := range ops {
		out = append(out, string(op))
	}
	return strings.Join(out, " ")
}

func TestTheListSaysOfEachCertificateWhetherItHolds(t *testing.T) {
	h := newHouse(t)
	h.keeps(nil, h.o.Runners.Programs(t.Context())[0])
	h.keeps(nil, h.o.Runners.Programs(t.Context())[1])
	h.program("go")
	list, err := h.List(t.Context())
	if err != nil || len(list) != 2 || !strings.Contains(list[0].Void, filepath.Join(h.dir, "go")) || list[1].Void != "" {
		t.Errorf("the list is %+v (%v)", list, err)
	}
}

func TestOnlyAnOperatorOrdersProbes(t *testing.T) {
	h := newHouse(t)
	for _, role := range []coord.Role{coord.RoleDraft, coord.RoleRead, ""} {
		if _, err := h.Certify(t.Context(), coord.Actor{Role: role}); coord.CodeOf(err) != coord.Forbidden {
			t.Errorf("%q gets %v", role, err)
		}
	}
	if list, err := h.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("there are %d certificates (%v)", len(list), err)
	}
}

func TestARunOfTestsWithoutACertificateForItsRunnerIsStale(t *testing.T) {
	h := newHouse(t)
	tests := Tests{Certification: h.Certification}
	run := coord.TestRun{Runner: "bun", Program: filepath.Join(h.dir, "bun")}
	stale := func(what string) {
		t.Helper()
		if _, _, err := tests.Run(t.Context(), coord.WorkspaceIdentity{Path: h.dir}, nil, run); coord.CodeOf(err) != coord.Stale || !strings.Contains(err.Error(), "signalbox sandbox certify") {
			t.Errorf("%s: %v", what, err)
		}
	}
	stale("without one")
	h.keeps(nil, h.o.Runners.Programs(t.Context())[1])
	stale("with one for another runner")
	h.keeps(nil, h.o.Runners.Programs(t.Context())[0])
	if _, err := tests.certificate(t.Context(), run); err != nil {
		t.Errorf("with one: %v", err)
	}
	h.program("bun")
	stale("after the runner changed")
}

func TestWhatTestsSeeIsTheFolderWithTheChangesOverIt(t *testing.T) {
	tests := Tests{Path: func(sum string) string { return "/contents/" + sum }}
	r := tests.request(coord.WorkspaceIdentity{Path: "/w"}, []coord.FileChange{
		{Path: "a", Kind: coord.FileChanged, Before: "1", After: "2", Mode: 0o755},
		{Path: "b", Kind: coord.FileDeleted, Before: "3"},
		{Path: "d", Kind: coord.FileRenamed, From: "c", Before: "4", After: "4", Mode: 0o644},
	}, []string{"a.test.ts"}, "bun", coord.TierLandlock)
	want := []sandbox.Change{{Path: "a", Content: "/contents/2", Mode: 0o755}, {Path: "b"}, {Path: "c"}, {Path: "d", Content: "/contents/4", Mode: 0o644}}
	if diff := cmp.Diff(want, r.Changes); diff != "" || r.Workspace != "/w" || r.Tier != coord.TierLandlock || r.Runner != "bun" {
		t.Errorf("the request is %+v: %s", r, diff)
	}
}
