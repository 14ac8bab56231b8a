package screen

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/directory"
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

// Needy says that an inspection found what keeps an agent from work until a
// person does something. That it is disabled is what the operator wanted.
func Needy(g coord.Agent) bool {
	i := g.Inspection
	return i != nil && (i.Problem != "" || i.Auth == coord.AuthRequired)
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
	where := peer(g.Config)
	if where == "" {
		where = Clean(g.Config.Where())
	}
	fmt.Fprint(w, Indent(where, "  "))
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
		fmt.Fprintf(w, "  %s %s\n", st.Bad.Render("✖"), OneLine(i.Problem, coord.MaxReason))
	}
	if i.Identity.Version != "" {
		fmt.Fprintf(w, "  version %s, as it says\n", OneLine(i.Identity.Version, coord.MaxTitle))
	}
	for _, f := range i.Identity.Files {
		fmt.Fprintf(w, "  %s %s  %s  sha256 %s\n", f.Role, Clean(f.Path), Size(f.Size), Short(f.SHA256))
	}
	fmt.Fprintf(w, "  may be asked for: %s\n", cmp.Or(Operations(i.Operations), "nothing"))
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
		needed := "login"
		if g.Config.A2A != nil {
			needed = "credential"
		}
		fmt.Fprintf(w, "  %s needed: %s\n", needed, Clean(i.AuthHint))
	}
	for _, warning := range i.Warnings {
		fmt.Fprintf(w, "  %s %s", st.Busy.Render("!"), Hanging(Clean(warning), 4, s.Width))
	}
}

// Suggestions writes which known agents are on this machine, and how each is
// registered.
func (s *Screen) Suggestions(w io.Writer, found []directory.Suggestion) {
	for _, one := range found {
		fmt.Fprintf(w, "%s  %s\n", Clean(one.Title), Clean(one.Executable))
		if one.Config != nil {
			fmt.Fprintf(w, "  signalbox agent add %s --preset %s\n", one.Preset, one.Preset)
		}
		if one.Note != "" {
			fmt.Fprintf(w, "  %s", Hanging(Clean(one.Note), 2, s.Width))
		}
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

// peer tells what an operator approves of a peer, line by line; "" of another
// agent. The origin of the work comes first: it is what counts most.
func peer(cfg coord.AgentConfig) string {
	var out []string
	add := func(format string, args ...any) {
		out = append(out, OneLine(fmt.Sprintf(format, args...), coord.MaxArg))
	}
	if p := cfg.A2A; p != nil {
		private := ""
		if p.Private {
			private = ", at private addresses alone"
		}
		add("work goes to %s by A2A %s%s", p.Origin, p.Version, private)
		add("card from %s", p.Card)
		if p.Credential != "" {
			add("sent the credential %s", p.Credential)
		}
		if p.CA != "" {
			add("trusted by the certificates of %s, in place of the system's", p.CA)
		}
		if p.Keys != "" {
			add("card verified with the keys of %s", p.Keys)
		}
	}
	if p := cfg.Tincan; p != nil {
		add("work goes to %s through %s", p.Peer, cfg.Executable)
		add("as %s says, answers in %s", p.Profile, p.Dialect)
	}
	return strings.Join(out, "\n")
}
