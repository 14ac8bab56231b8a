package workbench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// The names of the tools.
const (
	toolList  = "list"
	toolRead  = "read"
	toolWrite = "write"
	toolTests = "run_tests"
)

type (
	pathArguments struct {
		Path string `json:"path"`
	}
	writeArguments struct {
		Path    string  `json:"path"`
		Content *string `json:"content"`
		Delete  bool    `json:"delete"`
		From    string  `json:"from"`
	}
	testArguments struct {
		Files []string `json:"files"`
	}
)

// Tools gives the tools that operations permit, in a fixed order.
func Tools(operations []coord.Operation, writes coord.WriteMode) []provider.Tool {
	var out []provider.Tool
	has := func(op coord.Operation) bool { return slices.Contains(operations, op) }
	if has(coord.Read) || has(coord.Write) || has(coord.Test) {
		out = append(out,
			provider.Tool{Name: toolList, Description: "List a folder of the workspace. Paths are relative to the workspace, with slashes.",
				Schema: schema(`"path":{"type":"string","description":"The folder, . for the workspace itself"}`, "path")},
			provider.Tool{Name: toolRead, Description: fmt.Sprintf("Read a text file of the workspace, at most %d KiB.", coord.MaxFile>>10),
				Schema: schema(`"path":{"type":"string"}`, "path")})
	}
	if has(coord.Write) {
		what := "The change is held back in a change set that a person reviews later; reads and tests of this task see it at once."
		if writes == coord.Each {
			what = "A person sees the exact change first and may deny it; wait for the answer."
		}
		out = append(out, provider.Tool{Name: toolWrite,
			Description: fmt.Sprintf("Change one file of the workspace: give its whole new content (at most %d KiB), or delete it, or rename it from another path. %s", coord.MaxFile>>10, what),
			Schema: schema(`"path":{"type":"string"},"content":{"type":"string","description":"The whole file as it is to be"},`+
				`"delete":{"type":"boolean","description":"True to delete the file, without content"},`+
				`"from":{"type":"string","description":"The present path of a file that is to be renamed to path, without content"}`, "path")})
	}
	if has(coord.Test) {
		out = append(out, provider.Tool{Name: toolTests,
			Description: fmt.Sprintf("Run 1 to %d files of tests in a sandbox without network, with the workspace read-only and all changes of this task. A person may have to approve the run; wait for the answer.", coord.MaxTestFiles),
			Schema:      schema(`"files":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":16}`, "files")})
	}
	return out
}

func schema(properties, required string) json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":["` + required + `"],"additionalProperties":false}`)
}

// parse reads the arguments of a call. Models write them, so a fault is told in
// words that a model can mend it by.
func parse[T any](raw json.RawMessage) (T, error) {
	var out T
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(&out)
	if _, more := d.Token(); err != nil || !errors.Is(more, io.EOF) {
		return out, coord.Errorf(coord.Invalid, "the arguments do not fit the tool's schema: give exactly the members that it names")
	}
	return out, nil
}
