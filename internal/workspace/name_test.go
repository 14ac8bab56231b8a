package workspace_test

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/workspace"
)

func TestEachRuleOfPathsHolds(t *testing.T) {
	r := open(t, tree(t, map[string]string{"a/b.txt": "b"}))
	for name, tc := range map[string]struct{ path, rule string }{
		"empty":                  {"", "has 1 to"},
		"absolute":               {"/etc/passwd", "absolute"},
		"parent":                 {"..", "without '.'"},
		"parent before":          {"../x", "without '.'"},
		"parent within":          {"a/../../x", "without '.'"},
		"here":                   {"./a", "without '.'"},
		"empty name":             {"a//b.txt", "without '.'"},
		"slash at the end":       {"a/", "without '.'"},
		"backslash":              {`..\x`, "backslash"},
		"colon":                  {"a/b.txt:$DATA", "colon"},
		"NUL":                    {"a\x00b", "control"},
		"line break":             {"a\nb", "control"},
		"escape":                 {"a\x1b[2Jb", "control"},
		"C1 control":             {"a\u009bb", "control"},
		"bidirectional override": {"a\u202etxt.b", "control or formatting"},
		"zero width joiner":      {".g\u200dit/config", "control or formatting"},
		"byte order mark":        {"\ufeff.env", "control or formatting"},
		"variation selector":     {".git\ufe0f/config", "not seen"},
		"grapheme joiner":        {".g\u034fit/config", "not seen"},
		"line separator":         {"a\u2028b", "control or formatting"},
		"not UTF-8":              {"a\xffb", "UTF-8"},
		"half a surrogate":       {"a\xed\xa0\x80b", "UTF-8"},
		"a long name":            {strings.Repeat("n", coord.MaxName+1), "at most 255"},
		"a long name of others":  {strings.Repeat("\u00e9", 128), "at most 255"},
		"a long path":            {strings.Repeat("n/", coord.MaxPath/2) + "n", "has 1 to"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Read(tc.path)
			refused(t, "reading", err, coord.Invalid, tc.rule)
			_, err = r.List(tc.path)
			refused(t, "listing", err, coord.Invalid, tc.rule)
			_, err = overlay(t, r).Write(t.Context(), tc.path, nil)
			refused(t, "writing", err, coord.Invalid, tc.rule)
		})
	}
}

func TestDeniedNamesAreRefusedAtEveryDepth(t *testing.T) {
	r := open(t, tree(t, nil))
	o := overlay(t, r)
	for _, name := range []string{
		".env", ".env.local", ".envrc", "prod.env", ".npmrc", ".netrc", ".git-credentials", ".aws", ".ssh", ".docker", ".kube",
		"id_rsa", "id_ed25519.bak", "id_work", "server.pem", "tls.key", "store.p12", "terraform.tfstate",
		"bunfig.toml", ".git", "other.git", ".hg", ".svn", ".jj", "CVS", "git~1", ".codex", ".claude", ".cursor", ".signalbox-x",
		// The same on a file system that does not tell case apart.
		".GIT", ".Env", "ID_RSA", "SERVER.PEM", ".\u017fsh", ".docKer", ".\u212aube",
		// Windows drops dots and spaces at the end.
		".git.", ".git ", ".env. .",
		// What Unicode holds for the same characters.
		"\uff0e\uff47\uff49\uff54", ".\U0001d420it", ".\u24d6\u24d8\u24e3", "\u2024git", ".\u1d4d\u2071\u1d57", ".e\u207fv", ".\u32cc", ".\u00dfh", ".gitcon\ufb01g",
		"server\ufe52pem", "\u2170d_rsa", "id\ufe4drsa", "cert.p\u2460\u2461", "key.\U0001d4f9\U0001d4ee\U0001d4f6",
	} {
		for _, p := range []string{name, path.Join("deep", name), path.Join(name, "below")} {
			_, err := r.Read(p)
			refused(t, "reading "+p, err, coord.Invalid, "agents have no access to ")
			_, err = o.Write(t.Context(), p, nil)
			refused(t, "writing "+p, err, coord.Invalid, "agents have no access to ")
			_, err = o.Rename(t.Context(), "x", p)
			refused(t, "renaming to "+p, err, coord.Invalid, "agents have no access to ")
		}
	}
}

func TestPlacesThatRunProgramsAreReadAndNotWritten(t *testing.T) {
	r := open(t, tree(t, map[string]string{".vscode/tasks.json": "{}", "node_modules/x/index.js": "x"}))
	for _, p := range []string{".vscode/tasks.json", "node_modules/x/index.js"} {
		if _, err := r.Read(p); err != nil {
			t.Errorf("reading %s gave %v", p, err)
		}
		o := overlay(t, r)
		_, err := o.Write(t.Context(), p, nil)
		refused(t, "writing "+p, err, coord.Invalid, "agents may not write to ")
		_, err = o.Delete(t.Context(), p)
		refused(t, "deleting "+p, err, coord.Invalid, "agents may not write to ")
	}
}

func TestOrdinaryNamesAreAllowed(t *testing.T) {
	for _, name := range []string{
		".gitignore", ".gitattributes", ".github", "environment.ts", "id_token.go", "keys.go", "git.go", "main.go", "README", "日本語①.md",
		"資料（最新）.md", "naïve.txt", "a b", "-rf", "monkey", "Ⅳ.txt", "K\u00e4se",
	} {
		r := open(t, tree(t, map[string]string{name: "x"}))
		if _, err := r.Read(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPatternsAreFoldedAndCorrect(t *testing.T) {
	for _, p := range workspace.Patterns() {
		if strings.Contains(strings.Trim(p, "*"), "*") || strings.Count(p, "*") > 1 || workspace.Fold(p) != p {
			t.Errorf("%s can match nothing", p)
		}
	}
}

// FuzzPath holds every path to the promise, whatever it is made of.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"a", "../secret", "/etc/passwd", "a/b", ".git/config", "w/../../secret", "\uff0egit"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, p string) {
		dir := tree(t, map[string]string{"secret": "secret", "w/a/b": "b", "w/.git/config": "secret", "w/.env": "secret"})
		file, err := open(t, filepath.Join(dir, "w")).Read(p)
		if err == nil && string(file.Content) != "b" {
			t.Errorf("%q gave %q", p, file.Content)
		}
	})
}
