package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"signalbox/internal/coord"
	"signalbox/internal/credential/binding"
)

// Config is the configuration file, signalbox.toml. Flags and the environment
// override it.
type Config struct {
	// Listen is a port, or 127.0.0.1 and a port; "" is the default.
	Listen string `toml:"listen"`
	// Data is the data directory; "" is the default.
	Data string `toml:"data"`
	// Agents are imported into the directory at each start of a worker.
	Agents []ConfigAgent `toml:"agents"`
	// Credentials say where secrets for peers on the network are, and to which
	// origin each may go.
	Credentials map[string]binding.Source `toml:"credentials"`
}

// ConfigAgent is an agent of the configuration file.
type ConfigAgent struct {
	ID coord.AgentID `toml:"id"`
	coord.AgentConfig
}

// maxConfig bounds the file, in bytes: some hundred agents fit.
const maxConfig = 1 << 20

// maxCredentials bounds the credentials: one for each peer that a person knows.
const maxCredentials = 256

// LoadConfig reads a configuration file. It is strict: a key that is not known
// is Invalid with its line, and so is a value of another type. What the values
// mean is checked by who uses them. No value is repeated in an error.
func LoadConfig(path string) (Config, error) {
	doc, err := readConfig(path)
	if err != nil {
		return Config{}, err
	}
	var c Config
	err = toml.NewDecoder(bytes.NewReader(doc)).DisallowUnknownFields().Decode(&c)
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		fields := make([]coord.Field, len(unknown.Errors))
		for i, e := range unknown.Errors {
			line, _ := e.Position()
			fields[i] = coord.Field{Pointer: "/" + strings.Join(e.Key(), "/"), Message: fmt.Sprintf("there is no such key (line %d)", line)}
		}
		return Config{}, coord.InvalidFields("the configuration file "+path+" has keys that are not known", fields)
	case errors.As(err, &wrong):
		line, column := wrong.Position()
		what := "cannot be read"
		if len(wrong.Key()) > 0 {
			what = "has a value of the wrong type for " + strings.Join(wrong.Key(), ".")
		}
		// The decoder's own words may repeat what stands there.
		return Config{}, coord.Errorf(coord.Invalid, "the configuration file %s %s at line %d, column %d", path, what, line, column)
	case err != nil:
		return Config{}, &coord.Error{Code: coord.Invalid, Message: "the configuration file " + path + " cannot be read: it must be TOML", Err: err}
	}
	if err := checkCredentials(path, doc, c.Credentials); err != nil {
		return Config{}, err
	}
	return c, nil
}

// checkCredentials gives all faults of [credentials], each with its line.
func checkCredentials(path string, doc []byte, sources map[string]binding.Source) error {
	if len(sources) == 0 {
		return nil
	}
	if len(sources) > maxCredentials {
		return coord.Errorf(coord.Limit, "the configuration file %s has more than %d credentials", path, maxCredentials)
	}
	lines := keyLines(doc)
	var faults []coord.Field
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		table := "/credentials/" + name
		found := sources[name].Check()
		if err := binding.CheckName(name); err != nil {
			found = append(found, coord.Field{Message: err.Error()})
		}
		for _, f := range found {
			line := lines[table+f.Pointer]
			if line == 0 {
				line = lines[table] // what is missing has none of its own
			}
			faults = append(faults, coord.Field{Pointer: table + f.Pointer, Message: fmt.Sprintf("%s (line %d)", f.Message, line)})
		}
	}
	return coord.InvalidFields("the configuration file "+path+" has credentials that cannot be used", faults)
}

// keyLines gives the line of each key of a document that was decoded before,
// and of each table that it is the first of.
func keyLines(doc []byte) map[string]int {
	lines := map[string]int{}
	var p unstable.Parser
	note := func(above string, n *unstable.Node) string {
		for key := n.Key(); key.Next(); {
			above += "/" + string(key.Node().Data)
			if _, known := lines[above]; !known {
				lines[above] = p.Shape(key.Node().Raw).Start.Line
			}
		}
		return above
	}
	var inline func(above string, value *unstable.Node)
	inline = func(above string, value *unstable.Node) {
		if value.Kind != unstable.InlineTable {
			return
		}
		for child := value.Children(); child.Next(); {
			inline(note(above, child.Node()), child.Node().Value())
		}
	}
	table := ""
	for p.Reset(doc); p.NextExpression(); {
		if n := p.Expression(); n.Kind == unstable.KeyValue {
			inline(note(table, n), n.Value())
		} else {
			table = note("", n)
		}
	}
	return lines
}

func readConfig(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		remedy := "check the path and its permissions"
		if errors.Is(err, fs.ErrNotExist) {
			remedy = "there is no such file"
		}
		return nil, &coord.Error{Code: coord.Invalid, Message: fmt.Sprintf("the configuration file %s cannot be read: %s", path, remedy), Err: err}
	}
	defer file.Close()
	doc, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	if err != nil {
		return nil, &coord.Error{Code: coord.Invalid, Message: fmt.Sprintf("the configuration file %s cannot be read: is it a file?", path), Err: err}
	}
	if len(doc) > maxConfig {
		return nil, coord.Errorf(coord.Limit, "the configuration file %s is larger than %d bytes", path, maxConfig)
	}
	return doc, nil
}
