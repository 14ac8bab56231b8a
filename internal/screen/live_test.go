package screen

import "testing"

func TestLiveTextIsDueInLinesSentencesAndFullWidths(t *testing.T) {
	for _, test := range []struct {
		name, text string
		room       int
		want       string
	}{
		{"nothing yet", "The next", 20, ""},
		{"a sentence", "It is. And", 20, "It is."},
		{"two sentences at once", "It is. Is it? And", 20, "It is. Is it?"},
		{"a sentence that may go on", "It is 3.", 20, ""},
		{"a line break", "one\ntwo", 20, "one\n"},
		{"an empty line", "\ntwo", 20, "\n"},
		{"a full line breaks between words", "one two three four", 9, "one two"},
		{"a word longer than the line is broken", "abcdefghijkl", 5, "abcde"},
		{"characters are whole", "ééééééé", 3, "ééé"},
		{"a long line before its break", "one two three\nfour", 9, "one two"},
		{"no room at all", "ab", 0, "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.text[:due(test.text, test.room)]; got != test.want {
				t.Errorf("due is %q, want %q", got, test.want)
			}
		})
	}
}
