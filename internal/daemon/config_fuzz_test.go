package daemon_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"signalbox/internal/coord"
	"signalbox/internal/daemon"
)

// FuzzLoadConfig reads any file at all: it gives a configuration, or a typed
// error that can be shown, and never the value that it stumbled over.
func FuzzLoadConfig(f *testing.F) {
	const secret = "hunter2hunter2"
	for _, seed := range []string{
		"",
		"listen = \"127.0.0.1:7000\"\ndata = \"/var/lib/signalbox\"\n",
		"[[agents]]\nid = \"a\"\nroute = \"acp\"\nexecutable = \"/bin/a\"\nargs = [\"acp\"]\nenv = { LANG = \"C\" }\n\n[agents.env_from_env]\nAPI_KEY = \"MY_KEY\"\n",
		"[[agents]]\nid = \"a\"\n[[agents]]\nid = \"a\"\n",
		"lisen = \"" + secret + "\"\n",
		"listen = { x = \"" + secret + "\" }\n",
		"listen = \"" + secret,
		"[agents]\nid = \"" + secret + "\"\n",
		"[credentials.x]\nenv = \"" + secret + "\"\n",
		"credentials = { x = { keyring = true, origin = \"https://h\" } }\n[credentials.y]\norigin = \"x\"\n",
		"listen = \"1\"\nlisten = \"" + secret + "\"\n",
		"a.b.c.d = 1\n\"a\\u0000b\" = 2\n",
		"data = '''\n" + secret + "\n",
		"agents = [[[[[[1979-05-27T07:32:00Z]]]]]]\n",
		"\xef\xbb\xbflisten = \"\xff\xfe\"\r\n",
		strings.Repeat("[[agents]]\n", 100),
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "signalbox.toml")
	f.Fuzz(func(t *testing.T, doc []byte) {
		// A file that is made anew need not reach the disk, as one that is cut does.
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, doc, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := daemon.LoadConfig(path)
		if err == nil {
			return
		}
		var e *coord.Error
		if !errors.As(err, &e) || e.Code == coord.Internal {
			t.Fatalf("not an error for the operator: %v", err)
		}
		if !utf8.ValidString(e.Message) || !strings.Contains(e.Message, path) {
			t.Errorf("%q does not say which file", e.Message)
		}
		for _, field := range e.Fields {
			if !utf8.ValidString(field.Pointer) || !utf8.ValidString(field.Message) {
				t.Errorf("the field %+q is no text", field)
			}
		}
		// Where the secret is a value alone; a mistyped key must be named, even
		// one that is spelled so.
		if value := `"` + secret + `"`; strings.Contains(string(doc), "= "+value) && strings.Contains(err.Error(), secret) && strings.Count(string(doc), secret) == 1 {
			t.Errorf("a value is repeated: %v", err)
		}
	})
}
