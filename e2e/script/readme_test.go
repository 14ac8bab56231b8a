package script

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/e2e/peers"
)

// readme is the file, and transcript one block of it: a command as it is typed,
// and what the terminal shows after it, answers included.
const readme = "../../README.md"

var transcript = regexp.MustCompile("(?s)```console\n\\$ ([^\n]*)\n(.*?)```")

// planFile is the plan that README shows.
var planFile = regexp.MustCompile("(?s)```toml\n(.*?)```")

// What differs from run to run: README shows one address and no code.
var (
	address = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	code    = regexp.MustCompile(`/pair#[\w-]+`)
	ends    = regexp.MustCompile(` +\n`)
	digest  = regexp.MustCompile(`\b[0-9a-f]{12,64}\b`)
	mega    = regexp.MustCompile(`\d+\.\d MiB`)
)

// shape is a transcript without what differs from build to build.
func shape(text string) string {
	return mega.ReplaceAllString(digest.ReplaceAllString(text, "HEX"), "SIZE")
}

func TestReadmeShowsWhatItsCommandsPrint(t *testing.T) {
	text := readmeText(t)
	blocks := transcript.FindAllStringSubmatch(text, -1)
	if len(blocks) != 7 {
		t.Fatalf("README has %d commands, want seven", len(blocks))
	}
	blocks = blocks[:6] // the last one is of editing
	users := map[string]*syscall.Credential{"this user": nil}
	if os.Geteuid() == 0 {
		users["an ordinary user"] = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	for name, user := range users {
		t.Run("as "+name, func(t *testing.T) {
			shown := typed(t, user, blocks)
			if *update && user == nil {
				at := -1
				renewed := transcript.ReplaceAllStringFunc(text, func(block string) string {
					if at++; at == len(shown) {
						return block
					}
					return "```console\n$ " + transcript.FindStringSubmatch(block)[1] + "\n" + shown[at] + "```"
				})
				if err := os.WriteFile(readme, []byte(renewed), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			for i, block := range blocks {
				if diff := cmp.Diff(shape(block[2]), shape(shown[i])); diff != "" {
					t.Errorf("$ %s\nprints something else (-README +now); if that is wanted: go test ./e2e/script -run Readme -update\n%s", block[1], diff)
				}
			}
		})
	}
}

func TestReadmeShowsHowEditsAreReviewed(t *testing.T) {
	text := readmeText(t)
	_, section, found := strings.Cut(text, "\n## Editing\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(section)
	block := transcript.FindStringSubmatch(section)
	if !found || commands == nil || block == nil {
		t.Fatal("README says nothing of editing")
	}
	h, place, _ := project(t)
	h.dir = place
	for line := range strings.Lines(commands[1]) {
		w := h.terminal(words(strings.Replace(strings.TrimSpace(line), "$(command -v codex)", peers.Codex(t, "0.171.0"), 1))...)
		if strings.HasPrefix(line, "signalbox run ") {
			w.see("run it? [y/N] ")
			w.enter("y\n")
		}
		w.ends(0)
	}
	w := h.terminal(words(block[1])...)
	w.see("[s]kip: ")
	w.enter("y\n")
	w.ends(0)
	w.fits()
	shown := ends.ReplaceAllString(strings.ReplaceAll(w.text(), place, "/home/you/project"), "\n")
	if *update {
		renewed := strings.Replace(text, block[0], "```console\n$ "+block[1]+"\n"+shown+"```", 1)
		if err := os.WriteFile(readme, []byte(renewed), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(shape(block[2]), shape(shown)); diff != "" {
		t.Errorf("$ %s\nprints something else (-README +now); if that is wanted: go test ./e2e/script -run Readme -update\n%s", block[1], diff)
	}
}

// typed types the commands as a person would and gives what each showed, with
// the names of this machine replaced by those of README.
func typed(t *testing.T, user *syscall.Credential, blocks [][]string) []string {
	t.Helper()
	dir, err := os.MkdirTemp("", "readme-") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	if user != nil {
		for _, f := range []error{os.Chown(dir, int(user.Uid), int(user.Gid)), os.Chmod(filepath.Dir(program), 0o755)} {
			if f != nil {
				t.Fatal(f)
			}
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	ours := strings.NewReplacer(filepath.Dir(program), "/home/you/signalbox/bin", dir, "/home/you", " on "+host, " on yours")
	run := func(args ...string) *terminal {
		return onTerminal(t, user, base(dir), dir, args...)
	}
	tidy := func(w *terminal) string {
		return ends.ReplaceAllString(code.ReplaceAllString(address.ReplaceAllString(ours.Replace(w.text()), "127.0.0.1:7717"), "/pair#…"), "\n")
	}
	var link string
	var shown []string
	for i, block := range blocks {
		if i == 0 {
			w := run("serve", "--listen", "0")
			w.see(`signalbox run --agent NAME "…"`)
			t.Cleanup(func() {
				w.enter("\x03")
				w.ends(0)
			})
			shown = append(shown, tidy(w))
			link, _, _ = strings.Cut(strings.SplitN(w.text(), "login '", 2)[1], "'")
			continue
		}
		w := run(words(strings.Replace(block[1], "LINK", link, 1))...)
		w.yes()
		w.ends(0)
		shown = append(shown, tidy(w))
	}
	plan := planFile.FindStringSubmatch(readmeText(t))
	if plan == nil {
		t.Fatal("README shows no plan file")
	}
	if err := os.WriteFile(filepath.Join(dir, "clear.toml"), []byte(plan[1]), 0o644); err != nil {
		t.Fatal(err)
	}
	w := run("job", "draft", "clear.toml")
	w.ends(0)
	w.see("drafted as job 2")
	return shown
}

func readmeText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// words are the arguments of a command line after the program's name, with the
// two kinds of quotes that README uses.
func words(line string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`"([^"]*)"|'([^']*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
		out = append(out, m[1]+m[2]+m[3])
	}
	return out[1:]
}
