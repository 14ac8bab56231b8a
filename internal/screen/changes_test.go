package screen

import (
	"context"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/approval"
	"signalbox/internal/certification"
	"signalbox/internal/coord"
	"signalbox/internal/workspace"
)

// contents are those of a change, by their digests.
type contents map[string]string

func (c contents) Get(_ context.Context, sha string) ([]byte, error) { return []byte(c[sha]), nil }

func (contents) Put(context.Context, []byte) (string, error) { return "", io.ErrShortWrite }

// shown is the diff of a file of two contents, off a terminal.
func shown(t *testing.T, path, before, after string) string {
	t.Helper()
	was, is := workspace.Sum([]byte(before)), workspace.Sum([]byte(after))
	d, err := workspace.Diff(t.Context(), contents{was: before, is: after}, coord.FileChange{Path: path, Kind: coord.FileChanged, Before: was, After: is, BeforeMode: 0o644, Mode: 0o644})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	New(nil, &b, io.Discard).Diff(&b, d)
	return b.String()
}

func TestADiffHidesNothing(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want string }{
		"a direction that turns":   {"a\n", "a\u202eb\n", "+a<U+202E>b\n"},
		"a space without width":    {"a\n", "a\u200bb\n", "+a<U+200B>b\n"},
		"a variation selector":     {"a\n", "a\ufe0fb\n", "+a<U+FE0F>b\n"},
		"a tag character":          {"a\n", "a\U000e0041b\n", "+a<U+E0041>b\n"},
		"a filler of Hangul":       {"a\n", "a\u3164b\n", "+a<U+3164>b\n"},
		"a private character":      {"a\n", "a\ue000b\n", "+a<U+E000>b\n"},
		"an order to the terminal": {"a\n", "a\x1b[2Kb\n", "+a<U+001B>[2Kb\n"},
		"a carriage return":        {"a\n", "a\rb\n", "+a<U+000D>b\n"},
		"other ends of lines":      {"a\n", "a\r\n", "-a\n+a<U+000D>\n"},
		"a separator of lines":     {"a\n", "a\u2028+b\n", "+a<U+2028>+b\n"},
		"a tab in place of spaces": {"    a\n", "\ta\n", "-    a\n+\ta\n"},
		"spaces at the end":        {"a\n", "a  \n", "-a\n+a  \n"},
		"no line break at the end": {"a\n", "a", `-a` + "\n+a\n" + `\ No newline at end of file`},
	} {
		t.Run(name, func(t *testing.T) {
			got := shown(t, "file", c.before, c.after)
			if !strings.Contains(got, c.want) {
				t.Errorf("the diff is %q, want %q in it", got, c.want)
			}
			if strings.ContainsFunc(got, workspace.Hidden) {
				t.Errorf("there is something hidden in %q", got)
			}
			if told := strings.Contains(got, "not shown as they are"); told != strings.Contains(c.want, "<U+") {
				t.Errorf("that there is something hidden is told: %v", told)
			}
		})
	}
	if got := shown(t, "two  spaces\u202etxt", "a\n", "b\n"); !strings.HasPrefix(got, "\ntwo  spaces<U+202E>txt  +1 -1\n") {
		t.Errorf("the name is shown in %q", got)
	}
}

func TestNoCharacterIsHiddenInWhatIsDecidedOn(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if got := Exact(string(r)); strings.ContainsFunc(got, workspace.Hidden) {
			t.Fatalf("%U is shown as %q", r, got)
		}
	}
}

// colours are what a terminal is told beside the text.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestATerminalShowsADiffInColoursAndAsItIs(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	st := (&Screen{}).Styles(true)
	for _, text := range []string{"+\ta", "-    a  ", "+ a\tb"} {
		got := st.Good.Render(text)
		if got == text || colours.ReplaceAllString(got, "") != text {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}

func TestAChangeSetIsShownWithAllThatAPersonDecidesOn(t *testing.T) {
	d := approval.Display{
		ChangeSet: coord.ChangeSet{Number: 7, State: coord.ChangeSetOpen, Key: "fix", Agent: "codex", Digest: strings.Repeat("d", 64), Base: coord.WorkspaceIdentity{Path: "/srv/a\u202eb"}},
		Files: []workspace.FileDiff{
			{Change: coord.FileChange{Path: "a"}, Added: 2, Removed: 1, Text: "@@ -1 +1,2 @@\n-x\n+y\n+z\n"},
			{Change: coord.FileChange{Path: "b"}, Notes: []string{"no UTF-8 text: 3 bytes become 4"}},
			{Change: coord.FileChange{Path: "c"}, Added: 9, Text: "+c\n", Cut: true},
		},
		Git:   workspace.GitStatus{Head: strings.Repeat("e", 40), Files: map[string]workspace.GitFile{"a": workspace.GitClean, "b": workspace.GitModified, "c": workspace.GitUntracked}},
		Notes: []string{"the attempt that made it is failed\x1b[2J"},
	}
	var b strings.Builder
	New(nil, &b, io.Discard).Changes(&b, d)
	want := "c7  ■ open  task fix by codex, 3 files, +11 -1\n" +
		"workspace /srv/a\uFFFDb at commit eeeeeeeeeeee\n" +
		"digest " + strings.Repeat("d", 64) + "\n" +
		"! the attempt that made it is failed\uFFFD[2J\n" +
		"! b is modified in git's eyes\n" +
		"\na  +2 -1\n@@ -1 +1,2 @@\n-x\n+y\n+z\n" +
		"\nb  +0 -0\n  no UTF-8 text: 3 bytes become 4\n" +
		"\nc  +9 -0\n+c\n  the rest is longer than can be shown\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatLandedIsToldOfEachFile(t *testing.T) {
	for name, c := range map[string]struct {
		set  coord.ChangeSet
		want string
	}{
		"landed": {coord.ChangeSet{State: coord.ChangeSetLanded, Steps: []coord.LandingStep{{Path: "a", State: coord.StepLanded}}}, "c7 is landed\n  landed  a\n"},
		"partly": {coord.ChangeSet{State: coord.ChangeSetPartial, Steps: []coord.LandingStep{
			{Path: "a", State: coord.StepLanded}, {Path: "b\u202e", State: coord.StepForeign, Note: "somebody\x1b[2J changed it"},
		}}, "c7 is partial\n  landed  a\n  foreign  b\uFFFD  somebody\uFFFD[2J changed it\n"},
		"outdated":             {coord.ChangeSet{State: coord.ChangeSetStale, Comment: "c8 holds\nits changes"}, "c7 is stale\n  c8 holds its changes\n"},
		"discarded, commented": {coord.ChangeSet{State: coord.ChangeSetDiscarded, Comment: "no"}, "c7 is discarded\n"},
	} {
		c.set.Number = 7
		var b strings.Builder
		New(nil, &b, io.Discard).Landed(&b, c.set)
		if diff := cmp.Diff(c.want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestACertificateTellsWhatSpeaksAgainstItAndAllWhenAsked(t *testing.T) {
	probes := map[string]coord.ProbeResult{
		"write_outside": {Verdict: coord.ProbeDenied, Outside: "ok", Inside: "EACCES"},
		"stat_outside":  {Verdict: coord.ProbePermitted, Accepted: true, Outside: "ok", Inside: "ok"},
		"tcp_connect":   {Verdict: coord.ProbePermitted, Outside: "ok", Inside: "ok"},
		"io_uring":      {Verdict: coord.ProbeNotProven, Outside: "EPERM", Inside: "EPERM"},
	}
	cert := coord.Certificate{ID: "crt_1", Issued: coord.Moment{Wall: time.Now()}, Facts: coord.CertificateFacts{
		Tier: coord.TierLandlock, LandlockABI: 4, UID: 1000, Kernel: "6.1\x1b[2J", Files: []coord.IdentityFile{{Role: coord.FileRunner, Path: "/usr/bin/bun\u202e", SHA256: strings.Repeat("f", 64)}},
	}}
	for _, name := range slices.Sorted(maps.Keys(probes)) {
		p := probes[name]
		p.Name, p.Attempts = name, "try "+name
		cert.Probes = append(cert.Probes, p)
	}
	of := cert
	of.Facts.Agent, of.Facts.Revision = "codex", 3
	list := []certification.Standing{{Certificate: cert}, {Certificate: of, Void: "the machine\nwas started again"}}
	until := cert.Issued.Wall.Add(coord.CertificateTTL).Local().Format("15:04")
	for table, want := range map[bool][]string{false: {"tcp_connect"}, true: slices.Sorted(maps.Keys(probes))} {
		var b strings.Builder
		New(nil, &b, io.Discard).Certificates(&b, list, table)
		first, second, _ := strings.Cut(b.String(), "\n\n")
		head := "sandbox: holds until " + until + "\n  crt_1  just now\n  tier landlock, Landlock 4, uid 1000, kernel 6.1\uFFFD[2J\n" +
			"  runner /usr/bin/bun\uFFFD  sha256 ffffffffffff\n  1 denied, 2 permitted, 1 not proven (outside they fail, too)\n"
		rest, ok := strings.CutPrefix(first, head)
		if !ok {
			t.Errorf("the head: %s", cmp.Diff(head, first))
		}
		var got []string
		for line := range strings.Lines(rest) {
			got = append(got, strings.TrimSpace(strings.Split(line, "\t")[0]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("with the table %v it lists %q, want %q", table, got, want)
		}
		if table && !strings.Contains(rest, "  stat_outside\tpermitted (documented)\tok\tok\ttry stat_outside\n") {
			t.Errorf("what is documented is not told:\n%s", rest)
		}
		if !strings.HasPrefix(second, "agent codex, revision 3: does not hold: the machine was started again\n") {
			t.Errorf("the second: %s", second)
		}
	}
}
