package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"signalbox/internal/coord"
	"signalbox/internal/redact"
)

var envName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`) })

// ownPrefix starts the variables of Signalbox itself. No child gets one: a
// token in it would let an agent approve its own requests.
const ownPrefix = "SIGNALBOX_"

// secrets knows the kinds of secrets, and none in particular.
var secrets = sync.OnceValue(redact.New)

// faults gives every fault of a configuration that can be seen without looking
// at the disk.
func (d *Directory) faults(cfg coord.AgentConfig) []coord.Field {
	var f []coord.Field
	add := func(pointer, format string, args ...any) {
		f = append(f, coord.Field{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
	}
	if cfg.Route == "" {
		add("/route", "required: one of %s", d.routes())
	} else if d.adapters[cfg.Route] == nil {
		add("/route", "not a way to agents that this program has; one of %s", d.routes())
	}
	switch cfg.Locality {
	case "", coord.LocalityLocal, coord.LocalitySSH, coord.LocalityContainer, coord.LocalityRemote:
	default:
		add("/locality", "one of local, ssh, container, remote")
	}
	if utf8.RuneCountInString(cfg.Name) > coord.MaxTitle {
		add("/name", "longer than %d characters", coord.MaxTitle)
	}
	if len(cfg.Executable) > coord.MaxArg {
		add("/executable", "longer than %d bytes", coord.MaxArg)
	} else if cfg.Executable != "" && (!filepath.IsAbs(cfg.Executable) || filepath.Clean(cfg.Executable) != cfg.Executable) {
		add("/executable", "must be an absolute path without . or ..")
	}
	if cfg.Executable == "" && slices.Contains([]coord.Route{coord.RouteACP, coord.RouteCodex, coord.RouteTincan}, cfg.Route) {
		add("/executable", "required: the absolute path of the program")
	}
	if len(cfg.Args) > coord.MaxArgs {
		add("/args", "%d arguments; at most %d", len(cfg.Args), coord.MaxArgs)
	}
	for i, arg := range cfg.Args {
		at := fmt.Sprintf("/args/%d", i)
		f = append(f, textFaults(at, arg)...)
		if secrets().String(arg) != arg {
			add(at, "looks like a secret; give it to the agent through env_from_env")
		}
	}
	for _, word := range []struct{ pointer, value string }{{"/name", cfg.Name}, {"/mode", cfg.Mode}, {"/preset", cfg.Preset}} {
		f = append(f, textFaults(word.pointer, word.value)...)
	}
	f = append(f, stateFaults(cfg, d.options.Scratch)...)
	f = append(f, modelFaults(cfg)...)
	f = append(f, d.peerFaults(cfg)...)
	return append(f, envFaults(cfg)...)
}

// routes names the routes that there are adapters for.
func (d *Directory) routes() string {
	var out []string
	for _, r := range slices.Sorted(maps.Keys(d.adapters)) {
		out = append(out, string(r))
	}
	return strings.Join(out, ", ")
}

// envFaults checks what the child's environment is made from.
func envFaults(cfg coord.AgentConfig) []coord.Field {
	var f []coord.Field
	add := func(pointer, message string) { f = append(f, coord.Field{Pointer: pointer, Message: message}) }
	if n := len(cfg.Env) + len(cfg.EnvFromEnv) + len(cfg.RandomEnv); n > coord.MaxEnv {
		add("/env", fmt.Sprintf("%d variables; at most %d", n, coord.MaxEnv))
	}
	from := map[string]string{}
	child := func(pointer, list, name string) {
		switch {
		case !envName().MatchString(name):
			add(pointer, "not the name of a variable: letters, digits and _, not starting with a digit")
		case strings.HasPrefix(name, ownPrefix):
			add(pointer, "variables of "+ownPrefix+" are Signalbox's own; agents do not get them")
		case from[name] != "":
			add(pointer, "set by "+from[name]+" too")
		}
		from[name] = list
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Env)) {
		at := "/env/" + pointerToken(name)
		child(at, "env", name)
		f = append(f, textFaults(at, cfg.Env[name])...)
		if set := name + "=" + cfg.Env[name]; secrets().String(set) != set {
			add(at, "looks like a secret; put it into a variable of the worker's environment and name that one in env_from_env")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.EnvFromEnv)) {
		at := "/env_from_env/" + pointerToken(name)
		child(at, "env_from_env", name)
		switch source := cfg.EnvFromEnv[name]; {
		case !envName().MatchString(source):
			add(at, "must name a variable of the worker's environment")
		case strings.HasPrefix(source, ownPrefix):
			add(at, "variables of "+ownPrefix+" are Signalbox's own; agents do not get them")
		}
	}
	for i, name := range cfg.RandomEnv {
		child(fmt.Sprintf("/random_env/%d", i), "random_env", name)
	}
	return f
}

// textFaults checks a value that becomes part of a command or environment.
func textFaults(pointer, value string) []coord.Field {
	switch {
	case len(value) > coord.MaxArg:
		return []coord.Field{{Pointer: pointer, Message: fmt.Sprintf("longer than %d bytes", coord.MaxArg)}}
	case !utf8.ValidString(value):
		return []coord.Field{{Pointer: pointer, Message: "not valid UTF-8"}}
	case strings.ContainsRune(value, 0):
		return []coord.Field{{Pointer: pointer, Message: "holds a NUL byte"}}
	}
	return nil
}

// executableFaults looks at the file itself.
func executableFaults(path string) []coord.Field {
	if path == "" || !filepath.IsAbs(path) {
		return nil // told already
	}
	fault := func(message string) []coord.Field { return []coord.Field{{Pointer: "/executable", Message: message}} }
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault("there is no such file")
	case err != nil:
		return fault("cannot be looked at: check the permissions of its folders")
	case !info.Mode().IsRegular():
		return fault("not a file")
	case unix.Access(path, unix.X_OK) != nil:
		return fault("not executable for this user")
	}
	return nil
}

// replaced tells where the journal keeps another text than was given.
func replaced(given, kept coord.AgentConfig) []coord.Field {
	const message = "holds a secret; put it into a variable of the worker's environment and name that one in env_from_env"
	var f []coord.Field
	add := func(pointer string) { f = append(f, coord.Field{Pointer: pointer, Message: message}) }
	for i, arg := range given.Args {
		if i >= len(kept.Args) || kept.Args[i] != arg {
			add(fmt.Sprintf("/args/%d", i))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given.Env)) {
		if v, ok := kept.Env[name]; !ok || v != given.Env[name] {
			add("/env/" + pointerToken(name))
		}
	}
	if len(f) == 0 && !same(given, kept) {
		add("")
	}
	return f
}

// pointerToken escapes one token of a JSON pointer (RFC 6901, section 3).
func pointerToken(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}
