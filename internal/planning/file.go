package planning

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"

	"signalbox/internal/coord"
)

// maxDepth bounds the nesting of a plan file; a plan needs four levels.
const maxDepth = 8

// ParseFile reads a plan file: JSON or TOML by the name's extension, else by
// content. It is strict: unknown and repeated members, trailing data, broken
// UTF-8 and more than coord.MaxBody bytes are Invalid (the last is Limit).
// Every fault is told with its JSON pointer, or with line and column.
func ParseFile(name string, data []byte) (coord.Plan, error) {
	var plan coord.Plan
	if len(data) > coord.MaxBody {
		return plan, coord.Errorf(coord.Limit, "the plan file has %d bytes; at most %d", len(data), coord.MaxBody)
	}
	if at := invalidUTF8(data); at >= 0 {
		return plan, coord.Errorf(coord.Invalid, "the plan file is not valid UTF-8 at %s", place(data, at))
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors write one
	isJSON := bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		isJSON = true
	case ".toml":
		isJSON = false
	}
	if isJSON {
		return parseJSON(data)
	}
	return parseTOML(data)
}

func parseTOML(data []byte) (coord.Plan, error) {
	var plan coord.Plan
	err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(&plan)
	var unknown *toml.StrictMissingError
	var syntax *toml.DecodeError
	switch {
	case err == nil:
		return plan, nil
	case errors.As(err, &unknown):
		var f []coord.Field
		for _, e := range unknown.Errors {
			row, column := e.Position()
			f = append(f, coord.Field{Pointer: pointer(e.Key()), Message: fmt.Sprintf("unknown, at line %d, column %d", row, column)})
		}
		return coord.Plan{}, coord.InvalidFields("the plan file has members that no plan has", f)
	case errors.As(err, &syntax):
		row, column := syntax.Position()
		// The library's message may quote the value, so only the place is told.
		return coord.Plan{}, coord.Errorf(coord.Invalid, "the plan file cannot be read as TOML at line %d, column %d", row, column)
	default:
		return coord.Plan{}, coord.Errorf(coord.Invalid, "the plan file cannot be read as TOML")
	}
}

func pointer(keys []string) string {
	var b strings.Builder
	for _, k := range keys {
		b.WriteString("/" + token(k))
	}
	return b.String()
}

// token escapes one token of a JSON pointer (RFC 6901, section 3), and does not
// repeat a long one.
func token(s string) string {
	if len(s) > 64 {
		s = cut(s, 64) + "..."
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}

// parseJSON walks the tokens beside the type first, because encoding/json
// takes repeated members, names in other case and trailing data, and stops at
// the first fault.
func parseJSON(data []byte) (coord.Plan, error) {
	var plan coord.Plan
	w := walker{dec: json.NewDecoder(bytes.NewReader(data))}
	w.dec.UseNumber()
	err := w.value(reflect.TypeFor[coord.Plan](), "", 0)
	if err == nil {
		if _, err = w.dec.Token(); errors.Is(err, io.EOF) {
			err = nil
		} else {
			return plan, coord.Errorf(coord.Invalid, "the plan file goes on after its end at %s", place(data, int(w.dec.InputOffset())))
		}
	}
	var known *coord.Error
	switch {
	case errors.As(err, &known):
		return plan, err
	case err != nil:
		return plan, notJSON(data)
	}
	if err := coord.InvalidFields("the plan file has faults", w.faults); err != nil {
		return plan, err
	}
	if err := json.Unmarshal(data, &plan); err != nil {
		return coord.Plan{}, notJSON(data)
	}
	return plan, nil
}

// notJSON says where data stops being JSON. It is read again for that: the
// errors of tokens and of whole values count their offsets differently.
func notJSON(data []byte) error {
	var raw json.RawMessage
	at := len(data)
	if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(data, &raw)); ok {
		at = int(syntax.Offset) - 1
	}
	return coord.Errorf(coord.Invalid, "the plan file is not JSON at %s", place(data, at))
}

// walker compares JSON with a Go type and collects what does not fit.
type walker struct {
	dec    *json.Decoder
	faults []coord.Field
}

func (w *walker) fault(pointer, format string, args ...any) {
	if len(w.faults) < coord.MaxTasks { // a file that is all faults needs no more
		w.faults = append(w.faults, coord.Field{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
	}
}

// value reads one value of type t; nil takes any.
func (w *walker) value(t reflect.Type, at string, depth int) error {
	if depth > maxDepth {
		return coord.Errorf(coord.Invalid, "the plan file nests deeper than any plan, at %s", at)
	}
	tok, err := w.dec.Token()
	if err != nil {
		return err
	}
	switch v := tok.(type) {
	case json.Delim:
		if v == '{' {
			return w.object(t, at, depth)
		}
		return w.array(t, at, depth)
	case string:
		w.text(t, at, v)
	case json.Number:
		if t != nil && t.Kind() != reflect.Int64 || t != nil && isText(t) {
			w.mismatch(t, at)
		} else if _, err := v.Int64(); t != nil && err != nil {
			w.fault(at, "must be a whole number")
		}
	default: // true, false, null
		if t != nil {
			w.mismatch(t, at)
		}
	}
	return nil
}

func (w *walker) object(t reflect.Type, at string, depth int) error {
	if t != nil && t.Kind() != reflect.Struct {
		w.mismatch(t, at)
		t = nil
	}
	var seen []string
	for w.dec.More() {
		tok, err := w.dec.Token()
		if err != nil {
			return err
		}
		name, _ := tok.(string)
		here := at + "/" + token(name)
		member, known := field(t, name)
		switch {
		case slices.Contains(seen, name):
			w.fault(here, "given twice")
		case t != nil && !known:
			w.fault(here, "unknown; one of %s", strings.Join(names(t), ", "))
		}
		if len(seen) < coord.MaxTasks { // more members than any object has are unknown anyway
			seen = append(seen, name)
		}
		if err := w.value(member, here, depth+1); err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

func (w *walker) array(t reflect.Type, at string, depth int) error {
	var elem reflect.Type
	if t != nil {
		if t.Kind() == reflect.Slice {
			elem = t.Elem()
		} else {
			w.mismatch(t, at)
		}
	}
	for i := 0; w.dec.More(); i++ {
		if err := w.value(elem, fmt.Sprintf("%s/%d", at, i), depth+1); err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

func (w *walker) text(t reflect.Type, at, v string) {
	switch {
	case t == nil:
	case isText(t):
		if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](reflect.New(t)); ok && u.UnmarshalText([]byte(v)) != nil {
			w.fault(at, "not a duration such as 45m or 1h30m")
		}
	case t.Kind() != reflect.String:
		w.mismatch(t, at)
	}
}

func (w *walker) mismatch(t reflect.Type, at string) {
	switch {
	case isText(t):
		w.fault(at, `must be a duration as text, such as "45m"`)
	case t.Kind() == reflect.String:
		w.fault(at, "must be text")
	case t.Kind() == reflect.Slice:
		w.fault(at, "must be a list")
	case t.Kind() == reflect.Int64:
		w.fault(at, "must be a whole number")
	default:
		w.fault(at, "must be an object")
	}
}

// isText reports whether t is written as text although its kind is another.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// field gives the type of the member of t that is written as name. Members
// that a plan file cannot set, those without a TOML name, are unknown.
func field(t reflect.Type, name string) (reflect.Type, bool) {
	if t == nil {
		return nil, false
	}
	for f := range t.Fields() {
		if f.Tag.Get("toml") == name && name != "-" {
			return f.Type, true
		}
	}
	return nil, false
}

// names lists the members of t that a plan file may set.
func names(t reflect.Type) []string {
	var out []string
	for f := range t.Fields() {
		if tag := f.Tag.Get("toml"); tag != "-" {
			out = append(out, tag)
		}
	}
	return out
}

// place gives an offset as a person counts.
func place(data []byte, offset int) string {
	offset = min(max(offset, 0), len(data))
	before := data[:offset]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}

// invalidUTF8 gives the offset of the first byte that is no UTF-8, or -1.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
