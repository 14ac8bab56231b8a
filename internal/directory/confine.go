package directory

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/coord"
)

// stateFaults checks the folders that an agent may write to by itself. scratch
// is a folder of Signalbox's own, beside the rest of its data.
func stateFaults(cfg coord.AgentConfig, scratch string) []coord.Field {
	var f []coord.Field
	if len(cfg.State) == 0 {
		return nil
	}
	if cfg.Route != coord.RouteACP {
		f = append(f, coord.Field{Pointer: "/state", Message: "only agents of the route acp are confined to it"})
	}
	if len(cfg.State) > coord.MaxState {
		f = append(f, coord.Field{Pointer: "/state", Message: fmt.Sprintf("%d folders; at most %d", len(cfg.State), coord.MaxState)})
	}
	own := filepath.Dir(scratch)
	for i, dir := range cfg.State {
		at := fmt.Sprintf("/state/%d", i)
		f = append(f, textFaults(at, dir)...)
		message := ""
		switch {
		case !filepath.IsAbs(dir) || filepath.Clean(dir) != dir:
			message = "must be an absolute path without . or .."
		case dir == "/":
			message = "the whole disk is no folder of an agent's own"
		case slices.Contains(cfg.State[:i], dir):
			message = "is listed twice"
		case within(own, dir) || within(dir, own):
			message = "holds Signalbox's own data or lies in it; an agent must not reach that"
		}
		if message != "" {
			f = append(f, coord.Field{Pointer: at, Message: message})
		}
	}
	return f
}

// within reports whether one clean path is the other or lies in it.
func within(in, out string) bool {
	return in == out || strings.HasPrefix(in, strings.TrimSuffix(out, "/")+"/")
}

// modelFaults checks where the model is, and that the agent is told so.
func modelFaults(cfg coord.AgentConfig) []coord.Field {
	marked := func(s string) bool { return strings.Contains(s, coord.ModelURLMark) }
	told := slices.ContainsFunc(cfg.Args, marked) || slices.ContainsFunc(slices.Collect(maps.Values(cfg.Env)), marked)
	fault := func(format string, args ...any) []coord.Field {
		return []coord.Field{{Pointer: "/model_url", Message: fmt.Sprintf(format, args...)}}
	}
	switch u, err := url.Parse(cfg.ModelURL); {
	case cfg.ModelURL == "" && !told:
		return nil
	case cfg.ModelURL == "":
		return fault("required: the base address of the agent's model, which stands where the configuration has %s", coord.ModelURLMark)
	case cfg.Route != coord.RouteACP:
		return fault("only agents of the route acp are given it")
	case !told:
		return fault("no argument and no variable in env has %s, so the agent is not told of it", coord.ModelURLMark)
	case len(cfg.ModelURL) > coord.MaxArg || err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.ContainsAny(cfg.ModelURL, "\"\\ \n"):
		return fault("must be an address that begins with https:// or http://")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fault("must have no user, query or fragment; keys go through env_from_env")
	}
	return nil
}
