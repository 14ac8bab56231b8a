package signature

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf16"

	"signalbox/internal/jsonwalk"
)

// canonical gives a JSON document in its canonical form (JCS, RFC 8785): members
// in the order of their UTF-16 names, no space, numbers as ECMAScript writes
// them. A document that has none, because a name stands twice or a text is no
// Unicode, is false.
func canonical(doc []byte) ([]byte, bool) {
	if !jsonwalk.Valid(doc) {
		return nil, false
	}
	return appendCanonical(nil, []byte(strings.TrimSpace(string(doc))))
}

func appendCanonical(out, v []byte) ([]byte, bool) {
	var ok bool
	switch {
	case jsonwalk.IsObject(v):
		members := map[string][]byte{}
		for name, value := range jsonwalk.Members(v) {
			if _, twice := members[name]; twice {
				return nil, false
			}
			members[name] = value
		}
		names := make([]string, 0, len(members))
		for name := range members {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		})
		out = append(out, '{')
		for i, name := range names {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendText(out, name), ':')
			if out, ok = appendCanonical(out, members[name]); !ok {
				return nil, false
			}
		}
		return append(out, '}'), true
	case jsonwalk.IsArray(v):
		out = append(out, '[')
		first := true
		for e := range jsonwalk.Elements(v) {
			if !first {
				out = append(out, ',')
			}
			first = false
			if out, ok = appendCanonical(out, e); !ok {
				return nil, false
			}
		}
		return append(out, ']'), true
	case jsonwalk.IsText(v):
		text, ok := jsonwalk.Text(v)
		return appendText(out, string(text)), ok
	case v[0] == '-' || v[0] >= '0' && v[0] <= '9':
		// encoding/json writes a float64 as ECMAScript does, but for zero's sign.
		var n float64
		if json.Unmarshal(v, &n) != nil {
			return nil, false
		}
		b, err := json.Marshal(n + 0)
		return append(out, b...), err == nil
	}
	return append(out, v...), true // true, false, null
}

// appendText writes a string with no more escapes than RFC 8785 asks for.
func appendText(out []byte, s string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for _, c := range []byte(s) {
		switch short := strings.IndexByte("\b\t\n\f\r\"\\", c); {
		case short >= 0:
			out = append(out, '\\', `btnfr"\`[short])
		case c < 0x20:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}

// forms are the canonical forms of a card that a signature may be over. A2A 1.0
// (8.4) has members with default values left out, unless they are required or
// optional; the SDKs leave out whatever is empty; others sign what they serve.
// What the forms differ in is empty, so that a signature over any of them vouches
// for all that the card says.
func forms(raw []byte) [][]byte {
	if !jsonwalk.Valid(raw) {
		return nil
	}
	served, ok := canonical(without(raw))
	if !ok {
		return nil
	}
	out := [][]byte{served}
	for _, drops := range []func(name string, value any) bool{byDefault, ifEmpty} {
		var card map[string]any
		if json.Unmarshal(served, &card) != nil {
			return out
		}
		b, err := json.Marshal(prune(card, drops))
		if err != nil {
			return out
		}
		if form, ok := canonical(b); ok {
			out = append(out, form)
		}
	}
	return out
}

// without gives a card without its signatures.
func without(raw []byte) []byte {
	out := []byte("{")
	for name, value := range jsonwalk.Members(raw) {
		if name == "signatures" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(appendText(out, name), ':'), value...)
	}
	return append(out, '}')
}

// prune drops members, the innermost first.
func prune(v any, drops func(name string, value any) bool) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			value = prune(value, drops)
			if v[name] = value; drops(name, value) {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i], drops)
		}
	}
	return v
}

// implicit are the members of a card that are neither required nor optional in
// the proto of A2A 1.0.1, in any of its messages that a card holds.
var implicit = []string{
	"securitySchemes", "securityRequirements", "tenant", "extensions", "uri", "required", "examples", "inputModes", "outputModes",
	"bearerFormat", "oauth2MetadataUrl", "refreshUrl", "pkceRequired", "list",
}

func byDefault(name string, value any) bool {
	return slices.Contains(implicit, name) && (value == false || isEmpty(value))
}

func ifEmpty(_ string, value any) bool { return isEmpty(value) }

func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
