package modelagent

import (
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
		if got, want := valid([]byte(d)), utf8.ValidString(d) && json.Valid([]byte(d)); got != want {
			t.Errorf("%q: got %v, want %v", d, got, want)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	if !valid([]byte(strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth))) {
		t.Error("the deepest document is refused")
	}
	if deep := 1_000_000; valid([]byte(strings.Repeat("[", deep) + strings.Repeat("]", deep))) {
		t.Error("a document of a million levels is accepted")
	}
}

func TestHalfOfASurrogatePairIsNoText(t *testing.T) {
	for _, d := range []string{`"\ud83d"`, `"\ude00"`, `"\ud83dx"`, `"\ud83d\n"`, `"\ud83d\ud83d\ude00"`, `"\uD800"`, `"x\uDFFF"`, `"\ud83d\u0041"`} {
		if s, ok := text([]byte(d)); ok {
			t.Errorf("%s is taken for %q", d, s)
		}
	}
	for d, want := range map[string]string{`"\ud83d\udea6"`: "\U0001f6a6", `"\\ud83d"`: `\ud83d`, `"\uD83D\uDEA6\ud83d\udea6"`: "\U0001f6a6\U0001f6a6", `"\ue000"`: "\ue000"} {
		if s, ok := text([]byte(d)); !ok || string(s) != want {
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
		ok := valid(d)
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
		got, lone := rebuild(t, trim(d))
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
	case isObject(v):
		object, lone := map[string]any{}, false
		for name, value := range members(v) {
			member, half := rebuild(t, value)
			object[name] = member
			lone = lone || half || name == "" // the name of a member that is no text is ""
		}
		return object, lone
	case isArray(v):
		array, lone := []any{}, false
		for value := range elements(v) {
			element, half := rebuild(t, value)
			array = append(array, element)
			lone = lone || half
		}
		return array, lone
	case starts(v, '"'):
		s, ok := text(v)
		return string(s), !ok
	}
	var scalar any
	if err := json.Unmarshal(v, &scalar); err != nil {
		t.Fatalf("%q is taken for a value: %v", v, err)
	}
	return scalar, false
}

// FuzzAppendText shows that whatever is relayed is one line of JSON that reads
// as what was put in, whole characters at a time.
func FuzzAppendText(f *testing.F) {
	f.Add("plain \"quoted\" \\ \x00\x1f\x7f \u00e9\u4e16\u2027\u2028\u2029\u202a \U0001f6a6\n", 5)
	f.Fuzz(func(t *testing.T, s string, room int) {
		if !utf8.ValidString(s) || room < 1 {
			return
		}
		read, rest := "", []byte(s)
		for len(rest) > 0 {
			out, taken, chars := appendText([]byte{'"'}, rest, room)
			if chars < 1 || chars > room || chars != utf8.RuneCount(rest[:taken]) {
				t.Fatalf("%d characters for %d bytes, room %d", chars, taken, room)
			}
			rest = rest[taken:]
			var part string
			if err := json.Unmarshal(append(out, '"'), &part); err != nil {
				t.Fatalf("%q: %v", out, err)
			}
			if strings.ContainsAny(string(out), "\n\r\u2028\u2029") {
				t.Fatalf("%q has a line end", out)
			}
			read += part
		}
		if read != s {
			t.Errorf("got %q, want %q", read, s)
		}
	})
}
