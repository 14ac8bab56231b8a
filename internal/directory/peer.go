package directory

import (
	"fmt"
	"path/filepath"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/netguard"
)

// peerFaults checks what is said of an agent that is reached over the network
// or through another program, and that nothing else is.
func (d *Directory) peerFaults(cfg coord.AgentConfig) []coord.Field {
	var f []coord.Field
	add := func(pointer, format string, args ...any) {
		f = append(f, coord.Field{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
	}
	switch {
	case cfg.Route == coord.RouteA2A && cfg.A2A == nil:
		add("/a2a", "required on the route a2a: card, origin and version")
	case cfg.Route != coord.RouteA2A && cfg.A2A != nil:
		add("/a2a", "belongs to the route a2a alone")
	}
	switch {
	case cfg.Route == coord.RouteTincan && cfg.Tincan == nil:
		add("/tincan", "required on the route tincan: peer, profile and dialect")
	case cfg.Route != coord.RouteTincan && cfg.Tincan != nil:
		add("/tincan", "belongs to the route tincan alone")
	}
	if cfg.Route == coord.RouteA2A && cfg.Executable != "" {
		add("/executable", "an A2A peer is reached at its origin; Signalbox starts no program for it")
	}
	if cfg.Route == coord.RouteA2A || cfg.Route == coord.RouteTincan {
		for _, local := range []struct {
			pointer string
			set     bool
		}{
			{"/args", len(cfg.Args) > 0},
			{"/env", len(cfg.Env) > 0},
			{"/env_from_env", len(cfg.EnvFromEnv) > 0},
			{"/random_env", len(cfg.RandomEnv) > 0},
			{"/mode", cfg.Mode != ""},
		} {
			if local.set {
				add(local.pointer, "a peer of the route %s takes none", cfg.Route)
			}
		}
	}
	if cfg.A2A != nil {
		f = append(f, d.a2aFaults(*cfg.A2A)...)
	}
	if cfg.Tincan != nil {
		f = append(f, tincanFaults(*cfg.Tincan)...)
	}
	return f
}

func (d *Directory) a2aFaults(p coord.A2AConfig) []coord.Field {
	var f []coord.Field
	add := func(pointer, format string, args ...any) {
		f = append(f, coord.Field{Pointer: "/a2a" + pointer, Message: fmt.Sprintf(format, args...)})
	}
	card, err := netguard.ParseURL(p.Card)
	if err != nil {
		add("/card", "%s", err)
	}
	origin, err := netguard.ParseOrigin(p.Origin)
	switch {
	case err != nil:
		add("/origin", "%s", err)
	case origin != p.Origin:
		add("/origin", "is written %s", origin)
	}
	for _, at := range []struct{ pointer, address string }{{"/card", p.Card}, {"/origin", p.Origin}} {
		if !p.Private && strings.HasPrefix(strings.ToLower(at.address), "http:") {
			add(at.pointer, "http is for private addresses alone: use https, or set private")
		}
	}
	if p.Version != "0.3" && p.Version != "1.0" {
		add("/version", "required: 0.3 or 1.0, as the peer's card says; nothing falls back to the other")
	}
	f = append(f, pathFaults("/a2a/ca", p.CA)...)
	f = append(f, pathFaults("/a2a/keys", p.Keys)...)
	if p.Credential != "" && card != nil && err == nil {
		if err := d.options.Credentials.Bound(p.Credential, origin); err != nil {
			add("/credential", "%s", err)
		}
	}
	return f
}

func tincanFaults(p coord.TincanConfig) []coord.Field {
	var f []coord.Field
	add := func(pointer, format string, args ...any) {
		f = append(f, coord.Field{Pointer: "/tincan" + pointer, Message: fmt.Sprintf(format, args...)})
	}
	switch {
	case p.Peer == "":
		add("/peer", "required: the exact name of the peer")
	case len(p.Peer) > coord.MaxPeerName || strings.ContainsFunc(p.Peer, func(r rune) bool { return r <= ' ' || r > '~' }):
		add("/peer", "at most %d printable ASCII characters without spaces", coord.MaxPeerName)
	}
	if p.Profile == "" {
		add("/profile", "required: the file that tincan takes as its configuration")
	}
	f = append(f, pathFaults("/tincan/profile", p.Profile)...)
	if p.Dialect != "json" && p.Dialect != "text" {
		add("/dialect", "json, or text for a tincan that does not know --json")
	}
	return f
}

// pathFaults checks the name of a file that is read when it is used.
func pathFaults(pointer, path string) []coord.Field {
	if path == "" {
		return nil
	}
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return []coord.Field{{Pointer: pointer, Message: "must be an absolute path without . or .."}}
	}
	return textFaults(pointer, path)
}
