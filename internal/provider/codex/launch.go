package codex

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// wrapped are the places of the native program beside the script bin/codex.js
// of the npm package, which does nothing but start it: within the package's own
// modules, or beside it in the same scope.
var wrapped = []string{"../node_modules/@openai/codex-*/vendor/*/bin/codex", "../../codex-*/vendor/*/bin/codex", "../vendor/*/bin/codex"}

// native gives the program that is started for a configured one: itself, or the
// native program that the npm package's script would start. What runs, and
// what is hashed, is then one file and needs no interpreter.
func native(executable string) (string, error) {
	real, err := filepath.EvalSymlinks(executable)
	if err != nil {
		return "", coord.Errorf(coord.NotFound, "The agent's executable does not exist or cannot be reached; check its configuration.")
	}
	f, err := os.Open(real)
	if err != nil {
		return "", coord.Errorf(coord.Forbidden, "The agent's executable cannot be read, so its identity cannot be told; check the file's mode.")
	}
	defer f.Close()
	var begin [2]byte
	if n, _ := f.Read(begin[:]); !bytes.Equal(begin[:n], []byte("#!")) {
		return real, nil
	}
	if filepath.Base(real) == "codex.js" {
		for _, place := range wrapped {
			if found, _ := filepath.Glob(filepath.Join(filepath.Dir(real), place)); len(found) == 1 {
				return filepath.EvalSymlinks(found[0])
			}
		}
	}
	return "", coord.Errorf(coord.Unsupported, "The agent's executable is a script; register the path of the native codex program.")
}

// identify hashes the program that runs.
func identify(c coord.AgentConfig) (coord.Identity, error) {
	if !filepath.IsAbs(c.Executable) {
		return coord.Identity{}, coord.Errorf(coord.Invalid, "The agent's executable must be an absolute path.")
	}
	path, err := native(c.Executable)
	if err != nil {
		return coord.Identity{}, err
	}
	f, err := stdio.HashFile("launcher", path)
	if err != nil {
		return coord.Identity{}, err
	}
	return coord.Identity{Files: []coord.IdentityFile{f}}, nil
}

// launched is a Codex that answered initialize.
type launched struct {
	conn    *stdio.Conn
	version string
	home    string
	// dir is private to it, and removed by discard.
	dir string
}

// launch starts Codex in a private folder. Errors are *Unsent, *Fault, *RPCError,
// or the context's. After an error nothing is left but, where bind was called,
// what closing the connection and discard take away.
func (a *Adapter) launch(ctx context.Context, config coord.AgentConfig, bind func(*stdio.Conn) stdio.Handler) (l launched, err error) {
	if why := misplaced(config.Args); why != "" {
		return l, &provider.Unsent{Cause: provider.CauseConfig, Message: why}
	}
	path, err := native(config.Executable)
	if err != nil {
		return l, &provider.Unsent{Cause: provider.CauseSpawn, Message: stdio.Shown(err)}
	}
	env, err := stdio.Environment(config, a.o.Lookup, a.o.Secret)
	if err != nil {
		return l, &provider.Unsent{Cause: provider.CauseConfig, Message: stdio.Shown(err)}
	}
	if l.dir, err = os.MkdirTemp(a.o.Scratch, "codex-*"); err != nil {
		return l, &provider.Unsent{Cause: provider.CauseSpawn, Message: "No private folder could be made for Codex; look at the disk.", Transient: true}
	}
	spec := process.Spec{Path: path, Env: env, Dir: l.dir}
	catalog := filepath.Join(l.dir, "models.json")
	if err := a.writeCatalog(ctx, spec, catalog); err != nil {
		return l, err
	}
	// Several that start on a new home at once fail as they make its databases
	// (0.163.0, measured); once there, any number share them.
	done, err := a.starts.enter(ctx, home(env))
	if err != nil {
		return l, stdio.GivenUp(ctx)
	}
	defer done()
	spec.Args = arguments(config.Args, catalog)
	p, err := stdio.Start(ctx, a.starter, spec)
	if err != nil {
		return l, err
	}
	l.conn = stdio.NewConn(p, stdio.Options{Timing: a.o.Timing}, bind)
	params := initializeParams{ClientInfo: clientInfo{Name: "signalbox", Title: "Signalbox", Version: a.o.Version}}
	params.Capabilities.ExperimentalAPI = true
	params.Capabilities.OptOut = []string{"account/rateLimits/updated", "remoteControl/status/changed"}
	var r initializeResult
	if err := l.conn.Call(ctx, methodInitialize, params, &r); err != nil {
		return l, refusedSetting(ctx, l.conn, err)
	}
	if _, err := l.conn.Write(ctx, stdio.Outgoing{Method: methodInitialized}); err != nil {
		return l, err
	}
	l.home = r.Home
	if l.version = versionOf(r.UserAgent); l.version == "" {
		return l, &provider.Unsent{Cause: provider.CauseVersion, Message: "Codex does not tell its version: it calls itself " + stdio.Quote(r.UserAgent) + "."}
	}
	return l, nil
}

// refusedSetting says that Codex ended because a setting is not known to it,
// ours in another version or one of the user's own; its standard error tells
// which, and a path at most.
func refusedSetting(ctx context.Context, c *stdio.Conn, err error) error {
	f, ok := errors.AsType[*stdio.Fault](err)
	if !ok || f.Cause != provider.CauseGone {
		return err
	}
	// Its last words may still be in the pipe: then they are read to their end.
	if _, failed := c.Close(ctx); failed != nil {
		return err
	}
	for line := range strings.Lines(plain(c.Stderr())) {
		said, failed := strings.CutPrefix(strings.TrimSpace(line), "Error: ")
		for _, mark := range []string{"unknown configuration field", "unknown variant", "config.toml:"} {
			if failed && strings.Contains(said, mark) {
				return &provider.Unsent{Cause: provider.CauseConfig, Message: "Codex refuses a setting, of its own configuration or one that another version does not know: " + stdio.Quote(said) + "."}
			}
		}
	}
	return err
}

// plain takes the colours out of what a program wrote for a terminal.
func plain(s string) string {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		if end := strings.IndexAny(after, "mK"); end >= 0 {
			after = after[end+1:]
		}
		s = after
	}
}

// versionOf reads "signalbox/0.163.0 (Debian ...", "" when it is of another form.
func versionOf(userAgent string) string {
	_, rest, ok := strings.Cut(userAgent, "/")
	version, _, spaced := strings.Cut(rest, " ")
	if !ok || !spaced || version == "" || len(version) > maxName || strings.Trim(version, "0123456789.abcdefghijklmnopqrstuvwxyz-") != "" {
		return ""
	}
	return version
}

// home is the folder with Codex's state and login.
func home(env []string) string {
	var user string
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "CODEX_HOME":
			return value
		case "HOME":
			user = value
		}
	}
	return filepath.Join(user, ".codex")
}

// discard removes the private folder, once the process is gone.
func (l launched) discard() error {
	if l.dir == "" {
		return nil
	}
	return os.RemoveAll(l.dir)
}

// gates let one at a time pass, for each name.
type gates struct {
	mu   sync.Mutex
	open map[string]chan struct{}
}

// enter waits for the turn and gives what ends it.
func (g *gates) enter(ctx context.Context, name string) (done func(), err error) {
	g.mu.Lock()
	if g.open == nil {
		g.open = map[string]chan struct{}{}
	}
	gate := g.open[name]
	if gate == nil {
		gate = make(chan struct{}, 1)
		g.open[name] = gate
	}
	g.mu.Unlock()
	select {
	case gate <- struct{}{}:
		return func() { <-gate }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
