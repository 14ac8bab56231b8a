package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"signalbox/internal/coord"
)

// maxConfig bounds the configuration file: thousands of agents fit.
const maxConfig = 1 << 20

// Config is what signalbox.toml says. Flags and the environment go before it.
type Config struct {
	// Listen is the port of the front door, or 127.0.0.1 and a port.
	Listen string `toml:"listen"`
	// Agents are imported at each start, as new revisions where they differ.
	Agents []ConfigAgent `toml:"agents"`
	// Credentials bind a name to one variable of the environment and one exact
	// origin. Nothing uses them before network peers do.
	Credentials map[string]ConfigCredential `toml:"credentials"`
}

// ConfigAgent is one [[agents]] of the file.
type ConfigAgent struct {
	ID coord.AgentID `toml:"id"`
	coord.AgentConfig
}

// ConfigCredential is one [credentials.NAME] of the file. It never holds the
// secret itself.
type ConfigCredential struct {
	Env    string `toml:"env"`
	Origin string `toml:"origin"`
}

// LoadConfig reads a configuration file. Unknown members, wrong types and
// whatever else is wrong are Invalid, with file and line.
func LoadConfig(path string) (Config, error) {
	var c Config
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxConfig {
		return c, coord.Errorf(coord.Limit, "the configuration %s is larger than %d bytes", path, maxConfig)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator named it
	if err != nil {
		why := "it cannot be read"
		var p *fs.PathError
		if errors.As(err, &p) {
			why = p.Err.Error()
		}
		return c, coord.Errorf(coord.Invalid, "the configuration %s cannot be used: %s", path, why)
	}
	decoder := toml.NewDecoder(strings.NewReader(string(text))).DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return Config{}, coord.InvalidFields("the configuration "+path+" has faults", tomlFaults(err))
	}
	var fields []coord.Field
	seen := map[coord.AgentID]bool{}
	for i, a := range c.Agents {
		at := fmt.Sprintf("/agents/%d/id", i)
		switch {
		case !coord.ValidAgentID(string(a.ID)):
			fields = append(fields, coord.Field{Pointer: at, Message: "required: 1 to 64 of a-z, 0-9, '.', '_', '-', starting with a letter or digit"})
		case seen[a.ID]:
			fields = append(fields, coord.Field{Pointer: at, Message: "the id of an agent above"})
		}
		seen[a.ID] = true
	}
	return c, coord.InvalidFields("the configuration "+path+" has faults", fields)
}

// tomlFaults says where a TOML text is wrong, without repeating it.
func tomlFaults(err error) []coord.Field {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) {
		out := make([]coord.Field, len(strict.Errors))
		for i := range strict.Errors {
			line, _ := strict.Errors[i].Position()
			out[i] = coord.Field{Pointer: "/" + strings.Join(strict.Errors[i].Key(), "/"), Message: fmt.Sprintf("line %d: there is no such member", line)}
		}
		return out
	}
	var wrong *toml.DecodeError
	if errors.As(err, &wrong) {
		line, column := wrong.Position()
		return []coord.Field{{Pointer: "/" + strings.Join(wrong.Key(), "/"), Message: fmt.Sprintf("line %d, column %d: not what is expected here", line, column)}}
	}
	return []coord.Field{{Message: "it is not TOML"}}
}
