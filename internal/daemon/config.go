package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"signalbox/internal/coord"
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
	// Credentials is reserved: secrets of routes that are reached over the
	// network will be named here.
	Credentials map[string]any `toml:"credentials"`
}

// ConfigAgent is an agent of the configuration file.
type ConfigAgent struct {
	ID coord.AgentID `toml:"id"`
	coord.AgentConfig
}

// maxConfig bounds the file, in bytes: some hundred agents fit.
const maxConfig = 1 << 20

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
	if len(c.Credentials) > 0 {
		return Config{}, coord.Errorf(coord.Unsupported, "the configuration file %s has [credentials], which no route of this version uses: remove the table, and give agents their keys with env_from_env", path)
	}
	return c, nil
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
