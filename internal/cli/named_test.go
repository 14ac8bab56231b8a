package cli

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"signalbox/internal/screen"
)

// Remedies, hints, examples and documents name commands. One that is not there
// helps nobody. A word after the program's name alone may be prose, so it is the
// commands of groups that are looked at.
func TestEveryCommandOfAGroupThatIsNamedIsThere(t *testing.T) {
	root := (&app{Screen: screen.New(nil, io.Discard, io.Discard)}).root()
	named := regexp.MustCompile(`signalbox ([a-z][a-z-]+) ([a-z][a-z-]+)`)
	top := os.DirFS(filepath.Join("..", ".."))
	seen := map[string]bool{}
	err := fs.WalkDir(top, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && !slices.Contains([]string{".", "cmd", "docs", "e2e", "internal"}, strings.Split(name, "/")[0]):
			return fs.SkipDir
		case !slices.Contains([]string{".go", ".md", ".json", ".txtar"}, filepath.Ext(name)):
			return nil
		}
		text, err := fs.ReadFile(top, name)
		if err != nil {
			return err
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			group, sub := m[1], m[2]
			seen[group] = true
			c, _, err := root.Find([]string{group})
			if err != nil || c == root || !c.HasSubCommands() {
				continue // prose, or a command that takes a word
			}
			if at := slices.IndexFunc(c.Commands(), func(s *cobra.Command) bool { return s.Name() == sub }); at < 0 {
				t.Errorf("%s names %q", name, m[0])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range root.Commands() {
		if c.HasSubCommands() && !seen[c.Name()] {
			t.Errorf("nothing names a command of %s: this test would check nothing of it", c.Name())
		}
	}
}
