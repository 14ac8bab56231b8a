package stdio

import (
	"strconv"
	"strings"

	"signalbox/internal/coord"
)

// MaxQuote bounds what is repeated of a peer's words in a sentence of ours.
const MaxQuote = 300

// Quote repeats a peer's words: bounded, on one line, and marked as its own.
func Quote(s string) string {
	return strconv.Quote(Clip(strings.Join(strings.Fields(s), " "), MaxQuote))
}

// Cut bounds an identifier to limit bytes at a rune's border and marks that it
// did.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-3], "") + "..."
}

// maxWord bounds how far Clip goes back for the beginning of a word. No secret
// that is one word is longer.
const maxWord = 4 << 10

// Clip bounds text that people read, as Cut does, but ends it before a word
// that does not fit: the redactor comes later, and would not know the first
// part of a secret for what it is.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	most := limit - len("...")
	end := most
	for end > 0 && most-end < maxWord && inWord(s[end-1]) && inWord(s[most]) {
		end--
	}
	if most-end == maxWord {
		end = most
	}
	return strings.ToValidUTF8(s[:end], "") + "..."
}

// inWord reports whether a byte may be a part of a token, a key or a password
// that is one word.
func inWord(b byte) bool {
	return b > ' ' && b < 0x7f && !strings.ContainsRune("\"'`,;:()[]{}<>", rune(b))
}

// Reason bounds a sentence for the operator.
func Reason(s string) string { return Clip(s, coord.MaxReason) }
