package process

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"signalbox/internal/coord"
)

// MarkerEnv is the one variable that Start adds to the environment it is
// given; see Identity.Marker.
const MarkerEnv = "SIGNALBOX_PROCESS"

// reserved begins the names of Signalbox's own variables. Tokens are among
// them, so none is ever handed to a child.
const reserved = "SIGNALBOX_"

// inherited is the allow-list: what a program needs to find its interpreter,
// its user's configuration, a place for temporary files, and to speak the
// user's language, plus where the certificates are, without which a program
// behind a company's own authority cannot reach its model. Left out on
// purpose: keys and tokens of any kind; proxies, whose addresses carry
// passwords; XDG_RUNTIME_DIR, DBUS_* and SSH_AUTH_SOCK, which are doors to the
// user's keyrings; TERM and the like, as no child has a terminal; NODE_OPTIONS,
// LD_* and PYTHON*, which change what code runs. An agent that needs one of
// them gets it by an explicit mapping.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LANGUAGE",
	"LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
}

// BaseEnv gives the variables of the allow-list that lookup has, as NAME=value
// in a fixed order. lookup is os.LookupEnv outside of tests.
func BaseEnv(lookup func(string) (string, bool)) []string {
	var env []string
	for _, name := range inherited {
		if v, ok := lookup(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// Environment builds the whole environment of a child: BaseEnv, then fixed
// values by name, then values taken from the worker's environment (fromEnv
// maps the child's name to ours). The later one wins. A source that is not
// set is an error that names it: a program must not run without its key and
// fail in some way of its own.
func Environment(lookup func(string) (string, bool), fixed, fromEnv map[string]string) ([]string, error) {
	all := map[string]string{}
	for _, e := range BaseEnv(lookup) {
		name, v, _ := strings.Cut(e, "=")
		all[name] = v
	}
	maps.Copy(all, fixed)
	for _, name := range slices.Sorted(maps.Keys(fromEnv)) {
		source := fromEnv[name]
		if strings.HasPrefix(source, reserved) {
			return nil, coord.Errorf(coord.Invalid, "The environment variable %s belongs to Signalbox and is never handed to an agent.", source)
		}
		v, ok := lookup(source)
		if !ok {
			return nil, coord.Errorf(coord.Unavailable, "The environment variable %s, which the agent's configuration maps to %s, is not set; set it where signalbox serve starts.", source, name)
		}
		all[name] = v
	}
	env := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env, checkEnv(env)
}

// checkEnv refuses what would make the child's environment differ from the
// list, and our own names. It never repeats a value.
func checkEnv(env []string) error {
	seen := make(map[string]bool, len(env))
	for i, e := range env {
		name, _, ok := strings.Cut(e, "=")
		switch {
		case !ok || name == "" || strings.ContainsRune(e, 0):
			return coord.Errorf(coord.Invalid, "Entry %d of the child's environment is not NAME=value without NUL.", i)
		case seen[name]:
			return coord.Errorf(coord.Invalid, "The child's environment names %s twice.", name)
		case strings.HasPrefix(name, reserved):
			return coord.Errorf(coord.Invalid, "The variable %s belongs to Signalbox and is never handed to a child.", name)
		}
		seen[name] = true
	}
	return nil
}

// hasMarker looks for the marker in a NUL-separated environment.
func hasMarker(block []byte, marker string) bool {
	for e := range bytes.SplitSeq(block, []byte{0}) {
		if name, v, _ := bytes.Cut(e, []byte{'='}); string(name) == MarkerEnv && string(v) == marker {
			return marker != ""
		}
	}
	return false
}
