package acp_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/acp"
)

func init() {
	// It tells in its state which of the places in its environment it can write.
	peers["writes"] = func(p *peer) {
		p.reply(p.expect("initialize"), peerInitialize)
		p.reply(p.expect("session/new"), `{"sessionId":"`+peerSession+`"}`)
		for _, name := range []string{"WORK", "TMPDIR", "STATE", "OTHER"} {
			err := os.WriteFile(filepath.Join(os.Getenv(name), "made"), nil, 0o600)
			p.note("places", name+" "+map[bool]string{true: "ok", false: "denied"}[err == nil])
		}
		p.note("model", os.Getenv("MODEL")+" "+os.Args[len(os.Args)-1])
		p.rest()
	}
}

// confined is a bench whose agent keeps its state in the bench's folder.
func confined(t *testing.T) (b *bench, scratch, other string) {
	t.Helper()
	b = newBench(t, "writes")
	var dirs []string
	for range 2 {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	scratch, other = dirs[0], dirs[1]
	state, err := filepath.EvalSymlinks(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	self, err := process.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b.adapter = acp.New(process.New(self, "host", b.ledger), acp.Options{Timing: testTiming, Scratch: scratch, Lookup: func(n string) (string, bool) {
		v, ok := b.env[n]
		return v, ok
	}})
	b.config.State = []string{state}
	b.config.Env["STATE"], b.config.Env["OTHER"] = state, other
	return b, scratch, other
}

// awaits waits until the peer noted so many lines.
func (b *bench) awaits(file string, lines int) {
	b.t.Helper()
	late := time.After(20 * time.Second)
	for len(b.file(file)) < lines {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-late:
			b.t.Fatalf("the peer noted only %v in %s", b.file(file), file)
		}
	}
}

func TestConfinedAgentWritesToItsOwnFoldersAndToNoWorkspace(t *testing.T) {
	for name, c := range map[string]struct{ own bool }{"in a folder that Signalbox made": {true}, "in a workspace": {false}} {
		b, scratch, other := confined(t)
		dir, want := other, "WORK denied,TMPDIR ok,STATE ok,OTHER denied"
		if c.own {
			dir, want = filepath.Join(scratch, "att_1"), "WORK ok,TMPDIR ok,STATE ok,OTHER denied"
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		b.config.Env["WORK"] = dir
		w := b.approved()
		w.Dir = dir
		s, err := b.adapter.Prepare(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		b.awaits("places", 4)
		if _, err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(b.file("places"), ","); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if left, err := filepath.Glob(filepath.Join(scratch, "acp-*")); err != nil || len(left) > 0 {
			t.Errorf("%s: left are %v, %v", name, left, err)
		}
	}
}

func TestAgentThatCannotBeConfinedIsNotStarted(t *testing.T) {
	for name, change := range map[string]func(*bench, string){
		"no such folder": func(b *bench, other string) { b.config.State = append(b.config.State, filepath.Join(other, "absent")) },
		"behind a link": func(b *bench, other string) {
			link := filepath.Join(other, "link")
			if err := os.Symlink(b.dir, link); err != nil {
				b.t.Fatal(err)
			}
			b.config.State = []string{link}
		},
		"a worker without a scratch folder": func(b *bench, _ string) {
			b.adapter = acp.New(nil, acp.Options{})
		},
	} {
		b, _, other := confined(t)
		change(b, other)
		_, err := b.adapter.Prepare(t.Context(), b.approved())
		if u, ok := errors.AsType[*provider.Unsent](err); !ok || !strings.Contains(u.Message, "restricted") {
			t.Errorf("%s: it gave %v", name, err)
		}
		if len(b.file("places")) > 0 {
			t.Errorf("%s: it ran", name)
		}
	}
}

func TestModelsAddressStandsWhereTheConfigurationHasItsMark(t *testing.T) {
	b, scratch, _ := confined(t)
	b.config.ModelURL = "http://127.0.0.1:1/v1"
	b.config.Env["MODEL"], b.config.Env["WORK"] = "at "+coord.ModelURLMark+"!", scratch
	b.config.Args = append(b.config.Args, "--url="+coord.ModelURLMark)
	b.prepare("x")
	b.awaits("model", 1)
	if got := b.file("model")[0]; got != "at http://127.0.0.1:1/v1! --url=http://127.0.0.1:1/v1" {
		t.Errorf("the peer got %q", got)
	}
}

func TestInspectionSaysWhetherToolsMayBeProven(t *testing.T) {
	b, scratch, _ := confined(t)
	for name, c := range map[string]struct {
		change func(*coord.AgentConfig)
		word   string
	}{
		"not confined":            {func(c *coord.AgentConfig) { c.State = nil }, "no folders of its own state"},
		"its model is somewhere":  {func(*coord.AgentConfig) {}, coord.ModelURLMark},
		"a worker without proofs": {func(c *coord.AgentConfig) { c.ModelURL = "http://127.0.0.1:1" }, "not set up"},
	} {
		config := b.config
		c.change(&config)
		in, err := b.adapter.Inspect(t.Context(), provider.Target{Agent: "peer", Revision: 1, Config: config, Scratch: scratch})
		if err != nil || in.Problem != "" {
			t.Fatal(err, in.Problem)
		}
		found := false
		for _, k := range in.Capabilities {
			if k.Name == coord.CapabilityTools {
				found = !k.Has && strings.Contains(k.Detail, c.word)
			}
		}
		if !found || len(in.Operations) != 1 {
			t.Errorf("%s: %+v", name, in)
		}
	}
}
