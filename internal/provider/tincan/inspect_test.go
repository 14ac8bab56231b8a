package tincan_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider/tincan/tincantest"
)

func capability(in coord.Inspection, name string) coord.Capability {
	at := slices.IndexFunc(in.Capabilities, func(c coord.Capability) bool { return c.Name == name })
	if at < 0 {
		return coord.Capability{}
	}
	return in.Capabilities[at]
}

func TestInspectionOfAPeer(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{})
	in := b.inspect()
	if in.Problem != "" || in.Auth != coord.AuthReady || !slices.Equal(in.Operations, []coord.Operation{coord.Research}) || in.Identity.Version != "tincan 0.0.42-stand-in" {
		t.Errorf("the inspection is %+v", in)
	}
	for name, want := range map[string]coord.Capability{
		"peer listed":                  {Has: true, Evidence: coord.Measured, Detail: "agents of the relay: 1"},
		"peer online":                  {Has: true, Evidence: coord.Declared, Detail: `the relay says "online wake=poll last seen 3s ago"`},
		"answers in JSON":              {Has: true, Evidence: coord.Measured, Detail: "by its help text"},
		"relay":                        {Has: true, Evidence: coord.Measured, Detail: `version "0.0.42"`},
		"can be stopped":               {Evidence: coord.Declared, Detail: "tincan withdraws only what no peer has taken"},
		"asks and takes answers":       {Evidence: coord.Declared},
		"can be asked after a restart": {Has: true, Evidence: coord.Declared, Detail: "by the request's id, as signalbox at http://relay.example"},
	} {
		want.Name = name
		if got := capability(in, name); got != want {
			t.Errorf("the capability is %+v, want %+v", got, want)
		}
	}
	all, err := json.Marshal(in)
	if err != nil || strings.Contains(string(all), tincantest.Key) {
		t.Errorf("the inspection has the key, or %v", err)
	}
	calls, err := tincantest.Calls(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if words := strings.Join(c.Args, " "); words != "version" && words != "ask --help" && words != "agents" {
			t.Errorf("an inspection ran %q", words)
		}
	}
	if n := len(b.submissions()); n > 0 {
		t.Errorf("the relay took %d requests", n)
	}
}

func TestInspectionTellsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name, dialect string
		script        tincantest.Script
		change        func(b *bench) error
		problem, warn string
		auth          coord.AuthState
	}{
		{"a peer with a name that only begins so", "json", tincantest.Script{Agents: "muse2 online wake=poll last seen 3s ago\nMUSE online\nx muse online\n"}, nil, `named exactly "muse"`, "", coord.AuthReady},
		{"an empty relay", "json", tincantest.Script{Agents: "No agents have joined yet.\n"}, nil, "does not list", "", coord.AuthReady},
		{"a peer that is offline", "json", tincantest.Script{Agents: "muse offline wake=poll never seen\n"}, nil, "", "offline", coord.AuthReady},
		{"a program without --json", "json", tincantest.Script{Old: true}, nil, "does not know --json", "", coord.AuthUnknown},
		{"a program without --json in its dialect", "text", tincantest.Script{Old: true}, nil, "", "", coord.AuthReady},
		{"a program with --json in text", "text", tincantest.Script{}, nil, "", "dialect json", coord.AuthReady},
		{"no relay", "json", tincantest.Script{List: tincantest.Unreachable}, nil, "ended with code 1", "", coord.AuthUnknown},
		{"a relay that does not know us", "json", tincantest.Script{List: tincantest.Stranger}, nil, "joined agent", "", coord.AuthRequired},
		{"a list without end", "json", tincantest.Script{List: tincantest.Flood}, nil, "more than an answer", "", coord.AuthUnknown},
		{"a list that never comes", "json", tincantest.Script{List: tincantest.Hang}, nil, "within its time", "", coord.AuthUnknown},
		{"a program that is killed", "json", tincantest.Script{Version: tincantest.Killed}, nil, "killed", "", coord.AuthUnknown},
		{"a profile that others can read", "json", tincantest.Script{}, func(b *bench) error { return os.Chmod(b.config.Tincan.Profile, 0o644) }, "", "chmod 600", coord.AuthReady},
		{"nobody's profile", "json", tincantest.Script{}, func(b *bench) error {
			_, err := tincantest.Profile(b.dir, "", "http://relay.example")
			return err
		}, "nobody", "", coord.AuthRequired},
		{"a script as the program", "json", tincantest.Script{}, func(b *bench) error {
			b.config.Executable = filepath.Join(b.t.TempDir(), "tincan")
			return os.WriteFile(b.config.Executable, []byte("#!/bin/sh\nexec tincan \"$@\"\n"), 0o700)
		}, "is a script", "", coord.AuthUnknown},
		{"a relative program", "json", tincantest.Script{}, func(b *bench) error { b.config.Executable = "tincan"; return nil }, "absolute", "", coord.AuthUnknown},
		{"another dialect", "json", tincantest.Script{}, func(b *bench) error { b.config.Tincan.Dialect = "xml"; return nil }, "dialect", "", coord.AuthUnknown},
		{"a peer with a space", "json", tincantest.Script{}, func(b *bench) error { b.config.Tincan.Peer = "muse x"; return nil }, "name of the Tincan peer", "", coord.AuthUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			timing := testTiming
			if c.script.List == tincantest.Hang {
				timing.Command = 2 * time.Second
			}
			b := newTimedBench(t, c.dialect, c.script, timing)
			if c.change != nil {
				if err := c.change(b); err != nil {
					t.Fatal(err)
				}
			}
			in := b.inspect()
			if (in.Problem == "") != (c.problem == "") || !strings.Contains(in.Problem, c.problem) || in.Auth != c.auth {
				t.Errorf("the problem is %q, the login %s", in.Problem, in.Auth)
			}
			if !strings.Contains(strings.Join(in.Warnings, "\n"), c.warn) {
				t.Errorf("the warnings are %q", in.Warnings)
			}
			if (len(in.Operations) == 0) != (c.problem != "") {
				t.Errorf("the operations are %v", in.Operations)
			}
		})
	}
}

func TestInspectionBoundsWhatARelaySays(t *testing.T) {
	b := newBench(t, "json", tincantest.Script{Agents: "# relay version " + strings.Repeat("9 ", 5000) + "\nmuse online \x1b[31mkind=" + strings.Repeat("k", 20_000) + "\n"})
	for _, c := range b.inspect().Capabilities {
		if len(c.Detail) > 2*coord.MaxTitle+64 || strings.ContainsRune(c.Detail, 0x1b) {
			t.Errorf("%s has %d bytes: %.300q", c.Name, len(c.Detail), c.Detail)
		}
	}
}

func TestProfilesThatAreNone(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"none":      func(string) error { return nil },
		"a folder":  func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"too large": func(path string) error { return os.WriteFile(path, make65k(), 0o600) },
		"not JSON":  func(path string) error { return os.WriteFile(path, []byte("relay_key = "+tincantest.Key), 0o600) },
		"another type": func(path string) error {
			return os.WriteFile(path, []byte(`{"agent":["`+tincantest.Key+`"],"relay":1}`), 0o600)
		},
		"an agent in two": func(path string) error {
			return os.WriteFile(path, []byte(`{"agent":"a b","relay":"http://r"}`), 0o600)
		},
		"a long agent": func(path string) error {
			return os.WriteFile(path, []byte(`{"agent":"`+strings.Repeat("a", 5000)+`","relay":"http://r"}`), 0o600)
		},
		"an empty file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a control letter": func(path string) error {
			return os.WriteFile(path, []byte(`{"agent":"a\u0007","relay":"http://r"}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "json", tincantest.Script{})
			b.config.Tincan.Profile = filepath.Join(t.TempDir(), "client.json")
			if err := make(b.config.Tincan.Profile); err != nil {
				t.Fatal(err)
			}
			in := b.inspect()
			if in.Problem == "" || strings.Contains(in.Problem, tincantest.Key) || len(in.Operations) > 0 {
				t.Errorf("the inspection is %+v", in)
			}
			if n := b.ledger.n; n > 0 {
				t.Errorf("%d processes ran", n)
			}
		})
	}
}

func make65k() []byte {
	return []byte(`{"agent":"a","relay":"http://r","relay_key":"` + strings.Repeat("k", coord.MaxTincanProfile) + `"}`)
}
