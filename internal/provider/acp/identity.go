package acp

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/provider/stdio"
)

// fetchers run what a registry serves at the moment of the start, so that
// nobody can say before what will run.
var fetchers = map[string]bool{"npx": true, "bunx": true, "uvx": true, "pnpx": true, "pipx": true}

// fetching are package managers that do the same on a subcommand.
var fetching = map[string][]string{"npm": {"exec", "x"}, "pnpm": {"dlx"}, "yarn": {"dlx"}, "bun": {"x"}, "uv": {"tool", "run"}}

// floating says why a command cannot be registered because it does not name
// what runs; "" when it does.
func floating(executable string, args []string) string {
	name := strings.TrimSuffix(filepath.Base(executable), ".cmd")
	runs := fetchers[name]
	if subs := fetching[name]; !runs && len(subs) > 0 {
		for _, a := range args {
			if !strings.HasPrefix(a, "-") {
				runs = slices.Contains(subs, a)
				break
			}
		}
	}
	if !runs {
		return ""
	}
	return "The command " + name + " runs whatever a package registry serves at that moment, so it cannot be approved; install the agent and register the absolute path of its program."
}

// interpreter reports whether a program runs the first argument that is a
// file. That env looks for its program elsewhere, and so never has one that
// counts, is as it should be.
func interpreter(name string) bool {
	for _, p := range []string{"node", "nodejs", "bun", "deno", "python", "env", "ruby", "sh", "bash", "dash", "zsh", "perl"} {
		if rest, ok := strings.CutPrefix(name, p); ok && strings.Trim(rest, "0123456789.") == "" {
			return true
		}
	}
	return false
}

// identify finds and hashes every file that decides what runs: the launcher,
// what its #! line names, the script that an interpreter is given, and the
// package that a script belongs to.
func (a *Adapter) identify(c coord.AgentConfig) (coord.Identity, error) {
	if why := floating(c.Executable, c.Args); why != "" {
		return coord.Identity{}, coord.Errorf(coord.Unsupported, "%s", why)
	}
	if !filepath.IsAbs(c.Executable) {
		return coord.Identity{}, coord.Errorf(coord.Invalid, "The agent's executable must be an absolute path.")
	}
	var id coord.Identity
	add := func(role, path string) (string, error) {
		f, err := stdio.HashFile(role, path)
		if err != nil {
			return "", err
		}
		id.Files = append(id.Files, f)
		return f.Path, nil
	}
	launcher, err := add("launcher", c.Executable)
	if err != nil {
		return id, err
	}
	script := ""
	if through := a.shebang(launcher, c); through != "" {
		if _, err := add("interpreter", through); err != nil {
			return id, err
		}
		script = launcher
	} else if interpreter(filepath.Base(launcher)) || interpreter(filepath.Base(c.Executable)) {
		named := firstFile(c.Args)
		if named == "" {
			return id, coord.Errorf(coord.Unsupported, "The agent's command is an interpreter without the absolute path of a script, so what runs cannot be told; register the script's path.")
		}
		if script, err = add("script", named); err != nil {
			return id, err
		}
	}
	if manifest := packageOf(script); manifest != "" {
		if _, err := add("package", manifest); err != nil {
			return id, err
		}
	}
	return id, nil
}

// shebang gives the program that the #! line of a file names, looked up on the
// child's PATH where the line goes through env; "" without one.
func (a *Adapter) shebang(path string, c coord.AgentConfig) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	// Linux reads 256 bytes of such a line, macOS 512.
	line, _ := bufio.NewReader(io.LimitReader(f, 512)).ReadString('\n')
	rest, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return ""
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return ""
	}
	if filepath.Base(fields[0]) != "env" {
		return fields[0]
	}
	for _, f := range fields[1:] {
		if !strings.HasPrefix(f, "-") && !strings.Contains(f, "=") {
			return a.search(f, c)
		}
	}
	return fields[0]
}

// search finds a program on the PATH that the child will have.
func (a *Adapter) search(name string, c coord.AgentConfig) string {
	list, ok := c.Env["PATH"]
	if source, mapped := c.EnvFromEnv["PATH"]; mapped {
		list, ok = a.o.Lookup(source)
	}
	if !ok {
		list, _ = a.o.Lookup("PATH")
	}
	for _, dir := range filepath.SplitList(list) {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 && filepath.IsAbs(path) {
			return path
		}
	}
	return name
}

// firstFile is the first argument that is an absolute path of a file.
func firstFile(args []string) string {
	for _, a := range args {
		if st, err := os.Stat(a); err == nil && filepath.IsAbs(a) && st.Mode().IsRegular() {
			return a
		}
	}
	return ""
}

// packageOf is the nearest package.json above a script of JavaScript.
func packageOf(script string) string {
	if script == "" {
		return ""
	}
	for dir := filepath.Dir(script); ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "package.json")
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			return path
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}
