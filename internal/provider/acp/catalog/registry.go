package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"signalbox/internal/coord"
)

// The bounds of a registry file. The real one has some thirty agents in 60 KiB.
const (
	maxRegistry       = coord.MaxBody
	maxRegistryAgents = 1000
	maxRegistryList   = 32
	maxRegistryString = 1 << 10
)

// Skipped is an entry of a registry file that became no suggestion.
type Skipped struct {
	// Entry is its id, or its place in the list.
	Entry  string `json:"entry"`
	Reason string `json:"reason"`
}

type registryEntry struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Distribution struct {
		Binary map[string]registryCommand `json:"binary"`
		NPX    *registryCommand           `json:"npx"`
		UVX    *registryCommand           `json:"uvx"`
	} `json:"distribution"`
}

type registryCommand struct {
	Cmd     string            `json:"cmd"`
	Package string            `json:"package"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

// Import reads a registry.json as the ACP registry publishes it and
// makes suggestions of it. Nothing of it is fetched or run. Members that are
// not known are ignored; an entry that cannot be used is skipped with the
// reason. An error means that the file as a whole cannot be read.
func Import(r io.Reader) ([]Suggestion, []Skipped, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxRegistry+1))
	if err != nil {
		return nil, nil, &coord.Error{Code: coord.Unavailable, Message: "The registry file cannot be read to its end.", Err: err}
	}
	if len(data) > maxRegistry {
		return nil, nil, coord.Errorf(coord.Limit, "The registry file is larger than %d MiB.", maxRegistry>>20)
	}
	var file struct {
		Agents []json.RawMessage `json:"agents"`
	}
	if err := json.Unmarshal(data, &file); err != nil || file.Agents == nil {
		return nil, nil, coord.InvalidFields("The file is no ACP registry.", []coord.Field{{Pointer: "/agents", Message: "must be a list of agents"}})
	}
	if len(file.Agents) > maxRegistryAgents {
		return nil, nil, coord.Errorf(coord.Limit, "The registry file has %d agents; at most %d are read.", len(file.Agents), maxRegistryAgents)
	}
	var out []Suggestion
	var skipped []Skipped
	seen := map[string]bool{}
	for i, raw := range file.Agents {
		s, why := suggest(raw)
		if why == "" && seen[s.ID] {
			why = "its id stands twice in the file"
		}
		if why != "" {
			skipped = append(skipped, Skipped{Entry: cmp.Or(s.ID, "agent "+strconv.Itoa(i)), Reason: why})
			continue
		}
		seen[s.ID] = true
		out = append(out, s)
	}
	return out, skipped, nil
}

// suggest makes a suggestion of one entry, or says why not.
func suggest(raw json.RawMessage) (Suggestion, string) {
	var e registryEntry
	var wrong *json.UnmarshalTypeError
	// A member of another type than the one that is known is left out.
	if err := json.Unmarshal(raw, &e); raw[0] != '{' || err != nil && !errors.As(err, &wrong) {
		return Suggestion{}, "it cannot be read"
	}
	if !coord.ValidAgentID(e.ID) {
		return Suggestion{}, "its id may not name an agent"
	}
	s := Suggestion{ID: e.ID, Name: e.Name}
	if e.Name == "" || len(e.Name) > coord.MaxTitle {
		s.Name = e.ID
	}
	c, note := e.command()
	if c == nil {
		return s, note
	}
	if why := c.check(); why != "" {
		return s, why
	}
	s.Args, s.Env = slices.Clone(c.Args), maps.Clone(c.Env)
	s.Notes = append(s.Notes, note)
	if c.Package == "" {
		s.Program = path.Base(strings.ReplaceAll(c.Cmd, `\`, "/"))
		return s, ""
	}
	s.Floating = true
	s.Notes = append(s.Notes, "Install the package "+strconv.Quote(c.Package)+" yourself and register the absolute path of its program; a command that fetches it at each start cannot be approved.")
	return s, ""
}

// platforms are the names under which this system may stand in a registry.
func platforms() []string {
	arch := map[string][]string{"amd64": {"x86_64", "amd64", "x64"}, "arm64": {"aarch64", "arm64"}}[runtime.GOARCH]
	var out []string
	for _, a := range append(arch, runtime.GOARCH) {
		out = append(out, runtime.GOOS+"-"+a)
	}
	return out
}

// command picks what an entry would run here: a program for this system, else
// a package. Without either the note says why.
func (e registryEntry) command() (*registryCommand, string) {
	for _, p := range platforms() {
		if c, ok := e.Distribution.Binary[p]; ok && c.Cmd != "" {
			c.Package = ""
			return &c, "The registry publishes a program for this system; install it yourself and check where it comes from."
		}
	}
	for _, c := range []*registryCommand{e.Distribution.NPX, e.Distribution.UVX} {
		if c != nil && c.Package != "" {
			return c, "The registry publishes a package."
		}
	}
	if len(e.Distribution.Binary) > 0 {
		return nil, "it has no program for this system"
	}
	return nil, "it has no distribution that is known here"
}

// check bounds what came from the file.
func (c registryCommand) check() string {
	if len(c.Args) > maxRegistryList || len(c.Env) > maxRegistryList {
		return "it has too many arguments or variables"
	}
	for _, s := range slices.Concat(c.Args, slices.Collect(maps.Keys(c.Env)), slices.Collect(maps.Values(c.Env)), []string{c.Cmd, c.Package}) {
		if len(s) > maxRegistryString || strings.ContainsRune(s, 0) {
			return "one of its words is too long or holds a NUL"
		}
	}
	for name := range c.Env {
		if name == "" || strings.Contains(name, "=") || strings.HasPrefix(name, "SIGNALBOX_") {
			return "it sets a variable that no agent may set"
		}
	}
	return ""
}
