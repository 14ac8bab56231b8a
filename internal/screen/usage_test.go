package screen

import (
	"io"
	"strings"
	"testing"
)

func TestAMisfitNamesWhatTheCommandTakes(t *testing.T) {
	for _, c := range []struct {
		command, use string
		given        int
		want         string
	}{
		{"signalbox run", "run TASK", 0, "signalbox run needs TASK: see signalbox run --help"},
		{"signalbox job edit", "edit JOB FILE", 1, "signalbox job edit needs JOB and FILE: see signalbox job edit --help"},
		{"signalbox agent add", "add AGENT [flags] [-- PROGRAM ARG…]", 0, "signalbox agent add needs AGENT: see signalbox agent add --help"},
		{"signalbox inbox", "inbox", 1, "signalbox inbox takes no argument: see signalbox inbox --help"},
		{"signalbox run", "run TASK", 3, "signalbox run takes TASK and nothing more, and was given 3 arguments; quote what has spaces: see signalbox run --help"},
		{"signalbox review", "review [CHANGES]", 2, "signalbox review takes [CHANGES] and nothing more, and was given 2 arguments; quote what has spaces: see signalbox review --help"},
	} {
		if got := Misfit(c.command, c.use, c.given); got != c.want {
			t.Errorf("%d arguments for %q give %q, want %q", c.given, c.use, got, c.want)
		}
	}
}

func TestLogoutSaysThatARemovedTokenIsStillGood(t *testing.T) {
	const still = "until it is revoked"
	for _, c := range []struct {
		keyring, file bool
		want, not     []string
	}{
		{true, false, []string{"from your keyring", still}, []string{"file"}},
		{false, true, []string{"the token file was removed", still}, []string{"keyring"}},
		{true, true, []string{"from your keyring", "the token file was removed", still}, nil},
		{false, false, []string{"no token was found"}, []string{still}},
	} {
		var b strings.Builder
		New(nil, io.Discard, &b).LoggedOut(c.keyring, c.file)
		for _, part := range c.want {
			if !strings.Contains(b.String(), part) {
				t.Errorf("keyring %v, file %v: %q lacks %q", c.keyring, c.file, b.String(), part)
			}
		}
		for _, part := range c.not {
			if strings.Contains(b.String(), part) {
				t.Errorf("keyring %v, file %v: %q has %q", c.keyring, c.file, b.String(), part)
			}
		}
	}
}

func TestAnEmptyListSaysSoBesideTheData(t *testing.T) {
	var data, aside strings.Builder
	s := New(nil, &data, &aside)
	s.List(s, "no jobs", []string{"job"}, nil)
	if data.String() != "" || aside.String() != "no jobs\n" {
		t.Errorf("an empty list wrote %q, and %q aside", data.String(), aside.String())
	}
	aside.Reset()
	s.List(s, "no jobs", []string{"job"}, [][]string{{"1"}})
	if data.String() != "1\n" || aside.String() != "" {
		t.Errorf("a list wrote %q, and %q aside", data.String(), aside.String())
	}
}
