package process_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/process"
)

// outside is the environment of a worker as it is on real machines.
func outside(name string) (string, bool) {
	v, ok := map[string]string{
		"PATH": "/bin", "HOME": "/home/o", "LC_TIME": "C", "LANG": "", "KEY": "k1",
		"OPENAI_API_KEY": "leak", "AWS_SECRET_ACCESS_KEY": "leak", "SIGNALBOX_TOKEN": "leak", "HTTPS_PROXY": "http://u:leak@p",
		"SSH_AUTH_SOCK": "/leak", "NODE_OPTIONS": "--require leak", "LD_PRELOAD": "leak.so", "XDG_RUNTIME_DIR": "/leak", "TERM": "leak",
	}[name]
	return v, ok
}

func TestEnvironmentIsAllowListThenFixedThenMapped(t *testing.T) {
	if diff := cmp.Diff([]string{"PATH=/bin", "HOME=/home/o", "LANG=", "LC_TIME=C"}, process.BaseEnv(outside)); diff != "" {
		t.Error(diff)
	}
	got, err := process.Environment(outside, map[string]string{"HOME": "/private", "MODE": "x"}, map[string]string{"API": "KEY", "MODE": "KEY"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"API=k1", "HOME=/private", "LANG=", "LC_TIME=C", "MODE=k1", "PATH=/bin"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestEnvironmentRefusesWhatAChildMustNotGet(t *testing.T) {
	for _, c := range []struct {
		name           string
		fixed, fromEnv map[string]string
		code           coord.Code
		names          string
	}{
		{name: "source not set", fromEnv: map[string]string{"API": "ABSENT"}, code: coord.Unavailable, names: "ABSENT"},
		{name: "own token as source", fromEnv: map[string]string{"X": "SIGNALBOX_TOKEN"}, code: coord.Invalid, names: "SIGNALBOX_TOKEN"},
		{name: "own name as target", fixed: map[string]string{"SIGNALBOX_TOKEN": "x"}, code: coord.Invalid, names: "SIGNALBOX_TOKEN"},
		{name: "empty name", fixed: map[string]string{"": "x"}, code: coord.Invalid},
		{name: "name with =", fixed: map[string]string{"PATH=/evil:": "x"}, code: coord.Invalid, names: "PATH"},
		{name: "NUL in a value", fixed: map[string]string{"A": "x\x00B=leak"}, code: coord.Invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := process.Environment(outside, c.fixed, c.fromEnv)
			if coord.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.names) || strings.Contains(err.Error(), "leak") {
				t.Errorf("error %v", err)
			}
		})
	}
}
