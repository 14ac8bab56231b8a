package jsonwalk

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var documents = []string{
	`null`, `true`, `false`, `0`, `-0`, `-1.5e+10`, `1E9`, `""`, `"a"`, `[]`, `{}`, ` [ ] `, "\t{ }\r\n", `[1,2]`, `[ 1 , "a" , null ]`,
	`{"a":1}`, `{ "a" : [ { "b" : "}" } , "]" ] , "c" : "\\" }`, `{"a":"\"","b":"\\\"","c":"\\\\"}`, `{"a":1,"a":2}`, `{"\u0061":1}`,
	`"\ud83d\udea6"`, `"\ud83d"`, `"\ude00"`, `"\ud83dx"`, `"\ud83d\n"`, `"\ud83d\ud83d\ude00"`, `"\\ud83d"`, `"\u0000"`, "\"\u4e16\u2028\"", `"\/\b\f\n\r\t"`,
	``, ` `, `{`, `}`, `[`, `[1`, `[1,`, `[1,]`, `[,1]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `{"a" 1}`, `{"a":1 "b":2}`, `"`, `"\`, `"\u12`, `"\u12g4"`, `"\x"`, "\"\n\"",
	`01`, `1.`, `.5`, `-`, `+1`, `1e`, `1e+`, `tru`, `truex`, `nul`, `NaN`, `1 2`, `{}{}`, "\xff", "\"\xff\"", "\xef\xbb\xbf{}", `[1}`, `{"a":1]`, `1,`, `"a"b`,
}

func TestValidAgreesWithTheStandardLibrary(t *testing.T) {
	for _, d := range documents {
		if got, want := Valid([]byte(d)), utf8.ValidString(d) && json.Valid([]byte(d)); got != want {
			t.Errorf("%q: got %v, want %v", d, got, want)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	if !Valid([]byte(strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth))) {
		t.Error("the deepest document is refused")
	}
	if deep := 1_000_000; Valid([]byte(strings.Repeat("[", deep) + strings.Repeat("]", deep))) {
		t.Error("a document of a million levels is accepted")
	}
}

func TestHalfOfASurrogatePairIsNoText(t *testing.T) {
	for _, d := range []string{`"\ud83d"`, `"\ude00"`, `"\ud83dx"`, `"\ud83d\n"`, `"\ud83d\ud83d\ude00"`, `"\uD800"`, `"x\uDFFF"`, `"\ud83d\u0041"`} {
		if s, ok := Text([]byte(d)); ok {
			t.Errorf("%s is taken for %q", d, s)
		}
	}
	for d, want := range map[string]string{`"\ud83d\udea6"`: "\U0001f6a6", `"\\ud83d"`: `\ud83d`, `"\uD83D\uDEA6\ud83d\udea6"`: "\U0001f6a6\U0001f6a6", `"\ue000"`: "\ue000"} {
		if s, ok := Text([]byte(d)); !ok || string(s) != want {
			t.Errorf("%s: got %q, %v", d, s, ok)
		}
	}
}

// FuzzJSON holds the walkers to encoding/json: the same documents are valid,
// and one taken apart and put together again is the same document.
func FuzzJSON(f *testing.F) {
	for _, d := range documents {
		f.Add([]byte(d))
	}
	f.Fuzz(func(t *testing.T, d []byte) {
		ok := Valid(d)
		if want := utf8.Valid(d) && json.Valid(d); ok != want && strings.Count(string(d), "[")+strings.Count(string(d), "{") < maxDepth {
			t.Fatalf("valid is %v, encoding/json says %v", ok, want)
		}
		if !ok {
			return
		}
		var want any
		if err := json.Unmarshal(d, &want); err != nil {
			return // a number out of range, which the walkers do not read
		}
		got, lone := rebuild(t, bytes.TrimSpace(d))
		if lone {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-encoding/json +walkers)\n%s", diff)
		}
	})
}

// rebuild reads a document with the walkers, and reports whether it holds half
// of a surrogate pair.
func rebuild(t *testing.T, v []byte) (any, bool) {
	switch {
	case IsObject(v):
		object, lone := map[string]any{}, false
		for name, value := range Members(v) {
			member, half := rebuild(t, value)
			object[name] = member
			lone = lone || half || name == "" // the name of a member that is no text is ""
		}
		return object, lone
	case IsArray(v):
		array, lone := []any{}, false
		for value := range Elements(v) {
			element, half := rebuild(t, value)
			array = append(array, element)
			lone = lone || half
		}
		return array, lone
	case starts(v, '"'):
		s, ok := Text(v)
		return string(s), !ok
	}
	var scalar any
	if err := json.Unmarshal(v, &scalar); err != nil {
		t.Fatalf("%q is taken for a value: %v", v, err)
	}
	return scalar, false
}
