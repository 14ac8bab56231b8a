package modelagent

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

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
