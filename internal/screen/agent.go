package screen

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"signalbox/internal/coord"
)

// Usable says in a few words whether an agent can be given work.
func Usable(g coord.Agent) string {
	switch i := g.Inspection; {
	case !g.Enabled:
		return "disabled"
	case i == nil || i.Revision != g.Revision:
		return "not inspected"
	case i.Problem != "":
		return "not usable"
	case i.Auth == coord.AuthRequired:
		return "login needed"
	default:
		return "usable"
	}
}

// Inspected says when an agent was inspected last.
func Inspected(g coord.Agent) string {
	if g.Inspection == nil {
		return "never"
	}
	return Ago(g.Inspection.At.Wall)
}

// Agent writes what an agent is and what its inspection found.
func (s *Screen) Agent(w io.Writer, g coord.Agent) {
	st := s.Styles(s.TTY)
	name := ""
	if g.Name != string(g.ID) {
		name = Clean(g.Name) + ", "
	}
	fmt.Fprintf(w, "%s  %s%s %s, revision %d: %s\n", st.Bold.Render(string(g.ID)), name, g.Route, Seat(g.Locality, g.Host), g.Revision, Usable(g))
	fmt.Fprintf(w, "  %s\n", Clean(g.Config.Where()))
	peer(w, g.Config)
	for _, name := range slices.Sorted(maps.Keys(g.Config.Env)) {
		fmt.Fprintf(w, "  %s=%s\n", name, Clean(g.Config.Env[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(g.Config.EnvFromEnv)) {
		fmt.Fprintf(w, "  %s from $%s\n", name, g.Config.EnvFromEnv[name])
	}
	for _, name := range g.Config.RandomEnv {
		fmt.Fprintf(w, "  %s random at each start\n", name)
	}
	if g.Config.ModelURL != "" {
		fmt.Fprintf(w, "  model at %s\n", Clean(g.Config.ModelURL))
	}
	for _, dir := range g.Config.State {
		fmt.Fprintf(w, "  may write to %s\n", Clean(dir))
	}
	i := g.Inspection
	if i == nil {
		fmt.Fprintf(w, "  never inspected: signalbox agent inspect %s\n", g.ID)
		return
	}
	fmt.Fprintf(w, "  inspected %s", Ago(i.At.Wall))
	if i.Revision != g.Revision {
		fmt.Fprintf(w, " at revision %d, which is not the present one", i.Revision)
	}
	fmt.Fprintln(w)
	if i.Problem != "" {
		fmt.Fprintf(w, "  %s %s\n", st.Bad.Render("✖"), Clean(i.Problem))
	}
	if i.Identity.Version != "" {
		fmt.Fprintf(w, "  version %s, as it says\n", Clean(i.Identity.Version))
	}
	for _, f := range i.Identity.Files {
		fmt.Fprintf(w, "  %s %s  %s  sha256 %s\n", f.Role, Clean(f.Path), Size(f.Size), Short(f.SHA256))
	}
	fmt.Fprintf(w, "  may be asked for: %s\n", Operations(i.Operations))
	for _, line := range []struct {
		sign, what string
		of         func(coord.Capability) bool
	}{
		{st.Good.Render("✔"), "measured", func(k coord.Capability) bool { return k.Has && k.Evidence == coord.Measured }},
		{st.Good.Render("✔"), "declared", func(k coord.Capability) bool { return k.Has && k.Evidence == coord.Declared }},
		{st.Dim.Render("–"), "lacks", func(k coord.Capability) bool { return !k.Has }},
	} {
		if list := capabilities(i.Capabilities, line.of); list != "" {
			fmt.Fprintf(w, "  %s %s", line.sign, Hanging(line.what+": "+list, 4, s.Width))
		}
	}
	if i.Auth == coord.AuthRequired {
		fmt.Fprintf(w, "  login needed: %s\n", Clean(i.AuthHint))
	}
	for _, warning := range i.Warnings {
		fmt.Fprintf(w, "  %s %s", st.Busy.Render("!"), Hanging(Clean(warning), 4, s.Width))
	}
}

// capabilities lists those that of chooses.
func capabilities(all []coord.Capability, of func(coord.Capability) bool) string {
	var out []string
	for _, k := range all {
		switch {
		case !of(k):
		case k.Detail == "":
			out = append(out, Clean(k.Name))
		default:
			out = append(out, fmt.Sprintf("%s (%s)", Clean(k.Name), Clean(k.Detail)))
		}
	}
	return strings.Join(out, ", ")
}

// peer writes what an operator approved about a peer, line by line.
func peer(w io.Writer, cfg coord.AgentConfig) {
	if p := cfg.A2A; p != nil {
		fmt.Fprintf(w, "  A2A %s", Clean(p.Version))
		if p.Private {
			fmt.Fprint(w, ", at private addresses alone")
		}
		fmt.Fprintln(w)
		if p.Credential != "" {
			fmt.Fprintf(w, "  sent the credential %s\n", Clean(p.Credential))
		}
		if p.CA != "" {
			fmt.Fprintf(w, "  trusted by the certificates of %s\n", Clean(p.CA))
		}
		if p.Keys != "" {
			fmt.Fprintf(w, "  card verified with the keys of %s\n", Clean(p.Keys))
		}
	}
	if p := cfg.Tincan; p != nil {
		fmt.Fprintf(w, "  as %s says, answers in %s\n", Clean(p.Profile), Clean(p.Dialect))
	}
}
