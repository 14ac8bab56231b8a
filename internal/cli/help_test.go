package cli

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"signalbox/internal/screen"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestHelpOfEveryCommand(t *testing.T) {
	a := &app{Program: Program{Out: io.Discard, Err: io.Discard}, Screen: screen.New(nil, io.Discard, io.Discard)}
	root := a.root()
	root.InitDefaultHelpCmd()
	var b strings.Builder
	var write func(c *cobra.Command)
	write = func(c *cobra.Command) {
		if c.Short == "" && !c.Hidden {
			t.Errorf("%s says nothing of itself", c.CommandPath())
		}
		c.InitDefaultHelpFlag()
		fmt.Fprintf(&b, "$ %s --help\n", c.CommandPath())
		a.help(&b, c)
		b.WriteString("\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				write(sub)
			}
		}
	}
	write(root)
	got := b.String()
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !strings.Contains(line, "signalbox agent add") && !strings.HasPrefix(line, "  signalbox run --agent") {
			t.Errorf("a line of help has %d columns: %s", n, line)
		}
	}
	golden := filepath.Join("testdata", "help.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the help changed; if that is wanted: go test ./internal/cli -run Help -update\n%s", diff)
	}
}
