package journal

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func hide(s string) string { return strings.ReplaceAll(s, "s3cret", `"hidden"`) }

func TestRedactJSONReplacesInsideStringsOnly(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing to replace", `{"a": [1, 2.50, null, "b"]}`, `{"a": [1, 2.50, null, "b"]}`},
		{"a value", `{"a":"x s3cret y"}`, `{"a":"x \"hidden\" y"}`},
		{"a name", `{"s3cret":1}`, `{"\"hidden\"":1}`},
		{"behind an escape", `["\u00733cret"]`, `["\"hidden\""]`},
		{"beside escapes", `["\\\"s3cret\\\""]`, `["\\\"\"hidden\"\\\""]`},
		{"several, and the rest as it was", `["s3cret", 1e3 ,"s3cret"]`, `["\"hidden\"", 1e3 ,"\"hidden\""]`},
		{"a string alone", `"s3cret"`, `"\"hidden\""`},
		{"a number that holds it not", `12`, `12`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := redactJSON(c.in, hide)
			if err != nil || got != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
}

func FuzzRedactJSON(f *testing.F) {
	f.Add(`{"a":["s3cret","\u0073\\"],"b":1.0}`)
	f.Add(`"\ud800s3cret"`)
	f.Fuzz(func(t *testing.T, s string) {
		if !json.Valid([]byte(s)) {
			t.Skip() // only valid JSON reaches it: json.Marshal made it
		}
		same, err := redactJSON(s, func(s string) string { return s })
		if err != nil || same != s {
			t.Fatalf("without secrets %q became %q (%v)", s, same, err)
		}
		got, err := redactJSON(s, hide)
		if err != nil {
			t.Fatal(err)
		}
		var before, after any
		if err := json.Unmarshal([]byte(s), &before); err != nil {
			return // valid, but not as a Go value (a number out of range)
		}
		if err := json.Unmarshal([]byte(got), &after); err != nil {
			t.Fatalf("%q became %q: %v", s, got, err)
		}
		if diff := cmp.Diff(walk(before), after); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// walk is redaction the slow way, on the decoded value.
func walk(v any) any {
	switch v := v.(type) {
	case string:
		return hide(v)
	case []any:
		for i := range v {
			v[i] = walk(v[i])
		}
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[hide(k)] = walk(e)
		}
		return out
	}
	return v
}
