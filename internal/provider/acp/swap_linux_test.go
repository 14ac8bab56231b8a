package acp_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/filehash/filehashtest"
	"signalbox/internal/provider/acp"
)

// program is one of a megabyte, of which one byte is another than in others.
func program(begin string, other byte) string {
	return begin + strings.Repeat(" ", 1<<20) + string(other)
}

// overwrite changes a file where it is, to as many bytes, and sets its time of
// modification back.
func overwrite(path, text string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close(), os.Chtimes(path, info.ModTime(), info.ModTime()))
}

// swaps change one file of a tree of swappable, whose path in gives.
var swaps = map[string]struct {
	executable string
	swap       func(in func(string) string) error
	changed    string
}{
	"a program that another is renamed over": {"bin/native", func(in func(string) string) error {
		return os.Rename(in("other/native"), in("bin/native"))
	}, "launcher"},
	"a program that is overwritten": {"bin/native", func(in func(string) string) error {
		return overwrite(in("bin/native"), program("\x7fELF", '2'))
	}, "launcher"},
	"a program that is overwritten by another name": {"bin/native", func(in func(string) string) error {
		return overwrite(in("bin/alias"), program("\x7fELF", '2'))
	}, "launcher"},
	"a program whose name another one got": {"bin/native", func(in func(string) string) error {
		return errors.Join(os.Remove(in("bin/native")), os.Link(in("other/native"), in("bin/native")))
	}, "launcher"},
	"a link that leads elsewhere": {"bin/link", func(in func(string) string) error {
		return errors.Join(os.Remove(in("bin/link")), os.Symlink("../other/native", in("bin/link")))
	}, "launcher"},
	"a script": {"pkg/cli.js", func(in func(string) string) error {
		return overwrite(in("pkg/cli.js"), program(script, '2'))
	}, "launcher"},
	"the interpreter of a script": {"pkg/cli.js", func(in func(string) string) error {
		return overwrite(in("bin/node"), program("\x7fELF", '4'))
	}, "interpreter"},
	"an interpreter that comes before on the PATH": {"pkg/cli.js", func(in func(string) string) error {
		return os.Rename(in("other/node"), in("first/node"))
	}, "interpreter"},
	"the package of a script": {"pkg/cli.js", func(in func(string) string) error {
		return overwrite(in("pkg/package.json"), program("{}", '2'))
	}, "package"},
}

const script = "#!/usr/bin/env node\n"

// swappable are a program and a script, with what may take their places.
func swappable(t *testing.T) (in func(string) string) {
	t.Helper()
	root := tree(t, map[string]string{
		"bin/native": program("\x7fELF", '1'), "other/native": program("\x7fELF", '2'),
		"bin/node": program("\x7fELF", '3'), "other/node": program("\x7fELF", '4'), "first/none": "",
		"pkg/cli.js": program(script, '1'), "pkg/package.json": program("{}", '1'),
	})
	in = func(name string) string { return filepath.Join(root, name) }
	if err := errors.Join(os.Symlink("native", in("bin/link")), os.Link(in("bin/native"), in("bin/alias"))); err != nil {
		t.Fatal(err)
	}
	return in
}

func TestSwappedFileIsSeenThoughItsSumWasRemembered(t *testing.T) {
	trees := map[string]func(string) string{}
	for name := range swaps {
		trees[name] = swappable(t)
	}
	for _, in := range trees {
		filehashtest.Settle(t, in("bin/native"), in("bin/node"), in("pkg/cli.js"), in("pkg/package.json"))
	}
	a := acp.New(nil, acp.Options{})
	for name, c := range swaps {
		t.Run(name, func(t *testing.T) {
			in := trees[name]
			identify := func() (id coord.Identity) {
				t.Helper()
				id, err := acp.Identify(a, coord.AgentConfig{Executable: in(c.executable), Env: map[string]string{"PATH": in("first") + ":" + in("bin")}})
				if err != nil {
					t.Fatal(err)
				}
				return id
			}
			before := identify()
			n := filehashtest.Read(t, func() {
				if diff := before.Diff(identify()); len(diff) > 0 {
					t.Errorf("without a swap there changed %q", diff)
				}
			})
			if n > 1<<19 {
				t.Fatalf("nothing was remembered: %d bytes were read", n)
			}
			if err := c.swap(in); err != nil {
				t.Fatal(err)
			}
			var changed []string
			for i, f := range identify().Files {
				content, err := os.ReadFile(f.Path)
				if sum := sha256.Sum256(content); err != nil || f.SHA256 != hex.EncodeToString(sum[:]) || f.Size != int64(len(content)) {
					t.Errorf("told is %+v, %v", f, err)
				}
				if f.SHA256 != before.Files[i].SHA256 {
					changed = append(changed, f.Role)
				}
			}
			if diff := cmp.Diff([]string{c.changed}, changed); diff != "" {
				t.Error(diff)
			}
		})
	}
}
