package stdio_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"signalbox/internal/provider/stdio"
	"signalbox/internal/redact"
	"signalbox/internal/redact/redacttest"
)

func TestClippedTextIsBoundedAndEndsBeforeAWord(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"short", 5, "short"},
		{"one two three", 10, "one two..."},
		{"one two three", 9, "one ..."},
		{"one two three", 7, "one ..."},
		{`{"a":"bcdefghijkl"}`, 12, `{"a":"...`},
		{"\u4e00\u4e8c\u4e09\u56db\u4e94", 11, "\u4e00\u4e8c..."},
		{strings.Repeat("x", 9000), 8000, strings.Repeat("x", 8000-3) + "..."},
	} {
		if got := stdio.Clip(c.text, c.limit); got != c.want || len(got) > c.limit || !utf8.ValidString(got) {
			t.Errorf("%.30q within %d is %.60q, want %.60q", c.text, c.limit, got, c.want)
		}
	}
}

// A secret at the border of what is kept must not be kept in part.
func TestNoPartOfASecretOutlivesTheClipping(t *testing.T) {
	const known = 12 // bytes of a secret that are too many
	for _, c := range redacttest.Canaries() {
		if len(c.Secret) < known || strings.Contains(c.Secret, "-----") {
			continue // a key of several lines is known by its first
		}
		text := "some words before " + c.Context + " and many words after it"
		for limit := 8; limit < len(text); limit++ {
			if got := redact.New().String(stdio.Clip(text, limit)); strings.Contains(got, c.Secret[:known]) {
				t.Errorf("of a %s within %d is left: %s", c.Kind, limit, got)
				break
			}
		}
	}
}
