package binding

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/netguard"
	"signalbox/internal/redact"
)

// Source is a [credentials.NAME] of the configuration file: where the value is
// and where it may go. Exactly one of Env and Keyring is set.
type Source struct {
	// Env is a variable of the worker's environment.
	Env string `toml:"env"`
	// Keyring says that the value is in the user's keyring, where signalbox
	// credential set put it.
	Keyring bool `toml:"keyring"`
	// Origin is the exact origin that the value goes to, in canonical form.
	Origin string `toml:"origin"`
}

// namePattern is that of agents: names stand in tables, addresses and logs.
var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`) })

// envPattern is that of POSIX.
var envPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`) })

// reserved begins the variables of Signalbox itself, its own token among them.
const reserved = "SIGNALBOX_"

// CheckName says whether NAME can be that of a credential.
func CheckName(name string) error {
	if !namePattern().MatchString(name) {
		return coord.Errorf(coord.Invalid, "the name of a credential has 1 to 64 of a-z, 0-9, '.', '_', '-', and starts with a letter or digit")
	}
	return nil
}

// Check gives every fault of a source, none of which repeats a value. The
// pointers are below the source.
func (s Source) Check() []coord.Field {
	var f []coord.Field
	add := func(pointer, format string, args ...any) {
		f = append(f, coord.Field{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
	}
	switch {
	case s.Env == "" && !s.Keyring:
		add("", "names no source: env = \"VARIABLE\" or keyring = true")
	case s.Env != "" && s.Keyring:
		add("", "names two sources: env or keyring")
	case s.Env != "" && !envPattern().MatchString(s.Env):
		add("/env", "must be the name of a variable, not its value")
	case strings.HasPrefix(strings.ToUpper(s.Env), reserved):
		add("/env", "must not begin with %s: those are Signalbox's own", reserved)
	}
	origin, err := netguard.ParseOrigin(s.Origin)
	switch {
	case s.Origin == "":
		add("/origin", "required: the exact origin that the value may go to, as in https://peer.example")
	case err != nil:
		add("/origin", "%s", err)
	case origin != s.Origin:
		add("/origin", "is written %s", origin)
	}
	return f
}

// kind is the word for the source in lists.
func (s Source) kind() string {
	if s.Keyring {
		return "keyring"
	}
	return "env " + s.Env
}

// BoundCredential is what may be told of a credential.
type BoundCredential struct {
	Name   string `json:"name" doc:"That of [credentials.NAME] in the configuration file"`
	Origin string `json:"origin" doc:"The exact origin that the value goes to, and nowhere else"`
	Source string `json:"source" doc:"keyring, or env and the name of the variable"`
	// Configured says that the source has a value that can be used.
	Configured bool   `json:"configured" doc:"Whether the source has a value that can be sent"`
	Problem    string `json:"problem,omitempty" doc:"Why it is not configured"`
}

// Options are what bindings stand on.
type Options struct {
	// Lookup gives a variable of the environment; os.LookupEnv when nil.
	Lookup func(name string) (string, bool)
	// Secret is told every value that is read, before it is given out. May be
	// nil.
	Secret func(name, value string)
}

// Bindings are the credentials of a worker. It is safe for concurrent use.
type Bindings struct {
	sources map[string]Source
	o       Options

	mu sync.Mutex
	// asking are the reads of the keyring that have not been answered.
	asking map[string]*asked
}

// New makes bindings of checked sources.
func New(sources map[string]Source, o Options) *Bindings {
	if o.Lookup == nil {
		o.Lookup = os.LookupEnv
	}
	if o.Secret == nil {
		o.Secret = func(string, string) {}
	}
	return &Bindings{sources: sources, o: o, asking: map[string]*asked{}}
}

// Bound says whether a credential may go to an origin, without a look at its
// value: NotFound for an unknown name, Forbidden for another origin.
func (b *Bindings) Bound(name, origin string) error {
	s, known := b.sources[name]
	switch {
	case !known:
		return coord.Errorf(coord.NotFound, "there is no such credential: add [credentials.NAME] to the configuration file (signalbox.toml in the data directory) and start serve anew")
	case s.Origin != origin:
		return coord.Errorf(coord.Forbidden, "the credential %s is bound to %s and goes nowhere else", name, s.Origin)
	}
	return nil
}

// Token reads a value for an origin, now. The error is Forbidden for another
// origin or an unusable value, Unavailable for a keyring that does not answer.
func (b *Bindings) Token(name, origin string) (string, error) {
	if err := b.Bound(name, origin); err != nil {
		return "", &coord.Error{Code: coord.Forbidden, Message: err.Error(), Err: err}
	}
	return b.value(name)
}

func (b *Bindings) value(name string) (string, error) {
	s := b.sources[name]
	var value string
	if s.Keyring {
		var err error
		if value, err = b.fromKeyring(name); err != nil {
			return "", err
		}
	} else if value, _ = b.o.Lookup(s.Env); value == "" {
		return "", coord.Errorf(coord.Forbidden, "the credential %s has no value: the variable %s is not set where signalbox serve was started", name, s.Env)
	}
	// It is told even when it cannot be used: it is a secret all the same.
	b.o.Secret("credential "+name, value)
	if err := CheckValue(value); err != nil {
		return "", coord.Errorf(coord.Forbidden, "the credential %s cannot be used: %w", name, err)
	}
	return value, nil
}

// List tells of every credential, by name. It reads each source, and gives no
// value.
func (b *Bindings) List() []BoundCredential {
	names := slices.Sorted(maps.Keys(b.sources))
	out := make([]BoundCredential, len(names))
	// A keyring that does not answer is waited for once and not for each.
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			s := b.sources[name]
			out[i] = BoundCredential{Name: name, Origin: s.Origin, Source: s.kind(), Configured: true}
			if _, err := b.value(name); err != nil {
				out[i].Configured, out[i].Problem = false, err.Error()
			}
		})
	}
	all.Wait()
	return out
}

// Problems says of each credential that cannot be sent now why, by its name. It
// reads each source, as List does.
func (b *Bindings) Problems() map[string]string {
	out := map[string]string{}
	for _, c := range b.List() {
		if !c.Configured {
			out[c.Name] = c.Problem
		}
	}
	return out
}

// Unset names the credentials whose variable has no value that can be sent. It
// leaves the keyring alone, which may ask a person to unlock it, so it is for
// what is asked often.
func (b *Bindings) Unset() []string {
	out := []string{}
	for _, name := range slices.Sorted(maps.Keys(b.sources)) {
		if b.sources[name].Keyring {
			continue
		}
		if _, err := b.value(name); err != nil {
			out = append(out, name)
		}
	}
	return out
}

// CheckValue says whether a value can be sent as a bearer token and hidden
// wherever it turns up. The error does not repeat it.
func CheckValue(value string) error {
	switch {
	case len(value) < redact.MinSecret:
		return coord.Errorf(coord.Invalid, "the value has fewer than %d characters, too few to be kept out of what is stored", redact.MinSecret)
	case len(value) > coord.MaxCredential:
		return coord.Errorf(coord.Limit, "the value is longer than %d bytes", coord.MaxCredential)
	case strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }):
		return coord.Errorf(coord.Invalid, "the value has a space, a line break, a control character or one beyond ASCII, which no token has")
	}
	return nil
}
