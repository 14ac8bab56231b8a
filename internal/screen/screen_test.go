package screen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
)

func TestCleanShowsNoControlCharacter(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ntext\twith é and 漢": "plain\ntext\twith é and 漢",
		"a\x1b[2Jb":                 "a\uFFFD[2Jb",
		"a\r\nb":                    "a\nb",
		"a\x00\x07\x7fb":            "a\uFFFD\uFFFD\uFFFDb",
		"\u009b31m":                 "\uFFFD31m",
		"a\u202eb\u200bc\u2028d":    "a\uFFFDb\uFFFDc\uFFFDd",
		"bad \xff byte":             "bad \uFFFD byte",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) is %q, want %q", in, got, want)
		}
	}
}

func TestRowsAreTabsOffATerminalAndFitOnOne(t *testing.T) {
	rows := func() [][]string {
		return [][]string{{"r1", "open", strings.Repeat("a long title ", 12)}, {"r22", "approved", "short"}}
	}
	var b strings.Builder
	New(nil, &b, io.Discard).Rows(&b, []string{"request", "state", "for"}, rows())
	if lines := strings.Split(b.String(), "\n"); len(lines) != 3 || lines[1] != "r22\tapproved\tshort" || strings.Count(lines[0], "\t") != 2 {
		t.Errorf("off a terminal the table is %q", b.String())
	}
	for _, width := range []int{60, 80, 200} {
		b.Reset()
		s := &Screen{TTY: true, Width: width}
		s.Rows(&b, []string{"request", "state", "for"}, rows())
		lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
		if len(lines) != 3 {
			t.Fatalf("at %d columns there are %d lines:\n%s", width, len(lines), b.String())
		}
		if n := utf8.RuneCountInString(lines[1]); n > width || width < 160 && n < width-1 {
			t.Errorf("at %d columns a long row has %d:\n%s", width, n, b.String())
		}
		if got, want := strings.Index(lines[2], "short"), strings.Index(lines[1], "a long"); got != want {
			t.Errorf("at %d columns the last column begins at %d and %d", width, got, want)
		}
	}
}

func TestWarningsAreSaidOnceNamingWhomTheyConcern(t *testing.T) {
	got := together([]string{"agent a: it is old", "agent b: it asks", "agent c: it is old", "task x: no git", "a fact: of its own",
		"agent a: its own tools are not confined; what it does without asking, Signalbox cannot stop", "agent b: its own tools are not confined; what it does without asking, Signalbox cannot stop",
		"agent d: its own tools are not confined by the system"})
	want := []string{"agents a, c: it is old", "agent b: it asks", "task x: no git", "a fact: of its own",
		"agents a, b: their own tools are not confined; what they do without asking, Signalbox cannot stop", "agent d: its own tools are not confined by the system"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestAskTakesNothingButYesForYesAndOneLineAlone(t *testing.T) {
	for in, want := range map[string]bool{"y\n": true, "Yes\n": true, " y \n": true, "n\n": false, "\n": false, "yes please\n": false, "y": true} {
		s := New(strings.NewReader(in), io.Discard, io.Discard)
		if got, err := s.Ask(t.Context(), "well?"); err != nil || got != want {
			t.Errorf("the answer %q is %v, %v", in, got, err)
		}
	}
	two := strings.NewReader("y\nrest")
	if _, err := New(two, io.Discard, io.Discard).Ask(t.Context(), "well?"); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(two); string(rest) != "rest" {
		t.Errorf("what follows the answer is %q", rest)
	}
	if _, err := New(strings.NewReader(""), io.Discard, io.Discard).Ask(t.Context(), "well?"); !errors.Is(err, io.EOF) {
		t.Errorf("no answer at all gave %v", err)
	}
}

func TestAQuestionEndsWithItsContext(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close() // lets the read end
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := New(in, io.Discard, io.Discard).ReadLine(ctx); !errors.Is(err, why) {
		t.Errorf("it gave %v", err)
	}
}

func TestADocumentGivesATerminalNothingToObey(t *testing.T) {
	const hostile = "a\x1b[2J\u009b2J\x7f\u202eb\u200b\U000e0001é😀"
	for name, write := range map[string]func(*Screen) error{
		"document": func(s *Screen) error { return s.Document(hostile) }, "line": func(s *Screen) error { return s.Line(hostile) },
	} {
		var b bytes.Buffer
		s := New(nil, &b, io.Discard)
		s.TTY = true
		if err := write(s); err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsFunc(b.Bytes(), workspace.Hidden) || !strings.Contains(b.String(), "é😀") {
			t.Errorf("%s: a terminal gets %q", name, b.String())
		}
		var back string
		if err := json.Unmarshal(b.Bytes(), &back); err != nil || back != hostile {
			t.Errorf("%s: it reads as %q, %v", name, back, err)
		}
	}
}

func TestDocumentsAreOneLineOffATerminal(t *testing.T) {
	var b bytes.Buffer
	s := New(nil, &b, io.Discard)
	s.JSON = true
	if err := s.Show(map[string]string{"a": "<b>"}, nil); err != nil || b.String() != "{\"a\":\"<b>\"}\n" {
		t.Errorf("the document is %q, %v", b.String(), err)
	}
}

// What an agent names could else look like what Signalbox found.
func TestANameOfAnAgentsIsOneLineOfAResult(t *testing.T) {
	forged := "x\n  artifact report.md  9 B  sha256 0000  made"
	r := coord.Result{Tasks: []coord.TaskResult{{Key: "a", Agent: "x", State: coord.TaskFailed, Reason: forged,
		Receipt:   &coord.Receipt{Kind: "task", Reference: forged},
		Artifacts: []coord.Artifact{{Name: forged, Size: 1, SHA256: strings.Repeat("a", 64), Origin: "said"}, {Name: "y", Reference: "file:///etc/passwd", Origin: "said"}},
	}}}
	var b strings.Builder
	(&Screen{Width: 80}).Result(&b, r)
	if n := strings.Count(b.String(), "\n"); n != 6 || strings.Contains(b.String(), "\n  artifact report.md") {
		t.Errorf("a result with forged lines is %q", b.String())
	}
	if want := "artifact y  at file:///etc/passwd, not fetched  said"; !strings.Contains(b.String(), want) {
		t.Errorf("the address is not told: %q", b.String())
	}
}

func TestAResultTellsWhatWasUsed(t *testing.T) {
	var b strings.Builder
	s := New(nil, &b, io.Discard)
	s.Result(&b, coord.Result{Number: 1, State: coord.JobCompleted, Tasks: []coord.TaskResult{
		{Key: "told", State: coord.TaskCompleted, Agent: "a", Usage: coord.Usage{TotalTokens: 12, Cost: "0.5\x1b[2J", Currency: "EUR", Source: "provider"}},
		{Key: "silent", State: coord.TaskCompleted, Agent: "b"},
	}})
	if got := b.String(); strings.Count(got, "used") != 1 || !strings.Contains(got, "used 12 tokens and 0.5\uFFFD[2J EUR, as the agent told\n") {
		t.Errorf("the result is %q", got)
	}
}
